//! Communications between hosts: what the network adds to their times.
//!
//! Every GPU has its share of its host's network ([`HostLinks`]). NCCL lays rings through the hosts, as
//! many as a host has members, each of which leaves a host over the share of another GPU: a collective of a team with
//! `g` members on each host moves its data over `g` shares, a team of one GPU a host over one. The number of bytes is that of
//! "bus bandwidth" in NCCL's tests (PERFORMANCE.md of nccl-tests): `(D - 1) / D` of the whole for an allgather and a
//! reduce-scatter of `D` ranks, twice as many for an all-reduce.
//!
//! The first byte takes steps as NCCL's own model counts them (`src/graph/tuning.cc`): once around the ring, twice for an
//! all-reduce, with a step between hosts for each further host; or up and down a tree over the hosts, whose links then
//! carry a ninth more. An all-reduce takes the faster one. The steps inside one host belong to the start of a collective
//! within a host.

use super::inst::{CollectiveInst, CollectiveKind, InstKind};
use super::view::BufferView;
use crate::machine::HostLinks;
use rustc_hash::FxHashMap;

/// The share of a tree's links that its data use.
const TREE_SHARE: f64 = 0.9;
/// Microseconds of a step inside of a host: NCCL's figure for a ring over NVLink (LL128).
const INNER_STEP_US: f64 = 1.9;

/// The members of a team on their hosts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TeamPlacement {
    /// Number of members.
    pub ranks: u32,
    /// Number of hosts with members.
    pub hosts: u32,
    /// Number of members of the host that has fewest.
    pub fewest: u32,
}

impl TeamPlacement {
    /// The placement of a team on hosts whose ranks are numbered in order.
    pub fn of_team(team: &[u32], hosts: &HostLinks) -> Self {
        let mut of_hosts: FxHashMap<u32, u32> = FxHashMap::default();
        for rank in team {
            *of_hosts.entry(rank / hosts.devices.get()).or_default() += 1;
        }
        let fewest = of_hosts.values().copied().min().unwrap_or(0);
        Self { ranks: team.len() as u32, hosts: of_hosts.len() as u32, fewest }
    }
}

/// The time that the network adds to a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkTime {
    /// Nanoseconds until the first byte, beside the start of a communication within a host.
    pub start_ns: u64,
    /// Nanoseconds for which the data need a rank's share of the network.
    pub transfer_ns: u64,
}

/// The steps of the first byte, and the bytes that cross one GPU's share of the network.
#[derive(Clone, Copy, Debug)]
struct NetworkLoad {
    /// Steps between hosts.
    outer_steps: f64,
    /// Steps inside further hosts.
    inner_steps: f64,
    bytes: f64,
}

impl HostLinks {
    /// Returns true if two ranks are on one host.
    pub fn has_one_host(&self, first: u32, second: u32) -> bool {
        let devices = self.devices.get();
        first / devices == second / devices
    }

    /// The time that a rank's side of a communication needs of the network; `None` within a host.
    pub fn network_time(&self, kind: &InstKind, rank: u32, team: TeamPlacement) -> Option<NetworkTime> {
        match kind {
            InstKind::Message { header, view } if !self.has_one_host(rank, header.peer) => {
                Some(self.load_time(point_to_point(view_bytes(view))))
            }
            InstKind::Collective(collective) if team.hosts > 1 => {
                let bytes = whole_bytes(collective);
                let ring = self.load_time(collective_load(collective.kind, bytes, team));
                if collective.kind != CollectiveKind::Allreduce {
                    return Some(ring);
                }
                let tree = self.load_time(tree_load(bytes, team));
                Some(if total_ns(tree) < total_ns(ring) { tree } else { ring })
            }
            _ => None,
        }
    }

    fn load_time(&self, load: NetworkLoad) -> NetworkTime {
        let start_us = load.outer_steps * self.network_us.get() + load.inner_steps * INNER_STEP_US;
        let transfer_ns = (load.bytes / self.network_gb_s.get()).ceil() as u64;
        NetworkTime { start_ns: (start_us * 1e3).round() as u64, transfer_ns }
    }
}

fn total_ns(time: NetworkTime) -> u64 {
    time.start_ns + time.transfer_ns
}

fn point_to_point(bytes: f64) -> NetworkLoad {
    NetworkLoad { outer_steps: 1.0, inner_steps: 0.0, bytes }
}

/// The load of a collective of `bytes` in all: over rings, or from each rank to its peers.
fn collective_load(kind: CollectiveKind, bytes: f64, team: TeamPlacement) -> NetworkLoad {
    let (ranks, rings) = (f64::from(team.ranks), f64::from(team.fewest.max(1)));
    let further_hosts = f64::from(team.hosts) - 1.0;
    let around = NetworkLoad {
        outer_steps: further_hosts,
        inner_steps: further_hosts * (rings - 1.0),
        bytes: bytes * (ranks - 1.0) / ranks / rings,
    };
    match kind {
        CollectiveKind::Allgather | CollectiveKind::ReduceScatter => around,
        CollectiveKind::Broadcast | CollectiveKind::Reduce => NetworkLoad { bytes: bytes / rings, ..around },
        CollectiveKind::Allreduce => NetworkLoad {
            outer_steps: 2.0 * around.outer_steps,
            inner_steps: 2.0 * around.inner_steps,
            bytes: 2.0 * around.bytes,
        },
        CollectiveKind::AllToAll | CollectiveKind::Gather | CollectiveKind::Scatter => {
            point_to_point(bytes * (ranks - rings) / ranks)
        }
        CollectiveKind::SendRecv => point_to_point(bytes),
    }
}

/// The load of an all-reduce over a tree of the hosts.
fn tree_load(bytes: f64, team: TeamPlacement) -> NetworkLoad {
    let levels = f64::from(team.hosts.next_power_of_two().trailing_zeros());
    let rings = f64::from(team.fewest.max(1));
    NetworkLoad { outer_steps: 2.0 * levels, inner_steps: 0.0, bytes: 2.0 * bytes / (TREE_SHARE * rings) }
}

/// The bytes of a collective's larger side: all shards.
fn whole_bytes(collective: &CollectiveInst) -> f64 {
    let views = [&collective.input, &collective.output];
    views.into_iter().flatten().map(view_bytes).fold(0.0, f64::max)
}

fn view_bytes(view: &BufferView) -> f64 {
    (view.len() * view.dtype.byte_size()) as f64
}
