//! Summaries of a trace: idle time of streams, exposed communication, longest ops.

use super::time_ranges::{TimeRange, common_ranges, merge_ranges, subtract_ranges, total_duration};
use super::trace::{SpanKind, Trace};
use crate::ir::OpId;
use std::collections::BTreeMap;

/// Times of one track, in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TrackUsage {
    /// The time of each kind of span, in the order of [`SpanKind::ALL`].
    pub kinds: [u64; SpanKind::ALL.len()],
    /// The time between start and end of the trace without compute, copy or communication.
    pub idle: u64,
}

/// Times of one rank, in nanoseconds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RankUsage {
    /// Its tracks.
    pub tracks: Vec<TrackUsage>,
    /// The time during which at least one of its streams computes.
    pub compute: u64,
    /// The time during which at least one of its communications is in progress.
    pub communication: u64,
    /// The exposed communication: time with communication in progress and no stream computing.
    pub exposed: u64,
    /// The part of the exposed communication beside which a stream copies.
    pub beside_copies: u64,
}

impl RankUsage {
    /// The sums over ranks, without tracks.
    pub fn of_all(ranks: &[RankUsage]) -> RankUsage {
        RankUsage {
            tracks: Vec::new(),
            compute: ranks.iter().map(|usage| usage.compute).sum(),
            communication: ranks.iter().map(|usage| usage.communication).sum(),
            exposed: ranks.iter().map(|usage| usage.exposed).sum(),
            beside_copies: ranks.iter().map(|usage| usage.beside_copies).sum(),
        }
    }
    /// The share of communication that compute hides, from 0 to 1; `None` without communication.
    pub fn hidden_fraction(&self) -> Option<f64> {
        let hidden = self.communication - self.exposed;
        (self.communication > 0).then(|| hidden as f64 / self.communication as f64)
    }
    /// The share of communication that is beside copies and not beside computing, from 0 to 1; `None` without
    /// communication.
    pub fn copying_fraction(&self) -> Option<f64> {
        (self.communication > 0).then(|| self.beside_copies as f64 / self.communication as f64)
    }
}

/// Summarizes every rank's time.
pub fn rank_usages(trace: &Trace) -> Vec<RankUsage> {
    let end = trace.end_ns();
    let mut ranks: Vec<RankUsage> = Vec::new();
    let mut spans: Vec<[Vec<TimeRange>; 3]> = Vec::new();
    for tracks in &trace.ranks {
        let tracks = vec![TrackUsage::default(); tracks.len()];
        ranks.push(RankUsage { tracks, ..RankUsage::default() });
        spans.push([Vec::new(), Vec::new(), Vec::new()]);
    }
    for span in &trace.spans {
        let rank = span.rank as usize;
        let Some(usage) = ranks.get_mut(rank) else { continue };
        if let Some(track) = usage.tracks.get_mut(span.track as usize) {
            track.kinds[span.kind as usize] += span.duration_ns();
        }
        match span.kind {
            SpanKind::Compute => spans[rank][0].push(span.time_range()),
            SpanKind::Communication => spans[rank][1].push(span.time_range()),
            SpanKind::Copy => spans[rank][2].push(span.time_range()),
            SpanKind::Wait | SpanKind::Event => {}
        }
    }
    for (usage, [compute, communication, copies]) in ranks.iter_mut().zip(spans) {
        for track in &mut usage.tracks {
            let busy = [SpanKind::Compute, SpanKind::Copy, SpanKind::Communication];
            let busy: u64 = busy.iter().map(|kind| track.kinds[*kind as usize]).sum();
            track.idle = end.saturating_sub(busy);
        }
        let (compute, communication) = (merge_ranges(compute), merge_ranges(communication));
        usage.compute = total_duration(&compute);
        usage.communication = total_duration(&communication);
        usage.exposed = usage.communication - total_duration(&common_ranges(&compute, &communication));
        let busy = merge_ranges(compute.into_iter().chain(copies).collect());
        usage.beside_copies =
            usage.exposed - (usage.communication - total_duration(&common_ranges(&busy, &communication)));
    }
    ranks
}

/// By rank: when it communicates and does not compute, merged. Its time is [`RankUsage::exposed`].
pub fn exposed_ranges(trace: &Trace) -> Vec<Vec<TimeRange>> {
    let mut spans = vec![[Vec::new(), Vec::new()]; trace.ranks.len()];
    for span in &trace.spans {
        let Some([compute, communication]) = spans.get_mut(span.rank as usize) else { continue };
        match span.kind {
            SpanKind::Compute => compute.push(span.time_range()),
            SpanKind::Communication => communication.push(span.time_range()),
            SpanKind::Copy | SpanKind::Wait | SpanKind::Event => {}
        }
    }
    let exposed = spans
        .into_iter()
        .map(|[compute, communication]| subtract_ranges(&merge_ranges(communication), &merge_ranges(compute)));
    exposed.collect()
}

/// The count and total duration of one op's spans over all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpUsage {
    /// The op.
    pub op: OpId,
    /// The kind of its spans; an op with several kinds has one entry for each.
    pub kind: SpanKind,
    /// Number of spans.
    pub count: u64,
    /// Nanoseconds of all of them.
    pub total: u64,
    /// Nanoseconds of the longest.
    pub longest: u64,
}

/// The ops by total duration, longest first, without waits.
pub fn longest_ops(trace: &Trace) -> Vec<OpUsage> {
    let mut ops: BTreeMap<(OpId, SpanKind), OpUsage> = BTreeMap::new();
    for span in &trace.spans {
        if matches!(span.kind, SpanKind::Wait | SpanKind::Event) {
            continue;
        }
        let (op, kind) = (span.origin.op, span.kind);
        let none = OpUsage { op, kind, count: 0, total: 0, longest: 0 };
        let usage = ops.entry((op, kind)).or_insert(none);
        usage.count += 1;
        usage.total += span.duration_ns();
        usage.longest = usage.longest.max(span.duration_ns());
    }
    let mut ops: Vec<OpUsage> = ops.into_values().collect();
    ops.sort_by_key(|usage| std::cmp::Reverse(usage.total));
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::trace::{PartialTrace, TraceClock, TraceSpan, TraceTrack};
    use crate::plan::{InstOrigin, IterationId};

    fn span(track: u32, kind: SpanKind, start_ns: u64, end_ns: u64) -> TraceSpan {
        let origin = InstOrigin { op: OpId(track), iteration: IterationId(0) };
        let more = Box::default();
        TraceSpan { rank: 0, track, start_ns, end_ns, origin, more, kind, bytes: 0, flop: 0 }
    }

    /// Computing from 0 to 10 and 20 to 30 (the latter on two streams), a copy from 8 to 14, communication from 5 to 25
    /// and 28 to 40: 10 to 20 and 30 to 40 of it exposed, 10 to 14 beside the copy.
    #[test]
    fn exposed_communication() {
        let track = |name: &str| TraceTrack { name: name.to_owned(), stream: true };
        let spans = vec![
            span(0, SpanKind::Compute, 0, 10),
            span(0, SpanKind::Wait, 10, 20),
            span(0, SpanKind::Compute, 20, 28),
            span(1, SpanKind::Compute, 22, 30),
            span(0, SpanKind::Copy, 8, 14),
            span(2, SpanKind::Communication, 5, 25),
            span(2, SpanKind::Communication, 28, 40),
        ];
        let tracks = vec![track("stream 0"), track("stream 1"), track("NCCL 0 1")];
        let trace = Trace::join_parts(TraceClock::Model, vec![PartialTrace { tracks, spans, flow_events: Vec::new() }]);
        let found = rank_usages(&trace);
        assert_eq!((found[0].compute, found[0].communication, found[0].exposed), (20, 32, 20));
        assert_eq!(found[0].hidden_fraction(), Some(12.0 / 32.0));
        assert_eq!(found[0].copying_fraction(), Some(4.0 / 32.0));
        let idle: Vec<u64> = found[0].tracks.iter().map(|track| track.idle).collect();
        assert_eq!(idle, [16, 32, 8]);
        let ops: Vec<(u32, u64, u64)> = longest_ops(&trace).iter().map(|op| (op.op.0, op.count, op.total)).collect();
        assert_eq!(ops, [(2, 2, 32), (0, 2, 18), (1, 1, 8), (0, 1, 6)]);
    }

    #[test]
    fn a_trace_of_nothing() {
        let trace = Trace::join_parts(TraceClock::Host, vec![PartialTrace::default()]);
        assert_eq!(rank_usages(&trace)[0].hidden_fraction(), None);
        assert!(longest_ops(&trace).is_empty());
    }
}
