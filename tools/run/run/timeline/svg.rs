//! `--timeline=FILE.svg`: the timeline as a picture.
//!
//! Written by hand, since it is rectangles and words: one row for each track, as in the terminal. A row with more spans
//! than dots is drawn by the kind that takes most of each dot, so the size of a picture does not grow with the run.

use super::chart::{by_track, chart_heading, dominant_kinds, truncate_text};
use super::span_names::SpanNames;
use hostir::backend::trace::{SpanDependency, SpanKind, Trace, TraceSpan};
use hostir::backend::usage::{self, RankUsage};
use hostir::diag::visible;
use hostir::plan::cost::time_text;
use std::fmt::Write as _;

/// Sizes in dots.
const WIDTH: f64 = 1000.0;
const LABELS: f64 = 150.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 56.0;
const LANE: f64 = 20.0;
const GAP: f64 = 10.0;
const LETTER: f64 = 6.2;
/// The maximum number of drawn flow events; more would hide the spans.
const ARROWS: usize = 400;
/// The minimum distance between ticks of the axis.
const TICK: f64 = 90.0;

fn kind_color(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Compute => "#4c78a8",
        SpanKind::Copy => "#54a24b",
        SpanKind::Communication => "#f58518",
        SpanKind::Wait => "#dddddd",
        SpanKind::Event => "#888888",
    }
}

/// The positions of lanes and times.
struct SvgLayout {
    end: u64,
    /// By rank and track: the top of the lane.
    tops: Vec<Vec<Option<f64>>>,
    bottom: f64,
}

impl SvgLayout {
    fn new(trace: &Trace, rows: &[(usize, usize, Vec<&TraceSpan>)]) -> Self {
        let mut tops: Vec<Vec<Option<f64>>> = trace.ranks.iter().map(|tracks| vec![None; tracks.len()]).collect();
        let (mut y, mut last) = (TOP, 0);
        for (rank, track, _) in rows {
            if *rank != last {
                y += GAP;
                last = *rank;
            }
            tops[*rank][*track] = Some(y);
            y += LANE;
        }
        Self { end: trace.end_ns().max(1), tops, bottom: y }
    }
    fn x_position(&self, ns: u64) -> f64 {
        LABELS + ns as f64 / self.end as f64 * (WIDTH - LABELS - RIGHT)
    }
    fn row_top(&self, span: &TraceSpan) -> Option<f64> {
        *self.tops.get(span.rank as usize)?.get(span.track as usize)?
    }
}

/// The picture.
pub(in super::super) fn draw_svg(trace: &Trace, names: &SpanNames<'_>) -> String {
    let rows = by_track(trace);
    let layout = SvgLayout::new(trace, &rows);
    let height = layout.bottom + 34.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    draw_head(&mut out, trace, names);
    draw_axis(&mut out, &layout);
    for (rank, track, spans) in &rows {
        let Some(top) = layout.tops[*rank][*track] else { continue };
        let label = format!("rank {rank}  {}", trace.ranks[*rank][*track].name);
        row_name(&mut out, top, &label);
        if spans.len() > WIDTH as usize {
            draw_coarse_row(&mut out, spans, top, &layout);
        } else {
            spans.iter().for_each(|span| draw_span(&mut out, span, top, &layout, names));
        }
    }
    draw_flow_events(&mut out, trace, &layout);
    draw_foot(&mut out, &usage::rank_usages(trace), layout.bottom + 24.0);
    out.push_str("</svg>\n");
    out
}

/// A row's name in front of it; pointing at a truncated one shows all of it.
pub(super) fn row_name(out: &mut String, top: f64, name: &str) {
    let short = fit_text(name, LABELS - 8.0);
    if short == name {
        return draw_words(out, 4.0, top + 14.0, "#333333", name);
    }
    let (name, short, y) = (escape_xml(name), escape_xml(&short), top + 14.0);
    let _ = writeln!(out, "<text x=\"4.0\" y=\"{y:.1}\" fill=\"#333333\">{short}<title>{name}</title></text>");
}

fn draw_head(out: &mut String, trace: &Trace, names: &SpanNames<'_>) {
    let program = names.file_name();
    let heading = chart_heading(trace);
    draw_words(out, 4.0, 16.0, "#000000", &format!("{program}: {}", heading.trim_end()));
    let mut x = LABELS;
    for kind in SpanKind::ALL.into_iter().filter(|kind| *kind != SpanKind::Event) {
        draw_rectangle(out, Rectangle { x, y: 24.0, width: 10.0, height: 10.0 }, kind_color(kind), "");
        draw_words(out, x + 14.0, 33.0, "#333333", kind.name());
        x += 14.0 + LETTER * (kind.name().len() + 3) as f64;
    }
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
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"#eeeeee\"/>",
            TOP - 4.0,
            layout.bottom
        );
        if x < WIDTH - 50.0 {
            draw_words(out, x, TOP - 8.0, "#777777", &round_time(at, step));
        }
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

fn draw_span(out: &mut String, span: &TraceSpan, top: f64, layout: &SvgLayout, names: &SpanNames<'_>) {
    let (x, width) =
        (layout.x_position(span.start_ns), layout.x_position(span.end_ns) - layout.x_position(span.start_ns));
    let name = names.span_name(span.rank, span.origin);
    let title = format!(
        "{} ({}:{}, {})",
        name,
        names.file_name(),
        names.line_number(span.origin.op),
        time_text(span.duration_ns())
    );
    let (inset, height) = if span.kind == SpanKind::Wait { (7.0, LANE - 14.0) } else { (2.0, LANE - 4.0) };
    let rectangle = Rectangle { x, y: top + inset, width: width.max(0.5), height };
    draw_rectangle(out, rectangle, kind_color(span.kind), &title);
    let label = fit_text(&name, width - 6.0);
    if span.kind != SpanKind::Wait && label.chars().count() > 3 {
        draw_words(out, x + 3.0, top + 14.0, "#ffffff", &label);
    }
}

/// A lane of more slices than dots.
fn draw_coarse_row(out: &mut String, spans: &[&TraceSpan], top: f64, layout: &SvgLayout) {
    let dots = (WIDTH - LABELS - RIGHT) as usize;
    let kinds = dominant_kinds(spans, layout.end, dots);
    let mut x = LABELS;
    for run in kinds.chunk_by(|a, b| a == b) {
        if let Some(kind) = run[0] {
            let width = run.len() as f64;
            let rectangle = Rectangle { x, y: top + 2.0, width, height: LANE - 4.0 };
            draw_rectangle(out, rectangle, kind_color(kind), "");
        }
        x += run.len() as f64;
    }
}

/// From the end of the awaited span to the end of the wait, or to the start of the wait if that is later.
fn draw_flow_events(out: &mut String, trace: &Trace, layout: &SvgLayout) {
    let drawn: Vec<_> = trace
        .flow_events
        .iter()
        .filter_map(|flow_event: &SpanDependency| {
            let (from, to) = (trace.spans.get(flow_event.from)?, trace.spans.get(flow_event.to)?);
            let (y1, y2) = (layout.row_top(from)? + LANE / 2.0, layout.row_top(to)? + LANE / 2.0);
            let x2 = to.end_ns.min(to.start_ns.max(from.end_ns));
            Some((layout.x_position(from.end_ns), y1, layout.x_position(x2), y2))
        })
        .collect();
    if drawn.len() > ARROWS {
        return;
    }
    for (x1, y1, x2, y2) in drawn {
        let _ = writeln!(
            out,
            "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#222222\" stroke-opacity=\"0.45\" fill=\"none\"/>\
             <circle cx=\"{x2:.1}\" cy=\"{y2:.1}\" r=\"1.6\" fill=\"#222222\"/>"
        );
    }
}

fn draw_foot(out: &mut String, usage: &[RankUsage], y: f64) {
    let communication: u64 = usage.iter().map(|rank| rank.communication).sum();
    let exposed: u64 = usage.iter().map(|rank| rank.exposed).sum();
    let all = RankUsage { communication, exposed, ..RankUsage::default() };
    if let Some(hidden) = all.hidden_fraction() {
        let text = format!(
            "communication of all ranks together: {}, {} of it exposed; {}% hidden behind computing",
            time_text(communication),
            time_text(exposed),
            (hidden * 100.0).floor()
        );
        draw_words(out, LABELS, y, "#333333", &text);
    }
}

/// A rectangle: its upper left corner and its size.
#[derive(Clone, Copy)]
struct Rectangle {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

fn draw_rectangle(out: &mut String, rectangle: Rectangle, fill: &str, title: &str) {
    let Rectangle { x, y, width, height } = rectangle;
    let _ = write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"");
    if title.is_empty() {
        out.push_str("/>\n");
    } else {
        // A thin edge tells neighbours apart.
        let title = escape_xml(title);
        let _ = writeln!(out, " stroke=\"#ffffff\" stroke-width=\"0.7\"><title>{title}</title></rect>");
    }
}

fn draw_words(out: &mut String, x: f64, y: f64, fill: &str, text: &str) {
    let text = escape_xml(text);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\">{text}</text>");
}

/// As much of a text as goes into a width.
fn fit_text(text: &str, width: f64) -> String {
    truncate_text(text, (width / LETTER).max(0.0) as usize)
}

/// A text as XML, which has no control characters, not even as references.
fn escape_xml(text: &str) -> String {
    let text = visible::escape_line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_names_that_are_cut_say_so() {
        let mut out = String::new();
        row_name(&mut out, 0.0, "rank 0  NCCL 0-15");
        row_name(&mut out, 0.0, "rank 0  NCCL 0 3 4 9 11 12 & 14");
        let expected = "<text x=\"4.0\" y=\"14.0\" fill=\"#333333\">rank 0  NCCL 0-15</text>\n\
            <text x=\"4.0\" y=\"14.0\" fill=\"#333333\">rank 0  NCCL 0 3 4 9 …\
            <title>rank 0  NCCL 0 3 4 9 11 12 &amp; 14</title></text>\n";
        assert_eq!(out, expected);
    }
}
