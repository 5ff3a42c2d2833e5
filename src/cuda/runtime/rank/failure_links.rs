//! A rank's links to the other ranks for failures: it polls theirs and reports its own.

use crate::runtime::failure::{FailureCause, RankFailure};
use crate::runtime::failure_latch::FailureFlag;
use crate::runtime::teardown::TeardownTask;
use hostir::backend::control_plane::ControlPlane;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit for finding out which process caused an NCCL error.
const HEARSAY: Duration = Duration::from_millis(400);

/// The failure latch, the other processes, and the rank's own teardown.
#[derive(Default)]
pub(crate) struct FailureLinks {
    /// The other ranks, if they are processes.
    pub(crate) peers: Option<Arc<dyn ControlPlane>>,
    /// The failure latch of this process's ranks.
    pub(crate) alarm: Arc<FailureFlag>,
    /// The teardown of work that was in flight when the rank failed.
    pub(crate) ending: Option<TeardownTask>,
}

impl FailureLinks {
    /// Fails if another rank of this process or another process failed. It does not query NCCL, whose answer may take
    /// much longer than a step.
    pub(crate) fn check_other_ranks(&self, own: u32) -> Result<(), RankFailure> {
        if let Some(rank) = self.alarm.first_failed().filter(|rank| *rank != own) {
            return Err(RankFailure::sibling_failed(rank));
        }
        if let Some(error) = self.peers.as_ref().and_then(|peers| peers.peer_failure()) {
            return Err(RankFailure::peer_failed(error));
        }
        Ok(())
    }

    /// Attributes a failure of this rank to its cause, which may be another process.
    pub(crate) fn find_root_cause(&self, failure: RankFailure) -> RankFailure {
        root_cause(self.peers.as_deref(), failure)
    }
}

/// NCCL notices that a process is gone, but not which one or why; the poison word arrives before the report of the rank
/// that set it. The other processes may report the cause in a moment.
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
        // Errors of other libraries are attributed to this rank.
        let own = RankFailure::from(Error::NoMemory { bytes: 1, free: 0 });
        assert_eq!(root_cause(Some(&ranks[0]), own.clone()), own);
    }
}
