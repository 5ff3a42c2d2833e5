//! `--backend=sim`: the run by the cost model. It has a time, a critical path and exposed times by line, and no results.

use super::cli::Options;
use super::failure::RunFailure;
use super::program::SourceProgram;
use super::timeline::span_names::SpanNames;
use super::timeline::{self, text_width, truncate_text};
use hostir::backend::critical_path::{ExposedWait, PathShare, exposed_waits, find_critical_path, sum_path_by_op};
use hostir::backend::simulation::simulate_run;
use hostir::backend::trace::Trace;
use hostir::backend::usage::{RankUsage, rank_usages};
use hostir::diag::{count_text, visible};
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::cost::{CostModel, time_text};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::StagedFiles;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most lines of a list.
const LONGEST: usize = 8;

/// A run by the cost model.
pub(super) struct SimulatedRun {
    trace: Trace,
    /// By op and kind of span, longest first.
    path: Vec<PathShare>,
    /// Longest first.
    exposed: Vec<ExposedWait>,
}

impl SimulatedRun {
    /// Simulates all ranks.
    ///
    /// # Errors
    /// Ranks that wait for each other, and communications whose sides disagree.
    pub(super) fn of_program(
        prepared: &PreparedProgram,
        loaded: &SourceProgram,
        model: &CostModel,
    ) -> Result<Self, RunFailure> {
        let trace = simulate_run(prepared, model).map_err(|diags| loaded.to_failure(diags))?;
        let path = sum_path_by_op(&trace, &find_critical_path(&trace, prepared));
        let exposed = exposed_waits(&trace, prepared);
        Ok(Self { trace, path, exposed })
    }

    /// The time of the run in nanoseconds.
    pub(super) fn end_ns(&self) -> u64 {
        self.trace.end_ns()
    }

    /// The ops that its texts name.
    fn named_ops(&self) -> impl Iterator<Item = OpId> {
        let of_path = self.path.iter().filter_map(|share| Some(share.spans?.op));
        of_path.chain(self.exposed.iter().flat_map(|wait| [wait.waiter, wait.awaited]).flatten())
    }

    /// The critical path and the exposed times as data.
    pub(super) fn modelled_figures(&self, loaded: &SourceProgram, prepared: &PreparedProgram) -> Value {
        let names = SpanNames::new(self.named_ops(), loaded, prepared);
        let path = self.path.iter().map(|share| {
            json!({
                "line": share.spans.map(|spans| names.line_number(spans.op)),
                "kind": share.spans.map(|spans| spans.kind.name()),
                "us": share.total_ns as f64 / 1e3,
                "spans": share.segments,
            })
        });
        let exposed = self.exposed.iter().map(|wait| {
            json!({
                "line": wait.waiter.map(|op| names.line_number(op)),
                "waits_for": wait.awaited.map(|op| names.line_number(op)),
                "us_a_rank": wait.total_ns as f64 / 1e3 / f64::from(prepared.ranks.max(1)),
                "longest_us": wait.longest_ns as f64 / 1e3,
                "longest_rank": wait.longest_rank,
            })
        });
        let (path, exposed): (Vec<_>, Vec<_>) = (path.collect(), exposed.collect());
        json!({ "machine": self.trace.machine, "critical_path": path, "exposed": exposed })
    }

    /// The time, the critical path and the exposed times as text.
    fn summary(&self, names: &SpanNames<'_>, ranks: u32, width: usize) -> String {
        let mut text =
            format!("simulated: {}, {} by the model", count_text(ranks as usize, "rank"), time_text(self.end_ns()));
        if let Some(machine) = &self.trace.machine {
            let _ = write!(text, " of {machine}");
        }
        if let Some(hidden) = RankUsage::of_all(&rank_usages(&self.trace)).hidden_fraction() {
            let _ = write!(text, ", {}% of the communication hidden", (hidden * 100.0).floor());
        }
        text.push('\n');
        self.write_path(&mut text, names, width);
        self.write_exposed(&mut text, names, ranks, width);
        text
    }

    /// `  24.30 us   67%  line 14, communication: h = { send(..) .. }`
    fn write_path(&self, text: &mut String, names: &SpanNames<'_>, width: usize) {
        if self.path.is_empty() {
            return;
        }
        text.push_str("critical path:\n");
        let rows = self.path.iter().map(|share| {
            let percent = (share.total_ns as f64 * 100.0 / self.end_ns().max(1) as f64).round();
            let what = share.spans.map_or_else(
                || "nothing of the program".to_owned(),
                |spans| {
                    let (line, statement) = (names.line_number(spans.op), names.op_text(spans.op));
                    format!("line {line}, {}: {statement}", spans.kind.name())
                },
            );
            [time_text(share.total_ns), format!("{percent}%"), what]
        });
        write_rows(text, &rows.collect::<Vec<_>>(), width);
    }

    /// `  24.30 us a rank  line 15 waits for line 14`
    fn write_exposed(&self, text: &mut String, names: &SpanNames<'_>, ranks: u32, width: usize) {
        if self.exposed.is_empty() {
            return;
        }
        let ranks = u64::from(ranks.max(1));
        text.push_str("exposed, a mean of all ranks:\n");
        let rows = self.exposed.iter().map(|wait| {
            let mean = wait.total_ns / ranks;
            let waiter =
                wait.waiter.map_or_else(|| "the end".to_owned(), |op| format!("line {}", names.line_number(op)));
            let awaited = wait
                .awaited
                .map_or_else(|| "nothing of the program".to_owned(), |op| format!("line {}", names.line_number(op)));
            let most = match wait.longest_ns > mean {
                true => format!(", rank {} for {}", wait.longest_rank, time_text(wait.longest_ns)),
                false => String::new(),
            };
            [time_text(mean), String::new(), format!("{waiter} waits for {awaited}{most}")]
        });
        write_rows(text, &rows.collect::<Vec<_>>(), width);
    }
}

/// Writes rows of a time, a share and a text, and how many are left out.
fn write_rows(text: &mut String, rows: &[[String; 3]], width: usize) {
    let shown = &rows[..rows.len().min(LONGEST)];
    let [times, shares] = [0, 1].map(|column: usize| shown.iter().map(|row| row[column].len()).max().unwrap_or(0));
    for [time, share, what] in shown {
        let gap = if shares > 0 { "  " } else { "" };
        let line = format!("  {time:>times$}{gap}{share:>shares$}  {what}");
        let _ = writeln!(text, "{}", truncate_text(&visible::escape_line(&line), width));
    }
    if shown.len() < rows.len() {
        let _ = writeln!(text, "  and {} that are shorter", rows.len() - shown.len());
    }
}

/// Simulates a program, and returns what its run prints; requested timelines are drawn.
///
/// # Errors
/// Those of the simulation, and of the files of a timeline.
pub(super) fn simulate_program(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    io: &ToolIo<'_>,
) -> Result<String, RunFailure> {
    let run = SimulatedRun::of_program(prepared, loaded, &options.run_model())?;
    let names = SpanNames::new(run.named_ops(), loaded, prepared);
    let mut staged = StagedFiles::default();
    let chart = timeline::draw_timelines(&run.trace, loaded, prepared, options, &mut staged, io)?;
    staged.commit()?;
    let text = if options.quiet { String::new() } else { run.summary(&names, prepared.ranks, text_width(io)) };
    Ok(text + &chart)
}
