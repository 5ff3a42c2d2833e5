//! `--timing` and `--statistics`, as tables and as data.

use hostir_passes::manager::{PassRun, PipelineReport};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The table of the times of parsing, each pass, its verification and printing.
pub(super) fn timing_table(phases: &[f64; 4], reports: &[PipelineReport]) -> String {
    let runs = reports.iter().flat_map(|report| &report.runs).filter(|run| !run.skipped);
    let top = runs.clone().filter(|run| run.depth == 0);
    let total: f64 =
        phases.iter().sum::<f64>() + top.map(|run| run.time.as_secs_f64() + run.verify_time.as_secs_f64()).sum::<f64>();
    let mut out = "      ms      %  what\n".to_owned();
    let mut row = |seconds: f64, what: &str| {
        let share = if total > 0.0 { 100.0 * seconds / total } else { 0.0 };
        let _ = writeln!(out, "{:8.3}  {share:5.1}  {what}", 1e3 * seconds);
    };
    row(phases[0], "parse");
    row(phases[1], "resolve");
    row(phases[2], "verify");
    for run in runs {
        let indent = "  ".repeat(run.depth);
        row(run.time.as_secs_f64(), &format!("{indent}{} ({})", run.pass.name, op_counts(run)));
        if !run.verify_time.is_zero() {
            row(run.verify_time.as_secs_f64(), &format!("{indent}  verify"));
        }
    }
    row(phases[3], "print");
    row(total, "total");
    out
}

/// The table of the counters of each pass.
pub(super) fn statistics_table(reports: &[PipelineReport]) -> String {
    let mut out = String::new();
    for run in reports.iter().flat_map(|report| &report.runs) {
        let indent = "  ".repeat(run.depth);
        if run.skipped {
            let _ = writeln!(out, "{indent}{}: skipped", run.pass.name);
            continue;
        }
        let _ = writeln!(out, "{indent}{}: {}", run.pass.name, op_counts(run));
        for (name, count) in &run.statistics {
            let _ = writeln!(out, "{indent}{count:8} {name}");
        }
    }
    out
}

/// `12 -> 10 ops (-2)`
fn op_counts(run: &PassRun) -> String {
    let change = run.ops_after as i64 - run.ops_before as i64;
    format!("{} -> {} ops ({change:+})", run.ops_before, run.ops_after)
}

/// The times as data, in milliseconds.
pub(super) fn timing_object(phases: &[f64; 4], reports: &[PipelineReport]) -> Value {
    let runs = reports.iter().flat_map(|report| &report.runs).filter(|run| !run.skipped);
    let passes = runs.map(|run| {
        json!({
            "pass": run.pass.name,
            "depth": run.depth,
            "ms": whole_ns_as_ms(run.time.as_secs_f64()),
            "verify_ms": whole_ns_as_ms(run.verify_time.as_secs_f64()),
            "ops_before": run.ops_before,
            "ops_after": run.ops_after,
        })
    });
    let [parse, resolve, verify, print] = phases.map(whole_ns_as_ms);
    let phases = json!({ "parse": parse, "resolve": resolve, "verify": verify, "print": print });
    json!({ "timing": { "phases_ms": phases, "passes": passes.collect::<Value>() } })
}

/// Seconds as milliseconds, without digits below a nanosecond.
fn whole_ns_as_ms(seconds: f64) -> f64 {
    (1e9 * seconds).round() / 1e6
}

/// The counters of each pass as data.
pub(super) fn statistics_object(reports: &[PipelineReport]) -> Value {
    let passes = reports.iter().flat_map(|report| &report.runs).map(|run| {
        let counters = run.statistics.iter().map(|(name, count)| ((*name).to_owned(), (*count).into()));
        json!({
            "pass": run.pass.name,
            "depth": run.depth,
            "skipped": run.skipped,
            "changed": run.changed,
            "ops_before": run.ops_before,
            "ops_after": run.ops_after,
            "counters": counters.collect::<Map<String, Value>>(),
        })
    });
    json!({ "statistics": passes.collect::<Value>() })
}
