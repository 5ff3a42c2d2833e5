//! The progress of a run, for other threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the instructions of all ranks' streams as they are carried out. (Communications have a queue of their own;
/// the instructions that wait for them are on a stream.)
#[derive(Default, Debug)]
pub struct StepCounter {
    done: AtomicU64,
    all: AtomicU64,
}

impl StepCounter {
    /// Percent of the instructions that are done; `None` before the run has begun.
    pub fn percent_done(&self) -> Option<u64> {
        let all = self.all.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed) * 100).checked_div(all)
    }
    /// Adds instructions that are to be done.
    pub(super) fn add_insts(&self, count: u64) {
        self.all.fetch_add(count, Ordering::Relaxed);
    }
    /// The counter of completed instructions.
    pub(super) fn done_counter(&self) -> &AtomicU64 {
        &self.done
    }
}
