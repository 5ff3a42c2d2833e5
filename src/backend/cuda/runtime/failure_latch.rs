//! Which rank of this process failed first: what the threads of its other ranks look at.

use std::sync::atomic::{AtomicU32, Ordering};

/// The rank that failed first, if one did. Once it is raised it stays so: a program whose rank failed does not
/// run again.
#[derive(Default, Debug)]
pub(crate) struct Alarm {
    /// The rank's number plus one; 0 while all is well.
    first: AtomicU32,
}

impl Alarm {
    /// Notes that a rank failed; only the first one counts. Every thread that later sees an effect of what the
    /// caller does next also sees the alarm.
    pub(crate) fn raise(&self, rank: u32) {
        let _ = self.first.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The rank that failed first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first.load(Ordering::Acquire).checked_sub(1)
    }

    /// Raises the alarm if the thread panics while the guard is there.
    pub(crate) fn guard(&self, rank: u32) -> AlarmGuard<'_> {
        AlarmGuard { alarm: self, rank }
    }
}

/// See [`Alarm::guard`].
pub(crate) struct AlarmGuard<'a> {
    alarm: &'a Alarm,
    rank: u32,
}

impl Drop for AlarmGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.alarm.raise(self.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_first_failure_counts() {
        let alarm = Alarm::default();
        assert_eq!(alarm.first(), None);
        alarm.raise(3);
        alarm.raise(0);
        assert_eq!(alarm.first(), Some(3));
    }

    #[test]
    fn a_panic_is_a_failure() {
        let alarm = Alarm::default();
        drop(alarm.guard(1));
        assert_eq!(alarm.first(), None);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let _guard = alarm.guard(1);
            panic!("on purpose");
        }));
        assert!(broken.is_err());
        assert_eq!(alarm.first(), Some(1));
    }
}
