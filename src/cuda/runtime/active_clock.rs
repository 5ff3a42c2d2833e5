//! Time limits that a suspended process does not exceed.
//!
//! A process that is stopped (Ctrl-Z, a debugger, a laptop that sleeps) does not see its devices finish. When it goes
//! on, the time that has passed says nothing about the run.

use std::time::{Duration, Instant};

/// The longest time between two polls that counts in full; code that waits polls much more often.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Measures the time during which the process was active: at most [`LONGEST_LOOK`] of the time between two polls
/// counts.
pub(crate) struct ActiveClock {
    last: Instant,
    elapsed: Duration,
}

impl ActiveClock {
    /// A clock at zero.
    pub(crate) fn start_at_zero() -> Self {
        Self { last: Instant::now(), elapsed: Duration::ZERO }
    }

    /// The active time since the start. Each call is a poll.
    pub(crate) fn elapsed(&mut self) -> Duration {
        self.advance(Instant::now())
    }

    fn advance(&mut self, now: Instant) -> Duration {
        self.elapsed += now.saturating_duration_since(self.last).min(LONGEST_LOOK);
        self.last = now;
        self.elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_process_uses_no_time() {
        let mut clock = ActiveClock::start_at_zero();
        let start = clock.last;
        assert_eq!(clock.advance(start + Duration::from_millis(400)), Duration::from_millis(400));
        let resumed = start + Duration::from_secs(3600);
        assert_eq!(clock.advance(resumed), Duration::from_millis(1400));
        assert_eq!(clock.advance(resumed + Duration::from_millis(100)), Duration::from_millis(1500));
    }
}
