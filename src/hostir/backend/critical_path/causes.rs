//! The cause of each span's start or end: the span that had to end before.

use super::rank_spans::RankSpans;
use crate::backend::trace::{SpanKind, Trace};
use crate::plan::{InstId, Plan, PlanMatching};

/// The cause of a span's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndCause {
    /// From here until its end, the span itself takes the time.
    pub(super) from_ns: u64,
    /// The span that ended before; `None` at the start of a track.
    pub(super) before: Option<usize>,
}

/// The causes of a trace's spans.
pub(super) struct SpanCauses<'t> {
    trace: &'t Trace,
    plans: &'t [Plan],
    matching: PlanMatching<'t>,
    /// By rank, once something of it is asked for.
    ranks: Vec<Option<RankSpans>>,
    /// By rank: the positions of its spans in the trace.
    places: Vec<std::ops::Range<usize>>,
    /// By span: the span that it waits for.
    awaited: Vec<Option<u32>>,
}

impl<'t> SpanCauses<'t> {
    pub(super) fn new(trace: &'t Trace, plans: &'t [Plan]) -> Self {
        Self {
            trace,
            plans,
            matching: PlanMatching::new(plans),
            ranks: plans.iter().map(|_| None).collect(),
            places: spans_by_rank(trace, plans.len()),
            awaited: awaited_spans(trace),
        }
    }

    /// The cause of a span's end, on whichever rank it is.
    pub(super) fn cause_of_end(&mut self, span: usize) -> EndCause {
        let own = &self.trace.spans[span];
        match own.kind {
            SpanKind::Wait => {
                let late = self.awaited[span].map(|awaited| self.transfer_of(awaited as usize));
                match late.filter(|&late| self.trace.spans[late].end_ns > own.start_ns) {
                    Some(late) => EndCause { from_ns: self.trace.spans[late].end_ns, before: Some(late) },
                    None => self.cause_of_start(span),
                }
            }
            SpanKind::Communication => {
                let last = self.last_side(span);
                self.cause_of_start(last)
            }
            SpanKind::Compute | SpanKind::Copy | SpanKind::Event => self.cause_of_start(span),
        }
    }

    /// The cause of a span's start, on its rank.
    fn cause_of_start(&mut self, span: usize) -> EndCause {
        let from_ns = self.trace.spans[span].start_ns;
        let trace = self.trace;
        let before = self.rank_of(span).and_then(|rank| rank.span_before(span, trace));
        EndCause { from_ns, before }
    }

    /// The rank of a span.
    fn rank_of(&mut self, span: usize) -> Option<&RankSpans> {
        self.rank_spans(self.trace.spans[span].rank as usize)
    }

    fn rank_spans(&mut self, rank: usize) -> Option<&RankSpans> {
        let places = self.places.get(rank)?.clone();
        let (trace, plan) = (self.trace, self.plans.get(rank)?);
        Some(self.ranks.get_mut(rank)?.get_or_insert_with(|| RankSpans::of_plan(plan, trace, places)))
    }

    /// The span with the data of a message on streams that the other side copies; else the span itself.
    fn transfer_of(&mut self, span: usize) -> usize {
        let own = &self.trace.spans[span];
        if own.kind != SpanKind::Event {
            return span;
        }
        let sides = self.other_sides(span);
        sides.into_iter().find(|&side| self.trace.spans[side].kind == SpanKind::Communication).unwrap_or(span)
    }

    /// The span of the side that was the last to take part in a communication.
    fn last_side(&mut self, span: usize) -> usize {
        let sides = self.other_sides(span).into_iter();
        sides.fold(
            span,
            |last, side| {
                if self.trace.spans[side].start_ns > self.trace.spans[last].start_ns { side } else { last }
            },
        )
    }

    /// The spans in which other ranks take part in a communication.
    fn other_sides(&mut self, span: usize) -> Vec<usize> {
        let Some(insts) = self.rank_of(span).map(|own| own.insts_of(span).collect::<Vec<InstId>>()) else {
            return Vec::new();
        };
        let rank = self.trace.spans[span].rank;
        let sides: Vec<(u32, InstId)> = insts.into_iter().flat_map(|inst| self.partners(rank, inst)).collect();
        let spans = sides.into_iter().map(|(rank, inst)| self.rank_spans(rank as usize)?.span_of(inst));
        spans.flatten().collect()
    }

    /// The other sides of a message or collective.
    fn partners(&self, rank: u32, inst: InstId) -> Vec<(u32, InstId)> {
        if let Some(partner) = self.matching.message_partner(rank, inst) {
            return vec![(partner.rank, partner.inst)];
        }
        let Some(collective) = self.plans.get(rank as usize).and_then(|plan| plan.collective_of(inst)) else {
            return Vec::new();
        };
        let mut communicators = self.matching.communicators.iter();
        let Some((of_all, position)) = communicators.find_map(|of_all| {
            let position = of_all.position_of(rank)?;
            (of_all.slots.get(position) == Some(&Some(collective.comm))).then_some((of_all, position))
        }) else {
            return Vec::new();
        };
        // Each member's collectives are in order.
        let number = of_all.collectives.partition_point(|members| members[position].is_some_and(|own| own < inst));
        let members = of_all.collectives.get(number).into_iter().flatten();
        let sides = of_all.communicator.team.iter().zip(members);
        sides.filter(|(member, _)| **member != rank).filter_map(|(&member, inst)| Some((member, (*inst)?))).collect()
    }
}

/// By rank: the positions of its spans, which follow each other.
pub(super) fn spans_by_rank(trace: &Trace, ranks: usize) -> Vec<std::ops::Range<usize>> {
    let starts: Vec<usize> =
        (0..=ranks).map(|rank| trace.spans.partition_point(|span| (span.rank as usize) < rank)).collect();
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// By span: the span that it waits for.
pub(super) fn awaited_spans(trace: &Trace) -> Vec<Option<u32>> {
    let mut awaited = vec![None; trace.spans.len()];
    for flow_event in &trace.flow_events {
        awaited[flow_event.to] = Some(flow_event.from as u32);
    }
    awaited
}
