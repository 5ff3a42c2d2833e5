//! The new value of every extent.
//!
//! Classes that count devices get the new number. Extents of inputs stay. The axes that a view makes of changed axes
//! follow, so that it has as many elements as its operand (`views`).

use super::classes::AxisClasses;
use super::sizes::{ClassExtents, RESIZE_EXTENT, count_literal};
use super::uses::{DeviceCounts, ReachableItems};
use super::views;
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message};
use hostir::ir::edit::Edit;
use hostir::ir::{
    AttrKey, AttrValue, AxisLink, DomainId, Expr, ExprId, IterDomain, OpEffect, OpId, ParallelType, Program, TensorId,
    quoted_axis, quoted_expr, quoted_op,
};

/// resize-mesh: a constant that may or may not be the number of devices.
pub(super) const RESIZE_CONSTANT: &str = "H0384";

/// One extent that changes.
pub(super) enum ExtentChange {
    /// Of a domain; `None` for a loop's.
    Domain { tensor: Option<TensorId>, domain: DomainId, extent: ExprId },
    /// Of an axis given by `logical=`.
    Logical { tensor: TensorId, axis: u32, extent: ExprId },
    /// In an attribute.
    Attr { op: OpId, key: AttrKey, value: AttrValue },
}

/// Computes the new extents of all classes.
///
/// # Errors
/// Reports every view and every other op whose axes cannot follow the number of devices.
pub(super) fn solve<'a>(
    program: &Program,
    walked: &ReachableItems,
    classes: &'a AxisClasses,
    devices: DeviceCounts,
) -> Result<ClassExtents<'a>, Diags> {
    let mut sizes = ClassExtents::of_literals(program, walked, classes, devices);
    let mut diags = Diags::default();
    for &op in &walked.ops {
        let mut links = Vec::new();
        program.op(op).kind.spec().axes(program, op, &mut links);
        // A view is the only op that keeps the number of elements of axes that it does not link.
        let checked = match program.op(op).kind.is_row_major_view() {
            true => views::solve_view(&mut sizes, program, op, &links),
            false => Ok(()),
        };
        diags.keep_error(checked);
    }
    for &op in &walked.ops {
        diags.keep_error(check(&sizes, program, op));
    }
    let solved = !diags.has_errors();
    for &op in walked.ops.iter().filter(|_| solved) {
        if program.op(op).kind.is_row_major_view()
            && let Err(diag) = views::check_view(&sizes, program, op)
        {
            diags.push(diag);
        }
    }
    diags.or_value(sizes)
}

/// Checks that an op does not depend on the old extent of an axis of an operand without a counterpart in the result.
fn check(sizes: &ClassExtents<'_>, program: &Program, id: OpId) -> Result<(), Box<Diag>> {
    let op = program.op(id);
    let kind = op.kind;
    let messages = kind.is_communication();
    // Views are checked already, and a select leaves out the axis that it names.
    if kind.is_row_major_view() || !(messages || matches!(kind.effect(), OpEffect::Pure | OpEffect::Opaque)) {
        return Ok(());
    }
    let mut links: Vec<AxisLink> = Vec::new();
    kind.spec().axes(program, id, &mut links);
    let makes = op.input_tensors().next().is_none() && !messages;
    let results = op.output_tensors().filter(|_| !makes);
    for tensor in op.input_tensors().chain(results) {
        for (axis, k) in logical_axes(program, tensor).axes.iter().zip(0..) {
            let linked = links.iter().any(|l| l.from == (tensor, k) || l.to == (tensor, k));
            let exempt = linked || (messages && axis.parallel.is_device());
            if !exempt && sizes.has_changed_extent(program, tensor, k) {
                return Err(Box::new(in_parts(program, id, tensor, axis.printed)));
            }
        }
    }
    Ok(())
}

fn axis_text(program: &Program, tensor: TensorId, printed: u32) -> Message {
    let domain = program.domains(tensor).get(printed as usize);
    domain.map_or_else(|| "an axis".into(), |domain| message!("`{}`", quoted_axis(program, domain)))
}

fn in_parts(program: &Program, id: OpId, tensor: TensorId, printed: u32) -> Diag {
    let (axis, name) = (axis_text(program, tensor, printed), program.quoted_tensor(tensor));
    let op = quoted_op(program, id);
    let message = message!(
        "{} of {} depends on the number of devices, but `{}` cannot adapt to another extent of it",
        axis,
        name,
        op
    );
    let note = "do not use the op on axes with the extent of the mesh, or resize the program by hand";
    Diag::error(RESIZE_EXTENT, program.op_span(id), message).with_note(note)
}

/// The list of changes; fails for scalars that cannot change.
pub(super) fn collect_changes(
    edit: &mut Edit<'_>,
    walked: &ReachableItems,
    sizes: &ClassExtents<'_>,
) -> Result<Vec<ExtentChange>, Diags> {
    let mut out = Vec::new();
    let mut diags = Diags::default();
    for &tensor in &walked.tensors {
        diags.keep_error(tensor_changes(edit, sizes, tensor, &mut out));
    }
    for (&op, number) in walked.loops.iter().zip(0..) {
        diags.keep_error(loop_changes(edit, sizes, op, number, &mut out));
    }
    for &op in &walked.ops {
        attr_changes(edit, sizes, op, &mut out);
    }
    diags.or_value(out)
}

fn tensor_changes(
    edit: &mut Edit<'_>,
    sizes: &ClassExtents<'_>,
    tensor: TensorId,
    out: &mut Vec<ExtentChange>,
) -> Result<(), Box<Diag>> {
    let DeviceCounts { old, .. } = sizes.devices;
    let axes = logical_axes(edit.program(), tensor);
    let start = edit.program().tensor(tensor).domains_start;
    let domains: Vec<IterDomain> = edit.program().domains(tensor).to_vec();
    let beside = domains.iter().any(|domain| domain.parallel == ParallelType::DIDx);
    for (axis, k) in axes.axes.iter().zip(0..).filter(|(axis, _)| axis.printed == u32::MAX) {
        let root = sizes.axis_root(tensor, k);
        if let Some(extent) = resized_extent(edit, sizes, root, axis.extent, false)
            .map_err(|()| unclear_extent(edit.program(), tensor, axis.extent, old))?
        {
            out.push(ExtentChange::Logical { tensor, axis: k, extent });
        }
    }
    for (domain, k) in domains.iter().zip(0u32..) {
        let extent = match axes.of_printed(k) {
            Some(axis) => {
                let root = sizes.axis_root(tensor, axis);
                resized_extent(edit, sizes, root, domain.extent, beside)
            }
            // A part of an axis that `logical=` gives.
            None => resized_shard_extent(edit, sizes, domain, beside),
        };
        let program = edit.program();
        let extent = extent.map_err(|()| unclear_extent(program, tensor, domain.extent, old))?;
        if let Some(expanded) = domain.expanded.filter(|&e| program.exprs().as_int(e) == Some(old)) {
            return Err(Box::new(unclear_extent(program, tensor, expanded, old)));
        }
        if let Some(extent) = extent {
            let domain = DomainId(start + k);
            out.push(ExtentChange::Domain { tensor: Some(tensor), domain, extent });
        }
    }
    Ok(())
}

/// The new extent, if it changes; an error if that is undecidable.
fn resized_extent(
    edit: &mut Edit<'_>,
    sizes: &ClassExtents<'_>,
    root: usize,
    extent: ExprId,
    beside: bool,
) -> Result<Option<ExprId>, ()> {
    let DeviceCounts { old, new } = sizes.devices;
    if let Some(literal) = edit.program().exprs().as_int(extent) {
        return Ok(sizes.new_extent(root, literal).map(|value| edit.intern_expr(Expr::Int(value))));
    }
    match count_literal(edit.program(), extent, old) {
        0 => Ok(None),
        1 if sizes.follows[root] || (beside && is_per_device(edit.program(), extent, old)) => {
            Ok(Some(substitute_literal(edit, extent, old, new)))
        }
        _ => Err(()),
    }
}

fn resized_shard_extent(
    edit: &mut Edit<'_>,
    sizes: &ClassExtents<'_>,
    domain: &IterDomain,
    beside: bool,
) -> Result<Option<ExprId>, ()> {
    let DeviceCounts { old, new } = sizes.devices;
    let program = edit.program();
    match count_literal(program, domain.extent, old) {
        0 => Ok(None),
        1 if domain.parallel == ParallelType::DIDx || (beside && is_per_device(program, domain.extent, old)) => {
            Ok(Some(substitute_literal(edit, domain.extent, old, new)))
        }
        _ => Err(()),
    }
}

/// `ceilDiv(i0, 4)`: the extent of one device's part.
fn is_per_device(program: &Program, extent: ExprId, old: i64) -> bool {
    match program.expr(extent) {
        Expr::Set(inner) => is_per_device(program, *inner, old),
        Expr::Call(name, args) => {
            let by = args.get(1).and_then(|&by| program.exprs().as_int(by));
            program.name(*name) == "ceilDiv" && by == Some(old)
        }
        _ => false,
    }
}

/// A scalar with another literal.
fn substitute_literal(edit: &mut Edit<'_>, expr: ExprId, old: i64, new: i64) -> ExprId {
    let replaced = match edit.program().expr(expr).clone() {
        Expr::Int(value) if value == old => Expr::Int(new),
        Expr::Set(a) => Expr::Set(substitute_literal(edit, a, old, new)),
        Expr::Unary(op, a) => Expr::Unary(op, substitute_literal(edit, a, old, new)),
        Expr::Binary(op, a, b) => {
            Expr::Binary(op, substitute_literal(edit, a, old, new), substitute_literal(edit, b, old, new))
        }
        Expr::Call(name, args) => {
            Expr::Call(name, args.into_iter().map(|part| substitute_literal(edit, part, old, new)).collect())
        }
        other => other,
    };
    edit.intern_expr(replaced)
}

fn unclear_extent(program: &Program, tensor: TensorId, extent: ExprId, old: i64) -> Diag {
    let (name, text) = (program.quoted_tensor(tensor), quoted_expr(program, extent));
    let message = message!(
        "the `{}` in the extent `{}` of {} is ambiguous: it may or may not be the number of devices",
        old,
        text,
        name
    );
    let note = "write the extent as a name (`i0`) that gets its value when the program runs";
    Diag::error(RESIZE_CONSTANT, program.tensor_span(tensor), message).with_note(note)
}

fn loop_changes(
    edit: &mut Edit<'_>,
    sizes: &ClassExtents<'_>,
    op: OpId,
    number: u32,
    out: &mut Vec<ExtentChange>,
) -> Result<(), Box<Diag>> {
    let program = edit.program();
    let Some(domain) = program.op(op).domain_attr(AttrKey::Domain) else { return Ok(()) };
    let extent = program.domain(domain).extent;
    let (classes, devices) = (sizes.classes, sizes.devices);
    let Some(literal) = program.exprs().as_int(extent) else {
        // A composite extent is that of the axis it runs over; otherwise it is unknown.
        let root = classes.class_root(classes.loop_node(number)) as usize;
        let new = self::resized_extent(edit, sizes, root, extent, false);
        let new = new.map_err(|()| Box::new(unclear_loop_error(edit.program(), op, devices.old)))?;
        out.extend(new.map(|extent| ExtentChange::Domain { tensor: None, domain, extent }));
        return Ok(());
    };
    let node = classes.loop_node(number);
    let new = if classes.counts_devices(node) && literal == devices.old {
        Some(devices.new)
    } else {
        sizes.new_extent(classes.class_root(node) as usize, literal)
    };
    if new.is_none() && literal == devices.old && !classes.is_tied(number) {
        return Err(Box::new(unclear_loop_error(program, op, devices.old)));
    }
    if let Some(value) = new {
        let extent = edit.intern_expr(Expr::Int(value));
        out.push(ExtentChange::Domain { tensor: None, domain, extent });
    }
    Ok(())
}

/// The error for a loop that is tied to no axis or device.
pub(super) fn unclear_loop_error(program: &Program, op: OpId, old: i64) -> Diag {
    let message = message!("the extent {} of this loop is ambiguous: it may or may not be the number of devices", old);
    let note = "loop over the axis that the loop slices (`FOR i in iS0{4}` with its number), or up to a name";
    Diag::error(RESIZE_CONSTANT, program.op_span(op), message).with_note(note)
}

/// The extents of a tensor that an attribute repeats.
struct ExtentUpdate<'r, 'p> {
    edit: &'r mut Edit<'p>,
    sizes: &'r ClassExtents<'r>,
    tensor: TensorId,
}

impl ExtentUpdate<'_, '_> {
    /// The new extent of the stored axis at a position, or the old one.
    fn extent(&mut self, at: usize, old: ExprId) -> ExprId {
        let program = self.edit.program();
        let axis = logical_axes(program, self.tensor).stored_positions().get(at).copied();
        let root = axis.map(|axis| self.sizes.axis_root(self.tensor, axis));
        let new = root.zip(program.exprs().as_int(old));
        let new = new.and_then(|(root, literal)| self.sizes.new_extent(root, literal));
        new.map_or(old, |value| self.edit.intern_expr(Expr::Int(value)))
    }
}

/// Updates lists of extents and ranges that repeat extents of the result or the operand.
fn attr_changes(edit: &mut Edit<'_>, sizes: &ClassExtents<'_>, id: OpId, out: &mut Vec<ExtentChange>) {
    let op = edit.program().op(id).clone();
    for (key, value) in &op.attrs {
        let from = if *key == AttrKey::Ranges { op.input_tensors().next() } else { op.output_tensors().next() };
        let Some(tensor) = from else { continue };
        let mut renew = ExtentUpdate { edit: &mut *edit, sizes, tensor };
        let new = match (key, value) {
            (AttrKey::Extents, AttrValue::Exprs(list)) => {
                let list = list.iter().enumerate().map(|(at, &extent)| renew.extent(at, extent));
                AttrValue::Exprs(list.collect())
            }
            (AttrKey::Ranges, AttrValue::Ranges(list)) => {
                let list = list.iter().enumerate();
                let list = list.map(|(at, &[start, stop, step])| [start, renew.extent(at, stop), step]);
                AttrValue::Ranges(list.collect())
            }
            // Only for an iota; that of an ALLOCATE is recomputed.
            (AttrKey::Size, AttrValue::Expr(size)) if !op.kind.is_allocation() => {
                AttrValue::Expr(renew.extent(0, *size))
            }
            _ => continue,
        };
        if new != *value {
            out.push(ExtentChange::Attr { op: id, key: *key, value: new });
        }
    }
}
