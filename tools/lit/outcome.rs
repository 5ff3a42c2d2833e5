//! The outcome of a test.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The verdict about a test, as lit names them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum Verdict {
    /// It passed.
    Pass,
    /// It passed after it had failed.
    FlakyPass,
    /// It failed, as XFAIL says.
    Xfail,
    /// Its features are not here.
    Unsupported,
    /// It is not a test that can run.
    Unresolved,
    /// Its time was over.
    Timeout,
    /// It passed, and XFAIL says that it fails.
    Xpass,
    /// It failed.
    Fail,
}

/// All verdicts, in the order of reports.
pub(crate) const VERDICTS: [Verdict; 8] = [
    Verdict::Unsupported,
    Verdict::Pass,
    Verdict::FlakyPass,
    Verdict::Xfail,
    Verdict::Unresolved,
    Verdict::Timeout,
    Verdict::Fail,
    Verdict::Xpass,
];

impl Verdict {
    /// Its name in lit's reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::FlakyPass => "FLAKYPASS",
            Verdict::Xfail => "XFAIL",
            Verdict::Unsupported => "UNSUPPORTED",
            Verdict::Unresolved => "UNRESOLVED",
            Verdict::Timeout => "TIMEOUT",
            Verdict::Xpass => "XPASS",
            Verdict::Fail => "FAIL",
        }
    }

    /// Its name in lit's summary.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Verdict::Pass => "Passed",
            Verdict::FlakyPass => "Passed With Retry",
            Verdict::Xfail => "Expectedly Failed",
            Verdict::Unsupported => "Unsupported",
            Verdict::Unresolved => "Unresolved",
            Verdict::Timeout => "Timed Out",
            Verdict::Xpass => "Unexpectedly Passed",
            Verdict::Fail => "Failed",
        }
    }

    /// True if a run with such a test fails.
    pub fn is_failure(self) -> bool {
        matches!(self, Verdict::Unresolved | Verdict::Timeout | Verdict::Xpass | Verdict::Fail)
    }
}

/// The outcome of a test.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The commands with their outputs, or the reason why none ran.
    pub report: String,
    /// Its time.
    pub time: Duration,
}

impl Outcome {
    /// The outcome of a test that did not run.
    pub(crate) fn without_run(verdict: Verdict, report: String) -> Self {
        Self { verdict, report, time: Duration::ZERO }
    }
}
