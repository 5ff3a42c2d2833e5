//! The end of work, for threads that poll it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// A time between two polls that shows that the process was suspended meanwhile.
const SUSPENDED: Duration = Duration::from_secs(1);

/// The state of a polling thread.
#[derive(Debug, Default)]
pub(super) struct PollState {
    /// The time at which the caller first saw a condition that may pass. A suspension clears it: the condition then
    /// gets its time once more.
    pub(super) since: Option<Instant>,
    /// The time since the last poll, if the process was suspended meanwhile.
    pub(super) suspension: Option<Duration>,
}

/// A flag that says whether work is done.
#[derive(Default)]
pub(super) struct Completion(Mutex<bool>, Condvar);

impl Completion {
    /// Polls until something is found or the work is done.
    pub(super) fn poll_until<T>(&self, mut look: impl FnMut(&mut PollState) -> Option<T>) -> Option<T> {
        let (mut state, mut last) = (PollState::default(), Instant::now());
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            state.suspension = Some(last.elapsed()).filter(|gap| *gap > SUSPENDED);
            state.since = state.since.filter(|_| state.suspension.is_none());
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            last = Instant::now();
            over = self.1.wait_timeout(over, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

/// Sets it when dropped, also by a panic.
pub(super) struct CompleteOnDrop<'a>(pub(super) &'a Completion);

impl Drop for CompleteOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the work, also by a panic, ends the polling; so does a result.
    #[test]
    fn looking_ends() {
        let over = Completion::default();
        let mut looks = 0;
        let third = |_: &mut PollState| {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(over.poll_until(third), Some(3));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _over = CompleteOnDrop(&over);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(over.poll_until(|_| Some(())), None);
    }
}
