//! Reductions of several axes, one step after the other.

use crate::support::builder::OpBuilder;
use crate::support::reshard::{MovedDomains, OpLinks, axes_with_domains, declare_local_tensor};
use hostir::axes::logical_axes;
use hostir::ir::{
    AttrKey, AttrValue, ExprId, IterDomain, IterType, MeshId, Op, OpId, ParallelType, Program, Symbol, TensorId, Value,
};
use hostir::ops::pointwise::pointwise_op;
use hostir::plan::{RedOp, starts_from_identity};

/// The steps of a reduction whose data is sharded over devices along a reduced axis: the operand's axes that each
/// reduces. One step is a communication; `None` if no reduced axis is sharded over devices.
pub(super) fn reduction_steps(program: &Program, id: OpId) -> Option<Vec<Vec<u32>>> {
    let op = program.op(id);
    let (operand, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
    let links = OpLinks::from_op(program, id);
    let axes = logical_axes(program, result).axes;
    let (mut local, mut across) = (Vec::new(), Vec::new());
    for (k, axis) in (0..).zip(&logical_axes(program, operand).axes) {
        let to = links.linked_axis(operand, k, result).and_then(|at| axes.get(at as usize));
        if to.is_none_or(|to| !to.is_reduction()) {
            continue;
        }
        if axis.device_type().is_some() {
            across.push(vec![k]);
        } else {
            local.push(k);
        }
    }
    if across.is_empty() {
        return None;
    }
    if !local.is_empty() {
        across.insert(0, local);
    }
    Some(across)
}

/// True if a reduction starts from a value that changes its result: a later step has to include it, once and not on
/// every device.
pub(super) fn has_effective_initial(program: &Program, id: OpId) -> bool {
    matches!(starts_from_identity(program, id), Some((_, false)))
}

/// Replaces a reduction by its steps. All but the last compute tensors that are sharded like the operand. An initial
/// value that changes the result is combined with the result of the steps.
pub(super) fn split_reduction(build: &mut OpBuilder<'_, '_>, moved: &mut MovedDomains, id: OpId, out: &mut Vec<OpId>) {
    // Uses the present operand: an earlier op may have taken its reduced axes.
    let Some(steps) = reduction_steps(build.program(), id) else {
        out.push(id);
        return;
    };
    let mut op: Op = build.program().op(id).clone();
    let (Some(operand), Some(result)) = (op.input_tensors().next(), op.output_tensors().next()) else {
        return;
    };
    let initial = take_initial(build, id, &mut op);
    let Some((last, first)) = steps.split_last() else { return };
    let links = OpLinks::from_op(build.program(), id);
    let mesh = build.program().tensor(operand).mesh;
    let mut from = operand;
    let mut gone: Vec<u32> = Vec::new();
    for step in first {
        let partial = partial_result(build, operand, mesh, &gone, step);
        let mut reduction = op.clone();
        rewire_op(&mut reduction, from, operand, partial);
        out.push(build.push(reduction));
        gone.extend_from_slice(step);
        from = partial;
    }
    let kept: Vec<u32> = last.iter().filter_map(|&k| links.linked_axis(operand, k, result)).collect();
    let mut reduction = op;
    match initial {
        None => {
            rewire_op(&mut reduction, from, operand, result);
            build.edit.set_op(id, reduction);
            out.push(id);
            drop_reduced(build, moved, result, &|axis| !kept.contains(&axis));
        }
        Some((how, value)) => {
            let total = last_step_result(build, result, &kept);
            rewire_op(&mut reduction, from, operand, total);
            out.push(build.push(reduction));
            let joined = join_op(build.edit.intern_name(how), total, value, result);
            build.edit.set_op(id, joined);
            out.push(id);
            drop_reduced(build, moved, result, &|_| true);
        }
    }
}

/// A tensor for the result of a reduction's last step: the result's axes, with the reduced ones of that step only.
fn last_step_result(build: &mut OpBuilder<'_, '_>, result: TensorId, reduced: &[u32]) -> TensorId {
    let axes = axes_with_domains(build.program(), result);
    let domains: Vec<IterDomain> = (0..)
        .zip(axes)
        .filter(|(k, (axis, _))| !axis.is_reduction() || reduced.contains(k))
        .map(|(_, (_, domain))| domain)
        .collect();
    let mesh = build.program().tensor(result).mesh;
    declare_local_tensor(build, result, mesh, &domains)
}

/// `result = total + value;`
fn join_op(function: Symbol, total: TensorId, value: ExprId, result: TensorId) -> Op {
    pointwise_op(function, [Value::Tensor(total), Value::Scalar(value)].into()).with_result(Value::Tensor(result))
}

/// The pointwise function that combines two values as a reduction does.
fn join_function(how: RedOp) -> &'static str {
    match how {
        RedOp::Sum | RedOp::Avg => "+",
        RedOp::Product => "*",
        RedOp::Min => "min",
        RedOp::Max => "max",
        RedOp::FMin => "fmin",
        RedOp::FMax => "fmax",
        RedOp::And => "&",
        RedOp::Or => "|",
        RedOp::Xor => "^",
    }
}

/// Makes a reduction start from its identity, if it starts elsewhere: returns the function that combines its old
/// initial value with the result, and that value.
fn take_initial(build: &mut OpBuilder<'_, '_>, id: OpId, op: &mut Op) -> Option<(&'static str, ExprId)> {
    let (how, false) = starts_from_identity(build.program(), id)? else { return None };
    let dtype = build.program().tensor(op.input_tensors().next()?).dtype;
    let identity = build.identity_expr(how, dtype);
    let (_, held) = op.attrs.iter_mut().find(|(key, _)| *key == AttrKey::Init)?;
    let old = std::mem::replace(held, AttrValue::Expr(identity));
    let AttrValue::Expr(value) = old else { return None };
    Some((join_function(how), value))
}

fn rewire_op(op: &mut Op, from: TensorId, operand: TensorId, result: TensorId) {
    op.replace_operand(operand, from);
    op.set_result(result);
}

/// The operand's stored axes without those in `gone`, those in `reduced` reduced.
fn partial_result(
    build: &mut OpBuilder<'_, '_>,
    operand: TensorId,
    mesh: Option<MeshId>,
    gone: &[u32],
    reduced: &[u32],
) -> TensorId {
    let domains: Vec<IterDomain> = (0..)
        .zip(axes_with_domains(build.program(), operand))
        .filter(|(k, (axis, _))| !axis.is_reduction() && !gone.contains(k))
        .map(|(k, (_, domain))| {
            let parallel = if domain.parallel.is_device() { domain.parallel } else { ParallelType::Serial };
            let plain = IterDomain { rfactor: false, parallel, ..domain };
            if reduced.contains(&k) {
                IterDomain { iter: IterType::Reduction, parallel: ParallelType::Serial, ..plain }
            } else {
                plain
            }
        })
        .collect();
    declare_local_tensor(build, operand, mesh, &domains)
}

/// A new tensor with all axes of `result`, reduced ones included, sharded over `types`; numbered as the result of the
/// permutation `perm` if there is one.
pub(super) fn declare_like_result(
    build: &mut OpBuilder<'_, '_>,
    result: TensorId,
    mesh: Option<MeshId>,
    types: &[ParallelType],
    perm: Option<&[i64]>,
) -> TensorId {
    let domains: Vec<IterDomain> = axes_with_domains(build.program(), result)
        .into_iter()
        .zip(types)
        .map(|((_, domain), &parallel)| IterDomain { parallel, ..domain })
        .collect();
    let new = declare_local_tensor(build, result, mesh, &domains);
    if let Some(perm) = perm {
        let order: Vec<usize> = perm.iter().filter_map(|&k| usize::try_from(k).ok()).collect();
        build.number_permuted_axes(new, &order);
    }
    new
}

/// Removes reduced axes from a tensor's declaration, since a copy has none.
pub(super) fn drop_reduced(
    build: &mut OpBuilder<'_, '_>,
    moved: &mut MovedDomains,
    tensor: TensorId,
    is_gone: &dyn Fn(u32) -> bool,
) {
    let axes = logical_axes(build.program(), tensor);
    let mut order: Vec<u32> = (0..build.program().domains(tensor).len() as u32).collect();
    order.retain(|&printed| {
        let axis = axes.of_printed(printed);
        axis.is_none_or(|k| !axes.axes[k as usize].is_reduction() || !is_gone(k))
    });
    if order.len() < axes.axes.len() {
        moved.redeclare_tensor(build, tensor, &order, &|_, domain| domain);
    }
}
