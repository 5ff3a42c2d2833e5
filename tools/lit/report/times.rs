//! The times of tests: the slowest ones, and a histogram.

use crate::case::TestCase;
use crate::outcome::Outcome;
use std::fmt::Write as _;

/// Tests that are listed.
const SLOWEST: usize = 20;
/// Rows of the histogram, and characters of its longest bar.
const ROWS: usize = 10;
const BAR: usize = 40;

/// The slowest tests and the histogram.
pub(super) fn table(ended: &[(&TestCase, &Outcome)]) -> String {
    let mut times: Vec<(f64, String)> =
        ended.iter().map(|(test, outcome)| (outcome.time.as_secs_f64(), test.full_name())).collect();
    times.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut text = "Slowest Tests:\n".to_owned();
    for (seconds, name) in times.iter().take(SLOWEST) {
        let _ = writeln!(text, "{seconds:8.3}s: {name}");
    }
    let longest = times.first().map_or(0.0, |(seconds, _)| *seconds);
    let width = (longest / ROWS as f64).max(1e-6);
    let mut rows = [0; ROWS];
    for (seconds, _) in &times {
        rows[((seconds / width) as usize).min(ROWS - 1)] += 1;
    }
    text.push_str("\nTests Times:\n");
    let most = rows.iter().copied().max().unwrap_or(1).max(1);
    for (at, number) in rows.iter().enumerate().rev() {
        let (from, to) = (at as f64 * width, (at + 1) as f64 * width);
        let bar = "*".repeat((number * BAR).div_ceil(most));
        let _ = writeln!(text, "[{from:7.3}s, {to:7.3}s) : {bar:<BAR$} {number}");
    }
    text
}
