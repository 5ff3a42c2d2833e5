//! Reductions over NCCL that a kernel of ours combines.

use crate::nccl_lowering::gathered_reduction::GatheredReduction;
use crate::p2p;
use crate::schedule::{Builder, StreamCommand};
use crate::unsupported::Unsupported;
use hostir::plan::WorkSlot;

impl Builder<'_> {
    /// Sends, receives, and what a member does with what it received.
    pub(super) fn schedule_gathered(
        &mut self,
        entry: usize,
        GatheredReduction { calls, combine }: GatheredReduction,
        [queue, stream]: [usize; 2],
        work: WorkSlot,
    ) -> Result<(), Unsupported> {
        self.issue_on_queue(queue, stream, &[work], |own, stream| {
            if !calls.is_empty() {
                own.push(StreamCommand::Communicate { entry, calls }, stream);
            }
            match &combine {
                Some(combine) => own.schedule_job(p2p::generate_combine(combine)?, stream),
                None => Ok(()),
            }
        })
    }
}
