//! The end of work, for threads that look at it meanwhile.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// A flag that says whether work is done.
#[derive(Default)]
pub(super) struct Completion(Mutex<bool>, Condvar);

impl Completion {
    /// Looks again and again until something is found or the work is done.
    pub(super) fn poll_until<T>(&self, mut look: impl FnMut(&mut Option<Instant>) -> Option<T>) -> Option<T> {
        let mut since = None;
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            if let Some(found) = look(&mut since) {
                return Some(found);
            }
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

    /// The work ends the looking, also by a panic; what is found ends it too.
    #[test]
    fn looking_ends() {
        let over = Completion::default();
        let mut looks = 0;
        let third = |_: &mut Option<Instant>| {
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
