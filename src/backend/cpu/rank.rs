//! One rank: its queues, how far each is, and the execution of local instructions.

use super::lanes::Lanes;
use super::record::Recorder;
use super::storage::Memory;
use super::{Fault, gemm, pointwise, reduce, take};
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::diag::codes;
use crate::plan::{
    CommSlot, Deadline, Inst, InstKind, Origin, Plan, Prepared, Scalar, StreamSlot, View, WorkSlot,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a communicator's queue holds: one collective, or sends and receives that start together.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Instructions: one collective, or sends and receives.
    pub(super) insts: Vec<u32>,
    /// Which of them are done.
    pub(super) done: Vec<bool>,
    /// Stream positions that must be reached before it starts.
    after: Vec<(StreamSlot, u32)>,
    /// Works that end with it.
    works: Vec<WorkSlot>,
    /// The instruction that a message names: the last one of a group.
    pub(super) label: u32,
}

/// A queue of instructions or units with a read position.
#[derive(Clone, Debug)]
struct Queue<T> {
    items: Vec<T>,
    at: usize,
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self { items: Vec::new(), at: 0 }
    }
    fn head(&self) -> Option<&T> {
        self.items.get(self.at)
    }
}

/// A send or a receive on a stream that the other side, which copies, has not come to yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// The instruction.
    pub(super) inst: u32,
    /// The peer.
    pub(super) peer: u32,
    /// Its place among those of its direction and peer on streams, in issue order.
    pub(super) turn: u32,
}

/// The state of one rank.
pub(super) struct Rank<'p> {
    /// Its plan.
    pub(super) plan: &'p Plan,
    /// Its memory.
    pub(super) memory: Memory,
    /// Bytes that local instructions read and wrote.
    pub(super) local_bytes: u64,
    /// Whether only the order is followed, without data.
    pub(super) dry: bool,
    /// When the run has to be over.
    pub(super) deadline: Option<Deadline>,
    /// Where a traced run records what it does.
    pub(super) recorder: Option<Box<Recorder>>,
    /// Counts the instructions of streams, for onlookers.
    pub(super) done: Option<&'p AtomicU64>,
    streams: Vec<Queue<u32>>,
    comms: Vec<Queue<Unit>>,
    works: Vec<bool>,
    events: Vec<bool>,
    /// In the order they were reached.
    pub(super) offers: Vec<Offer>,
    /// Of sends and receives on streams: their place among those of their direction and peer, in issue
    /// order. Streams may reach them in another one.
    turns: BTreeMap<u32, u32>,
}

fn turns(plan: &Plan) -> BTreeMap<u32, u32> {
    let mut counts: BTreeMap<(bool, u32), u32> = BTreeMap::new();
    let mut turns = BTreeMap::new();
    for (index, inst) in (0..).zip(plan.iter()) {
        let key = match &inst.kind {
            InstKind::Send { comm: None, peer, .. } => (true, *peer),
            InstKind::Recv { comm: None, peer, .. } => (false, *peer),
            _ => continue,
        };
        let count = counts.entry(key).or_default();
        turns.insert(index, *count);
        *count += 1;
    }
    turns
}

impl<'p> Rank<'p> {
    /// Cuts a plan into queues.
    pub(super) fn new(plan: &'p Plan, inputs: Vec<HostTensor>) -> Result<Self, Fault> {
        let mut rank = Self {
            plan,
            memory: Memory::new(plan, inputs)?,
            local_bytes: 0,
            dry: false,
            deadline: None,
            recorder: None,
            done: None,
            streams: vec![Queue::new(); plan.streams as usize],
            comms: vec![Queue::new(); plan.communicators.len()],
            works: vec![false; plan.works as usize],
            events: vec![false; plan.events as usize],
            offers: Vec::new(),
            turns: turns(plan),
        };
        let mut group: Option<Unit> = None;
        for (index, inst) in plan.iter().enumerate() {
            rank.enqueue(index as u32, inst, &mut group);
        }
        Ok(rank)
    }

    fn enqueue(&mut self, index: u32, inst: &Inst, group: &mut Option<Unit>) {
        let after = (inst.stream, self.streams[inst.stream.0 as usize].items.len() as u32);
        let single = |work: WorkSlot| Unit {
            insts: vec![index],
            done: vec![false],
            after: vec![after],
            works: vec![work],
            label: index,
        };
        match &inst.kind {
            InstKind::GroupBegin => {
                *group = Some(Unit {
                    insts: Vec::new(),
                    done: Vec::new(),
                    after: Vec::new(),
                    works: Vec::new(),
                    label: index,
                });
            }
            InstKind::GroupEnd { comm, work } => {
                let mut unit = group.take().unwrap_or_else(|| single(*work));
                unit.label = index;
                unit.after.push(after);
                unit.works.push(*work);
                self.comms[comm.0 as usize].items.push(unit);
            }
            InstKind::Collective(collective) => {
                self.comms[collective.comm.0 as usize].items.push(single(collective.work));
            }
            InstKind::Send { comm: Some(comm), work, .. }
            | InstKind::Recv { comm: Some(comm), work, .. } => match group {
                Some(unit) => {
                    unit.insts.push(index);
                    unit.done.push(false);
                    unit.after.push(after);
                    unit.works.push(*work);
                }
                None => self.comms[comm.0 as usize].items.push(single(*work)),
            },
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce { .. }
            | InstKind::Take(_)
            | InstKind::Accumulate(_)
            | InstKind::Send { comm: None, .. }
            | InstKind::Recv { comm: None, .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => {
                self.streams[inst.stream.0 as usize].items.push(index);
            }
        }
    }

    /// Cuts a plan into queues that are followed without data.
    pub(super) fn dry(plan: &'p Plan) -> Result<Self, Fault> {
        Ok(Self { dry: true, ..Self::new(plan, Vec::new())? })
    }

    /// An instruction.
    pub(super) fn inst(&self, index: u32) -> &'p Inst {
        &self.plan.insts[index as usize]
    }

    /// Instructions on streams.
    pub(super) fn steps(&self) -> u64 {
        self.streams.iter().map(|queue| queue.items.len() as u64).sum()
    }

    /// Whether all queues are at their end.
    pub(super) fn is_done(&self) -> bool {
        self.streams.iter().all(|queue| queue.head().is_none())
            && self.comms.iter().all(|queue| queue.head().is_none())
    }

    /// The unit that a communicator's queue has started and not ended.
    pub(super) fn unit(&self, comm: CommSlot) -> Option<&Unit> {
        let unit = self.comms[comm.0 as usize].head()?;
        let reached = |&(stream, count): &(StreamSlot, u32)| {
            self.streams[stream.0 as usize].at >= count as usize
        };
        unit.after.iter().all(reached).then_some(unit)
    }

    /// Marks an instruction of the started unit as done at `end`, and ends the unit after its last one.
    pub(super) fn complete(&mut self, comm: CommSlot, inst: u32, end: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.done(comm.0 as usize, end);
        }
        let queue = &mut self.comms[comm.0 as usize];
        let Some(unit) = queue.items.get_mut(queue.at) else { return };
        if let Some(place) = unit.insts.iter().position(|&other| other == inst) {
            unit.done[place] = true;
        }
        self.release(inst);
        self.end_unit(comm);
    }

    /// Ends the started unit if nothing of it is left; whether it did.
    pub(super) fn end_unit(&mut self, comm: CommSlot) -> bool {
        let finished = self.unit(comm).is_some_and(|unit| unit.done.iter().all(|&done| done));
        if finished {
            let posted = self.posted(comm);
            let queue = &mut self.comms[comm.0 as usize];
            let unit = &mut queue.items[queue.at];
            let works = std::mem::take(&mut unit.works);
            if let Some(recorder) = &mut self.recorder {
                let insts = (unit.label, &unit.insts[..]);
                recorder.unit((comm.0 as usize, posted), self.plan, insts, &works);
            }
            queue.at += 1;
            for work in works {
                self.works[work.0 as usize] = true;
            }
        }
        finished
    }

    /// When the streams came to the posts of a communicator's next unit; 0 unless the run is traced.
    fn posted(&self, comm: CommSlot) -> u64 {
        let (Some(recorder), Some(unit)) = (&self.recorder, self.comms[comm.0 as usize].head())
        else {
            return 0;
        };
        let posts = unit.after.iter();
        posts.map(|&(stream, at)| recorder.arrival(stream.0 as usize, at)).max().unwrap_or(0)
    }

    /// When this rank takes part in the started unit of a communicator; 0 unless the run is traced.
    pub(super) fn takes_part(&self, comm: CommSlot) -> u64 {
        let posted = self.posted(comm);
        self.recorder.as_ref().map_or(0, |recorder| recorder.takes_part(comm.0 as usize, posted))
    }

    /// When an instruction's communication ends, which starts with its last side; 0 unless traced.
    pub(super) fn communicated(&self, start: u64, inst: u32) -> u64 {
        let end = |recorder: &Recorder| recorder.communicated(start, self.inst(inst));
        self.recorder.as_deref().map_or(0, end)
    }

    /// When a side of a message on streams is there; 0 unless the run is traced.
    pub(super) fn side_there(&self, stream: Option<StreamSlot>, inst: u32) -> u64 {
        let Some(recorder) = &self.recorder else { return 0 };
        match stream {
            Some(stream) => recorder.ready(stream.0 as usize, &self.inst(inst).kind),
            None => recorder.offered(inst),
        }
    }

    /// On the model's clock: the stream that goes on first, and when.
    pub(super) fn first_ready(&self) -> Option<(u64, usize)> {
        let recorder = self.recorder.as_ref()?;
        let ready = |(stream, queue): (usize, &Queue<u32>)| {
            let kind = &self.inst(*queue.head()?).kind;
            self.can_go_on(kind).then(|| (recorder.ready(stream, kind), stream))
        };
        self.streams.iter().enumerate().filter_map(ready).min()
    }

    /// Whether a stream whose next instruction this is need not wait.
    fn can_go_on(&self, kind: &InstKind) -> bool {
        match kind {
            InstKind::WaitWork { work } => self.works[work.0 as usize],
            InstKind::WaitEvent { event } => self.events[event.0 as usize],
            kind => !copies(kind),
        }
    }

    fn release(&mut self, inst: u32) {
        let kind = &self.inst(inst).kind;
        self.memory.release(kind.reads().into_iter().chain(kind.writes()));
    }

    /// Sends and receives that streams have reached and that copy, with their streams.
    pub(super) fn copying(&self) -> Vec<(StreamSlot, u32)> {
        let mut found = Vec::new();
        for (stream, queue) in self.streams.iter().enumerate() {
            if let Some(&index) = queue.head()
                && copies(&self.inst(index).kind)
            {
                found.push((StreamSlot(stream as u32), index));
            }
        }
        found
    }

    /// The place of a send or receive on a stream among those of its direction and peer.
    pub(super) fn turn(&self, inst: u32) -> u32 {
        self.turns.get(&inst).copied().unwrap_or_default()
    }

    /// The side of a message that copies is done at `end`.
    pub(super) fn complete_copying(&mut self, stream: StreamSlot, inst: u32, end: u64) {
        self.complete_message(Some(stream), inst, end);
        self.streams[stream.0 as usize].at += 1;
    }

    /// An offer has been taken at `end`.
    pub(super) fn complete_offer(&mut self, place: usize, end: u64) {
        let Offer { inst, .. } = self.offers.remove(place);
        self.complete_message(None, inst, end);
    }

    /// A message is done; `stream` is that of the side that copies.
    fn complete_message(&mut self, stream: Option<StreamSlot>, index: u32, end: u64) {
        let inst = self.inst(index);
        if let InstKind::Send { work, .. } | InstKind::Recv { work, .. } = &inst.kind {
            self.works[work.0 as usize] = true;
            match (&mut self.recorder, stream) {
                (Some(recorder), Some(stream)) => {
                    recorder.copied(stream.0 as usize, inst, *work, end);
                }
                (Some(recorder), None) => recorder.taken(index, *work, end),
                (None, _) => {}
            }
        }
        self.release(index);
    }

    /// Offers that somebody waits for and nobody has taken.
    pub(super) fn awaited_offers(&self) -> Vec<Offer> {
        let awaited = |work: &WorkSlot| {
            self.streams.iter().filter_map(Queue::head).any(
                |&index| matches!(&self.inst(index).kind, InstKind::WaitWork { work: w } if w == work),
            )
        };
        let open = self.offers.iter().copied();
        open.filter(|offer| match &self.inst(offer.inst).kind {
            InstKind::Send { work, .. } | InstKind::Recv { work, .. } => awaited(work),
            _ => false,
        })
        .collect()
    }

    /// Ends started units that hold nothing; whether there were any.
    pub(super) fn end_units(&mut self) -> bool {
        let mut progress = false;
        for comm in 0..self.comms.len() {
            while self.end_unit(CommSlot(comm as u32)) {
                progress = true;
            }
        }
        progress
    }

    /// Runs the streams, in turn, until each is at its end or waits.
    pub(super) fn run_local(&mut self, prepared: &Prepared) -> Result<(), Diag> {
        loop {
            let mut progress = self.end_units();
            for stream in 0..self.streams.len() {
                while self.step(stream, prepared)? {
                    progress = true;
                }
            }
            if !progress {
                return Ok(());
            }
        }
    }

    /// Executes a stream's next instruction, unless it has to wait.
    pub(super) fn step(&mut self, stream: usize, prepared: &Prepared) -> Result<bool, Diag> {
        let Some(&index) = self.streams[stream].head() else { return Ok(false) };
        let inst = self.inst(index);
        if !self.can_go_on(&inst.kind) {
            return Ok(false);
        }
        if let Some(note) = self.deadline.and_then(|deadline| deadline.passed()) {
            return Err(self.late(prepared, inst.origin, note));
        }
        let began = self.recorder.as_mut().map_or(0, |recorder| recorder.begin(stream));
        match &inst.kind {
            InstKind::Send { peer, .. } | InstKind::Recv { peer, .. } => {
                let turn = self.turn(index);
                self.offers.push(Offer { inst: index, peer: *peer, turn });
            }
            InstKind::Record { event } => self.events[event.0 as usize] = true,
            _ if self.dry => {}
            kind => {
                let plan = self.plan;
                self.execute(kind).map_err(|fault| fault.at(prepared, plan, inst.origin))?;
                self.local_bytes += kind.bytes();
                self.release(index);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.step(stream, index, inst, began);
        }
        if let Some(done) = self.done {
            done.fetch_add(1, Ordering::Relaxed);
        }
        self.streams[stream].at += 1;
        Ok(true)
    }

    /// The error of a run that takes longer than it may.
    fn late(&self, prepared: &Prepared, origin: Origin, note: String) -> Diag {
        let labels = &prepared.labels;
        let message =
            format!("the run did not end in time: rank {} has come to this", self.plan.rank);
        let iteration = labels.iteration(self.plan.iteration(origin));
        let at = (!iteration.is_empty()).then(|| format!("at {iteration}"));
        let mut diag = Diag::error(codes::TIMEOUT, labels.span(origin.op), message);
        diag.notes.extend(at.into_iter().chain([note, "`--timeout-ms=N` allows more".to_owned()]));
        diag
    }

    fn execute(&mut self, kind: &InstKind) -> Result<(), Fault> {
        let (memory, plan) = (&mut self.memory, self.plan);
        match kind {
            InstKind::Copy { src, dst } => copy(memory, plan, src, dst),
            InstKind::Fill { dst, value } => fill(memory, plan, dst, *value),
            InstKind::Gemm(gemm) => gemm::run(memory, plan, gemm),
            InstKind::Kernel(kernel) => pointwise::run(memory, plan, kernel),
            InstKind::Reduce { op, axes, input, output } => {
                reduce::run(memory, plan, *op, axes, input, output)
            }
            InstKind::Take(op) => take::run(memory, plan, op),
            InstKind::Accumulate(op) => take::accumulate(memory, plan, op),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::Collective(_)
            | InstKind::Send { .. }
            | InstKind::Recv { .. } => Ok(()),
        }
    }
}

/// Whether an instruction is the side of a message that copies: it waits until the other is there.
fn copies(kind: &InstKind) -> bool {
    matches!(
        kind,
        InstKind::Send { comm: None, put: true, .. }
            | InstKind::Recv { comm: None, put: false, .. }
    )
}

fn copy(memory: &mut Memory, plan: &Plan, src: &View, dst: &View) -> Result<(), Fault> {
    match src.dtype.size() {
        1 => memory.read::<u8>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        2 => memory.read::<u16>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        4 => memory.read::<u32>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        8 => memory.read::<u64>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        _ => Err(Fault::Type(src.dtype)),
    }
}

fn fill(memory: &mut Memory, plan: &Plan, dst: &View, value: Scalar) -> Result<(), Fault> {
    Lanes::splat(value, super::lanes::class(dst.dtype)?, dst.len()).store(memory, plan, dst)
}
