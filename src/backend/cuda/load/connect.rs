//! The communicators of all ranks of this process.
//!
//! Making one takes every rank, so one that fails would be waited for until the time is up. Whoever waits
//! looks at what the others came to: the threads of this process by a flag, other processes by
//! [`Exchange::failed`](crate::backend::exchange::Exchange::failed).

use super::Loaded;
use crate::backend::cuda::comm::Team;
use crate::backend::cuda::rank::Rank;
use crate::backend::cuda::rank::connect::World;
use crate::backend::cuda::{Failure, Options, joint};
use crate::diag::Diag;
use crate::diag::codes;
use nccl_rs::{Error, Library, Patience, UniqueId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Joins the communicators; NCCL's version for messages.
pub(super) fn connect(
    loaded: &mut Loaded<'_>,
    teams: &[(String, Team)],
    options: &Options,
) -> Result<String, Vec<Diag>> {
    let library = Library::open(options.nccl.clone()).map_err(told)?;
    let joint = loaded.joint.clone();
    let id =
        joint.of_first("connect: id", || Ok(library.unique_id().map_err(told)?.bytes.to_vec()))?;
    let id = UniqueId { bytes: id.try_into().map_err(|_| vec![joint::senseless("connect: id")])? };
    let size = loaded.prepared.plans.len() as u32;
    let world = World { library: &library, id, size, teams, routes: options.routes };
    let (deadline, failed) = (Instant::now() + options.timeout, AtomicBool::new(false));
    loaded.each(|rank| join(rank, world, deadline, &failed))?;
    let (major, minor, patch) = library.version().map_err(told)?;
    Ok(format!(", NCCL {major}.{minor}.{patch}"))
}

fn told(error: Error) -> Vec<Diag> {
    let code = match error {
        Error::Missing(_) | Error::Symbol(_) => codes::DEVICE,
        _ => codes::DEVICE_CALL,
    };
    vec![Diag::global(code, error.to_string()).note("`HIR_NCCL_LIB` names the library to open")]
}

/// Joins the communicators of one rank, unless another one has `failed`, which that one reports.
fn join(
    rank: &mut Rank<'_>,
    world: World<'_>,
    deadline: Instant,
    failed: &AtomicBool,
) -> Result<(), Failure> {
    let peers = rank.peers.clone();
    let elsewhere = || failed.load(Ordering::Acquire);
    let give_up = || elsewhere() || peers.as_ref().is_some_and(|peers| peers.failed().is_some());
    match rank.connect(world, Patience { deadline, give_up: &give_up }) {
        Err(Error::GivenUp { .. }) if elsewhere() => Ok(()),
        Err(error) => {
            failed.store(true, Ordering::Release);
            Err(error.into())
        }
        Ok(()) => Ok(()),
    }
}
