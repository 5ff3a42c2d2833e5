//! The transport of each communication backend: NCCL, or copies between devices.

use crate::team::CommTeam;
use hostir::ir::CommBackend;

/// The transport of a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommTransport {
    /// NCCL's kernels.
    Nccl,
    /// Copies by the copy engines, and by kernels of our own.
    Copies,
}

/// The transport of each backend's communications; `backend=CUDA` always uses copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendTransports {
    /// Of `backend=NCCL`.
    pub nccl: CommTransport,
    /// The transport of `backend=UCC`; without one, that backend is refused.
    pub ucc: Option<CommTransport>,
}

impl Default for BackendTransports {
    fn default() -> Self {
        Self { nccl: CommTransport::Nccl, ucc: None }
    }
}

impl BackendTransports {
    /// The transport of a backend's communications; `None` if nothing carries them.
    pub fn for_backend(self, backend: CommBackend) -> Option<CommTransport> {
        match backend {
            CommBackend::Nccl => Some(self.nccl),
            CommBackend::Ucc => self.ucc,
            CommBackend::Cuda => Some(CommTransport::Copies),
        }
    }
    /// Returns true if a team needs a communicator of NCCL.
    pub fn is_over_nccl(self, team: &CommTeam) -> bool {
        team.ranks.len() > 1 && self.for_backend(team.backend) == Some(CommTransport::Nccl)
    }
}

/// Returns true if any team communicates over NCCL.
pub fn uses_nccl(teams: &[CommTeam], routes: BackendTransports) -> bool {
    teams.iter().any(|team| routes.is_over_nccl(team))
}
