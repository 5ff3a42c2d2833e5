//! The transport of each communication backend: NCCL, or copies between devices.

use crate::team::Team;

/// What carries a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// NCCL's kernels.
    Nccl,
    /// Copies by the copy engines, and by kernels of ours.
    Copies,
}

/// What carries the communications of each backend; `backend=CUDA` is always copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routes {
    /// Of `backend=NCCL`.
    pub nccl: Route,
    /// Of `backend=UCC`, which is refused if nothing carries it.
    pub ucc: Option<Route>,
}

impl Default for Routes {
    fn default() -> Self {
        Self { nccl: Route::Nccl, ucc: None }
    }
}

impl Routes {
    /// The route of a backend by its name.
    pub fn of(self, backend: &str) -> Option<Route> {
        match backend {
            "NCCL" => Some(self.nccl),
            "UCC" => self.ucc,
            "CUDA" => Some(Route::Copies),
            _ => None,
        }
    }
}

/// Whether anything of a team's goes over NCCL.
pub fn over_nccl(teams: &[(String, Team)], routes: Routes) -> bool {
    let mut teams = teams.iter();
    teams.any(|(backend, team)| team.ranks.len() > 1 && routes.of(backend) == Some(Route::Nccl))
}
