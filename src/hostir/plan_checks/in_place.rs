//! Instructions whose operands and result share memory.
//!
//! An instruction of a stream may overwrite an operand if it reads each element only for the same element of the
//! result.
//!
//! A collective reads its input while it writes its output, so the two may share elements only where a library works in
//! place: a member's own shard of the whole tensor, or tensors of one size in the same memory.

use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{OpId, bare_head};
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, CollectiveInst, CollectiveKind, Inst, InstKind, Plan, RepeatedBody};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns true if an instruction reads each element of an operand (by its index among the views that it reads) only
/// for the element of the result with the same index, if both have the same axes.
pub(super) fn is_elementwise_operand(kind: &InstKind, operand: usize) -> bool {
    match kind {
        InstKind::Copy { .. } | InstKind::Kernel(_) | InstKind::Reduce(_) => true,
        // The bias; the index; the base.
        InstKind::Gemm(gemm) => operand == 2 && gemm.bias.is_some(),
        InstKind::Take(_) => operand == 1,
        InstKind::Accumulate(_) => operand == 0,
        // On the CPU its reference runs, in which an op after the first one would read what that has overwritten.
        InstKind::Launch(launch) => launch.reference.as_ref().is_some_and(|reference| {
            let mut ops = reference.iter().filter(|kind| !kind.is_lifetime());
            matches!((ops.next(), ops.next()), (Some(InstKind::Kernel(_) | InstKind::Copy { .. }), None))
        }),
        _ => false,
    }
}

/// Returns true if an instruction may read elements that it writes, in any order: a kernel of the user that nothing
/// stands in for.
pub(super) fn orders_itself(kind: &InstKind) -> bool {
    matches!(kind, InstKind::Launch(launch) if launch.reference.is_none())
}

/// The maximum number of elements whose positions are compared one by one.
const MOST_COMPARED: usize = 1 << 16;

/// Returns true if each common element of both views is at the same index in both, so that an element-wise op reads it
/// for itself alone.
pub(super) fn have_common_indices(read: &BufferView, written: &BufferView) -> bool {
    if is_same_view(read, written) {
        return true;
    }
    let [extents, others] = [read, written].map(|view| view.dims.iter().map(|dim| dim.extent).filter(|&one| one > 1));
    if !extents.eq(others) || written.len() > MOST_COMPARED {
        return false;
    }
    let indices: FxHashMap<usize, usize> = element_places(written).into_iter().zip(0..).collect();
    element_places(read)
        .into_iter()
        .enumerate()
        .all(|(index, place)| indices.get(&place).is_none_or(|&own| own == index))
}

/// The positions in the buffer of a view's elements, in row-major order.
fn element_places(view: &BufferView) -> Vec<usize> {
    view.dims.iter().fold(vec![view.offset], |places, dim| {
        places.into_iter().flat_map(|place| (0..dim.extent).map(move |at| place + at * dim.stride)).collect()
    })
}

/// Returns true if both views have the same elements at the same indices.
fn is_same_view(one: &BufferView, other: &BufferView) -> bool {
    let [dims, others] = [one, other].map(|view| view.dims.iter().filter(|dim| dim.extent > 1));
    one.buffer == other.buffer && one.offset == other.offset && dims.eq(others)
}

/// The errors for collectives that read an element and write it at another position; one for each op.
pub(super) fn check_in_place(prepared: &PreparedProgram) -> Vec<Diag> {
    let mut known: FxHashSet<OpId> = FxHashSet::default();
    let mut errors = Vec::new();
    for plan in prepared.plans.iter().filter(|plan| may_work_in_place(plan)) {
        for (_, inst) in plan.cursor() {
            if let Some((collective, view)) = misplaced_output(plan, &inst).filter(|_| known.insert(inst.origin.op)) {
                errors.push(describe_misplaced(prepared, plan, &inst, collective, view));
            }
        }
    }
    errors
}

/// Returns true if a collective of the plan has its input and its output in one buffer.
fn may_work_in_place(plan: &Plan) -> bool {
    let mut insts = plan.repeated_bodies().flat_map(RepeatedBody::first_round);
    insts.any(|inst| inst.template_inst().kind.collective().is_some() && shared_views(&inst.unfold_inst()).is_some())
}

/// A collective with its input and its output, if they are in one buffer.
fn shared_views(inst: &Inst) -> Option<(&CollectiveInst, &BufferView, &BufferView)> {
    let InstKind::Collective(collective) = &inst.kind else { return None };
    let (input, output) = (collective.input.as_ref()?, collective.output.as_ref()?);
    (input.buffer == output.buffer).then_some((collective, input, output))
}

/// A collective with an invalid overlap of input and output, and its output.
fn misplaced_output<'i>(plan: &Plan, inst: &'i Inst) -> Option<(&'i CollectiveInst, &'i BufferView)> {
    let (collective, input, output) = shared_views(inst)?;
    let overlaps = input.offset < output.offset + output.len() && output.offset < input.offset + input.len();
    (overlaps && !is_in_place(plan, collective, input, output)).then_some((collective, output))
}

/// Returns true if input and output are placed as the library's in-place form of the collective requires.
fn is_in_place(plan: &Plan, collective: &CollectiveInst, input: &BufferView, output: &BufferView) -> bool {
    let team = &plan.communicators[collective.comm].team;
    let Some(position) = team.iter().position(|&rank| rank == plan.rank) else { return true };
    match collective.kind {
        CollectiveKind::Allgather | CollectiveKind::Gather => input.offset == output.offset + position * input.len(),
        CollectiveKind::ReduceScatter | CollectiveKind::Scatter => {
            output.offset == input.offset + position * output.len()
        }
        CollectiveKind::Allreduce | CollectiveKind::Reduce | CollectiveKind::Broadcast | CollectiveKind::SendRecv => {
            input.offset == output.offset
        }
        CollectiveKind::AllToAll => false,
    }
}

fn describe_misplaced(
    prepared: &PreparedProgram,
    plan: &Plan,
    inst: &Inst,
    collective: &CollectiveInst,
    output: &BufferView,
) -> Diag {
    let labels = &prepared.labels;
    let op = inst.origin.op;
    let name = labels.quoted_tensor(plan.buffers[output.buffer].tensor);
    let message = message!("race on {}: `{}` both reads and writes it", name, labels.quoted_statement(op));
    let own_shard = matches!(
        collective.kind,
        CollectiveKind::Allgather | CollectiveKind::Gather | CollectiveKind::ReduceScatter | CollectiveKind::Scatter
    );
    let rule = match (collective.kind, own_shard) {
        (CollectiveKind::AllToAll, _) => {
            message!("{} does not work in place: give it an output of its own", bare_head("AllToAll"))
        }
        (kind, true) => {
            message!("{} works in place only where the smaller side is the rank's own shard", bare_head(kind.name()))
        }
        (kind, false) => {
            message!("{} works in place only where input and output are the same memory", bare_head(kind.name()))
        }
    };
    Diag::error(codes::RACE, labels.op_span(op), message)
        .with_note(message!("on rank {}, in {}", plan.rank, labels.origin_text(plan, inst.origin)))
        .with_note(rule)
}
