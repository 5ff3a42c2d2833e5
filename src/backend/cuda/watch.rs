//! Whether runs end, for whoever can end the process.
//!
//! A rank looks at its deadline between calls of the driver. A call that never returns keeps it from
//! looking, and a thread that is in such a call cannot be ended. So ranks leave word of when their runs
//! began where another thread reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The runs of all ranks of the programs that were loaded with it.
#[derive(Debug)]
pub struct Watch {
    zero: Instant,
    ranks: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { zero: Instant::now(), ranks: Mutex::default() }
    }
}

impl Watch {
    /// Whether a run began so long ago, and has not ended, nor failed and been cleared away.
    pub fn is_stuck(&self, limit: Duration) -> bool {
        let now = self.now();
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.retain(|rank| rank.strong_count() > 0);
        ranks.iter().filter_map(Weak::upgrade).any(|rank| {
            let began = rank.load(Ordering::Acquire);
            began != 0 && u128::from(now.saturating_sub(began)) > limit.as_millis()
        })
    }

    /// Milliseconds, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// One more rank, which does nothing yet.
    pub(super) fn rank(self: &Arc<Self>) -> Watched {
        let began = Arc::new(AtomicU64::new(0));
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.push(Arc::downgrade(&began));
        Watched { watch: self.clone(), began }
    }
}

/// A rank's part of a watch.
#[derive(Debug)]
pub(super) struct Watched {
    watch: Arc<Watch>,
    began: Arc<AtomicU64>,
}

impl Watched {
    /// A run begins.
    pub(super) fn begin(&self) {
        self.began.store(self.watch.now(), Ordering::Release);
    }

    /// All runs have ended.
    pub(super) fn end(&self) {
        self.began.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_stuck() {
        let watch = Arc::new(Watch::default());
        let (first, second) = (watch.rank(), watch.rank());
        let limit = Duration::from_millis(20);
        first.begin();
        second.begin();
        assert!(!watch.is_stuck(Duration::from_secs(60)));
        second.end();
        std::thread::sleep(Duration::from_millis(40));
        assert!(watch.is_stuck(limit));
        first.begin();
        assert!(!watch.is_stuck(limit));
        first.end();
        std::thread::sleep(Duration::from_millis(40));
        assert!(!watch.is_stuck(limit));
        second.begin();
        drop(second);
        std::thread::sleep(Duration::from_millis(40));
        assert!(!watch.is_stuck(limit), "a rank that is gone is no run");
    }
}
