//! `--timeline`: a run's timeline as a chart in the terminal, with its totals below.

use super::sums;
use super::view::{PartKind, SpanPart, TimelineView, TrackRow};
use hostir::backend::trace::{Trace, TraceClock};
use hostir::diag::count_text;
use hostir::plan::cost::time_text;
use std::fmt::Write as _;

/// Columns where there is no terminal.
pub(super) const WIDTH: usize = 100;
/// The minimum number of columns of a chart, however narrow the terminal.
pub(super) const LEAST: usize = 20;

/// The chart and its sums.
pub(super) fn draw_chart(view: &TimelineView<'_>, width: usize, color: bool) -> String {
    let mut text = chart_heading(view.trace);
    text.push('\n');
    draw_rows(&mut text, view, width, color);
    sums::write_sums(&mut text, view, width.max(LEAST));
    text
}

/// `timeline of 4 ranks, 123.4 us, worked out by a model, not measured`.
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
    format!("timeline of {}, {}, {clock}", count_text(trace.ranks.len(), "rank"), time_text(trace.end_ns()))
}

/// The character and the colour of the terminal for a kind of parts.
fn kind_glyph(kind: PartKind) -> (char, u8) {
    match kind {
        PartKind::Compute => ('#', 34),
        PartKind::Copy => ('+', 36),
        PartKind::Hidden => ('=', 33),
        PartKind::Exposed => ('!', 31),
        PartKind::PeerWait => ('~', 90),
        PartKind::Wait => ('.', 90),
    }
}

/// A line of characters for each row.
fn draw_rows(text: &mut String, view: &TimelineView<'_>, width: usize, color: bool) {
    let labels = view.groups.iter().flat_map(|group| group.rows.iter().map(|row| row_label(&group.label(), row)));
    let widest = labels.map(|label| label.chars().count()).max().unwrap_or(0).min(width / 3);
    let columns = width.saturating_sub(widest + 3).max(LEAST);
    let end = view.trace.end_ns();
    let right = time_text(end);
    let _ = writeln!(text, "{:widest$}  0{right:>1$}", "", columns.saturating_sub(1));
    let mut used = Vec::new();
    for group in &view.groups {
        for row in &group.rows {
            let name = truncate_text(&row_label(&group.label(), row), widest);
            let _ = write!(text, "{name:<widest$} |");
            let parts: Vec<SpanPart> = row.spans.iter().flat_map(|&at| view.span_parts(at)).collect();
            used.extend(parts.iter().map(|part| part.kind));
            used.sort_unstable();
            used.dedup();
            draw_glyphs(text, &dominant_kinds(&parts, end, columns), color);
            text.push_str("|\n");
        }
    }
    let legend: Vec<String> =
        used.iter().map(|kind| format!("{} {}", kind_glyph(*kind).0, kind.legend_text())).collect();
    let _ = writeln!(text, "{:widest$}  {}", "", legend.join("   "));
}

fn draw_glyphs(text: &mut String, kinds: &[Option<PartKind>], color: bool) {
    for run in kinds.chunk_by(|a, b| a == b) {
        let (character, code) = run[0].map_or((' ', 0), kind_glyph);
        let run: String = run.iter().map(|_| character).collect();
        if color && code > 0 {
            let _ = write!(text, "\x1b[{code}m{run}\x1b[0m");
        } else {
            text.push_str(&run);
        }
    }
}

/// `ranks 0-3 NCCL 0 1`.
pub(super) fn row_label(group: &str, row: &TrackRow) -> String {
    format!("{group} {}", row.name)
}

/// For each of `columns` equal parts of the time until `end`: the kind that takes most of it; `None` if it is empty.
/// Work wins over waiting however short it is, so that none is lost.
pub(super) fn dominant_kinds(parts: &[SpanPart], end: u64, columns: usize) -> Vec<Option<PartKind>> {
    let scale = columns as f64 / end.max(1) as f64;
    let mut times = vec![[0.0f64; PartKind::ALL.len()]; columns];
    for SpanPart { kind, time } in parts {
        let (from, to) = (time.start_ns as f64 * scale, time.end_ns as f64 * scale);
        let first = (from as usize).min(columns - 1);
        let last = (to.ceil() as usize).clamp(first + 1, columns);
        for (column, times) in times.iter_mut().enumerate().take(last).skip(first) {
            let part = to.min((column + 1) as f64) - from.max(column as f64);
            times[*kind as usize] += part.max(f64::MIN_POSITIVE);
        }
    }
    times.iter().map(longest_kind).collect()
}

/// The kind that takes most of a column.
fn longest_kind(times: &[f64; PartKind::ALL.len()]) -> Option<PartKind> {
    let used = PartKind::ALL.into_iter().filter(|kind| times[*kind as usize] > 0.0);
    used.max_by(|a, b| {
        let (x, y) = (times[*a as usize], times[*b as usize]);
        a.is_work().cmp(&b.is_work()).then(x.total_cmp(&y))
    })
}

/// The start of a text that fits so many columns, with a sign that there is more.
pub(in crate::run) fn truncate_text(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
