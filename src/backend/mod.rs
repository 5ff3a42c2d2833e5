//! Backends run plans. They see nothing of the program but plans and names for messages.

pub mod class;
pub mod clocks;
pub mod control_plane;
pub mod cpu;
pub mod null;
mod recorder;
pub mod simulation;
pub mod trace;
pub mod usage;

use crate::data::HostTensor;

/// What a run did, summed over ranks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RunStats {
    /// Instructions executed.
    pub instructions: u64,
    /// Sends, receives and collectives, each counted once a rank.
    pub communications: u64,
    /// Bytes that communications moved between ranks (received bytes).
    pub bytes: u64,
    /// Bytes that local instructions read and wrote.
    pub local_bytes: u64,
}

/// What a run returns.
#[derive(Clone, Default, Debug)]
pub struct RunResult {
    /// `[rank][output]`; `None` where nothing was bound. Local parts, row-major.
    pub outputs: Vec<Vec<Option<HostTensor>>>,
    /// What was done.
    pub stats: RunStats,
}
