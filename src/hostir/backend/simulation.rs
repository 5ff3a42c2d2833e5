//! Simulated runs: timelines from the cost model, without data.
//!
//! The walk of the plans determines the order, as for every run. Here a queue of events leads it through time: an event
//! is a stream that can continue, or a change on a rank's device. The simulation carries out communications as soon as
//! all sides are there, and computes their ends: everything not reached yet is later than all past events, so it cannot
//! precede them.

use super::device_turns::DeviceTurns;
use super::recorder::{RankRecorder, TimeSource, recorded_parts};
use super::shared_device::SharedDevice;
use super::trace::{Trace, TraceClock};
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::InstRole;
use crate::plan::cost::CostModel;
use crate::plan::{CommSlot, InstKind, Plan};
use crate::plan_checks::walk::{OrderOnly, PlanWalk};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Simulates a run on the machine of a cost model, without data, memory or arithmetic. Equal programs give equal
/// timelines.
///
/// # Errors
/// If the ranks deadlock, or the sides of a communication do not agree, as
/// [`crate::plan_checks::check_plans`] finds it.
pub fn simulate_run(prepared: &PreparedProgram, model: &CostModel) -> Result<Trace, Vec<Diag>> {
    let mut run = SimulatedRun::new(prepared, model);
    run.run_to_end()?;
    let recorders = run.walk.ranks.into_iter().map(|rank| rank.clock);
    let trace = Trace::join_parts(TraceClock::Model, recorded_parts(recorders));
    Ok(Trace { machine: Some(model.machine.name.clone()), ..trace })
}

/// The subject of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EventSubject {
    /// Something changes on the rank's device.
    Device,
    /// A stream of the rank can continue.
    Stream(usize),
}

/// An event in time. Events of one time have an order, so that equal programs have equal timelines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TimedEvent {
    ns: u64,
    rank: usize,
    subject: EventSubject,
}

/// One rank of a simulated run.
struct SimulatedRank {
    device: SharedDevice,
    /// The time of the device's valid event; others are out of date.
    wake: Option<u64>,
    /// By stream: it has an event, or an instruction on the device.
    busy: Vec<bool>,
    /// By communicator: its place among the matched ones.
    places: Vec<usize>,
    /// By communicator: true if the communications know the unit that it has started.
    started: Vec<bool>,
    turns: DeviceTurns,
}

impl SimulatedRank {
    fn new(plan: &Plan) -> Self {
        Self {
            device: SharedDevice::new(plan.streams as usize),
            wake: None,
            busy: vec![false; plan.streams as usize],
            places: vec![0; plan.communicators.len()],
            started: vec![false; plan.communicators.len()],
            turns: DeviceTurns::of_plan(plan),
        }
    }
}

/// A run of all ranks on the model's machine.
struct SimulatedRun<'p> {
    prepared: &'p PreparedProgram,
    walk: PlanWalk<'p, OrderOnly, RankRecorder>,
    ranks: Vec<SimulatedRank>,
    events: BinaryHeap<Reverse<TimedEvent>>,
    /// By matched communicator: the ranks that have started a unit of it since its communications were last carried out.
    posted: BTreeMap<usize, Vec<usize>>,
    /// Messages on streams may be able to continue.
    has_stream_posts: bool,
}

impl<'p> SimulatedRun<'p> {
    fn new(prepared: &'p PreparedProgram, model: &'p CostModel) -> Self {
        let plans = prepared.plans.iter();
        let recorders = plans.clone().map(|plan| RankRecorder::new(plan, TimeSource::Model(model.clone())));
        let walk = PlanWalk::new(prepared, recorders.map(|recorder| (OrderOnly, recorder)).collect());
        let mut ranks: Vec<SimulatedRank> = plans.map(SimulatedRank::new).collect();
        for (place, of_all) in walk.matching.communicators.iter().enumerate() {
            for (&rank, slot) in of_all.communicator.team.iter().zip(&of_all.slots) {
                if let (Some(rank), Some(slot)) = (ranks.get_mut(rank as usize), slot) {
                    rank.places[slot.0 as usize] = place;
                }
            }
        }
        let teams = walk.matching.communicators.iter().map(|of_all| &of_all.communicator.team);
        let members = teams.map(|team| {
            team.iter().map(|&rank| rank as usize).filter(|&rank| rank < ranks.len()).collect::<Vec<usize>>()
        });
        let posted = members.enumerate().collect();
        Self { prepared, walk, ranks, events: BinaryHeap::new(), posted, has_stream_posts: true }
    }

    fn run_to_end(&mut self) -> Result<(), Vec<Diag>> {
        self.walk.ranks.iter_mut().for_each(|rank| {
            rank.end_units();
        });
        for rank in 0..self.ranks.len() {
            self.expect_streams(rank);
        }
        loop {
            if self.has_stream_posts || !self.posted.is_empty() {
                self.run_communications().map_err(|diag| vec![diag])?;
            }
            match self.events.peek() {
                Some(Reverse(first)) => self.run_instant(first.ns).map_err(|diag| vec![diag])?,
                None if self.walk.is_done() => return Ok(()),
                None => return Err(vec![self.walk.deadlock()]),
            }
        }
    }

    /// Handles all events of one time.
    fn run_instant(&mut self, ns: u64) -> Result<(), Diag> {
        while let Some(Reverse(event)) = self.events.peek().copied()
            && event.ns == ns
        {
            self.events.pop();
            match event.subject {
                EventSubject::Device => self.advance_device(event.rank, ns)?,
                EventSubject::Stream(stream) => self.run_stream(event.rank, stream, ns)?,
            }
        }
        Ok(())
    }

    /// Carries out all communications whose sides are there. Only those of posted units can be.
    fn run_communications(&mut self) -> Result<(), Diag> {
        while self.has_stream_posts || !self.posted.is_empty() {
            let mut changed = BTreeSet::new();
            for (place, members) in std::mem::take(&mut self.posted) {
                changed.extend(self.walk.run_posted(place, &members)?);
                changed.extend(members);
            }
            if std::mem::take(&mut self.has_stream_posts) {
                self.has_stream_posts = self.walk.run_stream_messages()?;
                let ended = self.walk.ranks.iter().enumerate().filter(|(_, rank)| rank.has_ended());
                changed.extend(ended.map(|(rank, _)| rank));
            }
            for rank in changed {
                self.walk.ranks[rank].take_ended();
                self.continue_rank(rank);
            }
        }
        Ok(())
    }

    /// Continues a rank some of whose communications have started or ended.
    fn continue_rank(&mut self, rank: usize) {
        for taken in self.walk.ranks[rank].clock.taken_shares() {
            self.ranks[rank].device.take_arithmetic(taken);
        }
        self.expect_device(rank);
        if self.walk.ranks[rank].end_units() {
            self.walk.ranks[rank].take_ended();
            self.ranks[rank].started.fill(false);
        }
        for comm in 0..self.ranks[rank].started.len() {
            self.note_unit(rank, comm);
        }
        self.expect_streams(rank);
    }

    /// Posts a communicator of a rank, if it has started a unit that the communications do not know of.
    fn note_unit(&mut self, rank: usize, comm: usize) {
        let has_started = self.walk.ranks[rank].queues.started_unit(CommSlot(comm as u32)).is_some();
        let state = &mut self.ranks[rank];
        if has_started && !state.started[comm] {
            self.posted.entry(state.places[comm]).or_default().push(rank);
        }
        state.started[comm] = has_started;
    }

    /// Posts what a rank, one of whose streams has continued, takes part in and the communications do not know of.
    fn note_posts(&mut self, rank: usize, stream: usize) {
        let queues = &self.walk.ranks[rank].queues;
        let head = queues.stream_head(stream).map(|head| queues.stored_inst(head).template_inst());
        self.has_stream_posts |= head.is_some_and(|head| head.kind.initiates_transfer());
        for comm in 0..self.ranks[rank].started.len() {
            if !self.ranks[rank].started[comm] {
                self.note_unit(rank, comm);
            }
        }
    }

    /// Makes an event for each stream of a rank that can continue and has none.
    fn expect_streams(&mut self, rank: usize) {
        for stream in 0..self.ranks[rank].busy.len() {
            self.expect_stream(rank, stream);
        }
    }

    fn expect_stream(&mut self, rank: usize, stream: usize) {
        let state = &self.walk.ranks[rank];
        let Some(head) = state.queues.stream_head(stream).filter(|_| !self.ranks[rank].busy[stream]) else { return };
        let inst = state.queues.stored_inst(head);
        if state.queues.can_proceed(inst.queue_action()) {
            let ns = state.ready_time(stream, inst);
            self.ranks[rank].busy[stream] = true;
            self.events.push(Reverse(TimedEvent { ns, rank, subject: EventSubject::Stream(stream) }));
        }
    }

    /// Continues a stream with its next instruction: on the device, or without it at once.
    fn run_stream(&mut self, rank: usize, stream: usize, ns: u64) -> Result<(), Diag> {
        let queues = &self.walk.ranks[rank].queues;
        let Some(head) = queues.stream_head(stream) else { return Ok(()) };
        let kind = &queues.stored_inst(head).template_inst().kind;
        if !needs_device(kind) {
            return self.end_step(rank, stream, ns);
        }
        let Some(demand) = self.walk.ranks[rank].clock.begin_local(stream, head, kind) else {
            return self.end_step(rank, stream, ns);
        };
        let turn = self.ranks[rank].turns.turn_of(head);
        self.ranks[rank].device.begin_inst(ns, stream, turn, demand);
        self.expect_device(rank);
        Ok(())
    }

    fn advance_device(&mut self, rank: usize, ns: u64) -> Result<(), Diag> {
        if self.ranks[rank].wake != Some(ns) {
            return Ok(());
        }
        self.ranks[rank].wake = None;
        for stream in self.ranks[rank].device.advance_to(ns) {
            self.end_step(rank, stream, ns)?;
        }
        self.expect_device(rank);
        Ok(())
    }

    /// Makes an event for the next change on a device, unless there is an earlier one.
    fn expect_device(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let Some(ns) = state.device.next_change() else { return };
        if state.wake.is_none_or(|wake| ns < wake) {
            state.wake = Some(ns);
            self.events.push(Reverse(TimedEvent { ns, rank, subject: EventSubject::Device }));
        }
    }

    /// Ends a stream's next instruction, and makes events for what follows.
    fn end_step(&mut self, rank: usize, stream: usize, ns: u64) -> Result<(), Diag> {
        let state = &mut self.walk.ranks[rank];
        let ended = state.queues.stream_head(stream).map(|head| &state.queues.stored_inst(head).template_inst().kind);
        state.clock.set_model_time(stream, ns);
        state.run_step(stream, self.prepared)?;
        self.ranks[rank].busy[stream] = false;
        match ended {
            Some(InstKind::Record { .. }) => self.expect_streams(rank),
            Some(InstKind::Message { .. }) => self.has_stream_posts = true,
            _ => {}
        }
        self.expect_stream(rank, stream);
        self.note_posts(rank, stream);
        Ok(())
    }
}

/// Returns true if an instruction of a stream takes time on the device: it computes or copies.
fn needs_device(kind: &InstKind) -> bool {
    kind.role() == InstRole::Compute
}
