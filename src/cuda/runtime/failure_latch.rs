//! The failure latch: records the first failed rank of this process for the threads of the other ranks.

use std::sync::atomic::{AtomicU32, Ordering};

/// The rank that failed first, if one did. Once set, it stays set: a program with a failed rank does not run again.
#[derive(Default, Debug)]
pub(crate) struct FailureFlag {
    /// The rank's number plus one; 0 if none has failed.
    first: AtomicU32,
}

impl FailureFlag {
    /// Records a rank's failure; only the first one counts. A thread that later sees an effect of the caller's next
    /// actions also sees the failure.
    pub(crate) fn set_failed(&self, rank: u32) {
        let _ = self.first.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The rank that failed first.
    pub(crate) fn first_failed(&self) -> Option<u32> {
        self.first.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns a guard that sets the latch if the thread panics.
    pub(crate) fn panic_guard(&self, rank: u32) -> PanicGuard<'_> {
        PanicGuard { alarm: self, rank }
    }
}

/// See [`FailureFlag::panic_guard`].
pub(crate) struct PanicGuard<'a> {
    alarm: &'a FailureFlag,
    rank: u32,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.alarm.set_failed(self.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_first_failure_counts() {
        let alarm = FailureFlag::default();
        assert_eq!(alarm.first_failed(), None);
        alarm.set_failed(3);
        alarm.set_failed(0);
        assert_eq!(alarm.first_failed(), Some(3));
    }

    #[test]
    fn a_panic_is_a_failure() {
        let alarm = FailureFlag::default();
        drop(alarm.panic_guard(1));
        assert_eq!(alarm.first_failed(), None);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let _guard = alarm.panic_guard(1);
            panic!("on purpose");
        }));
        assert!(broken.is_err());
        assert_eq!(alarm.first_failed(), Some(1));
    }
}
