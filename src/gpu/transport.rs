//! The transport of each communication backend: NCCL, or copies between devices.

use crate::team::CommTeam;

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
    /// The route of a backend by its name.
    pub fn for_backend(self, backend: &str) -> Option<CommTransport> {
        match backend {
            "NCCL" => Some(self.nccl),
            "UCC" => self.ucc,
            "CUDA" => Some(CommTransport::Copies),
            _ => None,
        }
    }
}

/// Returns true if any team communicates over NCCL.
pub fn uses_nccl(teams: &[(String, CommTeam)], routes: BackendTransports) -> bool {
    let mut teams = teams.iter();
    teams.any(|(backend, team)| team.ranks.len() > 1 && routes.for_backend(backend) == Some(CommTransport::Nccl))
}
