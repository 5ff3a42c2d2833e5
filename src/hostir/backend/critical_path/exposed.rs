//! Exposed time by statement: how long each rank computes nothing, and what it waits for.

use super::causes::{awaited_spans, spans_by_rank};
use super::rank_spans::RankSpans;
use crate::backend::trace::{SpanKind, Trace};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::ops::Range;

/// The exposed time that one op's spans of computing wait for another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExposedWait {
    /// The op whose computing starts afterwards; `None` for the end of a rank.
    pub waiter: Option<OpId>,
    /// The op of the communication, copy or wait that takes the time; `None` where no span explains it.
    pub awaited: Option<OpId>,
    /// Nanoseconds, summed over ranks.
    pub total_ns: u64,
    /// The number of ranks with such a wait.
    pub ranks: u32,
    /// Nanoseconds of the rank that waits longest.
    pub longest_ns: u64,
    /// The first rank that waits longest.
    pub longest_rank: u32,
}

/// Exposed time by waiter and by what it waits for.
type WaitTimes = BTreeMap<(Option<OpId>, Option<OpId>), u64>;

/// Returns the exposed time of all ranks, longest first. The module has the definition.
pub fn exposed_waits(trace: &Trace, prepared: &PreparedProgram) -> Vec<ExposedWait> {
    let plans = &prepared.plans;
    let awaited = awaited_spans(trace);
    let of_ranks: Vec<WaitTimes> = plans
        .par_iter()
        .zip(spans_by_rank(trace, plans.len()))
        .map(|(plan, places)| {
            let spans = RankSpans::of_plan(plan, trace, places.clone());
            ExposedRank { trace, spans, awaited: &awaited }.collect_waits(places)
        })
        .collect();
    let mut waits: BTreeMap<(Option<OpId>, Option<OpId>), ExposedWait> = BTreeMap::new();
    for (plan, times) in plans.iter().zip(of_ranks) {
        for ((waiter, awaited), ns) in times {
            let none = ExposedWait { waiter, awaited, total_ns: 0, ranks: 0, longest_ns: 0, longest_rank: plan.rank };
            let wait = waits.entry((waiter, awaited)).or_insert(none);
            wait.total_ns += ns;
            wait.ranks += 1;
            if ns > wait.longest_ns {
                (wait.longest_ns, wait.longest_rank) = (ns, plan.rank);
            }
        }
    }
    let mut waits: Vec<ExposedWait> = waits.into_values().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.total_ns));
    waits
}

/// An interval in which a rank computes nothing.
struct ExposedInterval {
    start_ns: u64,
    end_ns: u64,
    /// The compute span that ends it; `None` for the end of the rank.
    waiter: Option<usize>,
}

/// One rank of a trace.
struct ExposedRank<'t> {
    trace: &'t Trace,
    spans: RankSpans,
    awaited: &'t [Option<u32>],
}

impl ExposedRank<'_> {
    fn collect_waits(&self, places: Range<usize>) -> WaitTimes {
        let mut times = WaitTimes::new();
        let Some(last) = places.clone().rev().max_by_key(|&span| self.trace.spans[span].end_ns) else { return times };
        for interval in self.exposed_intervals(places, self.trace.spans[last].end_ns) {
            self.follow_causes(&interval, last, &mut times);
        }
        times
    }

    /// The intervals from 0 to the rank's end without a compute span, in order.
    fn exposed_intervals(&self, places: Range<usize>, end_ns: u64) -> Vec<ExposedInterval> {
        let spans = &self.trace.spans;
        let mut computing: Vec<usize> = places.filter(|&span| spans[span].kind == SpanKind::Compute).collect();
        computing.sort_by_key(|&span| spans[span].start_ns);
        let mut intervals = Vec::new();
        let mut free = 0;
        for span in computing {
            if spans[span].start_ns > free {
                intervals.push(ExposedInterval { start_ns: free, end_ns: spans[span].start_ns, waiter: Some(span) });
            }
            free = free.max(spans[span].end_ns);
        }
        if free < end_ns {
            intervals.push(ExposedInterval { start_ns: free, end_ns, waiter: None });
        }
        intervals
    }

    /// Assigns an interval to the spans through which its end follows from its start. `last` is the rank's last span.
    fn follow_causes(&self, interval: &ExposedInterval, last: usize, times: &mut WaitTimes) {
        let spans = &self.trace.spans;
        let waiter = interval.waiter.map(|span| spans[span].origin.op);
        let mut next = match interval.waiter {
            Some(span) => self.span_before(span),
            None => Some(last),
        };
        let mut at = interval.end_ns;
        let mut visited = FxHashSet::default();
        while at > interval.start_ns {
            let Some(span) = next.filter(|&span| visited.insert(span)) else { break };
            let end = spans[span].end_ns.clamp(interval.start_ns, at);
            add_time(times, waiter, None, at - end);
            let cause = self.local_cause(span);
            let start = cause.from_ns.clamp(interval.start_ns, end);
            add_time(times, waiter, Some(spans[cause.taking].origin.op), end - start);
            (at, next) = (start, cause.before);
        }
        add_time(times, waiter, None, at - interval.start_ns);
    }

    /// The cause of a span's end on its rank.
    fn local_cause(&self, span: usize) -> LocalCause {
        let own = &self.trace.spans[span];
        let before = LocalCause { from_ns: own.start_ns, taking: span, before: self.span_before(span) };
        let Some(awaited) = self.awaited[span].map(|awaited| awaited as usize) else { return before };
        let source = &self.trace.spans[awaited];
        if source.end_ns > own.start_ns {
            return LocalCause { from_ns: source.end_ns, taking: awaited, before: Some(awaited) };
        }
        if source.kind == SpanKind::Event && self.spans.insts_of(awaited).len() > 0 {
            // The other side of a message moves its data, from when this side announces it.
            return LocalCause { taking: awaited, ..before };
        }
        before
    }

    fn span_before(&self, span: usize) -> Option<usize> {
        self.spans.span_before(span, self.trace)
    }
}

/// The cause of a span's end on its rank.
struct LocalCause {
    /// From here until the span's end, `taking` takes the time.
    from_ns: u64,
    taking: usize,
    /// The span that ended before.
    before: Option<usize>,
}

fn add_time(times: &mut WaitTimes, waiter: Option<OpId>, awaited: Option<OpId>, ns: u64) {
    if ns > 0 {
        *times.entry((waiter, awaited)).or_default() += ns;
    }
}
