//! The sides of communications in a timeline: which send belongs to which receive, and how long a side waits for
//! the others before anything moves.
//!
//! A communication's span begins when its rank takes part, and nothing can move before the last side is there. The
//! time up to that moment is waiting, as much as that of a stream at a wait. It follows from the spans of the other
//! sides, so it is known on every clock and nothing is recorded for it.
//!
//! In a group the messages move at different times. One that begins early ends at an unknown time within the group:
//! its length by the cost model, stretched by as much as the slowest message of the group was, is taken for it.

use super::model_clock::ModelClock;
use super::time_ranges::{TimeRange, merge_ranges, subtract_ranges};
use super::trace::{SpanKind, Trace};
use crate::plan::cost::CostModel;
use crate::plan::{CommSlot, InstId, InstKind, InstOrigin, Plan, PlanMatching, RankInst};
use crate::plan_checks::queues::RankQueues;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A send and the receive of the same message, by their positions in [`Trace::spans`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TracedMessage {
    /// The span that sends.
    pub send: usize,
    /// The span that receives.
    pub receive: usize,
}

/// The sides of a timeline's communications.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rendezvous {
    /// By span: when it communicates and nothing of it moves, because another side is not there. Merged.
    pub peer_waits: Vec<Vec<TimeRange>>,
    /// The messages whose sides both have spans, each once, in order.
    pub messages: Vec<TracedMessage>,
}

impl Rendezvous {
    /// Finds the sides of the communications of a trace of these plans. Communications without spans are left out, and
    /// waiting that is shorter than the clocks of two ranks may differ. The lengths of messages are those of `model`.
    pub fn of_trace(trace: &Trace, plans: &[Plan], model: &CostModel) -> Self {
        let sides = SideSpans::of_trace(trace, plans);
        let matching = PlanMatching::new(plans);
        let mut transfers: Vec<Vec<SideTransfer>> = vec![Vec::new(); trace.spans.len()];
        let clocks: Vec<ModelClock> = plans.iter().map(|plan| ModelClock::new(plan, model.clone())).collect();
        let mut messages = Vec::new();
        for message in &matching.messages {
            let spans = sides.span_of(message.send).zip(sides.span_of(message.receive));
            let Some((send, receive)) = spans else { continue };
            messages.push(TracedMessage { send, receive });
            let sides = [(send, message.send), (receive, message.receive)];
            add_transfer(&mut transfers, trace, plans, &clocks, &sides);
        }
        for of_all in &matching.communicators {
            for number in 0..of_all.collectives.len() {
                let members = of_all.collective_members(number, plans);
                let members = members.iter().map(|member| RankInst { rank: member.rank, inst: member.inst });
                let members = members.map(|side| Some((sides.span_of(side)?, side)));
                if let Some(members) = members.collect::<Option<Vec<_>>>() {
                    add_transfer(&mut transfers, trace, plans, &clocks, &members);
                }
            }
        }
        messages.sort_unstable();
        messages.dedup();
        let peer_waits = trace.spans.iter().zip(transfers).map(|(span, transfers)| match span.kind {
            SpanKind::Communication => waiting_ranges(span.time_range(), &transfers, trace.clock_skew_ns),
            _ => Vec::new(),
        });
        Self { peer_waits: peer_waits.collect(), messages }
    }
}

/// A message or collective within a span: the moment at which all its sides are there, and its length by the cost model,
/// in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SideTransfer {
    start_ns: u64,
    length_ns: u64,
}

/// Adds a communication to the spans of its sides.
fn add_transfer(
    transfers: &mut [Vec<SideTransfer>],
    trace: &Trace,
    plans: &[Plan],
    clocks: &[ModelClock],
    sides: &[(usize, RankInst)],
) {
    let start_ns = sides.iter().map(|&(span, _)| trace.spans[span].start_ns).max().unwrap_or(0);
    let lengths = sides.iter().filter_map(|(_, side)| {
        let rank = side.rank as usize;
        let inst = plans.get(rank)?.find_inst(side.inst)?;
        let time = clocks[rank].transfer_time(side.inst, &inst);
        Some(time.start_ns + time.link_ns + time.signal_ns)
    });
    let length_ns = lengths.max().unwrap_or(1).max(1);
    sides.iter().for_each(|&(span, _)| transfers[span].push(SideTransfer { start_ns, length_ns }));
}

/// The parts of a span with these transfers in which nothing moves.
fn waiting_ranges(span: TimeRange, transfers: &[SideTransfer], least_ns: u64) -> Vec<TimeRange> {
    let stretch = transfers.iter().map(|one| span.end_ns.saturating_sub(one.start_ns) as f64 / one.length_ns as f64);
    let Some(stretch) = stretch.min_by(f64::total_cmp) else { return Vec::new() };
    let moving = transfers.iter().filter_map(|one| {
        let end_ns = one.start_ns.saturating_add((one.length_ns as f64 * stretch).round() as u64);
        TimeRange { start_ns: one.start_ns, end_ns }.common_part(span)
    });
    let mut waiting = subtract_ranges(&[span], &merge_ranges(moving.collect()));
    waiting.retain(|range| range.duration_ns() > least_ns);
    waiting
}

/// The spans of communications by instruction.
struct SideSpans {
    ranks: Vec<FxHashMap<InstId, usize>>,
}

impl SideSpans {
    fn of_trace(trace: &Trace, plans: &[Plan]) -> Self {
        let mut unclaimed: Vec<UnclaimedSpans> = plans.iter().map(|_| UnclaimedSpans::default()).collect();
        for (at, span) in trace.spans.iter().enumerate() {
            if let Some(rank) = unclaimed.get_mut(span.rank as usize) {
                rank.add_span(at, span.kind, span.origin);
            }
        }
        Self { ranks: plans.iter().zip(unclaimed).map(|(plan, spans)| claim_spans(plan, spans)).collect() }
    }

    fn span_of(&self, side: RankInst) -> Option<usize> {
        self.ranks.get(side.rank as usize)?.get(&side.inst).copied()
    }
}

/// A rank's spans that can be sides, by the origin of their instructions, in order of time.
#[derive(Default)]
struct UnclaimedSpans {
    communications: FxHashMap<InstOrigin, VecDeque<usize>>,
    events: FxHashMap<InstOrigin, VecDeque<usize>>,
}

impl UnclaimedSpans {
    fn add_span(&mut self, at: usize, kind: SpanKind, origin: InstOrigin) {
        match kind {
            SpanKind::Communication => self.communications.entry(origin).or_default().push_back(at),
            SpanKind::Event => self.events.entry(origin).or_default().push_back(at),
            SpanKind::Compute | SpanKind::Copy | SpanKind::Wait => {}
        }
    }
}

/// The spans of a rank's communications: those of one origin are in the order of its instructions. A device may have several
/// calls, and spans, for one instruction; which of them are whose is not known, and such an origin has no sides.
fn claim_spans(plan: &Plan, mut spans: UnclaimedSpans) -> FxHashMap<InstId, usize> {
    let mut claims: FxHashMap<InstOrigin, Vec<Vec<InstId>>> = FxHashMap::default();
    let queues = RankQueues::new(plan);
    for comm in 0..queues.communicator_count() {
        for unit in queues.open_units(CommSlot(comm as u32)) {
            claims.entry(plan.inst(unit.label).origin).or_default().push(unit.insts.to_vec());
        }
    }
    let mut found = FxHashMap::default();
    for (id, inst) in plan.cursor() {
        let InstKind::Message { header, .. } = &inst.kind else { continue };
        if header.comm.is_some() {
            continue;
        }
        if inst.kind.initiates_transfer() {
            claims.entry(inst.origin).or_default().push(vec![id]);
        } else if let Some(span) = spans.events.get_mut(&inst.origin).and_then(VecDeque::pop_front) {
            found.insert(id, span);
        }
    }
    #[allow(clippy::iter_over_hash_type, reason = "each origin has spans of its own")]
    for (origin, units) in claims {
        let Some(spans) = spans.communications.get(&origin).filter(|spans| spans.len() == units.len()) else {
            continue;
        };
        for (&span, insts) in spans.iter().zip(units) {
            found.extend(insts.into_iter().map(|inst| (inst, span)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start_ns: u64, end_ns: u64) -> TimeRange {
        TimeRange { start_ns, end_ns }
    }

    /// A group from 0 to 100 with a message of 20 from 10 and one of 30 from 70, neither stretched: it waits from 0 to
    /// 10 and from 30 to 70.
    #[test]
    fn groups_wait_between_their_messages() {
        let early = SideTransfer { start_ns: 10, length_ns: 20 };
        let late = SideTransfer { start_ns: 70, length_ns: 30 };
        let span = range(0, 100);
        assert_eq!(waiting_ranges(span, &[early, late], 0), [range(0, 10), range(30, 70)]);
        // Clocks that may differ by 10 say nothing of the first 10.
        assert_eq!(waiting_ranges(span, &[early, late], 10), [range(30, 70)]);
        // A message that took twice its length: so did the other one.
        let slow = SideTransfer { start_ns: 70, length_ns: 15 };
        assert_eq!(waiting_ranges(span, &[early, slow], 0), [range(0, 10), range(50, 70)]);
        // One of which nothing is known is all transfer.
        assert!(waiting_ranges(span, &[], 0).is_empty());
    }
}
