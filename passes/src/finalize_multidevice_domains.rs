//! finalize-multidevice-domains: moves device axes to the front in tensors that no communication accesses.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{MovedDomains, is_tensor_op, mixed_meshes_error};
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::order::permuted_results;
use hostir::ir::{Id, OpId, Program, TensorId};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "finalize-multidevice-domains",
    summary: "Move the device axes of local ops' tensors to the front",
    description: "\
Tensors of ops that move no data between devices get their device axes printed first, `T0[ideviceIdx.x1{4},
iS0{i0}]` for `T0[iS0{i0}, ideviceIdx.x1{4}]`. That is the order of nvFuser's loops; the axes do not change
(the numbers give the place of the device axis, or `axes=` if they do not ascend). Tensors that occur only in
ops that move data keep their order.

If some tensors have a mesh, all must have one; otherwise this is an error.

Results of permuting ops, in HostUnits too, keep their order, because it is the order of their axes. Contiguity, which nvFuser
checks here, is not part of the text.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "tensors-reordered", help: "tensors with moved axes" }],
    action: PassAction::Rewrite(run_finalize_domains),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{i0}, ideviceIdx.x3{2}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{i0}, ideviceIdx.x3{2}] (DeviceMesh{0 1})
     = relu(T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1}));
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x1{2}, iS0{i0}] (DeviceMesh{0 1})) -> (T1_g_float[ideviceIdx.x3{2}, iS2{i0}] (DeviceMesh{0 1})) :
  T1
     = relu(T0);
} // %HostIrContainer
";

fn run_finalize_domains(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let resharding = cx.resharding_ops(edit);
    let program = edit.program();
    let ops: Vec<OpId> = program.block(program.body()).ops.clone();
    check_meshes(program, &ops)?;
    let mut seen = vec![false; program.tensors().len()];
    let mut found = Vec::new();
    let permuted = permuted_outputs(program);
    for &op in ops.iter().filter(|&&op| is_tensor_op(program, op) && !resharding.contains(op)) {
        for tensor in program.op(op).all_tensors() {
            let new = !std::mem::replace(&mut seen[tensor.index()], true);
            if new && !permuted[tensor.index()] && has_inner_device_axis(program, tensor) {
                found.push(tensor);
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    cx.add_count("tensors-reordered", found.len() as u64);
    let mut moved = MovedDomains::default();
    let mut build = OpBuilder::new(edit);
    for tensor in found {
        move_device_axes_first(&mut build, tensor, &mut moved);
    }
    moved.apply_to_ops(edit);
    Ok(())
}

/// For each tensor: true if it is the result of a permuting op, or of a PostOnStream whose HostUnit permutes it.
fn permuted_outputs(program: &Program) -> Vec<bool> {
    let mut permuted = permuted_results(program);
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let Some(unit) = program.posted_unit(op) else { return };
        for (outer, inner) in op.results.iter().zip(&program.units()[unit].outputs) {
            if let (Some(outer), Some(inner)) = (outer.as_tensor(), inner.as_tensor()) {
                permuted[outer.index()] |= permuted[inner.index()];
            }
        }
    });
    permuted
}

/// Checks that all tensors of the program have a mesh, or none has.
fn check_meshes(program: &Program, ops: &[OpId]) -> Result<(), Diags> {
    let mut diags = Diags::default();
    let mut with: Option<TensorId> = None;
    let mut without: Option<TensorId> = None;
    for tensor in ops.iter().flat_map(|&op| program.op(op).all_tensors()) {
        let slot = if program.tensor(tensor).mesh.is_some() { &mut with } else { &mut without };
        *slot = slot.or(Some(tensor));
    }
    if let (Some(with), Some(without)) = (with, without) {
        let diag: Diag = mixed_meshes_error(program, with, without, program.tensor_span(without));
        diags.push(diag.with_label(program.tensor_span(with), "this tensor has a mesh"));
        return Err(diags);
    }
    Ok(())
}

/// True if a device axis comes after another axis.
fn has_inner_device_axis(program: &Program, tensor: TensorId) -> bool {
    let domains = program.domains(tensor);
    let devices = domains.iter().take_while(|domain| domain.parallel.is_device()).count();
    domains[devices..].iter().any(|domain| domain.parallel.is_device())
}

/// Moves the device axes to the front, in order.
fn move_device_axes_first(build: &mut OpBuilder<'_, '_>, tensor: TensorId, moved: &mut MovedDomains) {
    let domains = build.program().domains(tensor).to_vec();
    let (mut order, others): (Vec<u32>, Vec<u32>) =
        (0..domains.len() as u32).partition(|&at| domains[at as usize].parallel.is_device());
    order.extend(others);
    moved.redeclare_tensor(build, tensor, &order, &|_, domain| domain);
}
