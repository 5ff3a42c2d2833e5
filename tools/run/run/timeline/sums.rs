//! The sums of a timeline as text: of tracks, of ranks, of statements.

use super::chart::{row_label, truncate_text};
use super::line_sums::LineSum;
use super::view::{PartKind, RankGroup, TimelineView, TrackRow};
use hostir::backend::critical_path::sum_path_by_op;
use hostir::backend::usage::{self, OpUsage, RankUsage};
use hostir::diag::visible;
use hostir::ir::OpId;
use hostir::plan::cost::time_text;
use std::fmt::Write as _;

/// The number of ops that are listed.
const LONGEST: usize = 8;

/// All sums, in lines of `width` letters.
pub(super) fn write_sums(text: &mut String, view: &TimelineView<'_>, width: usize) {
    text.push('\n');
    write_tracks(text, view);
    text.push('\n');
    rank_lines(view).iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    write_ops(text, view, width);
    write_exposed(text, view, width);
    write_path(text, view, width);
    if view.pairs {
        write_messages(text, view, width);
    }
}

/// The columns of the table of tracks; a column without times is left out.
const COLUMNS: [(&str, &[PartKind]); 6] = [
    ("compute", &[PartKind::Compute]),
    ("copy", &[PartKind::Copy]),
    ("communication", &[PartKind::Hidden, PartKind::Exposed]),
    ("exposed", &[PartKind::Exposed]),
    ("peers", &[PartKind::PeerWait]),
    ("wait", &[PartKind::Wait]),
];

/// A table with a row for each track: the time of each kind, and the time without work.
fn write_tracks(text: &mut String, view: &TimelineView<'_>) {
    let end = view.trace.end_ns().max(1);
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    rows[0].push("idle".to_owned());
    for group in &view.groups {
        for row in &group.rows {
            let mut cells = vec![row_label(&group.label(), row)];
            cells.extend(COLUMNS.iter().map(|(_, kinds)| nonzero_time(kinds_time(view, row, kinds))));
            let work = [PartKind::Compute, PartKind::Copy, PartKind::Hidden, PartKind::Exposed];
            let idle = end.saturating_sub(kinds_time(view, row, &work));
            cells.push(format!("{} ({})", time_text(idle), percent_text(idle, end)));
            rows.push(cells);
        }
    }
    for column in (1..=COLUMNS.len()).rev() {
        let used = rows.iter().skip(1).any(|row| row[column] != NONE);
        if !used {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    write_table(text, &rows);
}

/// A cell without a time.
const NONE: &str = "-";

fn nonzero_time(ns: u64) -> String {
    if ns == 0 { NONE.to_owned() } else { time_text(ns) }
}

fn kinds_time(view: &TimelineView<'_>, row: &TrackRow, kinds: &[PartKind]) -> u64 {
    kinds.iter().map(|kind| view.row_time(row, *kind)).sum()
}

/// A line for each group of ranks, and one for all together if there are several ranks.
pub(super) fn rank_lines(view: &TimelineView<'_>) -> Vec<String> {
    let mut lines: Vec<String> = view.groups.iter().map(|group| group_line(view, group)).collect();
    if view.usage.len() > 1 {
        let peers = view.exposed_peer_waits.iter().sum();
        lines.push(format!("all ranks together: {}", usage_text(&RankUsage::of_all(&view.usage), peers)));
    }
    lines
}

/// `ranks 0-3, each: computing 40 us; ...`.
fn group_line(view: &TimelineView<'_>, group: &RankGroup) -> String {
    let rank = group.first_rank();
    let each = if group.ranks.len() > 1 { ", each" } else { "" };
    let usage = view.usage.get(rank).cloned().unwrap_or_default();
    let peers = view.exposed_peer_waits.get(rank).copied().unwrap_or_default();
    format!("{}{each}: {}", group.label(), usage_text(&usage, peers))
}

/// `computing 40 us; communicating 50 us, 10 us of it exposed; 80% hidden by computing`.
fn usage_text(usage: &RankUsage, peers: u64) -> String {
    let mut text = format!("computing {}", time_text(usage.compute));
    if let Some(hidden) = usage.hidden_fraction() {
        let (all, exposed) = (time_text(usage.communication), time_text(usage.exposed));
        let waiting = if peers > 0 { format!(" ({} waiting for peers)", time_text(peers)) } else { String::new() };
        let hidden = (hidden * 100.0).floor();
        let _ = write!(text, "; communicating {all}, {exposed} of it exposed{waiting}; {hidden}% hidden by computing");
        let copying = usage.copying_fraction().map_or(0.0, |part| (part * 100.0).floor());
        if copying >= 1.0 {
            let _ = write!(text, ", {copying}% beside copies");
        }
    }
    text
}

/// Rows of equal length: the first column to the left, the others to the right.
fn write_table(text: &mut String, rows: &[Vec<String>]) {
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

fn write_ops(text: &mut String, view: &TimelineView<'_>, width: usize) {
    let ops = usage::longest_ops(view.trace);
    let rows = ops.iter().take(LONGEST).map(|usage: &OpUsage| {
        let (count, longest) = (format!("{} x", usage.count), format!("at most {}", time_text(usage.longest)));
        vec![time_text(usage.total), count, longest, op_label(Some(usage.op), view)]
    });
    write_list(text, "longest ops, over all ranks and iterations:", &rows.collect::<Vec<_>>(), width);
}

/// By statement: the time in which a rank does not compute because of it.
fn write_exposed(text: &mut String, view: &TimelineView<'_>, width: usize) {
    let mut sums: Vec<(&usize, &LineSum)> = view.line_sums.iter().filter(|(_, sum)| sum.exposed_ns > 0).collect();
    sums.sort_by_key(|(line, sum)| (std::cmp::Reverse(sum.exposed_ns), **line));
    let rows = sums.into_iter().take(LONGEST).map(|(_, sum)| vec![time_text(sum.exposed_ns), op_label(sum.op, view)]);
    write_list(text, "exposed time by line, over all ranks:", &rows.collect::<Vec<_>>(), width);
}

/// The critical path by statement.
fn write_path(text: &mut String, view: &TimelineView<'_>, width: usize) {
    let shares = sum_path_by_op(view.trace, &view.path);
    let rows = shares.iter().take(LONGEST).map(|share| {
        let kind = share.spans.map_or("no span", |spans| spans.kind.name());
        let op = share.spans.map(|spans| spans.op);
        let label = if op.is_some() { op_label(op, view) } else { String::new() };
        vec![time_text(share.total_ns), format!("{} x", share.segments), kind.to_owned(), label]
    });
    write_list(text, "critical path:", &rows.collect::<Vec<_>>(), width);
}

/// The number of messages that are listed.
const MESSAGES: usize = 40;

fn write_messages(text: &mut String, view: &TimelineView<'_>, width: usize) {
    let messages = &view.rendezvous.messages;
    let shown = messages.iter().take(MESSAGES);
    let mut rows: Vec<Vec<String>> =
        shown.map(|message| vec![view.message_time(*message), view.message_text(*message)]).collect();
    if let Some(more) = messages.len().checked_sub(MESSAGES).filter(|more| *more > 0) {
        rows.push(vec![String::new(), format!("and {more} more")]);
    }
    write_list(text, "messages, from the start of the send to the end of the receive:", &rows, width);
}

/// A heading and rows, if there are any: the last column to the left, the others to the right.
fn write_list(text: &mut String, heading: &str, rows: &[Vec<String>], width: usize) {
    let columns = rows.first().map_or(0, Vec::len);
    if columns == 0 {
        return;
    }
    let widths: Vec<usize> =
        (0..columns - 1).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let _ = writeln!(text, "\n{heading}");
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        let line = format!("{}  {}", cells.collect::<String>(), row[columns - 1]);
        let _ = writeln!(text, "{}", truncate_text(&visible::escape_line(line.trim_end()), width));
    }
}

/// `critical path: 210 us in line 4 (communication), 40 us in line 6 (compute)`.
pub(super) fn path_lines(view: &TimelineView<'_>) -> Vec<String> {
    /// More would not be read.
    const NAMED: usize = 4;
    let shares = sum_path_by_op(view.trace, &view.path);
    let mut words: Vec<String> = Vec::new();
    for share in shares.iter().take(NAMED) {
        let time = time_text(share.total_ns);
        words.push(match share.spans {
            Some(spans) => format!("{time} in line {} ({})", view.names.line_number(spans.op), spans.kind.name()),
            None => format!("{time} in no span"),
        });
    }
    let rest: u64 = shares.iter().skip(NAMED).map(|share| share.total_ns).sum();
    if rest > 0 {
        words.push(format!("{} elsewhere", time_text(rest)));
    }
    if words.is_empty() { Vec::new() } else { vec![format!("critical path: {}", words.join(", "))] }
}

/// `line 12: T5 = matmul(T1, T2)`.
fn op_label(op: Option<OpId>, view: &TimelineView<'_>) -> String {
    op.map_or_else(String::new, |op| format!("line {}: {}", view.names.line_number(op), view.names.op_text(op)))
}

fn percent_text(part: u64, whole: u64) -> String {
    format!("{}%", (part as f64 * 100.0 / whole as f64).round())
}
