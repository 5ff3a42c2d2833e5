//! The options of timed runs.

use clap::Args;

/// The numbers of timed runs, and the file of the figures.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct BenchOptions {
    pub(super) iterations: u32,
    pub(super) warmup: u32,
    /// A line on standard input asks for each turn of `iterations` runs.
    pub(super) turns: bool,
    pub(super) json: Option<String>,
}

impl BenchOptions {
    /// Runs of each program, those that warm up included.
    pub(super) fn round_count(&self) -> u32 {
        self.warmup.saturating_add(self.iterations)
    }
}

/// These options on the command line.
#[derive(Args)]
#[command(next_help_heading = "Benchmarks")]
pub(super) struct BenchArguments {
    #[arg(long, help = "Time the program; several FILEs run in turn and are compared with the first")]
    pub(super) bench: bool,
    #[arg(long, value_name = "N", default_value = "50", help = "Number of timed runs of each program")]
    pub(super) iters: u32,
    #[arg(long, value_name = "N", default_value = "5", help = "Number of warm-up runs")]
    pub(super) warmup: u32,
    #[arg(long, help = "Time --iters runs of each program for each line on standard input, and print their times")]
    pub(super) turns: bool,
    #[arg(
        long,
        value_name = "FILE",
        help = "Write the measurements as JSON; - is standard output, and moves the text to standard error"
    )]
    pub(super) json: Option<String>,
}

impl BenchArguments {
    /// Their meaning.
    pub(super) fn into_runs(self) -> BenchOptions {
        let BenchArguments { bench: _, iters: iterations, warmup, turns, json } = self;
        BenchOptions { iterations, warmup, turns, json }
    }
}
