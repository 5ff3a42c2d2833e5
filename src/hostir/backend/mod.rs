//! Backends carry out plans. A backend sees plans, and names for messages; it does not see the program.

mod buffer_uses;
pub mod class;
pub mod clocks;
pub mod control_plane;
pub mod cpu;
pub mod critical_path;
mod device_turns;
pub mod exact;
mod fault;
mod model_clock;
pub mod null;
mod recorder;
pub mod rendezvous;
mod shared_device;
pub mod simulation;
pub mod time_ranges;
pub mod trace;
pub mod usage;
mod view_rows;
mod weight;

use crate::data::HostTensor;

pub(crate) use weight::find_differing_replicas;
pub use weight::weigh_program;

/// The work of a run, summed over ranks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RunStats {
    /// Instructions executed.
    pub instructions: u64,
    /// Sends, receives and collectives, each counted once per rank.
    pub communications: u64,
    /// Bytes that communications moved between ranks (received bytes).
    pub bytes: u64,
    /// Bytes that local instructions read and wrote.
    pub local_bytes: u64,
}

/// The result of a run.
#[derive(Clone, Default, Debug)]
pub struct RunResult {
    /// `[rank][output]`: local shards, row-major; `None` if nothing is bound to the output.
    pub outputs: Vec<Vec<Option<HostTensor>>>,
    /// The work that was done.
    pub stats: RunStats,
}
