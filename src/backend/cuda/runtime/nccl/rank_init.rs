//! A rank's communicators: the world of all ranks, and from it each team that has members to talk to.

use crate::runtime::rank::RankRuntime;
use nccl_rs::{Config, Error, Library, NcclCommunicator, UniqueId, WaitLimits};
use std::sync::Arc;

/// The world communicator that all ranks join.
#[derive(Clone, Copy)]
pub(crate) struct WorldSetup<'a> {
    pub(crate) library: &'a Arc<Library>,
    /// Of a new world; there is one already without it.
    pub(crate) id: Option<UniqueId>,
    /// Number of ranks.
    pub(crate) size: u32,
    /// Teams that need communicators, by their place among the program's: their ranks in order.
    pub(crate) teams: &'a [(usize, &'a [u32])],
}

impl RankRuntime<'_> {
    /// Joins the communicators, and leaves that of the world in [`Rank::world`]. Who gives up leaves nothing
    /// half made.
    pub(crate) fn connect_communicators(
        &mut self,
        world: WorldSetup<'_>,
        patience: WaitLimits<'_>,
    ) -> Result<(), Error> {
        self.device.make_current().map_err(|error| Error::Call { call: "cuCtxSetCurrent", text: error.to_string() })?;
        let WorldSetup { library, id, size, .. } = world;
        let all = match (self.world.take(), id) {
            (Some(all), _) => all,
            (None, Some(id)) => NcclCommunicator::init_rank(library, id, size, self.plan.rank, patience)?,
            (None, None) => return Ok(()),
        };
        let made = self.split_communicators(&all, world.teams, patience);
        let made = made.and_then(|()| self.create_start_barrier(&all, patience));
        if let Err(error) = made {
            if self.lent {
                // Other programs' communicators came from it: it stays where it is.
                std::mem::forget(all);
            } else {
                // Ends what a thread of NCCL's may still be at.
                let _ = all.abort();
            }
            return Err(error);
        }
        self.world = Some(all);
        Ok(())
    }

    fn split_communicators(
        &mut self,
        all: &NcclCommunicator,
        teams: &[(usize, &[u32])],
        patience: WaitLimits<'_>,
    ) -> Result<(), Error> {
        let config = Config { blocking: true };
        for (entry, ranks) in teams {
            let place = ranks.iter().position(|&other| other == self.plan.rank);
            let (color, key) = (place.map(|_| 0), place.unwrap_or(0) as u32);
            if let Some(comm) = all.split(color, key, ranks.len() as u32, config, patience)? {
                self.comms.push((*entry, comm));
            }
        }
        Ok(())
    }

    /// Puts the communicators into the order in which this rank's calls know them. Members of teams of one
    /// have none and make no calls of NCCL.
    pub(crate) fn sort_communicators(&mut self) {
        self.comms.sort_by_key(|(entry, _)| self.schedule.members.iter().position(|(other, _)| other == entry));
    }
}
