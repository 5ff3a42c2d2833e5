//! Records what one rank does when, on the host's clock or on the model's.
//!
//! A stream's slices follow from when it came to each of its positions: a wait lasts from there until
//! the stream goes on. A communication lasts from the moment the rank takes part (its queue is free and
//! the posting streams have come this far) until it is done. On the model's clock the ends are worked
//! out, and nothing else differs.

use super::model::Rates;
use crate::backend::trace::{self, Arrow, Part, Slice, SliceKind};
use crate::plan::{Inst, InstKind, Origin, Plan, WorkSlot};
use std::collections::BTreeMap;
use std::time::Instant;

/// Where times come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    /// The host's clock, from this moment on.
    Host(Instant),
    /// A machine that is only thought of.
    Model(Rates),
}

/// Something that can be waited for: its slice, and when it was reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    slice: usize,
    ns: u64,
}

/// What one rank has done so far.
#[derive(Debug)]
pub(super) struct Recorder {
    time: Time,
    rank: u32,
    streams: u32,
    part: Part,
    /// When each stream came to each of its positions; the first is 0.
    arrivals: Vec<Vec<u64>>,
    /// When each communicator's queue is free.
    free: Vec<u64>,
    /// When the last part of each communicator's unit was done.
    ends: Vec<u64>,
    /// On the model's clock: when the device is free.
    device_free: u64,
    events: Vec<Option<Reached>>,
    works: Vec<Option<Reached>>,
    /// Messages on streams that the other side copies, by instruction.
    offers: BTreeMap<u32, Reached>,
}

impl Recorder {
    pub(super) fn new(plan: &Plan, time: Time) -> Self {
        let queues = plan.communicators.len();
        Self {
            time,
            rank: plan.rank,
            streams: plan.streams,
            part: Part { tracks: trace::tracks(plan), ..Part::default() },
            arrivals: vec![vec![0]; plan.streams as usize],
            free: vec![0; queues],
            ends: vec![0; queues],
            device_free: 0,
            events: vec![None; plan.events as usize],
            works: vec![None; plan.works as usize],
            offers: BTreeMap::new(),
        }
    }

    /// What was recorded, each track in order of time.
    pub(super) fn into_part(self) -> Part {
        self.part
    }

    /// The host's time, or `modelled`.
    fn now(&self, modelled: u64) -> u64 {
        match self.time {
            Time::Host(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Time::Model(_) => modelled,
        }
    }

    // ---- streams ----

    /// When the stream came to its position; 0 behind its end.
    pub(super) fn arrival(&self, stream: usize, position: u32) -> u64 {
        self.arrivals[stream].get(position as usize).copied().unwrap_or(0)
    }

    fn arrived(&self, stream: usize) -> u64 {
        self.arrivals[stream].last().copied().unwrap_or(0)
    }

    /// On the model's clock: when the stream goes on with an instruction that can run.
    pub(super) fn ready(&self, stream: usize, kind: &InstKind) -> u64 {
        let awaited = match kind {
            InstKind::WaitWork { work } => self.works[work.0 as usize],
            InstKind::WaitEvent { event } => self.events[event.0 as usize],
            _ => None,
        };
        self.arrived(stream).max(awaited.map_or(0, |reached| reached.ns))
    }

    /// A local instruction begins.
    pub(super) fn begin(&mut self, stream: usize) -> u64 {
        let start = self.now(self.arrived(stream).max(self.device_free));
        start.max(self.arrived(stream))
    }

    /// The stream has done its next instruction, which began at `start`.
    pub(super) fn step(&mut self, stream: usize, index: u32, inst: &Inst, start: u64) {
        let arrived = self.arrived(stream);
        let end = match &inst.kind {
            InstKind::Alloc { .. } | InstKind::Free { .. } | InstKind::GroupBegin => arrived,
            InstKind::WaitWork { .. } | InstKind::WaitEvent { .. } => self.wait(stream, inst),
            InstKind::Record { event } => {
                let at = self.now(arrived);
                let slice = self.add(stream, inst, SliceKind::Mark, (at, at));
                self.events[event.0 as usize] = Some(Reached { slice, ns: at });
                at
            }
            InstKind::Send { .. } | InstKind::Recv { .. } => {
                let at = self.now(arrived);
                let slice = self.add(stream, inst, SliceKind::Mark, (at, at));
                self.offers.insert(index, Reached { slice, ns: at });
                at
            }
            kind => {
                let spent = self.rates().map_or(0, |rates| rates.local(kind));
                let end = self.now(start + spent).max(start);
                self.device_free = end;
                if let Some(kind) = SliceKind::of(kind) {
                    self.add(stream, inst, kind, (start, end));
                }
                end
            }
        };
        self.arrivals[stream].push(end);
    }

    fn wait(&mut self, stream: usize, inst: &Inst) -> u64 {
        let arrived = self.arrived(stream);
        let source = match &inst.kind {
            InstKind::WaitWork { work } => self.works[work.0 as usize],
            InstKind::WaitEvent { event } => self.events[event.0 as usize],
            _ => None,
        };
        let end = self.now(self.ready(stream, &inst.kind)).max(arrived);
        let to = self.add(stream, inst, SliceKind::Wait, (arrived, end));
        if let Some(Reached { slice: from, .. }) = source {
            self.part.arrows.push(Arrow { from, to });
        }
        end
    }

    fn rates(&self) -> Option<Rates> {
        match self.time {
            Time::Host(_) => None,
            Time::Model(rates) => Some(rates),
        }
    }

    fn add(
        &mut self,
        track: usize,
        inst: &Inst,
        kind: SliceKind,
        (start, end): (u64, u64),
    ) -> usize {
        self.part.slices.push(Slice {
            rank: self.rank,
            track: track as u32,
            start_ns: start,
            end_ns: end,
            origin: inst.origin,
            more: Box::default(),
            kind,
            bytes: inst.kind.bytes(),
            flop: trace::flop(&inst.kind),
        });
        self.part.slices.len() - 1
    }

    // ---- communications ----

    /// When this rank takes part in a communicator's next unit, whose posts were reached at `posted`.
    pub(super) fn takes_part(&self, comm: usize, posted: u64) -> u64 {
        self.free[comm].max(posted)
    }

    /// When a communication ends that starts when its last side is there: now, or by the model.
    pub(super) fn communicated(&self, start: u64, inst: &Inst) -> u64 {
        let sent = inst.kind.reads();
        let spent = self.rates().map_or(0, |rates| rates.communication(&sent, inst.kind.writes()));
        self.now(start + spent)
    }

    /// A part of a communicator's unit is done.
    pub(super) fn done(&mut self, comm: usize, end: u64) {
        self.ends[comm] = self.ends[comm].max(end);
    }

    /// A communicator's unit is done; `label` is its last instruction, `insts` what it holds.
    pub(super) fn unit(
        &mut self,
        (comm, posted): (usize, u64),
        plan: &Plan,
        (label, insts): (u32, &[u32]),
        works: &[WorkSlot],
    ) {
        let start = self.takes_part(comm, posted);
        let end = self.ends[comm].max(start);
        let label = &plan.insts[label as usize];
        let slice =
            self.add(self.streams as usize + comm, label, SliceKind::Communication, (start, end));
        let parts = || insts.iter().map(|&index| &plan.insts[index as usize]);
        let more: Vec<Origin> =
            parts().map(|inst| inst.origin).filter(|origin| *origin != label.origin).collect();
        let entry = &mut self.part.slices[slice];
        entry.bytes = parts().map(|inst| inst.kind.bytes()).sum();
        entry.more = more.into();
        self.free[comm] = end;
        for work in works {
            self.works[work.0 as usize] = Some(Reached { slice, ns: end });
        }
    }

    // ---- messages on streams ----

    /// When a message was offered to the side that copies.
    pub(super) fn offered(&self, inst: u32) -> u64 {
        self.offers.get(&inst).map_or(0, |reached| reached.ns)
    }

    /// The other side has copied an offered message.
    pub(super) fn taken(&mut self, index: u32, work: WorkSlot, end: u64) {
        if let Some(offer) = self.offers.remove(&index) {
            self.works[work.0 as usize] = Some(Reached { slice: offer.slice, ns: end });
        }
    }

    /// This side has copied a message, and its stream goes on.
    pub(super) fn copied(&mut self, stream: usize, inst: &Inst, work: WorkSlot, end: u64) {
        let start = self.arrived(stream);
        let end = end.max(start);
        let slice = self.add(stream, inst, SliceKind::Communication, (start, end));
        self.works[work.0 as usize] = Some(Reached { slice, ns: end });
        self.arrivals[stream].push(end);
    }
}
