//! The spans of one rank, with the communications of its plan that they show.
//!
//! A span of a communicator's track is a unit of its queue: a collective, a message, or a group of messages. Units and
//! spans are in the same order, and a span has the origin of its unit's last instruction. The same holds for the messages
//! on a stream and the stream's communications and events.

use crate::backend::trace::{SpanKind, Trace};
use crate::plan::{CommSlot, InstId, InstOrigin, Plan, QueueAction, StreamSlot};
use std::ops::Range;

/// A collective, send or receive, and the stream that issues it.
#[derive(Clone, Copy, Debug)]
struct IssuedInst {
    inst: InstId,
    stream: StreamSlot,
}

/// Communications of a plan that a span shows.
#[derive(Clone, Debug)]
struct PlanUnit {
    /// The origin of its last instruction, which the span has.
    label: InstOrigin,
    /// Its collective, or its sends and receives: positions in [`RankSpans::insts`].
    insts: Range<u32>,
}

/// A span and the communications that it shows.
#[derive(Clone, Debug)]
struct UnitSpan {
    span: u32,
    /// Positions in [`RankSpans::insts`].
    insts: Range<u32>,
}

/// The spans of one rank.
#[derive(Debug)]
pub(super) struct RankSpans {
    /// The number of streams, whose tracks come first.
    streams: usize,
    /// By track: the spans, in order of time.
    tracks: Vec<Vec<u32>>,
    /// The position of the rank's first span in the trace.
    first: usize,
    /// By span of the rank: its position on its track.
    track_places: Vec<u32>,
    /// Collectives, sends and receives, unit by unit.
    insts: Vec<IssuedInst>,
    /// The spans of communications, in order.
    units: Vec<UnitSpan>,
    /// The spans of collectives, sends and receives, in the order of the instructions.
    of_insts: Vec<(InstId, u32)>,
}

impl RankSpans {
    /// Finds the communications of a plan among its spans, which are at `places` in the trace.
    pub(super) fn of_plan(plan: &Plan, trace: &Trace, places: Range<usize>) -> Self {
        let streams = plan.streams as usize;
        let mut tracks = vec![Vec::new(); streams + plan.communicators.len()];
        let mut track_places = Vec::with_capacity(places.len());
        let first = places.start;
        for place in places {
            let track = tracks.get_mut(trace.spans[place].track as usize);
            track_places.push(track.as_ref().map_or(0, |track| track.len() as u32));
            track.into_iter().for_each(|track| track.push(place as u32));
        }
        let (insts, units) = (Vec::new(), Vec::new());
        let mut spans = Self { streams, tracks, first, track_places, insts, units, of_insts: Vec::new() };
        let of_tracks = spans.collect_units(plan);
        for (track, units) in of_tracks.iter().enumerate() {
            spans.place_units(track, units, trace);
        }
        spans.units.sort_unstable_by_key(|unit| unit.span);
        for unit in &spans.units {
            let insts = &spans.insts[unit.insts.start as usize..unit.insts.end as usize];
            spans.of_insts.extend(insts.iter().map(|issued| (issued.inst, unit.span)));
        }
        spans.of_insts.sort_unstable();
        spans
    }

    /// The communications of a plan, by track and in issue order.
    fn collect_units(&mut self, plan: &Plan) -> Vec<Vec<PlanUnit>> {
        let mut of_tracks = vec![Vec::new(); self.tracks.len()];
        let mut group: Option<u32> = None;
        plan.visit_stored(
            |kind| kind.is_group_bound() || kind.collective().is_some() || kind.message().is_some(),
            |id, stored| {
                let next = self.insts.len() as u32;
                let action = stored.queue_action();
                if action == QueueAction::GroupBegin {
                    group = Some(next);
                    return;
                }
                let inst = stored.unfold_inst();
                let (track, start) = match action {
                    QueueAction::GroupEnd(comm, _) => (self.comm_track(comm), group.take().unwrap_or(next)),
                    QueueAction::Collective(comm, _) => (self.comm_track(comm), next),
                    QueueAction::Message(header) => {
                        (header.comm.map_or(inst.stream.0 as usize, |comm| self.comm_track(comm)), next)
                    }
                    _ => return,
                };
                if !inst.kind.is_group_bound() {
                    self.insts.push(IssuedInst { inst: id, stream: inst.stream });
                }
                let is_of_group = group.is_some() && inst.kind.message().is_some() && track >= self.streams;
                if !is_of_group {
                    let insts = start..self.insts.len() as u32;
                    of_tracks[track].push(PlanUnit { label: inst.origin, insts });
                }
            },
        );
        of_tracks
    }

    fn comm_track(&self, comm: CommSlot) -> usize {
        self.streams + comm.0 as usize
    }

    /// Assigns a track's communications to its spans.
    fn place_units(&mut self, track: usize, units: &[PlanUnit], trace: &Trace) {
        let on_stream = track < self.streams;
        let mut next = 0;
        for &span in &self.tracks[track] {
            let entry = &trace.spans[span as usize];
            if !matches!(entry.kind, SpanKind::Communication | SpanKind::Event) {
                continue;
            }
            let Some(found) = unit_of_span(units, next, entry.origin, on_stream) else { continue };
            next = found + 1;
            self.units.push(UnitSpan { span, insts: units[found].insts.clone() });
        }
    }

    /// The collective, or the sends and receives, that a span shows.
    pub(super) fn insts_of(&self, span: usize) -> impl ExactSizeIterator<Item = InstId> {
        self.issued_insts(span).iter().map(|issued| issued.inst)
    }

    fn issued_insts(&self, span: usize) -> &[IssuedInst] {
        let Ok(place) = self.units.binary_search_by_key(&(span as u32), |unit| unit.span) else { return &[] };
        let insts = &self.units[place].insts;
        &self.insts[insts.start as usize..insts.end as usize]
    }

    /// The span that shows a collective, send or receive; of several, the first.
    pub(super) fn span_of(&self, inst: InstId) -> Option<usize> {
        let place = self.of_insts.partition_point(|(shown, _)| *shown < inst);
        self.of_insts.get(place).filter(|(shown, _)| *shown == inst).map(|&(_, span)| span as usize)
    }

    /// The span of this rank that had to end before one of its spans could start: of a communication, the later one of
    /// the communication before it in its queue and of the last spans on the streams that issue it; else the one before
    /// it on its track.
    pub(super) fn span_before(&self, span: usize, trace: &Trace) -> Option<usize> {
        let TrackPlace { track, place } = self.track_place(span, trace)?;
        let on_track = place.checked_sub(1).map(|place| self.tracks[track][place] as usize);
        if track < self.streams {
            return on_track;
        }
        let start = trace.spans[span].start_ns;
        let mut before = on_track;
        for issued in self.issued_insts(span) {
            let stream = issued.stream.0 as usize;
            let ended = self.tracks[stream].partition_point(|&span| trace.spans[span as usize].end_ns <= start);
            let issuer = ended.checked_sub(1).map(|place| self.tracks[stream][place] as usize);
            before = later_span(trace, before, issuer);
        }
        before
    }

    fn track_place(&self, span: usize, trace: &Trace) -> Option<TrackPlace> {
        let place = *self.track_places.get(span.checked_sub(self.first)?)? as usize;
        Some(TrackPlace { track: trace.spans[span].track as usize, place })
    }
}

/// The unit that a span shows, if those before `next` are assigned. An instruction of several calls has a span for each,
/// and a stream has other events.
fn unit_of_span(units: &[PlanUnit], next: usize, origin: InstOrigin, on_stream: bool) -> Option<usize> {
    if units.get(next).is_some_and(|unit| unit.label == origin) {
        return Some(next);
    }
    if on_stream {
        return None;
    }
    let last = next.checked_sub(1).filter(|&last| units[last].label == origin);
    last.or_else(|| (next..units.len()).find(|&unit| units[unit].label == origin))
}

/// A position on a track.
struct TrackPlace {
    track: usize,
    place: usize,
}

/// The span that ends later; the second one if both end at the same time.
fn later_span(trace: &Trace, first: Option<usize>, second: Option<usize>) -> Option<usize> {
    match (first, second) {
        (Some(one), Some(other)) if trace.spans[one].end_ns > trace.spans[other].end_ns => Some(one),
        (one, other) => other.or(one),
    }
}
