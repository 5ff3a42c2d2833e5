//! Which calls of a schedule hold the address of which buffer: what has to be written anew when a buffer
//! moves, and nothing else.

use hostir::plan::{BufferId, View};
use hostir_gpu::element_range;
use hostir_gpu::nccl_lowering;
use hostir_gpu::operand::Place;
use hostir_gpu::schedule::{Call, Schedule};
use smallvec::SmallVec;

/// Steps by the buffers of inputs and outputs that they touch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Touching {
    /// Numbers of steps, in order, by buffer; empty for buffers that never move.
    steps: Vec<Vec<u32>>,
}

impl Touching {
    /// The table of the buffers that may move.
    pub(crate) fn new(schedule: &Schedule, moves: &[bool]) -> Self {
        let mut steps = vec![Vec::new(); moves.len()];
        for (number, step) in schedule.steps.iter().enumerate() {
            let mut buffers: SmallVec<[BufferId; 4]> =
                views(&step.call).into_iter().map(|view| view.buffer).collect();
            buffers.sort_unstable();
            buffers.dedup();
            for buffer in buffers {
                if moves[buffer.0 as usize] {
                    steps[buffer.0 as usize].push(number as u32);
                }
            }
        }
        Self { steps }
    }

    /// The steps that touch a buffer.
    pub(crate) fn steps(&self, buffer: BufferId) -> &[u32] {
        self.steps.get(buffer.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// The views that a call reads or writes.
fn views(call: &Call) -> SmallVec<[&View; 4]> {
    match call {
        Call::Launch { places, .. } => places.iter().filter_map(Place::view).collect(),
        Call::Copy { views, .. } => views.iter().collect(),
        Call::Product { operands, .. } => {
            operands.iter().flatten().filter_map(Place::view).collect()
        }
        // What messages and the copies beside them read and write never moves.
        Call::Record { .. }
        | Call::Wait { .. }
        | Call::Signal { .. }
        | Call::Transfer { .. }
        | Call::Exchange(_) => SmallVec::new(),
        Call::Communicate { calls, .. } => calls.iter().flat_map(parts).collect(),
    }
}

fn parts(call: &nccl_lowering::Call) -> SmallVec<[&View; 2]> {
    use nccl_lowering::Call as C;
    let both = |send, recv| -> SmallVec<[&View; 2]> {
        [send, recv].into_iter().flatten().map(|part: &element_range::Part| &part.view).collect()
    };
    match call {
        C::AllGather { send, recv }
        | C::AllReduce { send, recv, .. }
        | C::ReduceScatter { send, recv, .. }
        | C::Copy { send, recv } => both(Some(send), Some(recv)),
        C::Reduce { send, recv, .. } => both(Some(send), recv.as_ref()),
        C::Broadcast { send, recv, .. } => both(send.as_ref(), recv.as_ref()),
        C::Send { part, .. } | C::Recv { part, .. } => both(Some(part), None),
        C::Stage { .. } => SmallVec::new(),
    }
}
