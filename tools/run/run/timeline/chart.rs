//! `--timeline`: a run's timeline as a chart in the terminal, with its totals below.

use super::span_names::SpanNames;
use crate::run::quantities::count_text;
use hostir::backend::trace::{SpanKind, Trace, TraceClock, TraceSpan};
use hostir::backend::usage::{self, OpUsage, RankUsage};
use hostir::diag::visible;
use hostir::plan::cost::time_text;
use std::fmt::Write as _;

/// Columns where there is no terminal.
pub(super) const WIDTH: usize = 100;
/// The minimum number of columns of a chart, however narrow the terminal.
const LEAST: usize = 20;
/// The number of ops that are listed.
const LONGEST: usize = 8;

/// The chart and its sums.
pub(super) fn draw_chart(trace: &Trace, names: &SpanNames<'_>, width: usize, color: bool) -> String {
    let usage = usage::rank_usages(trace);
    let mut text = chart_heading(trace);
    draw_rows(&mut text, trace, width, color);
    draw_usage(&mut text, trace, &usage);
    draw_ops(&mut text, trace, names, width);
    text
}

/// `timeline of 4 ranks, 123.4 us, by the model's clock`.
pub(super) fn chart_heading(trace: &Trace) -> String {
    let clock = match trace.clock {
        TraceClock::Host => "measured on the host".to_owned(),
        TraceClock::Device if trace.ranks.len() > 1 => {
            format!("measured on the devices, whose clocks agree within {}", time_text(trace.clock_skew_ns))
        }
        TraceClock::Device => "measured on the device".to_owned(),
        TraceClock::Model => match &trace.machine {
            Some(machine) => format!("worked out by the model of {machine}, not measured"),
            None => "worked out by a model, not measured".to_owned(),
        },
    };
    format!("timeline of {}, {}, {clock}\n", count_text(trace.ranks.len(), "rank"), time_text(trace.end_ns()))
}

// ---- the chart ----

/// The character and the colour of the terminal for a kind of spans.
fn kind_glyph(kind: SpanKind) -> (char, u8) {
    match kind {
        SpanKind::Compute => ('#', 34),
        SpanKind::Copy => ('+', 36),
        SpanKind::Communication => ('=', 33),
        SpanKind::Wait => ('.', 90),
        SpanKind::Event => ('|', 90),
    }
}

/// `rank 0 NCCL 0 1`.
fn row_label(trace: &Trace, rank: usize, track: usize) -> String {
    format!("rank {rank} {}", trace.ranks[rank][track].name)
}

/// A lane for each track that has slices.
fn draw_rows(text: &mut String, trace: &Trace, width: usize, color: bool) {
    let tracks = by_track(trace);
    let widest = tracks.iter().map(|(rank, track, _)| row_label(trace, *rank, *track).chars().count()).max();
    let widest = widest.unwrap_or(0).min(width / 3);
    let columns = width.saturating_sub(widest + 3).max(LEAST);
    let end = trace.end_ns();
    let right = time_text(end);
    let _ = writeln!(text, "{:widest$}  0{right:>1$}", "", columns.saturating_sub(1));
    for (rank, track, spans) in tracks {
        let name = truncate_text(&row_label(trace, rank, track), widest);
        let _ = write!(text, "{name:<widest$} |");
        let kinds = dominant_kinds(&spans, end, columns);
        for run in kinds.chunk_by(|a, b| a == b) {
            let (character, code) = run[0].map_or((' ', 0), kind_glyph);
            let run: String = run.iter().map(|_| character).collect();
            if color && code > 0 {
                let _ = write!(text, "\x1b[{code}m{run}\x1b[0m");
            } else {
                text.push_str(&run);
            }
        }
        text.push_str("|\n");
    }
    let legend = SpanKind::ALL.iter().filter(|kind| **kind != SpanKind::Event);
    let legend: Vec<String> = legend.map(|kind| format!("{} {}", kind_glyph(*kind).0, kind.name())).collect();
    let _ = writeln!(text, "{:widest$}  {}", "", legend.join("   "));
}

/// The spans of each track with some that take time: rank, track, spans in order.
pub(super) fn by_track(trace: &Trace) -> Vec<(usize, usize, Vec<&TraceSpan>)> {
    let mut tracks: Vec<Vec<Vec<&TraceSpan>>> =
        trace.ranks.iter().map(|tracks| vec![Vec::new(); tracks.len()]).collect();
    for span in trace.spans.iter().filter(|span| span.kind != SpanKind::Event) {
        let rank = tracks.get_mut(span.rank as usize);
        if let Some(track) = rank.and_then(|rank| rank.get_mut(span.track as usize)) {
            track.push(span);
        }
    }
    let mut found = Vec::new();
    for (rank, tracks) in tracks.into_iter().enumerate() {
        let used = tracks.into_iter().enumerate().filter(|(_, spans)| !spans.is_empty());
        found.extend(used.map(|(track, spans)| (rank, track, spans)));
    }
    found
}

/// For each of `columns` equal parts of the time until `end`: the kind that takes most of it; `None` if it is empty.
/// Work wins over waiting however short it is, so that none is lost.
pub(super) fn dominant_kinds(spans: &[&TraceSpan], end: u64, columns: usize) -> Vec<Option<SpanKind>> {
    let scale = columns as f64 / end.max(1) as f64;
    let mut times = vec![[0.0f64; SpanKind::ALL.len()]; columns];
    for span in spans {
        let (from, to) = (span.start_ns as f64 * scale, span.end_ns as f64 * scale);
        let first = (from as usize).min(columns - 1);
        let last = (to.ceil() as usize).clamp(first + 1, columns);
        for (column, times) in times.iter_mut().enumerate().take(last).skip(first) {
            let part = to.min((column + 1) as f64) - from.max(column as f64);
            times[span.kind as usize] += part.max(f64::MIN_POSITIVE);
        }
    }
    times
        .iter()
        .map(|times: &[f64; SpanKind::ALL.len()]| {
            let works = SpanKind::ALL.iter().filter(|kind| **kind < SpanKind::Wait);
            let used = works.filter(|kind| times[**kind as usize] > 0.0);
            let most = used.max_by(|a, b| times[**a as usize].total_cmp(&times[**b as usize]));
            most.copied().or((times[SpanKind::Wait as usize] > 0.0).then_some(SpanKind::Wait))
        })
        .collect()
}

// ---- the sums ----

const KINDS: [SpanKind; 4] = [SpanKind::Compute, SpanKind::Copy, SpanKind::Communication, SpanKind::Wait];

fn draw_usage(text: &mut String, trace: &Trace, usage: &[RankUsage]) {
    let end = trace.end_ns().max(1);
    let mut rows = vec![vec!["".to_owned()]];
    rows[0].extend(KINDS.iter().map(|kind| kind.name().to_owned()));
    rows[0].push("idle".to_owned());
    for (rank, track, _) in by_track(trace) {
        let sums = usage[rank].tracks[track];
        let mut row = vec![format!("rank {rank} {}", trace.ranks[rank][track].name)];
        row.extend(KINDS.iter().map(|kind| match sums.kinds[*kind as usize] {
            0 => "-".to_owned(),
            ns => time_text(ns),
        }));
        row.push(format!("{} ({})", time_text(sums.idle), percent_text(sums.idle, end)));
        rows.push(row);
    }
    text.push('\n');
    draw_table(text, &rows);
    text.push('\n');
    for (rank, usage) in usage.iter().enumerate() {
        let _ = writeln!(text, "rank {rank}: {}", usage_text(usage));
    }
    if usage.len() > 1 {
        let all = RankUsage::of_all(usage);
        let _ = writeln!(text, "all ranks together: {}", usage_text(&all));
    }
}

/// `computing 40 us; communicating 50 us, 10 us of it exposed; 80% hidden by computing`.
fn usage_text(usage: &RankUsage) -> String {
    let mut text = format!("computing {}", time_text(usage.compute));
    if let Some(hidden) = usage.hidden_fraction() {
        let (all, exposed) = (time_text(usage.communication), time_text(usage.exposed));
        let hidden = (hidden * 100.0).floor();
        let _ = write!(text, "; communicating {all}, {exposed} of it exposed; {hidden}% hidden by computing");
        let copying = usage.copying_fraction().map_or(0.0, |part| (part * 100.0).floor());
        if copying >= 1.0 {
            let _ = write!(text, ", {copying}% beside copies");
        }
    }
    text
}

/// Rows of equal length: the first column to the left, the others to the right.
fn draw_table(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in rows {
        let _ = write!(text, "{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
}

fn draw_ops(text: &mut String, trace: &Trace, names: &SpanNames<'_>, width: usize) {
    let ops = usage::longest_ops(trace);
    if ops.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nlongest ops, over all ranks and iterations:");
    let mut rows = Vec::new();
    for usage in ops.iter().take(LONGEST) {
        let OpUsage { count, total, longest, .. } = *usage;
        rows.push([
            time_text(total),
            format!("{count} x"),
            format!("at most {}", time_text(longest)),
            op_label(usage, names),
        ]);
    }
    let [a, b, c] = [0, 1, 2].map(|column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    for [total, times, longest, name] in &rows {
        let line = format!("  {total:>a$}  {times:>b$}  {longest:>c$}  {name}");
        let _ = writeln!(text, "{}", truncate_text(&visible::escape_line(&line), width.max(LEAST)));
    }
}

/// `line 12: T5 = matmul(T1, T2)`.
fn op_label(usage: &OpUsage, names: &SpanNames<'_>) -> String {
    format!("line {}: {}", names.line_number(usage.op), names.op_text(usage.op))
}

/// The start of a text that fits so many columns, with a sign that there is more.
pub(in crate::run) fn truncate_text(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

// ---- figures ----

fn percent_text(part: u64, whole: u64) -> String {
    format!("{}%", (part as f64 * 100.0 / whole as f64).round())
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
