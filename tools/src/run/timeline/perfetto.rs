//! `--trace`: a timeline as JSON for Perfetto.
//!
//! The format is Chrome's trace event format: a complete event (`X`) a slice, a pair of flow events
//! (`s`, `f`) an arrow, metadata events (`M`) for the names of ranks and tracks. Times are microseconds.
//! A flow event belongs to the slice that began last on its track, so it stands right behind that
//! slice's event; where a wait begins before what it waits for, its end stands behind the latter.

use super::span_names::Names;
use hostir::backend::trace::{Clock, Slice, Trace, Track};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes the whole file, event by event.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(trace: &Trace, names: &Names<'_>, out: &mut dyn Write) -> io::Result<()> {
    let about = json!({
        "program": names.program(),
        "clock": clock(trace.clock),
        "ranks may be apart by (us)": micros(trace.apart_ns),
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\n\"traceEvents\":[")?;
    let mut events = Events { out, separator: "\n" };
    for (rank, tracks) in trace.ranks.iter().enumerate() {
        events.metadata(rank, None, "process_name", &json!({ "name": format!("rank {rank}") }))?;
        events.metadata(rank, None, "process_sort_index", &json!({ "sort_index": rank }))?;
        for (number, Track { name, .. }) in tracks.iter().enumerate() {
            events.metadata(rank, Some(number), "thread_name", &json!({ "name": name }))?;
            let order = json!({ "sort_index": number });
            events.metadata(rank, Some(number), "thread_sort_index", &order)?;
        }
    }
    events.slices(trace, names)?;
    writeln!(out, "\n]}}")
}

/// The clock of a timeline, in words.
fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Host => "host",
        Clock::Device => "devices",
        Clock::Model => "model",
    }
}

/// Nanoseconds as microseconds.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Events written so far.
struct Events<'o> {
    out: &'o mut dyn Write,
    separator: &'static str,
}

impl Events<'_> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        write!(self.out, "{}{event}", std::mem::replace(&mut self.separator, ",\n"))
    }

    fn metadata(
        &mut self,
        rank: usize,
        track: Option<usize>,
        name: &str,
        args: &Value,
    ) -> io::Result<()> {
        let tid = track.map_or(0, |track| track + 1);
        self.event(&json!({ "ph": "M", "pid": rank, "tid": tid, "name": name, "args": args }))
    }

    /// Slices in order of time, each with the ends of arrows that stand behind it.
    fn slices(&mut self, trace: &Trace, names: &Names<'_>) -> io::Result<()> {
        let slices = &trace.slices;
        let mut order: Vec<usize> = (0..slices.len()).collect();
        order.sort_by_key(|&at| (slices[at].start_ns, at));
        let mut behind: Vec<Vec<(usize, Flow)>> = vec![Vec::new(); slices.len()];
        for (id, arrow) in trace.arrows.iter().enumerate() {
            let late = slices[arrow.to].start_ns < slices[arrow.from].start_ns;
            behind[arrow.from].push((id, Flow::Start));
            behind[if late { arrow.from } else { arrow.to }].push((id, Flow::End));
        }
        for at in order {
            let slice = &slices[at];
            self.event(&event(slice, names))?;
            for (id, flow) in &behind[at] {
                let end = &slices[trace.arrows[*id].to];
                let event = match flow {
                    Flow::Start => flow_event("s", *id, slice, slice.start_ns),
                    Flow::End => flow_event("f", *id, end, slice.start_ns),
                };
                self.event(&event)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Flow {
    Start,
    End,
}

fn flow_event(phase: &str, id: usize, slice: &Slice, at_ns: u64) -> Value {
    let mut event = json!({
        "ph": phase, "id": id, "cat": "arrow", "name": "waited for",
        "pid": slice.rank, "tid": slice.track + 1, "ts": micros(at_ns),
    });
    if phase == "f" {
        // To the slice around it, not to the next one.
        event["bp"] = json!("e");
    }
    event
}

fn event(slice: &Slice, names: &Names<'_>) -> Value {
    let mut args = serde_json::Map::new();
    args.insert("line".to_owned(), json!(names.place(slice.origin.op)));
    let iteration = names.iteration(slice.rank, slice.origin);
    if !iteration.is_empty() {
        args.insert("iteration".to_owned(), json!(iteration));
    }
    for (key, value) in [("bytes", slice.bytes), ("flop", slice.flop)] {
        if value > 0 {
            args.insert(key.to_owned(), json!(value));
        }
    }
    if !slice.more.is_empty() {
        let more: Vec<String> = slice
            .more
            .iter()
            .map(|other| format!("{}  {}", names.place(other.op), names.op(other.op)))
            .collect();
        args.insert("with".to_owned(), json!(more));
    }
    json!({
        "ph": "X", "cat": slice.kind.name(), "name": names.slice(slice.rank, slice.origin),
        "pid": slice.rank, "tid": slice.track + 1,
        "ts": micros(slice.start_ns), "dur": micros(slice.ns()), "args": args,
    })
}
