//! Coordination of a rank with the processes of other ranks: a start barrier for measured runs, and a common cause
//! of failures.
//!
//! Threads of one process wait at a barrier. Processes wait over the network and leave some tens of microseconds apart,
//! which a device would spend waiting in its first communication. All devices therefore synchronize once more, by an
//! all-reduce of one number, before the clock starts.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{FailureCause, RankFailure, RunProgress};
use crate::runtime::rank::RankRuntime;
use crate::sys::driver::DeviceMemory;
use hostir::backend::control_plane::ControlPlane;
use nccl_rs::{Config, DataType, NcclCommunicator, NcclRedOp, WaitLimits};
use std::time::{Duration, Instant};

/// The time limit for finding out which process caused an NCCL error.
const HEARSAY: Duration = Duration::from_millis(400);

/// A communicator of all ranks, and the number they exchange.
pub(crate) struct StartBarrier {
    pub(crate) comm: NcclCommunicator,
    number: DeviceMemory,
}

impl RankRuntime<'_> {
    /// Makes the communicator, if ranks are processes.
    pub(crate) fn create_start_barrier(
        &mut self,
        all: &NcclCommunicator,
        patience: WaitLimits<'_>,
    ) -> Result<(), nccl_rs::Error> {
        if self.peers.is_none() {
            return Ok(());
        }
        let number = DeviceMemory::new(&self.device, size_of::<f32>())
            .map_err(|error| nccl_rs::Error::Call { call: "cuMemAlloc", text: error.to_string() })?;
        let config = Config { blocking: true };
        let comm = all.split(Some(0), all.rank(), all.size(), config, patience)?;
        self.together = comm.map(|comm| StartBarrier { comm, number });
        Ok(())
    }

    /// The communicator and its number, of a rank that gives up. To free the number would wait for the device.
    pub(crate) fn take_start_barrier(&mut self) -> (Option<NcclCommunicator>, Option<DeviceMemory>) {
        self.together.take().map(|together| (together.comm, together.number)).unzip()
    }

    /// Attributes a failure of this rank to its cause, which may be another process.
    pub(crate) fn find_root_cause(&self, failure: RankFailure) -> RankFailure {
        root_cause(self.peers.as_deref(), failure)
    }

    /// Waits until all other ranks are here too. Nothing is issued meanwhile: work that waits on the device
    /// would start all at once, and not in the order of a run.
    pub(crate) fn wait_at_start_barrier(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        let Some(StartBarrier { comm, number }) = &mut self.together else { return Ok(()) };
        let (at, stream) = (number.address(), self.streams[0].as_nccl());
        // SAFETY: the number has an allocation of its own, kept beside the communicator; all ranks make this call.
        unsafe { comm.all_reduce(at, at, 1, DataType::Float32, NcclRedOp::Max, stream) }?;
        self.wait_with_progress(timeout, |_| RunProgress::Before)
    }
}

/// NCCL notices too when a process is gone, but not which one, and why it went; poison is there before the words of
/// whoever set it. The other processes may say so in a moment.
fn root_cause(peers: Option<&dyn ControlPlane>, failure: RankFailure) -> RankFailure {
    let hearsay = matches!(failure.cause, FailureCause::Nccl(_) | FailureCause::Poisoned(_));
    let Some(peers) = peers.filter(|_| hearsay) else {
        return failure;
    };
    let deadline = Instant::now() + HEARSAY;
    while Instant::now() < deadline {
        if let Some(error) = peers.peer_failure() {
            return RankFailure { cause: FailureCause::Peer(error), ..failure };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Error;
    use hostir::backend::control_plane::ThreadControlPlane;

    #[test]
    fn a_peer_that_failed_is_named_instead_of_what_nccl_says() {
        let ranks = ThreadControlPlane::new(2, Duration::from_secs(1));
        let given_up = || RankFailure::from(nccl_rs::Error::GivenUp { call: "ncclCommSplit" });
        assert_eq!(root_cause(None, given_up()), given_up());
        ranks[1].report_failure("H0521\n\nno device memory");
        let failure = root_cause(Some(&ranks[0]), given_up());
        assert_eq!(failure.cause, FailureCause::Peer(ranks[0].peer_failure().unwrap()));
        // What another library says is this rank's own trouble.
        let own = RankFailure::from(Error::NoMemory { bytes: 1, free: 0 });
        assert_eq!(root_cause(Some(&ranks[0]), own.clone()), own);
    }
}
