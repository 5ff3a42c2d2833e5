//! Backends run plans. They see nothing of the program but plans and names for messages.
//!
//! Error codes of this layer:
//!
//! | code | what |
//! |---|---|
//! | H0501 | inputs or outputs that do not fit the plan |
//! | H0502 | an output that nothing has written |
//! | H0503 | replicas of an output that differ |
//! | H0504 | no memory |
//! | H0505 | an element type that the backend lacks |
//! | H0506 | elements read before anything wrote them |
//! | H0507 | arithmetic without a result: an integer divided by zero |
//! | H0508 | members of one communication that do not agree |
//! | H0510 | deadlock |

pub mod cpu;

use crate::data::HostTensor;
use crate::diag::Diag;
use crate::plan::Prepared;

/// Code of the deadlock report: callers give it an exit status of its own.
pub const DEADLOCK: &str = "H0510";

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
    /// Runs all ranks. `inputs` are `[rank][tensor input]`, local parts ([`crate::plan::shard`]); off an
    /// input's mesh any tensor stands in. Errors come with places in the text, rank and iteration.
    fn run(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<RunResult, Vec<Diag>>;
}
