//! `--timeline=FILE.svg`: the timeline as a picture.
//!
//! Written by hand, since it is rectangles and words: one row for each track, as in the terminal. A row with more spans
//! than dots is drawn by the kind that takes most of each dot, so the size of a picture does not grow with the run.
//! Colours are classes, for light and dark surroundings; kinds also differ in their shape, for those who see no
//! colours. The sums are the picture's text alternative.

use super::chart::{chart_heading, dominant_kinds, truncate_text};
use super::sums;
use super::view::{PartKind, RankGroup, SpanPart, TimelineView, TrackRow};
use hostir::backend::time_ranges::TimeRange;
use hostir::backend::trace::TraceSpan;
use hostir::diag::visible;
use hostir::plan::cost::time_text;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Sizes in dots.
const WIDTH: f64 = 1000.0;
const LABELS: f64 = 150.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 56.0;
const LANE: f64 = 20.0;
const GAP: f64 = 10.0;
const LETTER: f64 = 6.2;
/// The height of a line of the sums.
const LINE: f64 = 15.0;
/// The maximum number of drawn flow events and of messages; more would hide the spans.
const ARROWS: usize = 400;
/// The minimum distance between ticks of the axis.
const TICK: f64 = 90.0;
/// The maximum number of lines of sums.
const SUMS: usize = 12;

/// The colours of a page and of its parts, by light and dark.
const STYLE: &str = include_str!("picture.css");

/// The positions of rows and times.
struct SvgLayout {
    end: u64,
    /// By rank and track: the top of the row.
    tops: Vec<Vec<Option<f64>>>,
    bottom: f64,
}

impl SvgLayout {
    fn new(view: &TimelineView<'_>) -> Self {
        let ranks = view.trace.ranks.iter();
        let mut tops: Vec<Vec<Option<f64>>> = ranks.map(|tracks| vec![None; tracks.len()]).collect();
        let mut y = TOP;
        for group in &view.groups {
            for row in &group.rows {
                for &rank in &group.ranks {
                    tops[rank][row.track] = Some(y);
                }
                y += LANE;
            }
            y += GAP;
        }
        Self { end: view.trace.end_ns().max(1), tops, bottom: if y > TOP { y - GAP } else { y } }
    }
    fn x_position(&self, ns: u64) -> f64 {
        LABELS + ns as f64 / self.end as f64 * (WIDTH - LABELS - RIGHT)
    }
    fn row_top(&self, span: &TraceSpan) -> Option<f64> {
        *self.tops.get(span.rank as usize)?.get(span.track as usize)?
    }
    /// A box of a time in a row.
    fn place_box(&self, time: TimeRange, y: f64, height: f64) -> PlacedBox {
        let x = self.x_position(time.start_ns);
        PlacedBox { x, y, width: (self.x_position(time.end_ns) - x).max(0.5), height }
    }
}

/// The picture.
pub(super) fn draw_svg(view: &TimelineView<'_>) -> String {
    let layout = SvgLayout::new(view);
    let mut lines = sums::rank_lines(view);
    if lines.len() > SUMS {
        // The last one is about all ranks.
        lines.drain(SUMS - 1..lines.len() - 1);
    }
    lines.extend(sums::path_lines(view));
    let height = layout.bottom + 14.0 + LINE * lines.len() as f64;
    let mut out = String::new();
    draw_start(&mut out, view, &lines, height);
    draw_axis(&mut out, &layout);
    for group in &view.groups {
        for row in &group.rows {
            let top = layout.tops[group.first_rank()][row.track].unwrap_or(TOP);
            row_name(&mut out, top, &format!("{}  {}", group.label(), row.name));
            draw_row(&mut out, view, row, top, &layout);
            let exposed = view.row_time(row, PartKind::Exposed);
            if exposed > 0 {
                let text = format!("{} exposed", time_text(exposed));
                draw_words(&mut out, WIDTH - RIGHT + 6.0, top + 14.0, "strong", &text);
            }
        }
    }
    draw_flow_events(&mut out, view, &layout);
    if view.pairs {
        draw_messages(&mut out, view, &layout);
    }
    for (number, line) in lines.iter().enumerate() {
        draw_words(&mut out, 4.0, layout.bottom + 20.0 + LINE * number as f64, "text", line);
    }
    out.push_str("</svg>\n");
    out
}

/// The picture's start: its text alternative, its colours, its heading and its legend.
fn draw_start(out: &mut String, view: &TimelineView<'_>, lines: &[String], height: f64) {
    let heading = format!("{}: {}", view.names.file_name(), chart_heading(view.trace));
    let title = escape_xml(&heading);
    let about = escape_xml(&lines.join(". "));
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"timeline-title timeline-sums\" font-family=\"Helvetica, Arial, sans-serif\" \
         font-size=\"11\">\n\
         <title id=\"timeline-title\">{title}</title>\n\
         <desc id=\"timeline-sums\">{about}</desc>\n\
         <style>\n{STYLE}</style>\n\
         <defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect class=\"pale\" width=\"5\" height=\"5\"/>\
         <rect class=\"stripe\" width=\"1.5\" height=\"5\"/></pattern></defs>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    draw_words(out, 4.0, 16.0, "strong", &heading);
    draw_legend(out, view);
}

/// The kinds of parts that there are.
fn draw_legend(out: &mut String, view: &TimelineView<'_>) {
    let rows = view.groups.iter().flat_map(|group| &group.rows);
    let parts = rows.flat_map(|row| row.spans.iter().flat_map(|&at| view.span_parts(at)));
    let mut used = [false; PartKind::ALL.len()];
    parts.for_each(|part| used[part.kind as usize] = true);
    let mut x = LABELS;
    for kind in PartKind::ALL.into_iter().filter(|kind| used[*kind as usize]) {
        draw_part(out, kind, PlacedBox { x, y: 24.0, width: 14.0, height: 10.0 });
        draw_words(out, x + 18.0, 33.0, "text", kind.legend_text());
        x += 18.0 + LETTER * (kind.legend_text().len() + 3) as f64;
    }
    if !view.critical.is_empty() {
        let _ = writeln!(out, "<rect class=\"critical\" x=\"{x:.1}\" y=\"25.0\" width=\"14.0\" height=\"2.5\"/>");
        draw_words(out, x + 18.0, 33.0, "text", "critical path");
    }
}

/// A row's name in front of it; pointing at a truncated one shows all of it.
fn row_name(out: &mut String, top: f64, name: &str) {
    let short = fit_text(name, LABELS - 8.0);
    if short == name {
        return draw_words(out, 4.0, top + 14.0, "text", name);
    }
    let (name, short, y) = (escape_xml(name), escape_xml(&short), top + 14.0);
    let _ = writeln!(out, "<text class=\"text\" x=\"4.0\" y=\"{y:.1}\">{short}<title>{name}</title></text>");
}

/// Thin lines at round times.
fn draw_axis(out: &mut String, layout: &SvgLayout) {
    let least = layout.end as f64 * TICK / (WIDTH - LABELS - RIGHT);
    let decade = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = step.into_iter().find(|step| *step >= least).unwrap_or(least);
    let step = (step as u64).max(1);
    let mut at = 0;
    while at <= layout.end {
        let x = layout.x_position(at);
        let (top, bottom) = (TOP - 4.0, layout.bottom);
        let _ = writeln!(out, "<path class=\"tick\" d=\"M{x:.1} {top:.0}V{bottom:.0}\"/>");
        draw_words(out, x, TOP - 8.0, "faint", &round_time(at, step));
        at += step;
    }
}

/// A time that is a multiple of `step`, without insignificant digits.
fn round_time(ns: u64, step: u64) -> String {
    let (unit, word) = match step {
        0..=999 => (1, "ns"),
        1_000..=999_999 => (1_000, "us"),
        1_000_000..=999_999_999 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {word}", ns / unit)
}

fn draw_row(out: &mut String, view: &TimelineView<'_>, row: &TrackRow, top: f64, layout: &SvgLayout) {
    if row.spans.len() <= WIDTH as usize {
        return row.spans.iter().for_each(|&at| draw_span(out, view, at, top, layout));
    }
    let dots = (WIDTH - LABELS - RIGHT) as usize;
    let parts: Vec<SpanPart> = row.spans.iter().flat_map(|&at| view.span_parts(at)).collect();
    let kinds = dominant_kinds(&parts, layout.end, dots);
    let mut x = LABELS;
    for run in kinds.chunk_by(|a, b| a == b) {
        let width = run.len() as f64;
        if let Some(kind) = run[0] {
            draw_part(out, kind, PlacedBox { x, y: top + 2.0, width, height: LANE - 4.0 });
        }
        x += width;
    }
}

/// A span with its parts, its name, and a text that shows when one points at it.
fn draw_span(out: &mut String, view: &TimelineView<'_>, at: usize, top: f64, layout: &SvgLayout) {
    let span = view.span(at);
    let (file, line) = (view.names.file_name(), view.names.line_number(span.origin.op));
    let name = view.names.span_name(span.rank, span.origin);
    let mut title = format!("{name} ({file}:{line}, {})", time_text(span.duration_ns()));
    let parts = view.span_parts(at);
    for part in parts.iter().filter(|_| parts.len() > 1) {
        let _ = write!(title, "\n{}: {}", part.kind.legend_text(), time_text(part.time.duration_ns()));
    }
    let _ = write!(out, "<g><title>{}</title>", escape_xml(&title));
    for part in &parts {
        draw_part(out, part.kind, layout.place_box(part.time, top + 2.0, LANE - 4.0));
    }
    if view.critical.contains(&at) {
        let PlacedBox { x, y, width, height } = layout.place_box(span.time_range(), top, 2.5);
        let _ = write!(
            out,
            "<rect class=\"critical\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }
    let mut moving = parts.iter().filter(|part| part.kind.is_work()).map(|part| part.time);
    if let Some(first) = moving.next() {
        let (from, to) = (first.start_ns, moving.next_back().map_or(first.end_ns, |part| part.end_ns));
        let x = layout.x_position(from);
        let (op, iteration) = (view.names.op_text(span.origin.op), view.names.iteration_text(span.rank, span.origin));
        let columns = ((layout.x_position(to) - x - 6.0) / LETTER).max(0.0) as usize;
        let label = fit_label(op, &iteration, columns);
        if !label.is_empty() {
            draw_words(out, x + 3.0, top + 14.0, "on", &label);
        }
    }
    out.push_str("</g>\n");
}

/// As much of a statement as goes into so many columns in front of its iteration, or the iteration alone: it tells the
/// spans of a loop apart.
fn fit_label(op: &str, iteration: &str, columns: usize) -> String {
    /// Fewer columns of a statement say nothing.
    const LEAST: usize = 4;
    let taken = if iteration.is_empty() { 0 } else { iteration.chars().count() + 2 };
    if columns >= taken + LEAST || (columns >= taken + op.chars().count() && !op.is_empty()) {
        let separator = if taken == 0 { "" } else { "  " };
        return format!("{}{separator}{iteration}", truncate_text(op, columns - taken));
    }
    if iteration.is_empty() || iteration.chars().count() > columns { String::new() } else { iteration.to_owned() }
}

/// From the end of the awaited span to the end of the wait, or to the start of the wait if that is later.
fn draw_flow_events(out: &mut String, view: &TimelineView<'_>, layout: &SvgLayout) {
    let drawn_ranks: BTreeSet<usize> = view.groups.iter().map(RankGroup::first_rank).collect();
    let flow_events = view.trace.flow_events.iter().filter_map(|flow_event| {
        let (from, to) = (view.span(flow_event.from), view.span(flow_event.to));
        let (y1, y2) = (layout.row_top(from)?, layout.row_top(to)?);
        let x2 = layout.x_position(to.end_ns.min(to.start_ns.max(from.end_ns)));
        let is_drawn = drawn_ranks.contains(&(to.rank as usize));
        is_drawn.then(|| (layout.x_position(from.end_ns), y1 + LANE / 2.0, x2, y2 + LANE / 2.0))
    });
    let drawn: Vec<_> = flow_events.take(ARROWS + 1).collect();
    if drawn.len() > ARROWS {
        return;
    }
    for (x1, y1, x2, y2) in drawn {
        let _ = writeln!(
            out,
            "<path class=\"arrow\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\
             <circle class=\"dot\" cx=\"{x2:.1}\" cy=\"{y2:.1}\" r=\"1.6\"/>"
        );
    }
}

/// A line from the start of each send to the end of its receive.
fn draw_messages(out: &mut String, view: &TimelineView<'_>, layout: &SvgLayout) {
    if view.rendezvous.messages.len() > ARROWS {
        return;
    }
    for message in &view.rendezvous.messages {
        let (send, receive) = (view.span(message.send), view.span(message.receive));
        let (Some(y1), Some(y2)) = (layout.row_top(send), layout.row_top(receive)) else { continue };
        let (x1, x2) = (layout.x_position(send.start_ns), layout.x_position(receive.end_ns));
        let (y1, y2) = (y1 + LANE / 2.0, y2 + LANE / 2.0);
        let title = format!("{} ({})", view.message_text(*message), view.message_time(*message));
        let title = escape_xml(&title);
        let _ = writeln!(
            out,
            "<g><title>{title}</title><path class=\"message\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\
             <circle class=\"message-end\" cx=\"{x2:.1}\" cy=\"{y2:.1}\" r=\"2.5\"/></g>"
        );
    }
}

/// A rectangle: its upper left corner and its size.
#[derive(Clone, Copy)]
struct PlacedBox {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// A part of a span: waiting is flatter than work, and exposed communication has a bar below.
fn draw_part(out: &mut String, kind: PartKind, place: PlacedBox) {
    let PlacedBox { x, mut y, width, mut height } = place;
    if !kind.is_work() {
        (y, height) = (y + height * 0.3, height * 0.4);
    }
    let class = kind.css_class();
    let _ =
        write!(out, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>");
    if kind == PartKind::Exposed {
        let (y, height) = (y + height - 3.0, 3.0);
        let _ =
            write!(out, "<rect class=\"mark\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>");
    }
    out.push('\n');
}

fn draw_words(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = escape_xml(text);
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

/// As much of a text as goes into a width.
fn fit_text(text: &str, width: f64) -> String {
    truncate_text(text, (width / LETTER).max(0.0) as usize)
}

/// A text as XML, which has no control characters but line breaks, not even as references.
pub(super) fn escape_xml(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible::escape_line).collect();
    let text = lines.join("\n").replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_that_are_cut_say_so() {
        let mut out = String::new();
        row_name(&mut out, 0.0, "rank 0  NCCL 0-15");
        row_name(&mut out, 0.0, "rank 0  NCCL 0 3 4 9 11 12 & 14");
        let expected = "<text class=\"text\" x=\"4.0\" y=\"14.0\">rank 0  NCCL 0-15</text>\n\
            <text class=\"text\" x=\"4.0\" y=\"14.0\">rank 0  NCCL 0 3 4 9 …\
            <title>rank 0  NCCL 0 3 4 9 11 12 &amp; 14</title></text>\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn labels_keep_the_iteration() {
        let op = "C[at] = matmul(G[at], B)";
        let cases = [
            (40, "C[at] = matmul(G[at], B)  s=3"),
            (29, "C[at] = matmul(G[at], B)  s=3"),
            (20, "C[at] = matmul…  s=3"),
            (9, "C[a…  s=3"),
            (8, "s=3"),
            (3, "s=3"),
            (2, ""),
        ];
        for (columns, expected) in cases {
            assert_eq!(fit_label(op, "s=3", columns), expected, "{columns}");
        }
        assert_eq!([fit_label(op, "", 9), fit_label(op, "", 3)], ["C[at] = …", ""]);
    }
}
