//! `--trace`: a timeline as JSON for Perfetto.
//!
//! The format is Chrome's trace event format: a complete event (`X`) for a span, a pair of flow events (`s`, `f`) for a
//! dependency, metadata events (`M`) for the names of ranks and tracks. Times are microseconds. A flow event belongs to
//! the span that began last on its track, so it comes directly after that span's event; if a wait begins before the
//! span that it waits for, its end comes after the latter.

use super::span_names::SpanNames;
use hostir::backend::trace::{Trace, TraceClock, TraceSpan, TraceTrack};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes the whole file, event by event.
///
/// # Errors
/// Those of the writer.
pub(super) fn write_trace(trace: &Trace, names: &SpanNames<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut about = json!({
        "program": names.program_path(),
        "clock": clock_name(trace.clock),
        "ranks may be apart by (us)": to_micros(trace.clock_skew_ns),
    });
    if let Some(machine) = &trace.machine {
        about["machine"] = json!(machine);
    }
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\n\"traceEvents\":[")?;
    let mut events = EventWriter { out, separator: "\n" };
    for (rank, tracks) in trace.ranks.iter().enumerate() {
        events.write_metadata(rank, None, "process_name", &json!({ "name": format!("rank {rank}") }))?;
        events.write_metadata(rank, None, "process_sort_index", &json!({ "sort_index": rank }))?;
        for (number, TraceTrack { name, .. }) in tracks.iter().enumerate() {
            events.write_metadata(rank, Some(number), "thread_name", &json!({ "name": name }))?;
            let order = json!({ "sort_index": number });
            events.write_metadata(rank, Some(number), "thread_sort_index", &order)?;
        }
    }
    events.write_spans(trace, names)?;
    writeln!(out, "\n]}}")
}

/// The clock of a timeline, in words.
fn clock_name(clock: TraceClock) -> &'static str {
    match clock {
        TraceClock::Host => "host",
        TraceClock::Device => "devices",
        TraceClock::Model => "model",
    }
}

/// Nanoseconds as microseconds.
fn to_micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Events written so far.
struct EventWriter<'o> {
    out: &'o mut dyn Write,
    separator: &'static str,
}

impl EventWriter<'_> {
    fn write_event(&mut self, event: &Value) -> io::Result<()> {
        write!(self.out, "{}{event}", std::mem::replace(&mut self.separator, ",\n"))
    }

    fn write_metadata(&mut self, rank: usize, track: Option<usize>, name: &str, args: &Value) -> io::Result<()> {
        let tid = track.map_or(0, |track| track + 1);
        self.write_event(&json!({ "ph": "M", "pid": rank, "tid": tid, "name": name, "args": args }))
    }

    /// Writes spans in order of time, each with the ends of flow events that follow it.
    fn write_spans(&mut self, trace: &Trace, names: &SpanNames<'_>) -> io::Result<()> {
        let spans = &trace.spans;
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|&at| (spans[at].start_ns, at));
        let mut after: Vec<Vec<(usize, FlowPhase)>> = vec![Vec::new(); spans.len()];
        for (id, flow_event) in trace.flow_events.iter().enumerate() {
            let late = spans[flow_event.to].start_ns < spans[flow_event.from].start_ns;
            after[flow_event.from].push((id, FlowPhase::Start));
            after[if late { flow_event.from } else { flow_event.to }].push((id, FlowPhase::End));
        }
        for at in order {
            let span = &spans[at];
            self.write_event(&span_event(span, names))?;
            for (id, flow) in &after[at] {
                let end = &spans[trace.flow_events[*id].to];
                let event = match flow {
                    FlowPhase::Start => flow_event("s", *id, span, span.start_ns),
                    FlowPhase::End => flow_event("f", *id, end, span.start_ns),
                };
                self.write_event(&event)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum FlowPhase {
    Start,
    End,
}

fn flow_event(phase: &str, id: usize, span: &TraceSpan, at_ns: u64) -> Value {
    let mut event = json!({
        "ph": phase, "id": id, "cat": "arrow", "name": "waited for",
        "pid": span.rank, "tid": span.track + 1, "ts": to_micros(at_ns),
    });
    if phase == "f" {
        // Binds to the enclosing span, not to the next one.
        event["bp"] = json!("e");
    }
    event
}

fn span_event(span: &TraceSpan, names: &SpanNames<'_>) -> Value {
    let mut args = serde_json::Map::new();
    args.insert("line".to_owned(), json!(names.source_location(span.origin.op)));
    let iteration = names.iteration_text(span.rank, span.origin);
    if !iteration.is_empty() {
        args.insert("iteration".to_owned(), json!(iteration));
    }
    for (key, value) in [("bytes", span.bytes), ("flop", span.flop)] {
        if value > 0 {
            args.insert(key.to_owned(), json!(value));
        }
    }
    if !span.more.is_empty() {
        let more: Vec<String> = span
            .more
            .iter()
            .map(|other| format!("{}  {}", names.source_location(other.op), names.op_text(other.op)))
            .collect();
        args.insert("with".to_owned(), json!(more));
    }
    json!({
        "ph": "X", "cat": span.kind.name(), "name": names.span_name(span.rank, span.origin),
        "pid": span.rank, "tid": span.track + 1,
        "ts": to_micros(span.start_ns), "dur": to_micros(span.duration_ns()), "args": args,
    })
}
