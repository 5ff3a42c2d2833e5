//! The time limits that `--timeout-ms` sets.

use super::cli::Options;
use crate::launch::NO_TIMEOUT;
use std::time::Duration;

impl Options {
    /// The limit of connecting to other ranks, and of one run.
    pub(super) fn run_timeout(&self) -> Duration {
        match self.gpu.timeout_ms {
            None => Duration::from_secs(60),
            Some(0) => NO_TIMEOUT,
            Some(limit) => Duration::from_millis(limit),
        }
    }

    /// The limit of planning, and of one run on the CPU.
    pub(super) fn cpu_timeout(&self) -> Option<Duration> {
        self.gpu.timeout_ms.filter(|limit| *limit > 0).map(Duration::from_millis)
    }
}
