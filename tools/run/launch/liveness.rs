//! Limits on waiting for the other processes of a run.

use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use std::time::Duration;

/// The deadlines of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct LivenessTimeouts {
    /// The timeout of a step, from the first process that reaches it.
    pub(super) timeout: Duration,
    /// Silence of a connection.
    pub(super) liveness_timeout: Duration,
}

/// The longest silence that is no setting's.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// A time limit that no run reaches.
pub(crate) const NO_TIMEOUT: Duration = Duration::from_secs(1 << 30);

impl LivenessTimeouts {
    pub(super) fn new(timeout: Duration) -> Self {
        let liveness_timeout = match timeout {
            NO_TIMEOUT => NO_TIMEOUT,
            timeout => (timeout / 2).clamp(Duration::from_secs(1), LONGEST_SILENCE),
        };
        Self { timeout, liveness_timeout }
    }

    /// The same with the liveness timeout that `HOSTIR_PEER_TIMEOUT` sets: seconds, or `off`, as for a debugger.
    ///
    /// # Errors
    /// [`errors::VALUE`] for another text.
    pub(super) fn with_liveness_timeout(self, setting: Option<&str>) -> Result<Self, Diag> {
        let Some(setting) = setting else { return Ok(self) };
        if matches!(setting.trim(), "0" | "off") {
            return Ok(Self { liveness_timeout: NO_TIMEOUT, ..self });
        }
        let seconds = setting.trim().parse().ok().filter(|seconds: &f64| *seconds > 0.0);
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(liveness_timeout) => {
                Ok(Self { liveness_timeout: liveness_timeout.clamp(Duration::from_millis(100), NO_TIMEOUT), ..self })
            }
            None => {
                let message = message!("HOSTIR_PEER_TIMEOUT is `{}`, which is no number of seconds above 0", setting);
                Err(Diag::global_error(errors::VALUE, message)
                    .with_note("write `HOSTIR_PEER_TIMEOUT=30`, or `off` where a debugger stops ranks"))
            }
        }
    }

    /// The interval between two heartbeats: others may have a shorter timeout than this process.
    pub(super) fn heartbeat_interval(self) -> Duration {
        self.liveness_timeout.min(LONGEST_SILENCE) / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting replaces the value that follows from the time limit; heartbeats stay as frequent for the others.
    #[test]
    fn silence_that_the_environment_sets() {
        let pace = LivenessTimeouts::new(Duration::from_secs(60));
        assert_eq!(
            (pace.liveness_timeout, pace.heartbeat_interval()),
            (Duration::from_secs(10), Duration::from_millis(1250))
        );
        for (setting, liveness_timeout) in [("30", 30), ("off", 1 << 30), ("0", 1 << 30), (" 2.0 ", 2), ("1e300", 0)] {
            let found = pace.with_liveness_timeout(Some(setting));
            let expected = if setting == "1e300" { None } else { Some(Duration::from_secs(liveness_timeout)) };
            assert_eq!(found.ok().map(|found| found.liveness_timeout), expected, "{setting}");
        }
        let off = pace.with_liveness_timeout(Some("off")).unwrap();
        assert_eq!((off.heartbeat_interval(), off.timeout), (pace.heartbeat_interval(), pace.timeout));
        for wrong in ["", "soon", "-3", "NaN", "inf"] {
            let diag = pace.with_liveness_timeout(Some(wrong)).err().unwrap();
            assert_eq!(diag.code, errors::VALUE, "{wrong}");
        }
        assert_eq!(pace.with_liveness_timeout(None).unwrap().liveness_timeout, pace.liveness_timeout);
    }
}
