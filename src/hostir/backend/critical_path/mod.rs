//! The critical path of a trace, and the time that each rank waits without computing, by statement.
//!
//! Both follow causes backwards. A span of a stream starts when the one before it on its track has ended. A wait ends
//! with the communication or event that it waits for. A communication starts when its last side takes part: when that
//! rank's queue is free, and the streams that issue it have reached it (`rank_spans`).
//!
//! - The **critical path** ([`find_critical_path`]) starts at the end of the run and follows causes over all ranks to
//!   its start. If one of its segments were shorter and nothing else became critical, the run would end as much
//!   earlier. A span that shares its device or its link with others counts from its start.
//! - The **exposed time** ([`exposed_waits`]) of a rank is the time from the start of the run to the end of the rank's
//!   last span without a compute span. Each of its intervals ends with the start of a compute span, the *waiter*, or
//!   with the rank's end. Causes are followed back from there within the rank, and the interval belongs to the
//!   communications, copies and waits that they lead over. For each rank, computing and exposed time make its end.
//!
//! Neither needs a clock of a certain kind: causes come from the plans and the order of ends, so that a trace of devices
//! is read as one of the model is. What no span explains (a host that issues late) belongs to no span.

mod causes;
mod exposed;
mod rank_spans;

use super::trace::{SpanKind, Trace};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use causes::SpanCauses;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

pub use exposed::{ExposedWait, exposed_waits};

/// A section of a critical path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathSegment {
    /// The span, by its position in [`Trace::spans`]; `None` where no span explains the time.
    pub span: Option<usize>,
    /// Nanoseconds from the start of the run.
    pub start_ns: u64,
    /// Nanoseconds from the start of the run.
    pub end_ns: u64,
}

impl PathSegment {
    /// The duration in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The time on a critical path of an op's spans of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathShare {
    /// The op and the kind of its spans; `None` for what no span explains.
    pub spans: Option<OpSpans>,
    /// Number of segments.
    pub segments: usize,
    /// Nanoseconds of all of them.
    pub total_ns: u64,
}

/// The spans of an op that are of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpSpans {
    /// The op.
    pub op: OpId,
    /// The kind.
    pub kind: SpanKind,
}

/// Returns the critical path of a run: segments in order of time, each of which starts where the one before it ends,
/// from 0 to the run's end. Segments without duration are left out.
pub fn find_critical_path(trace: &Trace, prepared: &PreparedProgram) -> Vec<PathSegment> {
    let mut causes = SpanCauses::new(trace, &prepared.plans);
    let mut segments = Vec::new();
    let mut at = trace.end_ns();
    let mut next = last_span(trace);
    let mut visited = FxHashSet::default();
    // Clocks of ranks that differ could make causes lead in a circle.
    while let Some(span) = next.filter(|&span| visited.insert(span)) {
        let end = trace.spans[span].end_ns.min(at);
        push_segment(&mut segments, None, end, at);
        let cause = causes.cause_of_end(span);
        let start = cause.from_ns.min(end);
        push_segment(&mut segments, Some(span), start, end);
        (at, next) = (start, cause.before);
    }
    push_segment(&mut segments, None, 0, at);
    segments.reverse();
    segments
}

/// The time on a path by op and kind of span, longest first.
pub fn sum_path_by_op(trace: &Trace, segments: &[PathSegment]) -> Vec<PathShare> {
    let mut shares: BTreeMap<Option<OpSpans>, PathShare> = BTreeMap::new();
    for segment in segments {
        let span = segment.span.and_then(|span| trace.spans.get(span));
        let spans = span.map(|span| OpSpans { op: span.origin.op, kind: span.kind });
        let share = shares.entry(spans).or_insert(PathShare { spans, segments: 0, total_ns: 0 });
        share.segments += 1;
        share.total_ns += segment.duration_ns();
    }
    let mut shares: Vec<PathShare> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.total_ns));
    shares
}

/// The first of the spans that end last; work rather than waits and events.
fn last_span(trace: &Trace) -> Option<usize> {
    let spans = trace.spans.iter().enumerate().rev();
    spans.max_by_key(|(_, span)| (span.end_ns, is_work(span.kind))).map(|(place, _)| place)
}

/// Returns true if a span is more than waiting.
fn is_work(kind: SpanKind) -> bool {
    matches!(kind, SpanKind::Compute | SpanKind::Copy | SpanKind::Communication)
}

/// Puts a section before those found so far, which are in reverse order.
fn push_segment(segments: &mut Vec<PathSegment>, span: Option<usize>, start_ns: u64, end_ns: u64) {
    if start_ns < end_ns {
        segments.push(PathSegment { span, start_ns, end_ns });
    }
}
