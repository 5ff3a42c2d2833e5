//! reorder-sharded-axis: moves the gathered or scattered axis to the front and back.

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{
    MovedDomains, OpLinks, axes_with_domains, declare_local_tensor, refuse_splits, stored_axes, takes_room,
};
use crate::support::rewrite::rebuild_body;
use hostir::axes::{LogicalAxis, logical_axes};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{IterDomain, Op, OpId, ParallelType, Program, TensorId, quoted_op};

/// reorder-sharded-axis: an op that moves several axes between devices.
const SEVERAL_AXES: &str = "H0364";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "reorder-sharded-axis",
    summary: "Permute the gathered or scattered axis to the front, and back afterwards",
    description: "\
Communications move contiguous parts of memory, so the axis that they gather or scatter must be the outermost
stored axis. If a copy or a reduction moves an inner axis, its operand is permuted so that the axis comes
first, and the result is permuted back. Device axes, reduced axes and broadcasts in front of the axis do not
count: a device stores one slice of them.

`host-ir-lower` runs the pass with `only_where_needed`.

One op moves one axis: an axis that is gathered while another one is scattered, or a scattered reduction of
several axes, is an error. Streams count as stored axes; programs that are split over streams first do not
need the pass, and nvFuser's lowering of June 2025 does not run it.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "only_where_needed",
        ty: OptionType::Bool,
        default: Some("false"),
        help: "Leave ops whose result has a stream axis, and those that no permutation helps, to later passes",
    }],
    statistics: &[StatisticSpec { name: "axes-moved", help: "ops with a moved axis" }],
    action: PassAction::Rewrite(run_reorder_sharded_axis),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{i0}, iS3{2}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{i0}, iS3{2}] (DeviceMesh{0 1})
     = Set( T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1}), cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1})) -> (T1_g_float[iS9{i0}, iS8{2}] (DeviceMesh{0 1})) :
  T2_l_float[ideviceIdx.x5{2}, iS4{i0}] (DeviceMesh{0 1})
     = Set.Permute( T0, cache_op=Streaming )
  T3_l_float[iS6{2}, iS7{i0}] (DeviceMesh{0 1})
     = Set( T2, cache_op=Streaming )
  T1
     = Set.Permute( T3, cache_op=Streaming )
} // %HostIrContainer
";

fn run_reorder_sharded_axis(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let resharding = cx.resharding_ops(edit);
    let program = edit.program();
    let ops = program.block(program.body()).ops.clone();
    let mut diags = Diags::default();
    let mut work = Vec::new();
    let needed_only = cx.options().bool_value("only_where_needed");
    for &op in ops.iter().filter(|&&op| resharding.contains(op)) {
        if needed_only && is_streamed(program, op) {
            continue;
        }
        match inner_axis(program, op) {
            Ok(axis) => work.extend(axis.map(|_| (op, ()))),
            Err(_) if needed_only => {}
            Err(diag) => diags.push(diag),
        }
    }
    diags.or_value(())?;
    if work.is_empty() {
        return Ok(());
    }
    cx.add_count("axes-moved", work.len() as u64);
    let mut build = OpBuilder::new(edit);
    let mut moved = MovedDomains::default();
    rebuild_body(&mut build, work, |build, op, (), out| {
        // Checked again: an operand that was declared again has other positions.
        match inner_axis(build.program(), op).ok().flatten() {
            None => out.push(op),
            Some(axis) => reorder_axis(build, &mut moved, op, axis, out),
        }
    });
    moved.apply_to_ops(edit);
    Ok(())
}

/// True if a loop over streams will take the op slice by slice.
fn is_streamed(program: &Program, id: OpId) -> bool {
    program.op(id).output_tensors().any(|result| {
        let axes = logical_axes(program, result).axes;
        axes.iter().any(|axis| axis.parallel == ParallelType::Stream)
    })
}

/// The operand's axis that has to come first; `None` if it does already, or no axis moves.
fn inner_axis(program: &Program, id: OpId) -> Result<Option<u32>, Diag> {
    let op = program.op(id);
    // Communications come from these two kinds; insert-reshardings leaves no other.
    if op.kind.transfer().is_none() {
        return Ok(None);
    }
    refuse_splits(program, id)?;
    let (Some(operand), Some(result)) = (op.input_tensors().next(), op.output_tensors().next()) else {
        return Ok(None);
    };
    let links = OpLinks::from_op(program, id);
    let (from, to) = (logical_axes(program, operand).axes, logical_axes(program, result).axes);
    let (mut gathered, mut scattered, mut reduced) = (Vec::new(), Vec::new(), 0);
    for (k, axis) in (0..).zip(&from) {
        let Some(at) = links.linked_axis(operand, k, result) else { continue };
        let Some(image) = to.get(at as usize) else { continue };
        reduced += u32::from(image.is_reduction());
        if !image.is_reduction() && axis.device_type() != image.device_type() {
            gathered.extend(axis.device_type().map(|_| (k, is_inner(&from, k))));
            scattered.extend(image.device_type().map(|_| (k, is_inner(&to, at))));
        }
    }
    let name = quoted_op(program, id);
    let (message, note) = match (gathered.as_slice(), scattered.as_slice()) {
        ([], []) => return Ok(None),
        ([], &[(_, true)]) if reduced > 1 => (
            message!("`{}` reduces {} axes and scatters another axis", name, reduced),
            "reduce one axis at a time: --pass=insert-reshardings does so if one is sharded over devices",
        ),
        (&[(axis, inner)], []) | ([], &[(axis, inner)]) => return Ok(inner.then_some(axis)),
        (gathered, scattered) => (
            message!(
                "`{}` moves several axes between devices: it gathers {} and scatters {}",
                name,
                gathered.len(),
                scattered.len()
            ),
            "move one axis at a time: copy to a replicated tensor first",
        ),
    };
    Err(Diag::error(SEVERAL_AXES, program.op_span(id), message).with_note(note))
}

/// True if a stored axis comes before this one.
fn is_inner(axes: &[LogicalAxis], at: u32) -> bool {
    axes.iter().take(at as usize).any(takes_room)
}

/// Permutes, does the op, permutes back.
fn reorder_axis(build: &mut OpBuilder<'_, '_>, moved: &mut MovedDomains, id: OpId, axis: u32, out: &mut Vec<OpId>) {
    let op: Op = build.program().op(id).clone();
    let (Some(operand), Some(result)) = (op.input_tensors().next(), op.output_tensors().next()) else {
        return;
    };
    let program = build.program();
    let links = OpLinks::from_op(program, id);
    let stored = stored_axes(program, operand);
    let Some(place) = stored.iter().position(|(k, _)| *k == axis) else { return };
    let mut order: Vec<usize> = (0..stored.len()).filter(|&k| k != place).collect();
    order.insert(0, place);
    let images = axes_with_domains(program, result);
    let arriving: Vec<(u32, IterDomain)> = order
        .iter()
        .filter_map(|&k| {
            let at = links.linked_axis(operand, stored[k].0, result)?;
            images.get(at as usize).map(|(_, domain)| (at, *domain))
        })
        .collect();
    let (mesh, to_mesh) = (program.tensor(operand).mesh, program.tensor(result).mesh);
    let domains: Vec<IterDomain> = stored.iter().map(|(_, domain)| *domain).collect();
    let front = permuted_tensor(build, operand, mesh, &domains, &order);
    let arriving_domains: Vec<IterDomain> = arriving.iter().map(|(_, domain)| *domain).collect();
    let arrived = declare_local_tensor(build, result, to_mesh, &arriving_domains);
    out.push(build.build_permute(front, operand, &order));
    let mut inner = op;
    inner.replace_operand(operand, front);
    inner.set_result(arrived);
    build.edit.set_op(id, inner);
    out.push(id);
    let kept = arriving.iter().filter(|(_, domain)| !domain.is_reduction()).map(|(at, _)| *at);
    let order = permute_declaration(build, moved, result, &kept.collect::<Vec<u32>>());
    out.push(build.build_permute(result, arrived, &order));
}

/// The result of a permutation: `order[k]` is the position of its k-th axis in `domains`, the operand's.
fn permuted_tensor(
    build: &mut OpBuilder<'_, '_>,
    like: TensorId,
    mesh: Option<hostir::ir::MeshId>,
    domains: &[IterDomain],
    order: &[usize],
) -> TensorId {
    let printed: Vec<IterDomain> = order.iter().map(|&k| domains[k]).collect();
    let new = declare_local_tensor(build, like, mesh, &printed);
    build.number_permuted_axes(new, order);
    new
}

/// Declares a tensor as the result of a permutation: `sources` are its logical axes in the order of the operand's.
/// Leaves out reduced axes. Returns the permutation.
fn permute_declaration(
    build: &mut OpBuilder<'_, '_>,
    moved: &mut MovedDomains,
    tensor: TensorId,
    sources: &[u32],
) -> Vec<usize> {
    let axes = logical_axes(build.program(), tensor).axes;
    let kept: Vec<u32> = (0..axes.len() as u32).filter(|&k| !axes[k as usize].is_reduction()).collect();
    let numbers: Vec<u32> = kept.iter().map(|_| build.next_domain_number()).collect();
    let places: Vec<u32> = kept.iter().map(|&k| axes[k as usize].printed).collect();
    moved.redeclare_tensor(build, tensor, &places, &|k, domain| IterDomain { number: Some(numbers[k]), ..domain });
    let order: Vec<usize> = kept.iter().filter_map(|k| sources.iter().position(|source| source == k)).collect();
    build.number_permuted_axes(tensor, &order);
    order
}
