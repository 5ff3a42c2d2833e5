//! Relocation entries: which commands of a schedule hold the address of which buffer, so that only these are resolved
//! again when a buffer moves.

use hostir::plan::{BufferId, BufferView, LaunchArgument};
use hostir_gpu::nccl_lowering::NcclCall;
use hostir_gpu::operand::SymbolicAddress;
use hostir_gpu::p2p::MessagePlan;
use hostir_gpu::schedule::{P2pCopy, RankSchedule, StreamCommand};
use smallvec::SmallVec;

/// The steps that access each buffer of inputs and outputs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RelocationTable {
    /// Numbers of steps, in order, by buffer; empty for buffers that never move.
    steps: Vec<Vec<u32>>,
}

impl RelocationTable {
    /// The table of the buffers that may move.
    pub(crate) fn new(schedule: &RankSchedule, rank: u32, messages: &MessagePlan, movable: &[bool]) -> Self {
        let mut steps = vec![Vec::new(); movable.len()];
        for (number, step) in schedule.steps.iter().enumerate() {
            let mut buffers: SmallVec<[BufferId; 4]> =
                accessed_views(&step.call, rank, messages).into_iter().map(|view| view.buffer).collect();
            buffers.sort_unstable();
            buffers.dedup();
            for buffer in buffers {
                if movable[buffer.0 as usize] {
                    steps[buffer.0 as usize].push(number as u32);
                }
            }
        }
        Self { steps }
    }

    /// The steps that touch a buffer.
    pub(crate) fn steps_using(&self, buffer: BufferId) -> &[u32] {
        self.steps.get(buffer.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// The views of a rank that its call reads or writes.
fn accessed_views<'c>(call: &'c StreamCommand, rank: u32, messages: &'c MessagePlan) -> SmallVec<[&'c BufferView; 4]> {
    let message_views = |message: usize| messages.list[message].ranges_of(rank).map(|range| &range.view);
    match call {
        StreamCommand::Launch { places, .. } => places.iter().filter_map(SymbolicAddress::as_view).collect(),
        StreamCommand::UserLaunch(launch) => launch.arguments.iter().filter_map(LaunchArgument::as_view).collect(),
        StreamCommand::Copy { views, .. } => views.iter().collect(),
        StreamCommand::Gemm { operands, .. } => {
            operands.iter().flatten().filter_map(SymbolicAddress::as_view).collect()
        }
        StreamCommand::StoreGemms(gemms) => gemms.addresses().filter_map(SymbolicAddress::as_view).collect(),
        StreamCommand::Transfer { message } => message_views(*message).collect(),
        StreamCommand::P2pBatch(batch) => {
            let views = batch.copies.iter().flat_map(|one| -> SmallVec<[&BufferView; 2]> {
                match one {
                    P2pCopy::Message(message) => message_views(*message).collect(),
                    P2pCopy::Local(parts) => parts.iter().map(|part| &part.view).collect(),
                }
            });
            views.collect()
        }
        StreamCommand::Record { .. } | StreamCommand::Wait { .. } | StreamCommand::Signal { .. } => SmallVec::new(),
        StreamCommand::Communicate { calls, .. } => calls.iter().flat_map(NcclCall::views).collect(),
    }
}
