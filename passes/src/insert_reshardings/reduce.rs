//! Reductions of several axes, one step after the other.

use crate::build::Build;
use crate::reshard::{Links, Moved, axes_with_domains, local_tensor};
use hostir::analysis::logical_axes;
use hostir::ir::{IterDomain, IterType, MeshId, Op, OpId, ParallelType, Program, TensorId, Value};

/// The steps of a reduction whose data lies across devices along a reduced axis: the operand's axes
/// that each reduces. One step is a communication; `None`: no reduced axis lies across devices.
pub(super) fn steps(program: &Program, id: OpId) -> Option<Vec<Vec<u32>>> {
    let op = program.op(id);
    let (operand, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
    let links = Links::of(program, id);
    let axes = logical_axes(program, result).axes;
    let (mut local, mut across) = (Vec::new(), Vec::new());
    for (k, axis) in (0..).zip(&logical_axes(program, operand).axes) {
        let to = links.across(operand, k, result).and_then(|at| axes.get(at as usize));
        if to.is_none_or(|to| !to.is_reduction()) {
            continue;
        }
        if axis.device().is_some() {
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

/// Replaces a reduction by its steps. All but the last compute tensors that are sharded like the
/// operand.
pub(super) fn split(
    build: &mut Build<'_, '_>,
    moved: &mut Moved,
    id: OpId,
    steps: &[Vec<u32>],
    out: &mut Vec<OpId>,
) {
    let op: Op = build.program().op(id).clone();
    let (Some(operand), Some(result)) = (op.input_tensors().next(), op.output_tensors().next())
    else {
        return;
    };
    let Some((last, first)) = steps.split_last() else { return };
    let links = Links::of(build.program(), id);
    let mesh = build.program().tensor(operand).mesh;
    let mut from = operand;
    let mut gone: Vec<u32> = Vec::new();
    for step in first {
        let partial = partial(build, operand, mesh, &gone, step);
        let mut reduction = op.clone();
        rewire(&mut reduction, from, operand, partial);
        out.push(build.push(reduction));
        gone.extend_from_slice(step);
        from = partial;
    }
    let kept: Vec<u32> = last.iter().filter_map(|&k| links.across(operand, k, result)).collect();
    let mut reduction = op;
    rewire(&mut reduction, from, operand, result);
    build.edit.set_op(id, reduction);
    out.push(id);
    drop_reduced(build, moved, result, &|axis| !kept.contains(&axis));
}

fn rewire(op: &mut Op, from: TensorId, operand: TensorId, result: TensorId) {
    for value in op.operands.iter_mut().filter(|value| **value == Value::Tensor(operand)) {
        *value = Value::Tensor(from);
    }
    for value in &mut op.results {
        *value = Value::Tensor(result);
    }
}

/// The operand's stored axes without those in `gone`, those in `reduced` reduced.
fn partial(
    build: &mut Build<'_, '_>,
    operand: TensorId,
    mesh: Option<MeshId>,
    gone: &[u32],
    reduced: &[u32],
) -> TensorId {
    let domains: Vec<IterDomain> = (0..)
        .zip(axes_with_domains(build.program(), operand))
        .filter(|(k, (axis, _))| !axis.is_reduction() && !gone.contains(k))
        .map(|(k, (_, domain))| {
            let parallel =
                if domain.parallel.is_device() { domain.parallel } else { ParallelType::Serial };
            let plain = IterDomain { rfactor: false, parallel, ..domain };
            if reduced.contains(&k) {
                IterDomain { iter: IterType::Reduction, parallel: ParallelType::Serial, ..plain }
            } else {
                plain
            }
        })
        .collect();
    local_tensor(build, operand, mesh, &domains)
}

/// A new tensor with all axes of `result`, reduced ones included, spread over `types`; numbered as the result
/// of the permutation `perm` where that is one.
pub(super) fn like_result(
    build: &mut Build<'_, '_>,
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
    let new = local_tensor(build, result, mesh, &domains);
    if let Some(perm) = perm {
        let order: Vec<usize> = perm.iter().filter_map(|&k| usize::try_from(k).ok()).collect();
        build.number_permuted(new, &order);
    }
    new
}

/// Takes reduced axes out of a tensor's declaration: what is copied to it has none.
pub(super) fn drop_reduced(
    build: &mut Build<'_, '_>,
    moved: &mut Moved,
    tensor: TensorId,
    is_gone: &dyn Fn(u32) -> bool,
) {
    let axes = logical_axes(build.program(), tensor);
    let gone = |printed: &u32| {
        let axis = axes.of_printed(*printed);
        axis.is_some_and(|k| axes.axes[k as usize].is_reduction() && is_gone(k))
    };
    let places = 0..build.program().domains(tensor).len() as u32;
    let order: Vec<u32> = places.filter(|printed| !gone(printed)).collect();
    if order.len() < axes.axes.len() {
        moved.redeclare(build, tensor, &order, &|_, domain| domain);
    }
}
