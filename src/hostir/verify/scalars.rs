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
use rustc_hash::{FxHashMap, FxHashSet};

/// Checks every use of a scalar name.
pub(super) fn check_scalars(program: &Program, diags: &mut Diags) {
    let mut findings = Vec::new();
    scan_names(program, &mut |finding| findings.push(finding));
    let known = KnownNames::new(program, &findings);
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
            NameFinding::Unbound(op, name) => report_unbound(program, op, name, &known, diags),
        }
    }
}

/// The names that a statement with an unbound name may mean.
#[derive(Default)]
struct KnownNames {
    /// Those that are bound everywhere.
    bound: Vec<Symbol>,
    /// By statement: the indices of the loops around it, and its own, the innermost first.
    indices: FxHashMap<OpId, Vec<Symbol>>,
}

impl KnownNames {
    /// The names for all statements with an unbound name.
    fn new(program: &Program, findings: &[NameFinding]) -> Self {
        let mut wanted = FxHashSet::default();
        for finding in findings {
            if let NameFinding::Unbound(op, _) = finding {
                wanted.insert(*op);
            }
        }
        if wanted.is_empty() {
            return Self::default();
        }
        let mut known = Self { bound: bound_names(program), indices: FxHashMap::default() };
        let units = program.units().iter().map(|(_, unit)| unit.body);
        for body in std::iter::once(program.body()).chain(units) {
            known.add_indices(program, body, &wanted, &mut Vec::new());
        }
        known
    }

    /// Adds the indices around the wanted ops of a block; `open` are those around the block.
    fn add_indices(&mut self, program: &Program, block: BlockId, wanted: &FxHashSet<OpId>, open: &mut Vec<Symbol>) {
        for &id in &program.block(block).ops {
            let (op, outside) = (program.op(id), open.len());
            if !op.blocks.is_empty() {
                open.extend(loop_index(program, op));
            }
            if wanted.contains(&id) {
                self.indices.insert(id, open.iter().rev().copied().collect());
            }
            op.blocks.iter().for_each(|&inner| self.add_indices(program, inner, wanted, open));
            open.truncate(outside);
        }
    }

    /// Those of a statement.
    fn of_statement(&self, op: OpId) -> impl Iterator<Item = Symbol> {
        self.indices.get(&op).into_iter().flatten().chain(&self.bound).copied()
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
fn report_unbound(program: &Program, op: OpId, name: Symbol, known: &KnownNames, diags: &mut Diags) {
    let name = program.name(name);
    let known = known.of_statement(op).map(|symbol| program.name(symbol)).chain(RUNTIME.iter().copied());
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

/// V29: no extent needs two values.
pub(super) fn check_extent_conflicts(program: &Program, extents: &ExtentClasses, diags: &mut Diags) {
    for conflict in extents.conflicts() {
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
