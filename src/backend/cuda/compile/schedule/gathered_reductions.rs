//! Reductions over NCCL that a kernel of ours combines.

use crate::nccl_lowering::gathered_reduction::Gathered;
use crate::p2p;
use crate::schedule::{Builder, Call};
use crate::unsupported::Unsupported;
use hostir::plan::WorkSlot;

impl Builder<'_> {
    /// Sends, receives, and what a member does with what it received.
    pub(super) fn gathered(
        &mut self,
        entry: usize,
        Gathered { calls, combine }: Gathered,
        [queue, stream]: [usize; 2],
        work: WorkSlot,
    ) -> Result<(), Unsupported> {
        self.post(queue, stream, &[work], |own, stream| {
            if !calls.is_empty() {
                own.push(Call::Communicate { entry, calls }, stream);
            }
            match &combine {
                Some(combine) => own.job(p2p::combine(combine)?, stream),
                None => Ok(()),
            }
        })
    }
}
