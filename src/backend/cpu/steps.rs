//! How far a run is, for whoever looks on from another thread.

use super::rank::Rank;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the instructions of all ranks' streams as they are carried out. (Communications have a queue of their
/// own; what waits for them stands on a stream.)
#[derive(Default, Debug)]
pub struct Steps {
    done: AtomicU64,
    all: AtomicU64,
}

impl Steps {
    /// Percent of the instructions that are done; `None` before the run has begun.
    pub fn percent(&self) -> Option<u64> {
        let all = self.all.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed) * 100).checked_div(all)
    }
    /// Adds what these ranks have to do, and lets them count.
    pub(super) fn begin<'p>(&'p self, ranks: &mut [Rank<'p>]) {
        for rank in ranks {
            self.all.fetch_add(rank.steps(), Ordering::Relaxed);
            rank.done = Some(&self.done);
        }
    }
}
