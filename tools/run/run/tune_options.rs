//! The options of a choice among programs.

use super::bench_options::BenchOptions;
use clap::Args;

/// The fewest runs whose smallest and largest times are a 95% interval of the median: 1 - 2/2^6 is 97%.
pub(super) const FEWEST_RUNS: u32 = 6;

/// A choice among programs that compute the same.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TuneOptions {
    /// The file that keeps choices.
    pub(super) file: Option<String>,
    /// Programs that the model takes for slower than the fastest by more percent are not timed.
    pub(super) margin: f64,
    /// The timed runs of each of the others.
    pub(super) runs: BenchOptions,
}

/// These options on the command line.
#[derive(Args)]
#[command(next_help_heading = "Choice")]
pub(super) struct TuneArguments {
    #[arg(long, conflicts_with_all = ["bench", "check_only", "calibrate", "print_plan", "processes", "rank"],
        help = "Choose the fastest of several FILEs that compute the same: those that the cost model cannot tell apart \
                are timed in turn; of equal ones the first")]
    pub(super) tune: bool,
    #[arg(
        long,
        value_name = "FILE.toml",
        requires = "tune",
        help = "Keep the times in this file; what an earlier run has measured here is not measured again"
    )]
    pub(super) tune_file: Option<String>,
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "tune",
        default_value = "20",
        allow_negative_numbers = true,
        help = "Time no program that the model takes for slower than the fastest by more"
    )]
    pub(super) tune_margin: f64,
}

impl TuneArguments {
    /// Their meaning, with these timed runs; `None` if nothing is chosen.
    pub(super) fn into_tune(self, runs: &BenchOptions) -> Option<TuneOptions> {
        let TuneArguments { tune, tune_file: file, tune_margin: margin } = self;
        tune.then(|| TuneOptions { file, margin, runs: runs.clone() })
    }
}
