//! insert-reshardings: makes copies and reductions the only ops that move data between devices.
//!
//! [`decide`](self) selects the rewrite of each op; [`reduce`] handles several reduced axes one after
//! the other.

mod reduce;
mod shared;

use crate::framework::analyses::ReshardingOps;
use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::insert_reshardings::shared::{CopyPlace, SharedCopies};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{MovedDomains, OpLinks, parallel_types_like, refuse_mixed_meshes, refuse_splits};
use crate::support::rewrite::rebuild_body;
use hostir::analysis::{has_different_shardings, is_standalone, shards_made_axis};
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::Transfer;
use hostir::ir::edit::Edit;
use hostir::ir::{MeshId, Op, OpEffect, OpId, ParallelType, Program, TensorId, Value, quoted_head};

/// insert-reshardings: a slice of memory that is sharded differently from its tensor.
const SLICE_MOVES: &str = "H0394";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "insert-reshardings",
    summary: "Insert copies, so that only copies and reductions move data between devices",
    description: "\
Only copies (`Set`), and reductions of one axis that is sharded over devices, become communications. Every
other op that needs data of other devices gets a `Set`:

- after it, if it has one operand and one result and can run where the operand is: the op computes a new
  tensor that is sharded like the operand, and the `Set` moves it to its place;
- else before it, for each operand that is sharded differently from the result: the copy has the result's mesh
  and parallel types, streams included, so that it takes part in the result's loop over streams;
- before and after it, if the result's device axis is made of parts of axes (a `view` that splits an axis over
  devices, a `cat` along a device axis), because no copy of an operand can have such an axis;
- before it, as its first result needs, if it has several results, and after it for each of these that the op
  then computes with another sharding.

A `HirAliasSelect` whose slice is sharded differently from its operand is an error: a slice shares the
operand's memory, and a copy would not.

A reduction of several axes, some of them across devices, is split: first each device reduces its own shard,
then one device axis is reduced at a time.

Deviations from nvFuser: an op whose device axis has no counterpart in its result (a view that merges it, a
slice of it) gets its operand by a `Set` before it, where nvFuser leaves an op that it rejects later. A
permutation is not a copy. nvFuser's reductions of split axes are reductions of two axes here; tensors sharded
along a part of an axis are an error. Copies of several operands have the operands' order.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[SHARE_COPIES],
    statistics: &[
        StatisticSpec { name: "sets-inserted", help: "copies inserted" },
        StatisticSpec { name: "reductions-split", help: "reductions split into several steps" },
    ],
    action: PassAction::Rewrite(run_insert_reshardings),
};

/// The option that gives ops one copy of an operand that they need alike.
pub(crate) const SHARE_COPIES: OptionSpec = OptionSpec {
    name: "share_copies",
    ty: OptionType::Bool,
    default: Some("false"),
    help: "One copy of an operand for all ops that need it with the same sharding, outside of loops over streams; nvFuser makes one for each op",
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) -> (T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})
     = T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})
     + T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1});
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) -> (T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T3_l_float[iS6{2}, iS7{i1}] (DeviceMesh{0 1})
     = Set( T0, cache_op=Streaming )
  T2
     = T3
     + T1;
} // %HostIrContainer
";

fn run_insert_reshardings(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let shares_copies = cx.options().bool_value("share_copies");
    insert(edit, cx, InsertionForm { after: false, streams_back: false, shares_copies })
}

/// The differences between `decompose-reshardings` and this pass.
#[derive(Clone, Copy)]
pub(crate) struct InsertionForm {
    /// Copies after ops of several operands too, if these are sharded alike.
    pub(crate) after: bool,
    /// An op whose result is copied to streams works on streams itself.
    pub(crate) streams_back: bool,
    /// Ops that need the same copy of an operand have one.
    pub(crate) shares_copies: bool,
}

/// Inserts the reshardings of the ops of the body. Counts `sets-inserted` and `reductions-split`.
pub(crate) fn insert(edit: &mut Edit<'_>, cx: &mut PassCx<'_>, form: InsertionForm) -> Result<(), Diags> {
    let resharding = cx.resharding_ops(edit);
    let program = edit.program();
    let ops = program.block(program.body()).ops.clone();
    let work = plan_insertions(program, &ops, form, &resharding)?;
    if work.is_empty() {
        return Ok(());
    }
    let copies = SharedCopies::new(edit.program(), form.shares_copies);
    let mut build = OpBuilder::new(edit);
    let mut state = InsertionState { form, moved: MovedDomains::default(), copies };
    rebuild_body(&mut build, work, |build, op, step, out| {
        count_step(cx, &step);
        apply_step(build, &mut state, op, step, out);
    });
    state.moved.apply_to_ops(edit);
    Ok(())
}

/// The state that the steps of all ops share.
struct InsertionState {
    form: InsertionForm,
    moved: MovedDomains,
    copies: SharedCopies,
}

/// The change that an op needs.
enum InsertionStep {
    /// A `Set` for each of these operands.
    Before(Vec<TensorId>),
    /// A `Set` of the result; of several, of those that the op computes with another sharding.
    After,
    /// A `Set` for each of these operands, and as in `After`.
    Around(Vec<TensorId>),
    /// Several reductions; each step's axes of the operand.
    Reduce,
}

/// The ops that need a resharding, in order. Reports all that cannot be resharded.
fn plan_insertions(
    program: &Program,
    ops: &[OpId],
    form: InsertionForm,
    resharding: &ReshardingOps,
) -> Result<Vec<(OpId, InsertionStep)>, Diags> {
    let mut diags = Diags::default();
    let mut work = Vec::new();
    for &op in ops.iter().filter(|&&op| resharding.contains(op)) {
        let step = diags.keep_error(decide_step(program, op, form)).flatten();
        work.extend(step.map(|step| (op, step)));
    }
    diags.or_value(work)
}

fn decide_step(program: &Program, id: OpId, form: InsertionForm) -> Result<Option<InsertionStep>, Diag> {
    refuse_mixed_meshes(program, id)?;
    refuse_splits(program, id)?;
    refuse_slice(program, id)?;
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return Ok(None) };
    // Communications come from these two kinds, nvFuser's `canLower`.
    match op.kind.transfer() {
        Some(Transfer::Copy) => return Ok(None),
        Some(Transfer::Reduction) => match reduce::reduction_steps(program, id) {
            Some(steps) if steps.len() == 1 && !reduce::has_effective_initial(program, id) => {
                return Ok(None);
            }
            Some(_) => return Ok(Some(InsertionStep::Reduce)),
            None => {}
        },
        None => {}
    }
    let links = OpLinks::from_op(program, id);
    let mut operands: Vec<TensorId> = op.input_tensors().collect();
    if let &[operand] = operands.as_slice()
        && can_run_on_operand_devices(program, &links, operand, result)
    {
        return Ok(Some(InsertionStep::After));
    }
    if form.after && has_common_sharding(program, &links, &operands, result) {
        return Ok(Some(InsertionStep::After));
    }
    let mesh = program.tensor(result).mesh;
    let made = shards_made_axis(program, op.kind, result, links.as_slice());
    if made && has_common_sharding(program, &links, &operands, result) {
        return Ok(Some(InsertionStep::After));
    }
    let mut seen: Vec<TensorId> = Vec::new();
    operands.retain(|&operand| {
        let new = !seen.contains(&operand);
        seen.push(operand);
        let differs = match made {
            true => !is_sharded_as_copied(program, &links, operand, result),
            false => has_different_shardings(program, op.kind, operand, result, links.as_slice()),
        };
        new && (program.tensor(operand).mesh != mesh || differs)
    });
    let around = made || has_several_results(op);
    Ok(Some(if around { InsertionStep::Around(operands) } else { InsertionStep::Before(operands) }))
}

/// True if an operand is sharded as its copy before the op would be.
fn is_sharded_as_copied(program: &Program, links: &OpLinks, operand: TensorId, result: TensorId) -> bool {
    let types = parallel_types_like(program, links, result, operand);
    let axes = logical_axes(program, operand).axes;
    axes.iter().zip(types).all(|(axis, copied)| {
        axis.is_reduction() || axis.device_type() == Some(copied).filter(|copied| copied.is_device())
    })
}

/// Refuses a slice: it is a part of its operand's memory, so writes to a copy of it would be lost.
fn refuse_slice(program: &Program, id: OpId) -> Result<(), Diag> {
    let op = program.op(id);
    if op.kind.effect() != OpEffect::Alias || op.kind.is_mathematics() {
        return Ok(());
    }
    let [whole, slice] = [op.input_tensors().next(), op.output_tensors().next()]
        .map(|tensor| tensor.map(|t| program.tensor_name(t)).unwrap_or_default());
    let message = message!(
        "`{}` binds {} to memory of {}, but {} is on other devices or is sharded differently",
        quoted_head(op.kind.name()),
        slice,
        whole,
        slice
    );
    let note = message!(
        "take the slice into a separate tensor with the sharding of {}, and copy it: `{} = Set( that tensor )`",
        whole,
        slice
    );
    Err(Diag::error(SLICE_MOVES, program.op_span(id), message).with_note(note))
}

/// True if the op could compute a result that is sharded like its operand: every device axis of the operand is
/// an axis that the result keeps.
fn can_run_on_operand_devices(program: &Program, links: &OpLinks, operand: TensorId, result: TensorId) -> bool {
    let axes = logical_axes(program, result).axes;
    (0..).zip(&logical_axes(program, operand).axes).all(|(k, axis)| {
        let kept = links.linked_axis(operand, k, result);
        let kept = kept.and_then(|at| axes.get(at as usize));
        axis.device_type().is_none() || kept.is_some_and(|axis| !axis.is_reduction())
    })
}

/// True if the op moves no data for some sharding of its result.
fn has_common_sharding(program: &Program, links: &OpLinks, operands: &[TensorId], result: TensorId) -> bool {
    let Some((&first, rest)) = operands.split_first() else { return false };
    let mesh = program.tensor(first).mesh;
    let types = sharding_of_operands(program, links, operands, result);
    let axes = logical_axes(program, result).axes;
    let fit = operands.iter().all(|&operand| {
        (0..).zip(&logical_axes(program, operand).axes).all(|(k, axis)| {
            let at = links.linked_axis(operand, k, result).map(|at| at as usize);
            match at.and_then(|at| Some((at, axes.get(at)?))) {
                Some((at, image)) if !image.is_reduction() => {
                    let local = types[at].is_device().then_some(types[at]);
                    axis.device_type() == local
                }
                _ => axis.device_type().is_none(),
            }
        })
    });
    fit && rest.iter().all(|&operand| program.tensor(operand).mesh == mesh)
        && !(0..types.len()).any(|k| types[k].is_device() && types[..k].contains(&types[k]))
}

/// The parallel types of a result that is sharded as the operands are.
fn sharding_of_operands(
    program: &Program,
    links: &OpLinks,
    operands: &[TensorId],
    result: TensorId,
) -> Vec<ParallelType> {
    let mut types = vec![ParallelType::Serial; logical_axes(program, result).axes.len()];
    for &operand in operands {
        for (slot, found) in types.iter_mut().zip(parallel_types_like(program, links, operand, result)) {
            if !slot.is_device() && found != ParallelType::Serial {
                *slot = found;
            }
        }
    }
    let first = types.iter().position(|&found| found == ParallelType::Stream);
    keep_one_stream_axis(&mut types, first);
    types
}

/// Leaves one axis at most on the streams.
fn keep_one_stream_axis(types: &mut [ParallelType], at: Option<usize>) {
    for (k, slot) in types.iter_mut().enumerate() {
        if *slot == ParallelType::Stream && Some(k) != at {
            *slot = ParallelType::Serial;
        }
    }
}

fn count_step(cx: &mut PassCx<'_>, step: &InsertionStep) {
    match step {
        InsertionStep::Before(operands) => cx.add_count("sets-inserted", operands.len() as u64),
        InsertionStep::After => cx.add_count("sets-inserted", 1),
        InsertionStep::Around(operands) => cx.add_count("sets-inserted", operands.len() as u64 + 1),
        InsertionStep::Reduce => cx.add_count("reductions-split", 1),
    }
}

fn apply_step(
    build: &mut OpBuilder<'_, '_>,
    state: &mut InsertionState,
    id: OpId,
    step: InsertionStep,
    out: &mut Vec<OpId>,
) {
    let InsertionState { form, moved, copies } = state;
    let form = *form;
    match step {
        InsertionStep::Before(operands) => {
            copy_operands_before(build, copies, id, &operands, out);
            out.push(id);
        }
        InsertionStep::Around(operands) => {
            copy_operands_before(build, copies, id, &operands, out);
            copy_results_after(build, moved, form, id, out);
        }
        InsertionStep::After => copy_results_after(build, moved, form, id, out),
        InsertionStep::Reduce => reduce::split_reduction(build, moved, id, out),
    }
}

/// Copies operands to the devices of the result. The op itself must still be appended after the copies.
fn copy_operands_before(
    build: &mut OpBuilder<'_, '_>,
    copies: &mut SharedCopies,
    id: OpId,
    operands: &[TensorId],
    out: &mut Vec<OpId>,
) {
    let mut op: Op = build.program().op(id).clone();
    let Some(result) = op.output_tensors().next() else { return };
    let links = OpLinks::from_op(build.program(), id);
    for &operand in operands {
        let mesh = build.program().tensor(result).mesh;
        let types = parallel_types_like(build.program(), &links, result, operand);
        let copy = copies.copy_of(build, CopyPlace { operand, mesh, types }, out);
        op.replace_operand(operand, copy);
        follow_axis(build, &mut op, operand, copy);
    }
    build.edit.set_op(id, op);
}

/// Makes the axis of a select follow: it is a domain of the tensor that it selects from.
fn follow_axis(build: &OpBuilder<'_, '_>, op: &mut Op, old: TensorId, new: TensorId) {
    let program = build.program();
    let stored: Vec<u32> =
        program.logical_axes(old).into_iter().filter(|&at| !program.domains(old)[at as usize].is_reduction()).collect();
    for (_, value) in &mut op.attrs {
        if let hostir::ir::AttrValue::Domain(domain) = value {
            let at = domain.0.wrapping_sub(program.tensor(old).domains_start);
            if let Some(place) = stored.iter().position(|&printed| printed == at) {
                *domain = crate::support::builder::printed_domain(program, new, place as u32);
            }
        }
    }
}

/// Computes results on the operands' devices and copies them to their places.
fn copy_results_after(
    build: &mut OpBuilder<'_, '_>,
    moved: &mut MovedDomains,
    form: InsertionForm,
    id: OpId,
    out: &mut Vec<OpId>,
) {
    let mut op: Op = build.program().op(id).clone();
    let Some(operand) = op.input_tensors().next() else { return };
    let links = OpLinks::from_op(build.program(), id);
    let mesh = build.program().tensor(operand).mesh;
    let perm = op.ints_attr(hostir::ir::AttrKey::Perm).map(<[i64]>::to_vec);
    let mut copies = Vec::new();
    for (place, value) in build.program().op(id).results.clone().into_iter().enumerate() {
        let Some(result) = value.as_tensor().filter(|_| place < op.dependent_results().count()) else { continue };
        let types = computed_sharding(build.program(), form, id, &links, result);
        if has_several_results(&op) && is_sharded_so(build.program(), result, &types, mesh) {
            continue;
        }
        let local = reduce::declare_like_result(build, result, mesh, &types, perm.as_deref());
        op.results[place] = Value::Tensor(local);
        copies.push((result, local));
    }
    build.edit.set_op(id, op);
    out.push(id);
    for (result, local) in copies {
        out.push(build.build_set(result, local));
        reduce::drop_reduced(build, moved, result, &|_| true);
    }
}

/// The parallel types of a result that the op computes on its operands' devices.
fn computed_sharding(
    program: &Program,
    form: InsertionForm,
    id: OpId,
    links: &OpLinks,
    result: TensorId,
) -> Vec<ParallelType> {
    let operands: Vec<TensorId> = program.op(id).input_tensors().collect();
    let mut types = sharding_of_operands(program, links, &operands, result);
    if form.streams_back && is_standalone(program, id) {
        let axes = logical_axes(program, result).axes;
        let at = axes.iter().position(|axis| axis.parallel == ParallelType::Stream);
        if let Some(at) = at.filter(|&at| !types[at].is_device()) {
            types[at] = ParallelType::Stream;
            keep_one_stream_axis(&mut types, Some(at));
        }
    }
    types
}

/// True if several results hold something of the operands.
fn has_several_results(op: &Op) -> bool {
    op.dependent_results().nth(1).is_some()
}

/// True if a tensor has these parallel types, as far as devices go, and this mesh.
fn is_sharded_so(program: &Program, tensor: TensorId, types: &[ParallelType], mesh: Option<MeshId>) -> bool {
    let axes = logical_axes(program, tensor).axes;
    let mut pairs = axes.iter().zip(types);
    program.tensor(tensor).mesh == mesh
        && pairs.all(|(axis, wanted)| axis.device_type() == Some(*wanted).filter(|wanted| wanted.is_device()))
}
