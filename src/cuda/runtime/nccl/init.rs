//! The communicators of all ranks of this process: those that an earlier program left, and new ones.
//!
//! Creating a communicator takes every rank, so the others would wait for a failed rank until the timeout. A waiting
//! rank therefore polls the state of the others: threads of this process by their failure latch, other processes by
//! [`ControlPlane::peer_failure`](hostir::backend::control_plane::ControlPlane::peer_failure).
//!
//! A communicator belongs to one program until that is dropped. The next program may reuse it if all its members
//! are of this process (other processes would have to reuse theirs too) and it was never captured in a graph (NCCL
//! releases what it keeps for a graph some time after the graph).

use crate::runtime::failure::RankFailure;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::nccl::rank_communicators::{WorldMember, WorldSetup};
use crate::runtime::options::{Options, ParentCommunicator};
use crate::runtime::process_group;
use crate::runtime::rank::RankRuntime;
use crate::runtime::resource_cache::{CommunicatorKey, ResourceCache};
use crate::runtime::teardown;
use crate::runtime::teardown::RankResources;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir_gpu::team::CommTeam;
use hostir_gpu::transport::BackendTransports;
use nccl_rs::{Error, Library, NcclCommunicator, UniqueId, WaitLimits};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// A team whose communicators later programs may reuse: its index among the program's teams, its ranks, and its link.
pub(crate) type CacheableTeam = (usize, Vec<u32>, CommunicatorKey);

/// The communicators of a program that later programs may take over.
#[derive(Default)]
pub(crate) struct CacheableCommunicators {
    teams: Vec<CacheableTeam>,
    /// The world communicator that those of the teams are split off.
    world: Option<CommunicatorKey>,
}

/// The teams that need a communicator: their indices, and their ranks in order.
fn teams_over_nccl(teams: &[CommTeam], routes: BackendTransports) -> Vec<(usize, &[u32])> {
    let over_nccl = teams.iter().enumerate().filter(|(_, team)| routes.is_over_nccl(team));
    over_nccl.map(|(entry, team)| (entry, team.ranks.as_slice())).collect()
}

/// The indices of these teams, in an order that is the same on all ranks.
pub(crate) fn nccl_team_indices(teams: &[CommTeam], routes: BackendTransports) -> Vec<usize> {
    teams_over_nccl(teams, routes).into_iter().map(|(entry, _)| entry).collect()
}

/// Whether NCCL can be opened by its usual names.
pub(crate) fn is_nccl_present() -> bool {
    // SAFETY: the usual names are NCCL's.
    #[allow(unsafe_code, reason = "opens NCCL")]
    let library = unsafe { Library::open(None) };
    library.is_ok()
}

/// Connects the communicators; returns NCCL's version for messages.
pub(crate) fn connect_communicators(
    loaded: &mut LoadedProgram<'_>,
    teams: &[CommTeam],
    options: &Options,
) -> Result<String, Vec<Diag>> {
    let file = options.nccl.as_ref().map(|file| file.0.clone());
    // SAFETY: whoever named the file promised that it is NCCL; the usual names are NCCL's.
    #[allow(unsafe_code, reason = "opens NCCL")]
    let library = unsafe { Library::open(file) }.map_err(nccl_diags)?;
    let cache = (!loaded.process_group.is_multi_process() && !options.graph).then_some(&options.cache);
    let mut teams = teams_over_nccl(teams, options.routes);
    if let Some(cache) = cache {
        let lent = teams
            .iter()
            .map(|(entry, ranks)| (*entry, ranks.to_vec(), communicator_key(&loaded.ranks, ranks, options)));
        loaded.cacheable.teams = lent.collect();
        loaded.cacheable.world = Some(communicator_key(&loaded.ranks, &rank_numbers(loaded), options));
        take_cached(loaded, &mut teams, cache);
    }
    if !teams.is_empty() || cache.is_none() {
        create_communicators(loaded, &library, &teams, cache, options)?;
    }
    loaded.ranks.iter_mut().for_each(sort_communicators);
    let (major, minor, patch) = library.version().map_err(nccl_diags)?;
    Ok(format!(", NCCL {major}.{minor}.{patch}"))
}

fn rank_numbers(loaded: &LoadedProgram<'_>) -> Vec<u32> {
    loaded.prepared.plans.iter().map(|plan| plan.rank).collect()
}

/// Returns the link of a team of this process's ranks: its library and devices.
fn communicator_key(all: &[RankRuntime<'_>], ranks: &[u32], options: &Options) -> CommunicatorKey {
    let found = ranks.iter().map(|rank| all.iter().find(|one| one.plan.rank == *rank));
    let devices = found.map(|rank| rank.map_or(usize::MAX, |rank| rank.device.ordinal()));
    CommunicatorKey { nccl: options.nccl.clone(), devices: devices.collect() }
}

/// Takes the communicators that an earlier program left; `teams` keeps the teams without one.
fn take_cached(loaded: &mut LoadedProgram<'_>, teams: &mut Vec<(usize, &[u32])>, cache: &ResourceCache) {
    for (entry, ranks, link) in &loaded.cacheable.teams {
        let Some(comms) = cache.take_team(link) else { continue };
        teams.retain(|(other, _)| other != entry);
        for (rank, comm) in ranks.iter().zip(comms) {
            if let Some(own) = loaded.ranks.iter_mut().find(|own| own.plan.rank == *rank) {
                own.communicators.teams.push((*entry, comm));
            }
        }
    }
}

/// Creates the communicators of these teams, from a new world or one that an earlier program left.
fn create_communicators(
    loaded: &mut LoadedProgram<'_>,
    library: &Arc<Library>,
    teams: &[(usize, &[u32])],
    cache: Option<&Arc<ResourceCache>>,
    options: &Options,
) -> Result<(), Vec<Diag>> {
    let all = rank_numbers(loaded);
    let size = all.len() as u32;
    let cache = cache.map(|cache| (cache, communicator_key(&loaded.ranks, &all, options)));
    let old = cache.as_ref().and_then(|(cache, link)| cache.take_world(link));
    let since = cache.as_ref().map_or(0, |(cache, _)| cache.discard_count());
    let parent = borrow_parent(loaded, library, size, options)?;
    let id = if old.is_some() || parent.is_some() { None } else { Some(agree_on_unique_id(loaded, library)?) };
    for (rank, comm) in loaded.ranks.iter_mut().zip(old.into_iter().flatten()) {
        rank.communicators.world = Some(comm);
        rank.communicators.lent = true;
    }
    if let (Some(parent), Some(rank)) = (parent, loaded.ranks.first_mut()) {
        rank.communicators.world = Some(parent);
    }
    let world = WorldSetup { library, id, size, teams };
    let deadline = Instant::now() + options.timeout;
    loaded.for_each_rank(|rank| join_communicators(rank, world, deadline))?;
    let world: Vec<NcclCommunicator> =
        loaded.ranks.iter_mut().filter_map(|rank| rank.communicators.world.take()).collect();
    match cache {
        Some((cache, link)) => cache.put_world(link, world, since),
        None => teardown::drop_in_threads(world.into_iter().map(|one| Box::new(one) as RankResources).collect()),
    }
    Ok(())
}

/// Returns the caller's communicator of all ranks, if all processes have one. All processes take part in this step.
fn borrow_parent(
    loaded: &LoadedProgram<'_>,
    library: &Arc<Library>,
    size: u32,
    options: &Options,
) -> Result<Option<NcclCommunicator>, Vec<Diag>> {
    let [rank] = &loaded.ranks[..] else { return Ok(None) };
    if !loaded.process_group.is_multi_process() {
        return Ok(None);
    }
    let own = options.parent.map(|parent| find_parent(library, parent, size, rank.plan.rank)).transpose();
    let own = loaded.process_group.finish_step("connect: parent", own)?;
    let all = loaded.process_group.all_gather("connect: parents", &[u8::from(own.is_some())])?;
    Ok(own.filter(|_| all.iter().all(|one| one[..] == [1])))
}

/// Returns a caller's communicator, whose members have to be the program's ranks.
fn find_parent(
    library: &Arc<Library>,
    parent: ParentCommunicator,
    size: u32,
    rank: u32,
) -> Result<NcclCommunicator, Vec<Diag>> {
    // SAFETY: as whoever made the option promised; it is dropped before the session is built.
    #[allow(unsafe_code, reason = "takes a caller's handle")]
    let found = unsafe { NcclCommunicator::borrow(library, parent.0 as *mut c_void) }.map_err(nccl_diags)?;
    if (found.size(), found.rank()) == (size, rank) {
        return Ok(found);
    }
    let (ranks, own) = (found.size(), found.rank());
    let message =
        message!("rank {} of {} was given a communicator in which it is rank {} of {}", rank, size, own, ranks);
    let note = "pass a communicator of all ranks of the program, in their order";
    Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)])
}

/// Returns the identifier of a new world communicator, on which all ranks agree.
fn agree_on_unique_id(loaded: &LoadedProgram<'_>, library: &Arc<Library>) -> Result<UniqueId, Vec<Diag>> {
    let bytes = loaded
        .process_group
        .broadcast_from_rank_0("connect: id", || Ok(library.unique_id().map_err(nccl_diags)?.bytes.to_vec()))?;
    Ok(UniqueId { bytes: bytes.try_into().map_err(|_| vec![process_group::malformed_message("connect: id")])? })
}

fn nccl_diags(error: Error) -> Vec<Diag> {
    let code = match error {
        Error::Missing(_) | Error::Symbol(_) => codes::DEVICE,
        _ => codes::DEVICE_CALL,
    };
    vec![Diag::global_error(code, error.to_string()).with_note("set `HIR_NCCL_LIB` to the library to open")]
}

/// Creates the communicators of one rank, unless another one fails.
fn join_communicators(rank: &mut RankRuntime<'_>, world: WorldSetup<'_>, deadline: Instant) -> Result<(), RankFailure> {
    let (peers, alarm) = (rank.failures.peers.clone(), rank.failures.alarm.clone());
    let elsewhere = || peers.as_ref().is_some_and(|peers| peers.peer_failure().is_some());
    let give_up = || alarm.first_failed().is_some() || elsewhere();
    let member = WorldMember { device: &rank.device, rank: rank.plan.rank, multi_process: peers.is_some() };
    let joined = rank.communicators.connect_communicators(member, world, WaitLimits { deadline, give_up: &give_up });
    joined.map_err(|error| match (error, alarm.first_failed()) {
        (Error::GivenUp { .. }, Some(other)) => RankFailure::sibling_failed(other),
        (error, _) => error.into(),
    })
}

impl LoadedProgram<'_> {
    /// Marks all communicators of this program, and the world that they were split off, as unfit for reuse after a
    /// failure.
    pub(crate) fn poison_communicators(&mut self) {
        self.healthy = false;
        if let Some(link) = self.cacheable.world.take() {
            self.cache.discard_world(&link);
        }
    }

    /// Leaves the communicators that later programs can use. No rank has failed and none is at work.
    pub(crate) fn release_to_cache(&mut self) {
        for (entry, members, link) in std::mem::take(&mut self.cacheable.teams) {
            let comms: Vec<NcclCommunicator> =
                members.iter().filter_map(|rank| take_communicator(&mut self.ranks, *rank, entry)).collect();
            if comms.len() == members.len() {
                self.cache.put_team(link, comms);
            }
        }
        self.ranks.iter_mut().for_each(RankRuntime::return_resources);
    }
}

/// Sorts the communicators into the order of their numbers in a rank's calls. Members of teams of one have none and
/// make no NCCL calls.
fn sort_communicators(rank: &mut RankRuntime<'_>) {
    let members = &rank.commands.schedule.members;
    rank.communicators.teams.sort_by_key(|(entry, _)| members.iter().position(|(other, _)| other == entry));
}

fn take_communicator(ranks: &mut [RankRuntime<'_>], rank: u32, entry: usize) -> Option<NcclCommunicator> {
    ranks.iter_mut().find(|one| one.plan.rank == rank)?.communicators.remove_team(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::ir::CommBackend;

    #[test]
    fn teams_that_need_communicators() {
        let team = |backend: CommBackend, ranks: &[u32]| CommTeam {
            backend,
            ranks: ranks.to_vec(),
            name: None,
            roles: Vec::new(),
        };
        let nccl = |ranks: &[u32]| team(CommBackend::Nccl, ranks);
        let teams = [team(CommBackend::Cuda, &[0, 1]), nccl(&[0]), nccl(&[0, 1]), nccl(&[1, 0, 2])];
        let found = teams_over_nccl(&teams, BackendTransports::default());
        assert_eq!(found, [(2, &[0u32, 1][..]), (3, &[1, 0, 2])]);
    }
}
