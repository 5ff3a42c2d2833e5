//! The report about a run: for people while it goes on, and as files.

mod files;
mod times;

use crate::case::TestCase;
use crate::outcome::{Outcome, VERDICTS, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Instant;

/// Stars around the report of a test.
const STARS: &str = "********************";

/// The choices for the report to people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportOptions {
    /// A line for each test, also on a terminal.
    pub(crate) verbose: bool,
    /// The commands of all tests.
    pub(crate) show_all: bool,
    /// Nothing about tests that did not fail.
    pub(crate) failures_only: bool,
    /// The times of tests.
    pub(crate) time_tests: bool,
}

/// The report about a run of these tests.
pub(crate) struct Report<'t> {
    tests: &'t [TestCase],
    outcomes: Vec<Option<Outcome>>,
    options: ReportOptions,
    /// Progress, on a terminal.
    bar: Option<ProgressBar>,
    start: Instant,
    ended: usize,
}

impl<'t> Report<'t> {
    /// The report before the first test.
    /// `resumed` leaves out the first line, which an earlier process has printed.
    pub(crate) fn begin(tests: &'t [TestCase], workers: usize, options: ReportOptions, resumed: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let bar = (terminal && !options.verbose && !options.show_all).then(|| progress_bar(tests.len()));
        let report = Self { tests, outcomes: vec![None; tests.len()], options, bar, start: Instant::now(), ended: 0 };
        if !options.failures_only && !resumed {
            let workers = workers.clamp(1, tests.len().max(1));
            report.print(&format!("-- Testing: {}, {} --\n", count(tests.len(), "test"), count(workers, "worker")));
        }
        report
    }

    /// Takes a test that an earlier process has reported.
    pub(crate) fn restore_test(&mut self, index: usize, outcome: Outcome) {
        self.ended += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.outcomes[index] = Some(outcome);
    }

    /// Takes a test that ended.
    pub(crate) fn add_test(&mut self, index: usize, outcome: Outcome) {
        self.ended += 1;
        let name = self.tests[index].full_name();
        let failed = outcome.verdict.is_failure();
        let each = self.options.verbose || self.options.show_all || self.bar.is_none();
        if failed || (each && !self.options.failures_only) {
            let (ended, all) = (self.ended, self.tests.len());
            let mut text = format!("{}: {name} ({ended} of {all})\n", outcome.verdict.name());
            if failed || self.options.show_all {
                let title = if failed { "FAILED" } else { "RESULTS" };
                text.push_str(&format!("{STARS} TEST '{name}' {title} {STARS}\n{}{STARS}\n", outcome.report));
            } else if outcome.verdict == Verdict::Unsupported && self.options.verbose {
                text.push_str(&format!("  {}", outcome.report));
            }
            self.print(&text);
        }
        if let Some(bar) = &self.bar {
            bar.set_message(name);
            bar.inc(1);
        }
        self.outcomes[index] = Some(outcome);
    }

    /// Prints the summary and writes the files; `false` if a test failed.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn finish(self, xunit: Option<&Path>, json: Option<&Path>) -> Result<bool, String> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let time = self.start.elapsed();
        let ended: Vec<(&TestCase, &Outcome)> = self
            .tests
            .iter()
            .zip(&self.outcomes)
            .filter_map(|(test, outcome)| Some((test, outcome.as_ref()?)))
            .collect();
        let mut text = String::new();
        if self.options.time_tests {
            text.push_str(&times::table(&ended));
        }
        text.push_str(&failed_tests(&ended));
        text.push_str(&format!("\nTesting Time: {:.2}s\n\n", time.as_secs_f64()));
        text.push_str(&totals(&ended));
        self.print(&text);
        if let Some(path) = xunit {
            files::write_xunit(path, &ended)?;
        }
        if let Some(path) = json {
            files::write_json(path, &ended, time)?;
        }
        Ok(!ended.iter().any(|(_, outcome)| outcome.verdict.is_failure()))
    }

    /// Prints to standard output, above the progress. A closed reader (`| head`) is no error.
    fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        match &self.bar {
            Some(bar) => bar.suspend(|| drop(out.write_all(text.as_bytes()))),
            None => drop(out.write_all(text.as_bytes())),
        }
        let _ = out.flush();
    }
}

fn progress_bar(tests: usize) -> ProgressBar {
    let bar = ProgressBar::new(tests as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left  {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The names of the tests that failed, by verdict.
fn failed_tests(ended: &[(&TestCase, &Outcome)]) -> String {
    let mut text = String::new();
    for verdict in VERDICTS.into_iter().filter(|verdict| verdict.is_failure()) {
        let names: Vec<String> =
            ended.iter().filter(|(_, outcome)| outcome.verdict == verdict).map(|(test, _)| test.full_name()).collect();
        if !names.is_empty() {
            text.push_str(&format!(
                "{STARS}\n{} Tests ({}):\n  {}\n",
                verdict.label(),
                names.len(),
                names.join("\n  ")
            ));
        }
    }
    text
}

/// The number of tests of each verdict.
fn totals(ended: &[(&TestCase, &Outcome)]) -> String {
    let all = ended.len();
    let mut text = format!("Total Discovered Tests: {all}\n");
    for verdict in VERDICTS {
        let number = ended.iter().filter(|(_, outcome)| outcome.verdict == verdict).count();
        if number > 0 {
            let share = 100.0 * number as f64 / all as f64;
            text.push_str(&format!("  {:<19}: {number:>4} ({share:.2}%)\n", verdict.label()));
        }
    }
    text
}
