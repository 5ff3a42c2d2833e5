//! Backends run plans. They see nothing of the program but plans and names for messages.

pub mod class;
pub mod clocks;
pub mod cpu;
pub mod exchange;
pub mod null;
pub mod trace;
pub mod usage;

use crate::data::HostTensor;
use crate::diag::Diag;
use crate::plan::Prepared;
use trace::Trace;

/// What a run did, summed over ranks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
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
    pub stats: Stats,
}

/// Something that runs plans.
pub trait Backend {
    /// `cpu`, `cuda`, `null`.
    fn name(&self) -> &'static str;
    /// Runs all ranks. `inputs` are `[rank][tensor input]`, local parts ([`mod@crate::plan::shard`]); off an
    /// input's mesh any tensor stands in. Errors come with places in the text, rank and iteration.
    fn run(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<RunResult, Vec<Diag>>;
    /// [`Backend::run`], and what every rank did when. Recording takes time of its own; the order of the
    /// program stays as it is.
    fn run_traced(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<(RunResult, Trace), Vec<Diag>>;
}
