//! Where the ranks' threads wait for each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A barrier that a rank which fails can open for good, so that nobody waits for it.
pub(super) struct Gate {
    members: usize,
    arrived: AtomicUsize,
    broken: AtomicBool,
}

impl Gate {
    /// A gate for so many threads.
    pub(super) fn new(members: usize) -> Self {
        Self { members, arrived: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Waits until all members are here as often as this one. Spins: the threads should go on at the
    /// same time.
    pub(super) fn wait(&self) {
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (number / self.members + 1) * self.members;
        while self.arrived.load(Ordering::Acquire) < wanted && !self.broken.load(Ordering::Acquire)
        {
            std::thread::yield_now();
        }
    }

    /// Lets everybody through from now on.
    pub(super) fn open(&self) {
        self.broken.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_early_and_nobody_waits_for_the_failed() {
        let (gate, passed) = (Gate::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        gate.wait();
                        passed.fetch_add(1, Ordering::AcqRel);
                        gate.wait();
                        assert_eq!(passed.load(Ordering::Acquire), 3 * round);
                        gate.wait();
                    }
                });
            }
        });
        gate.open();
        gate.wait();
    }
}
