//! V25 to V29: scalar names and loops.

use crate::analysis::ExtentClasses;
use crate::diag::message;
use crate::diag::{Diag, Diags, Quoted, codes, nearest_candidate};
use crate::ir::places::tensor_span;
use crate::ir::scalar_names::{
    NameFinding, RUNTIME, bound_names, is_generated, is_kernel_name, loop_index, scan_names,
};
use crate::ir::{
    BlockId, ExprId, Id, OpId, Program, Symbol, Value, expr_text, quoted_expr, quoted_scalar, quoted_word,
};
use crate::ops::launch::one_shape_advice;

/// Checks every use of a scalar name.
pub(super) fn check_scalars(program: &Program, diags: &mut Diags) {
    let mut findings = Vec::new();
    scan_names(program, &mut |finding| findings.push(finding));
    for finding in findings {
        match finding {
            NameFinding::OutsideLoop(op, name) => report_outside(program, op, name, diags),
            NameFinding::DefinitionOutside(op, name, index) => {
                report_definition_outside(program, op, name, index, diags);
            }
            NameFinding::Shadows(op, name, outer) => report_shadowing(program, op, name, outer, diags),
            // nvFuser leaves definitions out; `analysis::free_names` lists them for a run.
            NameFinding::Unbound(_, name) if is_generated(program.name(name)) => {}
            NameFinding::Unbound(_, name) if is_kernel_name(program.name(name)) => {}
            NameFinding::Unbound(op, name) => report_unbound(program, op, name, diags),
        }
    }
}

/// V25.
fn report_outside(program: &Program, op: OpId, name: Symbol, diags: &mut Diags) {
    let name = name_as_spelled(program, name);
    let message = message!("loop index `{}` is used outside of its loop", name);
    let note = message!("use `{}` only inside the body of `FOR {} ..`", name, name);
    diags.push(Diag::error(codes::INDEX_OUTSIDE_LOOP, program.op_span(op), message).with_note(note));
}

fn report_definition_outside(program: &Program, op: OpId, name: Symbol, index: Symbol, diags: &mut Diags) {
    let (name, index) = (name_as_spelled(program, name), name_as_spelled(program, index));
    let message = message!("`{}` depends on loop index `{}` and is used outside of that loop", name, index);
    let note = message!(
        "use `{}` only inside the body of `FOR {} ..`: its definition under `Index definitions:` is evaluated at each use",
        name,
        index
    );
    diags.push(Diag::error(codes::INDEX_OUTSIDE_LOOP, program.op_span(op), message).with_note(note));
}

/// A name as the text spells it.
fn name_as_spelled(program: &Program, name: Symbol) -> Quoted {
    let exprs = program.exprs();
    let mut ids = (0..exprs.len()).map(ExprId::new);
    let found = ids.find(|&id| exprs.as_name(id) == Some(name));
    quoted_scalar(found.map_or_else(|| program.name(name).to_owned(), |id| expr_text(program, id)))
}

/// V26.
fn report_shadowing(program: &Program, op: OpId, name: Symbol, outer: OpId, diags: &mut Diags) {
    let name = name_as_spelled(program, name);
    let message = message!("loop index `{}` shadows the index of an outer loop", name);
    diags.push(
        Diag::error(codes::SHADOWED_INDEX, program.op_span(op), message)
            .with_label(program.op_span(outer), "the outer loop is here")
            .with_note("rename the index of one of the loops"),
    );
}

/// V27.
fn report_unbound(program: &Program, op: OpId, name: Symbol, diags: &mut Diags) {
    let name = program.name(name);
    let bound = bound_names(program);
    let indices = enclosing_indices(program, op);
    let known = indices.iter().chain(&bound).map(|symbol| program.name(*symbol)).chain(RUNTIME.iter().copied());
    let shown = quoted_scalar(name.to_owned());
    let diag =
        Diag::error(codes::UNKNOWN_SCALAR, program.op_span(op), message!("the scalar `{}` is not defined", shown))
            .with_focus(shown.clone());
    if name.starts_with("DeviceMesh{") {
        let note = "write a full grid of devices with `.x`, the coordinate along its inner axis, `.y` or `.z`, those along the axes outside of it, or `.size`";
        diags.push(diag.with_note(note));
        return;
    }
    diags.push(match nearest_candidate(name, known) {
        Some(near) => diag.with_note(message!("did you mean `{}`?", near)),
        None if is_stream_name(program, op, name) => diag.with_note(message!(
            "a stream is a number or a scalar, as in `Stream 0` and `{}`",
            quoted_scalar("Stream ( i % numberOfStreams )".to_owned())
        )),
        None => diag.with_note(message!(
            "use an extent of a tensor, a loop index, an input, `rank` or `{}`",
            quoted_word("numberOfStreams")
        )),
    });
}

/// Returns true if a name is the whole operand `Stream name` of a statement.
fn is_stream_name(program: &Program, op: OpId, name: &str) -> bool {
    let op = program.op(op);
    op.results.iter().chain(&op.operands).any(|value| match value {
        Value::Stream(expr) => program.exprs().as_name(*expr).is_some_and(|found| program.name(found) == name),
        _ => false,
    })
}

/// The indices of the loops around an op, and its own.
fn enclosing_indices(program: &Program, op: OpId) -> Vec<Symbol> {
    let mut found = Vec::new();
    let units = program.units().iter().map(|(_, unit)| unit.body);
    let _ = std::iter::once(program.body()).chain(units).any(|body| add_loop_indices(program, body, op, &mut found));
    found
}

/// Adds the indices of the loops of a block that contain an op; returns true if the op is in the block.
fn add_loop_indices(program: &Program, block: BlockId, wanted: OpId, found: &mut Vec<Symbol>) -> bool {
    program.block(block).ops.iter().any(|&id| {
        let op = program.op(id);
        let is_inside = id == wanted || op.blocks.iter().any(|&inner| add_loop_indices(program, inner, wanted, found));
        if is_inside && !op.blocks.is_empty() {
            found.extend(loop_index(program, op));
        }
        is_inside
    })
}

/// V29: no extent needs two values.
pub(super) fn check_extent_conflicts(program: &Program, diags: &mut Diags) {
    for conflict in ExtentClasses::new(program).conflicts() {
        let extent = quoted_expr(program, conflict.extent);
        let name = program.quoted_tensor(conflict.tensor);
        let span = conflict.op.map_or_else(|| tensor_span(program, conflict.tensor), |op| program.op_span(op));
        let by = conflict.op.map_or("its mesh has", |_| "this op needs");
        let message = message!(
            "extent `{}` of `{}` is {} because of other ops, but {} {}",
            extent,
            name,
            conflict.is,
            by,
            conflict.needs
        );
        let diag = Diag::error(codes::EXTENT, span, message);
        let unit = conflict.op.and_then(|op| program.posted_unit(program.op(op)));
        diags.push(match unit {
            Some(unit) => diag.with_note(one_shape_advice(program, unit)),
            None => diag,
        });
    }
}
