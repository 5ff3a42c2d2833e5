//! Traces: spans of time on tracks, and flow events between them. Plain data; the caller writes them to files.
//!
//! If ranks are processes, each has the spans of its own rank on rank 0's clock ([`super::clocks`]);
//! [`Trace::partial_trace`] and [`Trace::join_parts`] split and combine them.
//!
//! A track is a stream of a rank or the queue of one of its communicators. The spans of a track do not overlap
//! and are in order of time. A flow event leads from the span that a wait waits for to the wait.

use super::time_ranges::TimeRange;
use crate::plan::InstRole;
use crate::plan::{InstKind, InstOrigin, Plan, StreamSlot};

/// The clock of a trace's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceClock {
    /// Measured by the host around each instruction.
    Host,
    /// Measured by the devices and converted to one clock.
    Device,
    /// Computed from sizes, without running anything ([`crate::plan::cost`]).
    Model,
}

/// The activity of a span of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SpanKind {
    /// GEMMs, pointwise kernels, reductions, fills.
    Compute,
    /// Copies within a rank.
    Copy,
    /// Collectives, sends and receives, from the moment when this rank takes part until they end.
    Communication,
    /// A stream that waits for another one or for a communication.
    Wait,
    /// An event of a stream that others wait for. It has no duration.
    Event,
}

impl SpanKind {
    /// All kinds.
    pub const ALL: [SpanKind; 5] =
        [SpanKind::Compute, SpanKind::Copy, SpanKind::Communication, SpanKind::Wait, SpanKind::Event];
    /// `compute`, `copy`, ...
    pub fn name(self) -> &'static str {
        match self {
            SpanKind::Compute => "compute",
            SpanKind::Copy => "copy",
            SpanKind::Communication => "communication",
            SpanKind::Wait => "wait",
            SpanKind::Event => "mark",
        }
    }
    /// The kind of an instruction; `None` for those that take no time.
    pub fn from_inst(kind: &InstKind) -> Option<SpanKind> {
        match kind {
            InstKind::Copy { .. } => Some(SpanKind::Copy),
            InstKind::GroupEnd { .. } => Some(SpanKind::Communication),
            InstKind::Record { .. } => Some(SpanKind::Event),
            kind if kind.is_wait() => Some(SpanKind::Wait),
            kind => match kind.role() {
                InstRole::Compute => Some(SpanKind::Compute),
                InstRole::Communication => Some(SpanKind::Communication),
                InstRole::Memory | InstRole::Order => None,
            },
        }
    }
}

/// A stream or a communicator's queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceTrack {
    /// `caller`, `stream 0`, `NCCL 0 1 2 3`, `NCCL 0-15`, `NCCL 0-14:2`, `NCCL second 0 1`.
    pub name: String,
    /// True if the track is a stream of the plan.
    pub stream: bool,
}

/// The tracks of a plan: its streams, then its communicators.
pub fn plan_tracks(plan: &Plan) -> Vec<TraceTrack> {
    let queues = plan.communicators.iter().map(|(_, communicator)| {
        let (team, name) = (team_text(&communicator.team), communicator.name_suffix());
        let name = format!("{}{name} {team}", communicator.backend);
        TraceTrack { name, stream: false }
    });
    let streams = (0..plan.streams).map(|stream| plan.stream_title(StreamSlot(stream)));
    streams.map(|name| TraceTrack { name, stream: true }).chain(queues).collect()
}

/// Ranks in order: a short list is written out (`0 1 2 3`); in a longer one, three or more ranks at a constant
/// distance become a range: `0-15`, `0-14:2`, `0-2 8-10 13`.
fn team_text(ranks: &[u32]) -> String {
    /// The length up to which a list counts as short, in letters.
    const SHORT: usize = 8;
    let all: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let all = all.join(" ");
    if all.len() <= SHORT {
        return all;
    }
    let mut words = Vec::new();
    let mut rest = ranks;
    while let [first, more @ ..] = rest {
        let step = more.first().and_then(|second| second.checked_sub(*first)).unwrap_or(0);
        let pairs = rest.windows(2);
        let length = 1 + pairs.take_while(|pair| step > 0 && pair[0].checked_add(step) == Some(pair[1])).count();
        let (range, after) = if length < 3 { rest.split_at(1) } else { rest.split_at(length) };
        words.push(match (range, step) {
            ([only], _) => only.to_string(),
            ([.., last], 1) => format!("{first}-{last}"),
            ([.., last], _) => format!("{first}-{last}:{step}"),
            ([], _) => String::new(),
        });
        rest = after;
    }
    words.join(" ")
}

/// A span of time on a track.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceSpan {
    /// The rank, as a position in [`Trace::ranks`].
    pub rank: u32,
    /// Its track.
    pub track: u32,
    /// Nanoseconds from the start of the run.
    pub start_ns: u64,
    /// End in nanoseconds from the start of the run; never before the span's start.
    pub end_ns: u64,
    /// The origin of its instruction.
    pub origin: InstOrigin,
    /// The origins of further instructions in the span: those fused into one kernel, those of one group.
    pub more: Box<[InstOrigin]>,
    /// The activity.
    pub kind: SpanKind,
    /// Bytes that this rank read and wrote; for communications, sent and received.
    pub bytes: u64,
    /// Floating-point operations ([`crate::plan::cost::inst_flop`]).
    pub flop: u64,
}

impl TraceSpan {
    /// The duration in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// From its start to its end.
    pub fn time_range(&self) -> TimeRange {
        TimeRange { start_ns: self.start_ns, end_ns: self.end_ns }
    }
}

/// A flow event from one span to another, by their positions in [`Trace::spans`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanDependency {
    /// The span waited for: an event or a communication.
    pub from: usize,
    /// The span that waits.
    pub to: usize,
}

/// A timeline of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The clock of all times.
    pub clock: TraceClock,
    /// The machine of a model's times.
    pub machine: Option<String>,
    /// The tracks of each rank.
    pub ranks: Vec<Vec<TraceTrack>>,
    /// The spans, rank by rank; those of one track in order of time.
    pub spans: Vec<TraceSpan>,
    /// The flow events, from the span waited for to the wait.
    pub flow_events: Vec<SpanDependency>,
    /// The bound on the difference between the clocks of two ranks, in nanoseconds.
    pub clock_skew_ns: u64,
}

/// The trace of one rank: [`Trace`] with positions among its own spans.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct PartialTrace {
    /// Its tracks.
    pub tracks: Vec<TraceTrack>,
    /// Its spans.
    pub spans: Vec<TraceSpan>,
    /// Flow events between its spans.
    pub flow_events: Vec<SpanDependency>,
}

impl Trace {
    /// Combines the ranks' partial traces, in order of rank, and moves the first start to 0.
    pub fn join_parts(clock: TraceClock, parts: Vec<PartialTrace>) -> Self {
        let (ranks, spans, flow_events) = (Vec::new(), Vec::new(), Vec::new());
        let mut trace = Self { clock, machine: None, ranks, spans, flow_events, clock_skew_ns: 0 };
        trace.spans.reserve_exact(parts.iter().map(|part| part.spans.len()).sum());
        trace.flow_events.reserve_exact(parts.iter().map(|part| part.flow_events.len()).sum());
        for part in parts {
            let base = trace.spans.len();
            let flow_events = part.flow_events.iter();
            trace.flow_events.extend(
                flow_events.map(|flow_event| SpanDependency { from: flow_event.from + base, to: flow_event.to + base }),
            );
            trace.spans.extend(part.spans);
            trace.ranks.push(part.tracks);
        }
        let first = trace.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        for span in &mut trace.spans {
            span.start_ns -= first;
            span.end_ns -= first;
        }
        trace
    }

    /// Returns the trace of one rank, with unchanged times.
    pub fn partial_trace(&self, rank: u32) -> PartialTrace {
        let mut part = PartialTrace {
            tracks: self.ranks.get(rank as usize).cloned().unwrap_or_default(),
            ..PartialTrace::default()
        };
        // By span: its position among those of the rank.
        let mut places = vec![None; self.spans.len()];
        for (at, span) in self.spans.iter().enumerate().filter(|(_, span)| span.rank == rank) {
            places[at] = Some(part.spans.len());
            part.spans.push(span.clone());
        }
        let ends = self.flow_events.iter().filter_map(|flow_event| places[flow_event.from].zip(places[flow_event.to]));
        part.flow_events = ends.map(|(from, to)| SpanDependency { from, to }).collect();
        part
    }

    /// The end of the last span, in nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::team_text;

    #[test]
    fn teams_are_short_and_tell_apart() {
        let cases: [(Vec<u32>, &str); 11] = [
            (vec![0], "0"),
            (vec![0, 1, 2, 3], "0 1 2 3"),
            (vec![0, 4, 8, 12], "0 4 8 12"),
            (vec![12, 13, 14, 15], "12-15"),
            ((0..8).collect(), "0-7"),
            ((0..16).collect(), "0-15"),
            ((0..16).step_by(2).collect(), "0-14:2"),
            (vec![0, 1, 2, 8, 9, 10, 13], "0-2 8-10 13"),
            (vec![0, 2, 3, 4, 5, 9, 10], "0 2-5 9 10"),
            (vec![3, 2, 1, 0, 7, 7, 7], "3 2 1 0 7 7 7"),
            (vec![4_294_967_293, 4_294_967_294, 4_294_967_295], "4294967293-4294967295"),
        ];
        for (ranks, expected) in cases {
            assert_eq!(team_text(&ranks), expected);
        }
    }
}
