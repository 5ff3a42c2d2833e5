//! The transport of each communication backend: NCCL, or copies between devices.

use crate::team::CommTeam;

/// What carries a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommTransport {
    /// NCCL's kernels.
    Nccl,
    /// Copies by the copy engines, and by kernels of ours.
    Copies,
}

/// What carries the communications of each backend; `backend=CUDA` is always copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendTransports {
    /// Of `backend=NCCL`.
    pub nccl: CommTransport,
    /// Of `backend=UCC`, which is refused if nothing carries it.
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

/// Whether anything of a team's goes over NCCL.
pub fn uses_nccl(teams: &[(String, CommTeam)], routes: BackendTransports) -> bool {
    let mut teams = teams.iter();
    teams.any(|(backend, team)| team.ranks.len() > 1 && routes.for_backend(backend) == Some(CommTransport::Nccl))
}
