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
use crate::plan_checks::walk::{OrderOnly, PlanWalk, RankClock};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulates a run on the machine of a cost model, without data, memory or arithmetic. Equal programs give equal
/// timelines.
///
/// # Errors
/// If the ranks deadlock, or the sides of a communication do not agree, as
/// [`crate::plan_checks::check_plans`] finds it.
pub fn simulate_run(prepared: &PreparedProgram, model: &CostModel) -> Result<Trace, Vec<Diag>> {
    let mut run = SimulatedRun::new(prepared, *model);
    run.run_to_end()?;
    let recorders = run.walk.ranks.into_iter().map(|rank| rank.clock);
    Ok(Trace::join_parts(TraceClock::Model, recorded_parts(recorders)))
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
            started: vec![false; plan.communicators.len()],
            turns: DeviceTurns::of_plan(plan),
        }
    }
}

/// A run of all ranks on the model's machine.
struct SimulatedRun<'p> {
    prepared: &'p PreparedProgram,
    model: CostModel,
    walk: PlanWalk<'p, OrderOnly, RankRecorder>,
    ranks: Vec<SimulatedRank>,
    events: BinaryHeap<Reverse<TimedEvent>>,
    /// Communications may be able to continue.
    has_posts: bool,
}

impl<'p> SimulatedRun<'p> {
    fn new(prepared: &'p PreparedProgram, model: CostModel) -> Self {
        let time = TimeSource::Model(model);
        let plans = prepared.plans.iter();
        let observers = plans.clone().map(|plan| (OrderOnly, RankRecorder::new(plan, time))).collect();
        Self {
            prepared,
            model,
            walk: PlanWalk::new(prepared, observers),
            ranks: plans.map(SimulatedRank::new).collect(),
            events: BinaryHeap::new(),
            has_posts: true,
        }
    }

    fn run_to_end(&mut self) -> Result<(), Vec<Diag>> {
        for rank in 0..self.ranks.len() {
            self.expect_streams(rank);
        }
        loop {
            if self.has_posts {
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

    /// Carries out all communications whose sides are there.
    fn run_communications(&mut self) -> Result<(), Diag> {
        let mut moved = true;
        while moved {
            moved = self.walk.run_communications()?;
            for rank in &mut self.walk.ranks {
                moved |= rank.end_units();
            }
        }
        self.has_posts = false;
        for rank in 0..self.ranks.len() {
            for comm in 0..self.ranks[rank].started.len() {
                self.ranks[rank].started[comm] = self.has_started(rank, comm);
            }
            self.expect_streams(rank);
        }
        Ok(())
    }

    fn has_started(&self, rank: usize, comm: usize) -> bool {
        self.walk.ranks[rank].queues.started_unit(CommSlot(comm as u32)).is_some()
    }

    /// Returns true if a rank, one of whose streams has continued, takes part in a communication that the others do not
    /// know of yet.
    fn has_new_posts(&self, rank: usize, stream: usize) -> bool {
        let queues = &self.walk.ranks[rank].queues;
        let initiates = |head| queues.inst(head).kind.initiates_transfer();
        let mut comms = 0..self.ranks[rank].started.len();
        queues.stream_head(stream).is_some_and(initiates)
            || comms.any(|comm| !self.ranks[rank].started[comm] && self.has_started(rank, comm))
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
        let kind = &state.queues.inst(head).kind;
        if state.queues.can_proceed(kind) {
            let ns = state.clock.ready_time(stream, kind);
            self.ranks[rank].busy[stream] = true;
            self.events.push(Reverse(TimedEvent { ns, rank, subject: EventSubject::Stream(stream) }));
        }
    }

    /// Continues a stream with its next instruction: on the device, or without it at once.
    fn run_stream(&mut self, rank: usize, stream: usize, ns: u64) -> Result<(), Diag> {
        let queues = &self.walk.ranks[rank].queues;
        let Some(head) = queues.stream_head(stream) else { return Ok(()) };
        let kind = &queues.inst(head).kind;
        if !needs_device(kind) {
            return self.end_step(rank, stream, ns);
        }
        let turn = self.ranks[rank].turns.turn_of(head);
        self.ranks[rank].device.begin_inst(ns, stream, turn, self.model.local_demand(kind));
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
        let head = state.queues.stream_head(stream);
        state.clock.set_model_time(ns);
        state.run_step(stream, self.prepared)?;
        self.ranks[rank].busy[stream] = false;
        match head.map(|head| self.walk.ranks[rank].queues.inst(head)).as_ref().map(|inst| &inst.kind) {
            Some(InstKind::Record { .. }) => self.expect_streams(rank),
            Some(InstKind::Message { .. }) => self.has_posts = true,
            _ => {}
        }
        self.expect_stream(rank, stream);
        self.has_posts |= self.has_new_posts(rank, stream);
        Ok(())
    }
}

/// Returns true if an instruction of a stream takes time on the device: it computes or copies.
fn needs_device(kind: &InstKind) -> bool {
    kind.role() == InstRole::Compute
}
