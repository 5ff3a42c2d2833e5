//! `--timeline=FILE.html`: the timeline as a page that one can zoom, beside the text of its program.
//!
//! The page is one file and loads nothing: its data, its style and its script are within it, and its policy forbids
//! anything else. Without scripts it shows the picture.

use super::chart::chart_heading;
use super::sums;
use super::svg;
use super::view::{PartKind, RankGroup, TimelineView};
use hostir::diag::visible;
use hostir::ir::OpId;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const TEMPLATE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLES: [&str; 2] = [include_str!("picture.css"), include_str!("page.css")];

/// The page.
pub(super) fn draw_page(view: &TimelineView<'_>) -> String {
    let title = format!("{}: {}", view.names.file_name(), chart_heading(view.trace));
    let mut lines = String::new();
    for line in sums::rank_lines(view).iter().chain(&sums::path_lines(view)) {
        let _ = writeln!(lines, "<li>{}</li>", svg::escape_xml(line));
    }
    // Within a script `<` could end it.
    let data = page_data(view).to_string().replace('<', "\\u003c");
    let parts = [
        ("@TITLE@", svg::escape_xml(&title)),
        ("@STYLE@", STYLES.concat()),
        ("@SUMS@", lines),
        ("@FILE@", svg::escape_xml(view.names.file_name())),
        ("@PICTURE@", svg::draw_svg(view)),
        ("@DATA@", data),
        ("@SCRIPT@", SCRIPT.to_owned()),
    ];
    fill_template(TEMPLATE, &parts)
}

/// Puts texts in the places of their names; a name within a text is none.
fn fill_template(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    loop {
        let found = parts.iter().filter_map(|part| Some((rest.find(part.0)?, part)));
        let Some((at, (name, text))) = found.min_by_key(|(at, _)| *at) else {
            page.push_str(rest);
            return page;
        };
        page.push_str(&rest[..at]);
        page.push_str(text);
        rest = &rest[at + name.len()..];
    }
}

/// The numbers of texts and spans in the page.
#[derive(Default)]
struct PageIndex {
    /// By op, in order of first use.
    ops: BTreeMap<OpId, usize>,
    op_values: Vec<Value>,
    iterations: BTreeMap<String, usize>,
    /// By position in the trace, for spans that the page has.
    spans: BTreeMap<usize, usize>,
}

impl PageIndex {
    fn op_number(&mut self, view: &TimelineView<'_>, op: OpId) -> usize {
        if let Some(&known) = self.ops.get(&op) {
            return known;
        }
        let number = self.op_values.len();
        let text = visible::escape_line(view.names.op_text(op));
        self.op_values.push(json!({ "text": text, "lines": view.names.line_numbers(op) }));
        self.ops.insert(op, number);
        number
    }

    fn iteration_number(&mut self, text: String) -> usize {
        let next = self.iterations.len();
        *self.iterations.entry(text).or_insert(next)
    }
}

/// The data that the script draws.
fn page_data(view: &TimelineView<'_>) -> Value {
    let mut index = PageIndex::default();
    let mut spans = Vec::new();
    let groups: Vec<Value> = view.groups.iter().map(|group| group_value(view, group, &mut index, &mut spans)).collect();
    let flows = view.trace.flow_events.iter().filter_map(|flow_event| {
        // Those of folded ranks are those of the first.
        let to = index.spans.get(&flow_event.to)?;
        let from = view.span(flow_event.from);
        Some(json!({ "row": view.row_position(from)?, "at": from.end_ns, "to": to }))
    });
    let messages = view.rendezvous.messages.iter().filter_map(|message| {
        let numbers = [message.send, message.receive].map(|at| index.spans.get(&view.shown_span(at)).copied());
        let [from, to] = [message.send, message.receive].map(|at| view.span(at).rank);
        Some(json!({ "send": numbers[0]?, "receive": numbers[1]?, "from": from, "to": to }))
    });
    let (flows, messages): (Vec<Value>, Vec<Value>) = (flows.collect(), messages.collect());
    let mut iterations = vec![String::new(); index.iterations.len()];
    for (text, number) in index.iterations {
        iterations[number] = text;
    }
    let kinds = PartKind::ALL.into_iter().map(|kind| (kind.css_class().to_owned(), json!(kind.legend_text())));
    json!({
        "file": view.names.file_name(),
        "end": view.trace.end_ns(),
        "kinds": Map::from_iter(kinds),
        "source": source_lines(view),
        "sums": line_sums(view),
        "ops": index.op_values,
        "iterations": iterations,
        "groups": groups,
        "spans": spans,
        "flows": flows,
        "messages": messages,
    })
}

fn group_value(view: &TimelineView<'_>, group: &RankGroup, index: &mut PageIndex, spans: &mut Vec<Value>) -> Value {
    let mut rows = Vec::new();
    for row in &group.rows {
        let mut numbers = Vec::new();
        for &at in &row.spans {
            index.spans.insert(at, spans.len());
            numbers.push(spans.len());
            spans.push(span_value(view, at, index));
        }
        let names: Vec<&str> =
            group.ranks.iter().map(|&rank| view.track_name(rank, row.position).unwrap_or(&row.name)).collect();
        let exposed = view.row_time(row, PartKind::Exposed);
        rows.push(json!({ "name": row.name, "names": names, "exposed": exposed, "spans": numbers }));
    }
    json!({ "label": group.label(), "ranks": group.ranks, "rows": rows })
}

fn span_value(view: &TimelineView<'_>, at: usize, index: &mut PageIndex) -> Value {
    let span = view.span(at);
    let parts = view.span_parts(at).into_iter();
    let parts: Vec<Value> =
        parts.map(|part| json!([part.kind.css_class(), part.time.start_ns, part.time.end_ns])).collect();
    let more: Vec<usize> = span.more.iter().map(|origin| index.op_number(view, origin.op)).collect();
    json!({
        "op": index.op_number(view, span.origin.op),
        "iteration": index.iteration_number(view.names.iteration_text(span.rank, span.origin)),
        "start": span.start_ns,
        "end": span.end_ns,
        "parts": parts,
        "bytes": span.bytes,
        "flop": span.flop,
        "more": more,
        "critical": view.critical.contains(&at),
    })
}

/// The lines of the program, without control characters.
fn source_lines(view: &TimelineView<'_>) -> Vec<String> {
    let text = view.names.source_text();
    text.lines().map(|line| visible::escape_line(&line.replace('\t', "  ")).into_owned()).collect()
}

/// By line: the sum of its statements.
fn line_sums(view: &TimelineView<'_>) -> Map<String, Value> {
    let sums = view.line_sums.iter();
    let sums = sums.map(|(line, sum)| (line.to_string(), json!({ "exposed": sum.exposed_ns, "text": sum.sum_text() })));
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_places_in_texts_stay() {
        let parts = [("@A@", "1 @B@ @A@".to_owned()), ("@B@", "2".to_owned())];
        assert_eq!(fill_template("x @A@ y @B@ z @A@", &parts), "x 1 @B@ @A@ y 2 z 1 @B@ @A@");
    }
}
