//! propagate-shardings: propagates meshes and shardings to tensors without a mesh.
//!
//! It walks once forward, from operands to results, then once backward. A tensor with a mesh is annotated, and left
//! alone.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::printed_domain;
use crate::support::reshard::{OpLinks, is_tensor_op, refuse_splits};
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{Id, IterDomain, MeshId, Op, OpId, ParallelType, Program, Tensor, TensorId, domain_text};

/// propagate-shardings: a view that splits or merges a sharded axis.
const SHARDED_VIEW: &str = "H0361";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "propagate-shardings",
    summary: "Propagate meshes and device axes to tensors that have none",
    description: "\
A result without a mesh takes the mesh of its op's first operand that has one, and its axes are sharded like
the operands' axes that the op links to them; this includes the reduced axis of a result (`rdeviceIdx.x3{4}`:
the reduction is across devices). Operands are considered in nvFuser's order: the second operand of a matmul
first, weight and bias of a linear first, else by the number of device axes, then by rank. Then operands
without a mesh take the mesh and the device axes of the result; inputs of the program take the mesh only.

Tensors with a mesh are annotated and do not change. Stream axes are not propagated.

Deviations from nvFuser: an operand on another mesh than the first one propagates nothing. Device axes are
separate axes here, never parts of one, so a view that splits or merges a sharded axis is an error where
nvFuser replays outer splits.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "tensors-sharded", help: "tensors that received a mesh" }],
    action: PassAction::Rewrite(run_propagate_shardings),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}]) -> (T2_g_float[iS4{2}, iS5{i1}]) :
  T2_g_float[iS4{2}, iS5{i1}]
     = T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})
     + T1_g_float[iS2{2}, iS3{i1}];
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) -> (T2_g_float[ideviceIdx.x4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T2
     = T0
     + T1;
} // %HostIrContainer
";

fn run_propagate_shardings(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let mut is_input = vec![false; program.tensors().len()];
    for tensor in program.inputs().iter().filter_map(|value| value.as_tensor()) {
        is_input[tensor.index()] = true;
    }
    let body = program.body();
    let ops: Vec<OpId> = program.block(body).ops.clone();
    let mut diags = Diags::default();
    for &op in &ops {
        let count = diags.keep_error(propagate_forward(edit, op));
        cx.add_count("tensors-sharded", count.unwrap_or(0));
    }
    for &op in ops.iter().rev() {
        let count = diags.keep_error(propagate_backward(edit, op, &is_input));
        cx.add_count("tensors-sharded", count.unwrap_or(0));
    }
    diags.or_value(())
}

/// Shards the results of an op without a mesh as its operands are.
fn propagate_forward(edit: &mut Edit<'_>, id: OpId) -> Result<u64, Diag> {
    let program = edit.program();
    if !is_tensor_op(program, id) {
        return Ok(0);
    }
    let results: Vec<TensorId> = tensors_without_mesh(program, program.op(id).output_tensors());
    let references = reference_operands(program, program.op(id));
    let Some(mesh) = references.first().and_then(|&first| program.tensor(first).mesh) else {
        return Ok(0);
    };
    if results.is_empty() {
        return Ok(0);
    }
    refuse_splits(program, id)?;
    for &reference in &references {
        refuse_view(program, id, reference, &results)?;
    }
    for &result in &results {
        for &reference in &references {
            if edit.program().tensor(reference).mesh == Some(mesh) {
                shard_like(edit, id, reference, result);
            }
        }
        set_mesh(edit, result, mesh);
    }
    Ok(results.len() as u64)
}

/// Shards the operands of an op without a mesh like its most parallel result.
fn propagate_backward(edit: &mut Edit<'_>, id: OpId, is_input: &[bool]) -> Result<u64, Diag> {
    let program = edit.program();
    if !is_tensor_op(program, id) {
        return Ok(0);
    }
    let mut operands = tensors_without_mesh(program, program.op(id).input_tensors());
    operands.dedup();
    let results = program.op(id).output_tensors().filter(|&t| program.tensor(t).mesh.is_some());
    let Some(reference) = results.max_by_key(|&tensor| device_axis_count(program, tensor)) else {
        return Ok(0);
    };
    let Some(mesh) = program.tensor(reference).mesh.filter(|_| !operands.is_empty()) else {
        return Ok(0);
    };
    refuse_splits(program, id)?;
    for &operand in &operands {
        // Inputs are whole unless the text says otherwise.
        if !is_input[operand.index()] {
            shard_like(edit, id, reference, operand);
        }
        set_mesh(edit, operand, mesh);
    }
    Ok(operands.len() as u64)
}

fn tensors_without_mesh(program: &Program, tensors: impl Iterator<Item = TensorId>) -> Vec<TensorId> {
    tensors.filter(|&tensor| program.tensor(tensor).mesh.is_none()).collect()
}

fn device_axis_count(program: &Program, tensor: TensorId) -> usize {
    program.domains(tensor).iter().filter(|domain| domain.parallel.is_device()).count()
}

/// The operands with a mesh, the deciding one first.
fn reference_operands(program: &Program, op: &Op) -> Vec<TensorId> {
    let operands: Vec<TensorId> = op.input_tensors().collect();
    // nvFuser's order: for a GEMM the weights decide, which are sharded on purpose.
    let mut found: Vec<TensorId> = match (op.kind.gemm(), operands.as_slice()) {
        (Some(form), &[a, b, row_scale, column_scale, ref bias @ ..]) if form.scaled => {
            [&[b, column_scale], bias, &[a, row_scale]].concat()
        }
        (Some(form), &[a, b, ref added @ ..]) if !form.scaled => [&[b], added, &[a]].concat(),
        _ => {
            let mut order = operands;
            order.sort_by_key(|&tensor| {
                let rank = program.domains(tensor).len();
                std::cmp::Reverse((device_axis_count(program, tensor), rank))
            });
            order
        }
    };
    found.retain(|&tensor| program.tensor(tensor).mesh.is_some());
    found
}

/// Makes the axes of `to` that are device axes of `like` device axes. A device type that `to` has already, or an axis
/// that is distributed already, stays.
fn shard_like(edit: &mut Edit<'_>, id: OpId, like: TensorId, to: TensorId) {
    let program = edit.program();
    let links = OpLinks::from_op(program, id);
    let mut changes: Vec<(u32, ParallelType)> = Vec::new();
    for (k, axis) in (0..).zip(&logical_axes(program, like).axes) {
        let known = program.domains(to).iter().any(|domain| domain.parallel == axis.parallel);
        if !axis.parallel.is_device() || known {
            continue;
        }
        if let Some(at) = links.linked_axis(like, k, to)
            && let Some(found) = logical_axes(program, to).axes.get(at as usize)
            && found.parallel == ParallelType::Serial
        {
            changes.push((found.printed, axis.parallel));
        }
    }
    for (printed, parallel) in changes {
        let domain = printed_domain(edit.program(), to, printed);
        let new = IterDomain { parallel, ..*edit.program().domain(domain) };
        edit.set_domain(domain, new);
    }
}

fn set_mesh(edit: &mut Edit<'_>, tensor: TensorId, mesh: MeshId) {
    let new = Tensor { mesh: Some(mesh), ..edit.program().tensor(tensor).clone() };
    edit.set_tensor(tensor, new);
}

/// Refuses a view that loses a device axis: it splits or merges it.
fn refuse_view(program: &Program, id: OpId, reference: TensorId, results: &[TensorId]) -> Result<(), Diag> {
    // Other ops that lose an axis (a select, a matmul) have consumed it; a view passes its elements on.
    if !program.op(id).kind.is_row_major_view() {
        return Ok(());
    }
    let links = OpLinks::from_op(program, id);
    for (k, axis) in (0..).zip(&logical_axes(program, reference).axes) {
        let kept = results.iter().any(|&result| links.linked_axis(reference, k, result).is_some());
        if axis.device_type().is_some() && !kept {
            let domain = program.domains(reference).get(axis.printed as usize);
            let text = domain.map(|domain| domain_text(program, domain)).unwrap_or_default();
            let message = message!(
                "the view splits or merges `{}` of {}, which is sharded over devices",
                text,
                program.quoted_tensor(reference)
            );
            let note = "keep the device axis unchanged in the view, or write the mesh and parallel types of its result";
            return Err(Diag::error(SHARDED_VIEW, program.op_span(id), message).with_note(note));
        }
    }
    Ok(())
}
