//! Routes from bound tensors to a program's inputs and outputs: in place, by a copy before or after the run, or in
//! memory of the session's own.

use crate::runtime::io_binding::IoSide;
use crate::runtime::io_binding::tensor_check::{StridedTensor, VECTOR};
use hostir::plan::{BufferKind, BufferView, Plan};
use hostir_gpu::memory_layout::ALIGNMENT;
use hostir_gpu::operand::SymbolicAddress;
use hostir_gpu::schedule::{RankSchedule, StreamCommand};

/// The binding slot of an input or output: where a plan keeps it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BindingSlot {
    pub(crate) side: IoSide,
    /// Position among the inputs or outputs.
    pub(crate) position: usize,
    pub(crate) view: BufferView,
    /// True if a caller's memory can replace the slot's buffer: the buffer holds only this tensor, and only the
    /// program's own calls access it.
    pub(crate) replaceable: bool,
    /// True if the slot's buffer belongs to an input.
    pub(crate) of_input: bool,
    /// True if the program writes the slot.
    pub(crate) written: bool,
    /// The fixed address of the slot in the caller's symmetric memory, which other ranks know as well.
    pub(crate) fixed: Option<u64>,
    /// The alignment that the calls assume of the buffer's address, in bytes.
    pub(crate) alignment: u64,
}

/// The way in which a program accesses a bound input or output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BindingRoute {
    /// Nothing is bound: the session's own memory.
    Own,
    /// The caller's memory takes the place of the buffer.
    InPlace,
    /// The session's own memory, and a copy.
    Copied,
    /// An output that is already where the caller wants it.
    There,
}

/// Two inputs or outputs (numbers among the binding slots) whose memory may not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BindingConflict(pub(crate) usize, pub(crate) usize);

/// The binding slots of a rank's inputs and then its outputs; `None` where the rank has no shard.
pub(crate) fn binding_slots(plan: &Plan, schedule: &RankSchedule, external: &[bool]) -> Vec<Option<BindingSlot>> {
    let alignments = required_alignments(plan, schedule);
    let mut written = vec![false; plan.buffers.len()];
    for inst in plan.iter() {
        inst.kind.written_views().iter().for_each(|view| written[view.buffer.0 as usize] = true);
    }
    let io_slot = |side: IoSide, position: usize, view: &BufferView| {
        let at = view.buffer.0 as usize;
        let buffer = &plan.buffers[view.buffer];
        let of_input = matches!(buffer.kind, BufferKind::Input(_));
        BindingSlot {
            side,
            position,
            view: view.clone(),
            replaceable: external[at] && owns_buffer(plan, side, view),
            fixed: None,
            of_input,
            written: side == IoSide::Output || written[at],
            alignment: alignments[at],
        }
    };
    let of = |side: IoSide, views: &[Option<BufferView>]| -> Vec<Option<BindingSlot>> {
        let views = views.iter().enumerate();
        views.map(|(position, view)| Some(io_slot(side, position, view.as_ref()?))).collect()
    };
    let mut all = of(IoSide::Input, &plan.inputs);
    all.extend(of(IoSide::Output, &plan.outputs));
    all
}

/// Returns true if a buffer holds an input or output, all of it and nothing else.
pub(crate) fn owns_buffer(plan: &Plan, side: IoSide, view: &BufferView) -> bool {
    let buffer = &plan.buffers[view.buffer];
    let whole = view.offset == 0 && view.is_contiguous() && view.len() == buffer.elements;
    let sharing = plan.outputs.iter().flatten().filter(|other| other.buffer == view.buffer).count();
    whole && (side == IoSide::Input || (!matches!(buffer.kind, BufferKind::Input(_)) && sharing == 1))
}

/// The alignment of each buffer's address that the schedule's calls assume. Kernels read 16 bytes at a time;
/// GEMM algorithms were chosen for the alignments of their operands.
fn required_alignments(plan: &Plan, schedule: &RankSchedule) -> Vec<u64> {
    let mut found = vec![VECTOR; plan.buffers.len()];
    for step in &schedule.steps {
        let operands: Vec<&SymbolicAddress> = match &step.call {
            StreamCommand::Gemm { operands, .. } => operands.iter().flatten().collect(),
            StreamCommand::StoreGemms(gemms) => gemms.addresses().collect(),
            _ => continue,
        };
        for view in operands.into_iter().filter_map(SymbolicAddress::as_view) {
            let bytes = view.offset * view.dtype.byte_size();
            let promised = if bytes == 0 { ALIGNMENT } else { 1 << bytes.trailing_zeros().min(8) };
            let needed = &mut found[view.buffer.0 as usize];
            *needed = (*needed).max(promised as u64);
        }
    }
    found
}

/// Decides the route of every slot; fails where the order of a run's reads and writes would show.
pub(crate) fn choose_routes(
    io_slots: &[Option<BindingSlot>],
    bound: &[Option<StridedTensor>],
) -> Result<Vec<BindingRoute>, BindingConflict> {
    let mut routes: Vec<BindingRoute> =
        io_slots.iter().zip(bound).map(|(io_slot, tensor)| route_without_overlap(io_slot.as_ref(), tensor)).collect();
    let overlapping: Vec<(usize, &BindingSlot, &StridedTensor)> = io_slots
        .iter()
        .zip(bound)
        .enumerate()
        .filter_map(|(at, (io_slot, tensor))| Some((at, io_slot.as_ref()?, tensor.as_ref()?)))
        .filter(|(_, io_slot, _)| !io_slot.view.is_empty())
        .collect();
    // Inputs come first: the outputs need to know which of them the program writes.
    for &(at, io_slot, tensor) in overlapping.iter().filter(|(_, io_slot, _)| io_slot.written) {
        for &(other, its, theirs) in &overlapping {
            let seen = its.written && other <= at;
            if other == at || seen || !tensor.overlaps(theirs) {
                continue;
            }
            let (input, output) = if at < other { (at, other) } else { (other, at) };
            if is_already_in_place(&overlapping, input, output, &routes) {
                routes[output] = BindingRoute::There;
            } else if is_written_last(io_slot, its) {
                // Written only when everything has been read.
                routes[at] = BindingRoute::Copied;
            } else {
                return Err(BindingConflict(input, output));
            }
        }
    }
    Ok(routes)
}

/// The route of a tensor that overlaps no other one.
fn route_without_overlap(io_slot: Option<&BindingSlot>, tensor: &Option<StridedTensor>) -> BindingRoute {
    let (Some(io_slot), Some(tensor)) = (io_slot, tensor) else { return BindingRoute::Own };
    if io_slot.view.is_empty() {
        return BindingRoute::Own;
    }
    let aligned = tensor.data_address().is_multiple_of(io_slot.alignment);
    match io_slot.replaceable && tensor.view.is_contiguous() && aligned {
        true => BindingRoute::InPlace,
        false => BindingRoute::Copied,
    }
}

/// Returns true if an output can be kept until the program has read an input that it overlaps. Other ranks write
/// symmetric memory when they are ready.
fn is_written_last(output: &BindingSlot, input: &BindingSlot) -> bool {
    let sides = (output.side, input.side) == (IoSide::Output, IoSide::Input);
    sides && !shares_buffer(output, input) && output.fixed.is_none()
}

/// Returns true if an output resides in the buffer of an input.
fn shares_buffer(output: &BindingSlot, input: &BindingSlot) -> bool {
    output.view.buffer == input.view.buffer
}

/// Returns true if an output that is kept in an input's buffer is bound exactly where that input is.
fn is_already_in_place(
    overlapping: &[(usize, &BindingSlot, &StridedTensor)],
    input: usize,
    output: usize,
    routes: &[BindingRoute],
) -> bool {
    let find = |number: usize| overlapping.iter().find(|(at, ..)| *at == number);
    let (Some((_, input_home, source)), Some((_, output_home, target))) = (find(input), find(output)) else {
        return false;
    };
    if input_home.side != IoSide::Input || output_home.side != IoSide::Output || !shares_buffer(output_home, input_home)
    {
        return false;
    }
    match routes.get(input) {
        Some(BindingRoute::InPlace) => {
            let kept = StridedTensor { base: source.data_address(), view: output_home.view.clone() };
            kept.is_same_tensor(target)
        }
        _ => output_home.view == input_home.view && source.is_same_tensor(target),
    }
}
