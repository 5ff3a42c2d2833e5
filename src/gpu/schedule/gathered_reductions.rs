//! Reductions whose data goes over NCCL and which a kernel of our own combines.

use crate::nccl_lowering::gathered_reduction::GatheredReduction;
use crate::p2p;
use crate::schedule::{Builder, StreamCommand};
use crate::unsupported::Unsupported;
use hostir::plan::WorkSlot;

impl Builder<'_> {
    /// Schedules sends, receives, and a member's combination of the received data.
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
