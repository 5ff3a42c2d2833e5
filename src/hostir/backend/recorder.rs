//! Records the timeline of one rank, on the host's clock or on the cost model's.
//!
//! A stream's spans follow from the times at which it reached each of its positions: a wait lasts from there until the
//! stream continues. A communication lasts from the moment the rank takes part (its queue is free and the issuing
//! streams have reached it) until it is done. On the model's clock the ends are computed; otherwise both clocks work
//! alike.

use super::model_clock::{ModelClock, TakenShare};
use super::trace::{self, PartialTrace, SpanDependency, SpanKind, TraceSpan};
use crate::plan::cost::{CostModel, LocalDemand, inst_flop};
use crate::plan::{CommSlot, Inst, InstId, InstKind, InstOrigin, Plan, WorkSlot};
use crate::plan_checks::queues::{CommunicationUnit, StreamPosition};
use crate::plan_checks::walk::{RankClock, StreamStep};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::time::Instant;

/// The source of the recorded times.
#[derive(Clone, Debug)]
pub(super) enum TimeSource {
    /// The host's clock, from this moment on.
    Host(Instant),
    /// A simulated machine.
    Model(CostModel),
}

/// The clock of one rank.
#[derive(Debug)]
enum RecordedClock {
    Host(Instant),
    Model(Box<ModelClock>),
}

/// A span that a wait can wait for, and the time at which it was reached.
#[derive(Clone, Copy, Debug)]
struct ReachedSpan {
    span: usize,
    ns: u64,
}

/// The recorded part of one rank.
#[derive(Debug)]
pub(super) struct RankRecorder {
    time: RecordedClock,
    rank: u32,
    streams: u32,
    part: PartialTrace,
    /// The time at which each stream reached each of its positions; the first is 0.
    arrivals: Vec<Vec<u64>>,
    /// The time at which each communicator's queue is free.
    free: Vec<u64>,
    /// The time at which the last part of each communicator's unit was done.
    ends: Vec<u64>,
    /// By communicator: the time until which its last transfer needs the rank's link.
    linked: Vec<u64>,
    /// By communicator: the others with its team, which share the link with it.
    beside: Vec<Vec<usize>>,
    events: Vec<Option<ReachedSpan>>,
    works: Vec<Option<ReachedSpan>>,
    /// Messages on streams that the peer initiates, by instruction.
    announced: BTreeMap<InstId, ReachedSpan>,
}

/// A start and an end, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct TimeSpan {
    start: u64,
    end: u64,
}

impl RankRecorder {
    pub(super) fn new(plan: &Plan, time: TimeSource) -> Self {
        let queues = plan.communicators.len();
        let time = match time {
            TimeSource::Host(start) => RecordedClock::Host(start),
            TimeSource::Model(model) => RecordedClock::Model(Box::new(ModelClock::new(plan, model))),
        };
        Self {
            time,
            rank: plan.rank,
            streams: plan.streams,
            part: PartialTrace { tracks: trace::plan_tracks(plan), ..PartialTrace::default() },
            arrivals: vec![vec![0]; plan.streams as usize],
            free: vec![0; queues],
            ends: vec![0; queues],
            linked: vec![0; queues],
            beside: communicators_beside(plan),
            events: vec![None; plan.events as usize],
            works: vec![None; plan.works as usize],
            announced: BTreeMap::new(),
        }
    }

    /// Sets the time of the model's clock, at which a stream ends its instruction.
    pub(super) fn set_model_time(&mut self, stream: usize, ns: u64) {
        if let RecordedClock::Model(clock) = &mut self.time {
            clock.ns = ns;
            clock.end_local(stream);
        }
    }

    /// The demand of a local instruction that a stream begins; `None` if it takes no time.
    pub(super) fn begin_local(&mut self, stream: usize, id: InstId, kind: &InstKind) -> Option<LocalDemand> {
        match &mut self.time {
            RecordedClock::Host(_) => None,
            RecordedClock::Model(clock) => clock.begin_local(stream, id, kind),
        }
    }

    /// The shares of the device that communications have taken since the last call.
    pub(super) fn taken_shares(&mut self) -> Vec<TakenShare> {
        match &mut self.time {
            RecordedClock::Host(_) => Vec::new(),
            RecordedClock::Model(clock) => clock.taken_shares(),
        }
    }

    /// The recorded spans, each track in order of time.
    pub(super) fn into_part(self) -> PartialTrace {
        self.part
    }

    /// The host's time, or `modelled`.
    fn now_or(&self, modelled: u64) -> u64 {
        match &self.time {
            RecordedClock::Host(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            RecordedClock::Model(_) => modelled,
        }
    }

    /// The model's time, or `other`.
    fn model_time_or(&self, other: u64) -> u64 {
        match &self.time {
            RecordedClock::Host(_) => other,
            RecordedClock::Model(clock) => clock.ns,
        }
    }

    /// The time at which the stream reached a position; 0 after its end.
    fn arrival_time(&self, position: &StreamPosition) -> u64 {
        let arrivals = &self.arrivals[position.stream.0 as usize];
        arrivals.get(position.count as usize).copied().unwrap_or(0)
    }

    fn last_arrival(&self, stream: usize) -> u64 {
        self.arrivals[stream].last().copied().unwrap_or(0)
    }

    /// The time from which a stream can carry out its next instruction: it has done the one before, and on the model's
    /// clock the host has issued it.
    fn step_start(&self, stream: usize) -> u64 {
        let arrived = self.last_arrival(stream);
        match &self.time {
            RecordedClock::Host(_) => arrived,
            RecordedClock::Model(clock) => arrived.max(clock.issue_time(stream, self.arrivals[stream].len() - 1)),
        }
    }

    fn awaited_slice(&self, kind: &InstKind) -> Option<ReachedSpan> {
        match kind {
            InstKind::WaitWork { work } => self.works[work.0 as usize],
            InstKind::WaitEvent { event } => self.events[event.0 as usize],
            _ => None,
        }
    }

    fn record_wait(&mut self, step: &StreamStep<'_>) -> u64 {
        let start = self.step_start(step.stream);
        let source = self.awaited_slice(&step.inst.kind);
        let end = self.now_or(self.ready_time(step.stream, &step.inst.kind)).max(start);
        let span = TimeSpan { start, end };
        let to = self.add_slice(step.stream, step.inst, SpanKind::Wait, span);
        if let Some(ReachedSpan { span: from, .. }) = source {
            self.part.flow_events.push(SpanDependency { from, to });
        }
        end
    }

    /// Records an event at the current position of a stream.
    fn record_event(&mut self, step: &StreamStep<'_>) -> ReachedSpan {
        let ns = self.now_or(self.step_start(step.stream));
        let span = TimeSpan { start: ns, end: ns };
        let span = self.add_slice(step.stream, step.inst, SpanKind::Event, span);
        ReachedSpan { span, ns }
    }

    fn record_local(&mut self, step: &StreamStep<'_>, start: u64) -> u64 {
        let end = self.now_or(self.model_time_or(start)).max(start);
        if let Some(kind) = SpanKind::from_inst(&step.inst.kind) {
            self.add_slice(step.stream, step.inst, kind, TimeSpan { start, end });
        }
        end
    }

    fn add_slice(&mut self, track: usize, inst: &Inst, kind: SpanKind, span: TimeSpan) -> usize {
        self.part.spans.push(TraceSpan {
            rank: self.rank,
            track: track as u32,
            start_ns: span.start,
            end_ns: span.end,
            origin: inst.origin,
            more: Box::default(),
            kind,
            bytes: inst.kind.traffic_bytes(),
            flop: inst_flop(&inst.kind),
        });
        self.part.spans.len() - 1
    }
}

impl RankClock for RankRecorder {
    fn begin_step(&mut self, stream: usize) -> u64 {
        let arrived = self.step_start(stream);
        self.now_or(arrived).max(arrived)
    }

    fn end_step(&mut self, step: &StreamStep<'_>, start: u64) {
        let end = match &step.inst.kind {
            InstKind::GroupBegin => self.last_arrival(step.stream),
            kind if kind.is_lifetime() => self.last_arrival(step.stream),
            kind if kind.is_wait() => self.record_wait(step),
            InstKind::Record { event } => {
                let recorded = self.record_event(step);
                self.events[event.0 as usize] = Some(recorded);
                recorded.ns
            }
            InstKind::Message { .. } => {
                let recorded = self.record_event(step);
                self.announced.insert(step.id, recorded);
                recorded.ns
            }
            _ => self.record_local(step, start),
        };
        self.arrivals[step.stream].push(end);
    }

    fn ready_time(&self, stream: usize, kind: &InstKind) -> u64 {
        let awaited = self.awaited_slice(kind);
        self.step_start(stream).max(awaited.map_or(0, |reached| reached.ns))
    }

    fn posted_time(&self, unit: &CommunicationUnit) -> u64 {
        let reached = unit.after.iter().map(|position| self.arrival_time(position)).max().unwrap_or(0);
        match &self.time {
            RecordedClock::Host(_) => reached,
            RecordedClock::Model(clock) => reached.max(clock.post_time(unit)),
        }
    }

    fn join_time(&self, comm: CommSlot, posted: u64) -> u64 {
        self.free[comm.0 as usize].max(posted)
    }

    fn communication_end(&mut self, start: u64, id: InstId, inst: &Inst) -> u64 {
        let RecordedClock::Model(clock) = &mut self.time else { return self.now_or(start) };
        let time = clock.transfer_time(id, inst);
        let Some(comm) = inst.kind.communicator().map(|comm| comm.0 as usize) else {
            return clock.end_message(start, inst, time);
        };
        let linked = self.beside[comm].iter().map(|&other| self.linked[other]).max();
        let done = clock.end_data(start, linked.unwrap_or(0), inst, time);
        self.linked[comm] = done;
        done + time.signal_ns
    }

    fn end_communication(&mut self, comm: CommSlot, inst: &Inst, start: u64, end: u64) {
        if let RecordedClock::Model(clock) = &mut self.time {
            clock.take_device(comm, &inst.kind, start, end);
        }
        let known = &mut self.ends[comm.0 as usize];
        *known = end.max(*known);
    }

    fn end_unit(&mut self, comm: CommSlot, posted: u64, plan: &Plan, unit: &CommunicationUnit) {
        let start = self.join_time(comm, posted);
        let end = self.ends[comm.0 as usize].max(start);
        let label = plan.inst(unit.label);
        let track = self.streams as usize + comm.0 as usize;
        let span = TimeSpan { start, end };
        let span = self.add_slice(track, &label, SpanKind::Communication, span);
        let mut more: Vec<InstOrigin> = Vec::new();
        let mut bytes = 0;
        for inst in unit.insts.iter().map(|&id| plan.stored_inst(id)) {
            bytes += inst.template_inst().kind.traffic_bytes();
            more.extend(Some(inst.origin()).filter(|origin| *origin != label.origin));
        }
        let entry = &mut self.part.spans[span];
        entry.bytes = bytes;
        entry.more = more.into();
        self.free[comm.0 as usize] = end;
        for work in &unit.works {
            self.works[work.0 as usize] = Some(ReachedSpan { span, ns: end });
        }
    }

    fn announced_time(&self, inst: InstId) -> u64 {
        self.announced.get(&inst).map_or(0, |reached| reached.ns)
    }

    fn end_announced(&mut self, inst: InstId, work: WorkSlot, end: u64) {
        if let Some(reached) = self.announced.remove(&inst) {
            self.works[work.0 as usize] = Some(ReachedSpan { span: reached.span, ns: end });
        }
    }

    fn end_initiated(&mut self, step: &StreamStep<'_>, work: WorkSlot, end: u64) {
        let start = self.step_start(step.stream);
        let end = end.max(start);
        let span = TimeSpan { start, end };
        let span = self.add_slice(step.stream, step.inst, SpanKind::Communication, span);
        self.works[work.0 as usize] = Some(ReachedSpan { span, ns: end });
        self.arrivals[step.stream].push(end);
    }
}

/// For each communicator of a rank, the others with the same team.
fn communicators_beside(plan: &Plan) -> Vec<Vec<usize>> {
    let mut of_team: FxHashMap<&[u32], Vec<usize>> = FxHashMap::default();
    for (comm, communicator) in plan.communicators.iter() {
        of_team.entry(&communicator.team).or_default().push(comm.0 as usize);
    }
    let others = plan.communicators.iter().map(|(own, communicator)| {
        let all = of_team[&communicator.team[..]].iter().copied();
        all.filter(|&other| other != own.0 as usize).collect()
    });
    others.collect()
}

/// The recorded parts of all ranks.
pub(super) fn recorded_parts(recorders: impl Iterator<Item = RankRecorder>) -> Vec<PartialTrace> {
    recorders.map(RankRecorder::into_part).collect()
}
