//! A rank's communicators: the world of all ranks, and from it the communicator of each team with more than one member.

use crate::runtime::nccl::start_barrier::StartBarrier;
use crate::sys::driver::{CudaDevice, DeviceMemory};
use nccl_rs::{Config, Error, Library, NcclCommunicator, UniqueId, WaitLimits};
use std::sync::Arc;

/// The world communicator that all ranks join.
#[derive(Clone, Copy)]
pub(crate) struct WorldSetup<'a> {
    pub(crate) library: &'a Arc<Library>,
    /// The identifier of a new world; `None` if the world exists already.
    pub(crate) id: Option<UniqueId>,
    /// Number of ranks.
    pub(crate) size: u32,
    /// Teams that need communicators, by their index among the program's: their ranks in order.
    pub(crate) teams: &'a [(usize, &'a [u32])],
}

/// A rank as a member of the world communicator.
#[derive(Clone, Copy)]
pub(crate) struct WorldMember<'a> {
    pub(crate) device: &'a Arc<CudaDevice>,
    pub(crate) rank: u32,
    /// True if the other ranks are processes, which need a start barrier.
    pub(crate) multi_process: bool,
}

/// The communicators of a rank.
#[derive(Default)]
pub(crate) struct RankCommunicators {
    // Dropped in this order.
    /// The communicators of teams, by the team's index among the program's.
    pub(crate) teams: Vec<(usize, NcclCommunicator)>,
    /// The world communicator, if sub-communicators are split off it.
    pub(crate) world: Option<NcclCommunicator>,
    /// True if the communicators of other programs were also split off this one.
    pub(crate) lent: bool,
    pub(crate) start_barrier: Option<StartBarrier>,
}

impl RankCommunicators {
    /// Connects the communicators, and keeps that of the world in [`RankCommunicators::world`]. A rank that gives up
    /// keeps no partial communicator.
    pub(crate) fn connect_communicators(
        &mut self,
        member: WorldMember<'_>,
        world: WorldSetup<'_>,
        patience: WaitLimits<'_>,
    ) -> Result<(), Error> {
        let failed = |error: crate::sys::Error| Error::Call { call: "cuCtxSetCurrent", text: error.to_string() };
        member.device.make_current().map_err(failed)?;
        let WorldSetup { library, id, size, .. } = world;
        let all = match (self.world.take(), id) {
            (Some(all), _) => all,
            (None, Some(id)) => NcclCommunicator::init_rank(library, id, size, member.rank, patience)?,
            (None, None) => return Ok(()),
        };
        if let Err(error) = self.split_communicators(&all, member, world.teams, patience) {
            if self.lent {
                // Other programs' communicators were split off it: it is never freed.
                std::mem::forget(all);
            } else {
                // Ends the work that a thread of NCCL may still do.
                let _ = all.abort();
            }
            return Err(error);
        }
        self.world = Some(all);
        Ok(())
    }

    /// Splits the communicators of the teams and the start barrier off the world.
    fn split_communicators(
        &mut self,
        all: &NcclCommunicator,
        member: WorldMember<'_>,
        teams: &[(usize, &[u32])],
        patience: WaitLimits<'_>,
    ) -> Result<(), Error> {
        let config = Config { blocking: true };
        for (entry, ranks) in teams {
            let place = ranks.iter().position(|&other| other == member.rank);
            let (color, key) = (place.map(|_| 0), place.unwrap_or(0) as u32);
            if let Some(comm) = all.split(color, key, ranks.len() as u32, config, patience)? {
                self.teams.push((*entry, comm));
            }
        }
        if member.multi_process {
            self.start_barrier = StartBarrier::new(member.device, all, patience)?;
        }
        Ok(())
    }

    /// The communicator of a team. A team of one has none.
    pub(crate) fn team_communicator(&mut self, entry: usize) -> Option<&mut NcclCommunicator> {
        self.teams.iter_mut().find(|(other, _)| *other == entry).map(|(_, comm)| comm)
    }

    /// Takes a team's communicator away.
    pub(crate) fn remove_team(&mut self, entry: usize) -> Option<NcclCommunicator> {
        let at = self.teams.iter().position(|(other, _)| *other == entry)?;
        Some(self.teams.remove(at).1)
    }

    /// Takes all communicators except those that others were split off, and the memory of the start barrier.
    pub(crate) fn take_all(&mut self) -> (Vec<NcclCommunicator>, Option<DeviceMemory>) {
        let (start_barrier, memory) = self.start_barrier.take().map(StartBarrier::into_parts).unzip();
        let mut world = self.world.take();
        if self.lent {
            std::mem::forget(world.take());
        }
        let own = self.teams.drain(..).map(|(_, comm)| comm);
        (own.chain(start_barrier).chain(world).collect(), memory)
    }

    /// Whether no communication is in flight.
    pub(crate) fn are_ready(&self) -> bool {
        self.teams.iter().all(|(_, comm)| comm.in_progress("ncclCommGetAsyncError") == Ok(false))
    }
}
