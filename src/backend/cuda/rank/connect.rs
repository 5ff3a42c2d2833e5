//! A rank's communicators: the world of all ranks, and from it each team that has members to talk to.

use super::Rank;
use crate::backend::cuda::comm::Team;
use crate::backend::cuda::messages::{Route, Routes};
use nccl_rs::{Communicator, Config, Error, Library, Patience, UniqueId};
use std::sync::Arc;

/// What all ranks join.
#[derive(Clone, Copy)]
pub(in super::super) struct World<'a> {
    pub(in super::super) library: &'a Arc<Library>,
    pub(in super::super) id: UniqueId,
    /// Number of ranks.
    pub(in super::super) size: u32,
    /// All teams of the program, with the backends of their communications.
    pub(in super::super) teams: &'a [(String, Team)],
    pub(in super::super) routes: Routes,
}

impl Rank<'_> {
    /// Joins the communicators. Who gives up leaves nothing half made.
    pub(in super::super) fn connect(
        &mut self,
        world: World<'_>,
        patience: Patience<'_>,
    ) -> Result<(), Error> {
        self.device
            .make_current()
            .map_err(|error| Error::Call { call: "cuCtxSetCurrent", text: error.to_string() })?;
        let World { library, id, size, .. } = world;
        let all = Communicator::join(library, id, size, self.plan.rank, patience)?;
        let made = self.split(&all, world, patience);
        let made = made.and_then(|()| self.join_together(&all, patience));
        if let Err(error) = made {
            // Ends what a thread of NCCL's may still be at.
            let _ = all.abort();
            return Err(error);
        }
        // Members of teams of one have no communicator and make no calls of NCCL.
        self.comms.sort_by_key(|(entry, _)| {
            self.schedule.members.iter().position(|(other, _)| other == entry)
        });
        Ok(())
    }

    fn split(
        &mut self,
        all: &Communicator,
        world: World<'_>,
        patience: Patience<'_>,
    ) -> Result<(), Error> {
        let config = Config { blocking: true };
        for (entry, (backend, team)) in world.teams.iter().enumerate() {
            if team.ranks.len() < 2 || world.routes.of(backend) != Some(Route::Nccl) {
                continue;
            }
            let place = team.ranks.iter().position(|&other| other == self.plan.rank);
            let (color, key) = (place.map(|_| 0), place.unwrap_or(0) as u32);
            let size = team.ranks.len() as u32;
            if let Some(comm) = all.split(color, key, size, config, patience)? {
                self.comms.push((entry, comm));
            }
        }
        Ok(())
    }
}
