//! The steps of one rank's plan in one run: its streams and its communicators' queues.

use super::memory::MemoryUses;
use super::steps::{QueueStep, StepGraph, StepId, StepRole, TransferModel};
use crate::plan::{BufferId, BufferView, CommSlot, EventId, Inst, InstId, InstKind, Plan, WorkSlot};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The steps of a communication on one rank for which its other sides wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideSteps {
    /// The side has started: data may move.
    pub(super) start: StepId,
    /// It has given what it contributes.
    pub(super) read: Option<StepId>,
    /// Its target has been written.
    pub(super) write: Option<StepId>,
    /// It is done.
    pub(super) done: StepId,
}

/// All steps so far, of all ranks and runs.
#[derive(Default)]
pub(super) struct StepsInProgress {
    /// The steps.
    pub(super) graph: StepGraph,
    /// Their uses of memory.
    pub(super) uses: MemoryUses,
    /// The steps of communications.
    pub(super) sides: FxHashMap<(u32, u32, InstId), SideSteps>,
    /// By rank: the memory of the caller's buffers.
    pub(super) held: Vec<FxHashMap<BufferId, u32>>,
    /// By rank: the last steps of the queues in the previous run.
    pub(super) ends: Vec<Vec<StepId>>,
    /// Uses of a buffer after its Free or before its Alloc.
    pub(super) dead_uses: Vec<DeadUse>,
}

/// A use of a buffer that has no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeadUse {
    /// The rank.
    pub(super) rank: u32,
    /// The instruction.
    pub(super) inst: InstId,
    /// The buffer.
    pub(super) buffer: BufferId,
}

/// Sends and receives that start together.
struct OpenGroup {
    start: StepId,
    done: StepId,
}

/// Makes the steps of one rank in one run.
pub(super) struct RankSteps<'a> {
    plan: &'a Plan,
    run: u32,
    all: &'a mut StepsInProgress,
    /// By buffer: its memory, while it has some.
    memories: FxHashMap<BufferId, u32>,
    streams: Vec<StepId>,
    communicators: Vec<StepId>,
    works: FxHashMap<WorkSlot, StepId>,
    events: FxHashMap<EventId, StepId>,
    group: Option<OpenGroup>,
}

impl<'a> RankSteps<'a> {
    /// Adds the steps of a rank in a run, after the rank's steps of the previous run.
    pub(super) fn add_plan(plan: &'a Plan, run: u32, all: &'a mut StepsInProgress) {
        let rank = plan.rank as usize;
        let before = std::mem::take(&mut all.ends[rank]);
        let step = QueueStep { rank: plan.rank, run, inst: None, role: StepRole::Start };
        let begin = all.graph.add_step(step, &before);
        let memories = all.held[rank].clone();
        let mut steps = RankSteps {
            plan,
            run,
            all,
            memories,
            streams: vec![begin; plan.streams as usize],
            communicators: vec![begin; plan.communicators.len()],
            works: FxHashMap::default(),
            events: FxHashMap::default(),
            group: None,
        };
        for (id, inst) in plan.cursor() {
            steps.add_inst(id, &inst);
        }
        steps.add_caller();
        let ends: BTreeSet<StepId> = steps.streams.iter().chain(&steps.communicators).copied().collect();
        steps.all.ends[rank] = ends.into_iter().collect();
    }

    fn add_inst(&mut self, id: InstId, inst: &Inst) {
        match &inst.kind {
            InstKind::Alloc { buffer } => self.start_life(*buffer),
            InstKind::Free { buffer } => {
                self.memories.remove(buffer);
            }
            InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce(_)
            | InstKind::Take(_)
            | InstKind::Accumulate(_)
            | InstKind::Rows(_)
            | InstKind::Attention(_)
            | InstKind::Launch(_) => self.add_local(id, inst),
            InstKind::Collective(collective) => self.add_queued(id, inst, collective.comm, collective.work),
            InstKind::Message { header, .. } => match header.comm {
                Some(comm) => self.add_queued(id, inst, comm, header.work),
                None => self.add_stream_message(id, inst, header.work),
            },
            InstKind::GroupBegin => {
                let start = self.new_step(id, StepRole::Start, &[]);
                let done = self.new_step(id, StepRole::Done, &[start]);
                self.group = Some(OpenGroup { start, done });
            }
            InstKind::GroupEnd { comm, work } => self.end_group(inst, *comm, *work),
            InstKind::WaitWork { work } => self.add_wait(id, inst, self.works.get(work).copied()),
            InstKind::Record { event } => {
                let step = self.add_to_stream(id, inst, StepRole::Done);
                self.events.insert(*event, step);
            }
            InstKind::WaitEvent { event } => self.add_wait(id, inst, self.events.get(event).copied()),
        }
    }

    /// Gives a buffer memory from here on: the caller's, or its own.
    fn start_life(&mut self, buffer: BufferId) {
        let held = self.all.held[self.plan.rank as usize].get(&buffer).copied();
        let elements = self.plan.buffers[buffer].elements;
        let memory = held.unwrap_or_else(|| self.all.uses.add_object(self.plan.rank, buffer, elements, false));
        self.memories.insert(buffer, memory);
    }

    fn new_step(&mut self, id: InstId, role: StepRole, after: &[StepId]) -> StepId {
        let step = QueueStep { rank: self.plan.rank, run: self.run, inst: Some(id), role };
        self.all.graph.add_step(step, after)
    }

    /// Adds a step to the end of the instruction's stream.
    fn add_to_stream(&mut self, id: InstId, inst: &Inst, role: StepRole) -> StepId {
        let stream = inst.stream.0 as usize;
        let step = self.new_step(id, role, &[self.streams[stream]]);
        self.streams[stream] = step;
        step
    }

    /// Makes a stream wait for a step; forever if there is none.
    fn add_wait(&mut self, id: InstId, inst: &Inst, awaited: Option<StepId>) {
        let step = self.add_to_stream(id, inst, StepRole::Done);
        match awaited {
            Some(awaited) => {
                self.all.graph.add_wait(awaited, step, TransferModel::Windows);
            }
            None => self.all.graph.block_step(step),
        }
    }

    fn add_use(&mut self, step: StepId, id: InstId, view: &BufferView, writes: bool) {
        match self.memories.get(&view.buffer) {
            Some(&memory) => self.all.uses.add_use(step, memory, view, writes),
            None => {
                let dead = DeadUse { rank: self.plan.rank, inst: id, buffer: view.buffer };
                if !self.all.dead_uses.contains(&dead) {
                    self.all.dead_uses.push(dead);
                }
            }
        }
    }

    fn add_uses(&mut self, id: InstId, inst: &Inst, read: Option<StepId>, write: Option<StepId>) {
        if let Some(step) = read {
            inst.kind.read_views().into_iter().for_each(|view| self.add_use(step, id, view, false));
        }
        if let Some(step) = write {
            inst.kind.written_views().into_iter().for_each(|view| self.add_use(step, id, view, true));
        }
    }

    /// Adds an instruction of a stream that accesses memory of its rank only.
    fn add_local(&mut self, id: InstId, inst: &Inst) {
        let reads = !inst.kind.read_views().is_empty();
        let read = reads.then(|| self.add_to_stream(id, inst, StepRole::Read));
        let write = Some(self.add_to_stream(id, inst, StepRole::Write));
        self.add_uses(id, inst, read, write);
    }

    /// Adds the steps between a side's start and its end.
    fn add_side(&mut self, id: InstId, inst: &Inst, start: StepId, done: StepId) {
        let reads = !inst.kind.read_views().is_empty();
        let read = reads.then(|| self.new_step(id, StepRole::Read, &[start]));
        // A side of a collective may receive into the memory of its contribution.
        let after = read.unwrap_or(start);
        let write = inst.kind.written_view().map(|_| self.new_step(id, StepRole::Write, &[after]));
        for step in read.into_iter().chain(write) {
            self.all.graph.add_wait(step, done, TransferModel::Windows);
        }
        self.add_uses(id, inst, read, write);
        self.all.sides.insert((self.run, self.plan.rank, id), SideSteps { start, read, write, done });
    }

    /// Adds a communication of a communicator's queue, alone or in the open group.
    fn add_queued(&mut self, id: InstId, inst: &Inst, comm: CommSlot, work: WorkSlot) {
        let stream = self.streams[inst.stream.0 as usize];
        if let Some(OpenGroup { start, done }) = self.group {
            self.all.graph.add_wait(stream, start, TransferModel::Windows);
            // A message of a group has no end of its own.
            self.works.insert(work, start);
            self.add_side(id, inst, start, done);
            return;
        }
        let before = self.communicators[comm.0 as usize];
        let start = self.new_step(id, StepRole::Start, &[stream, before]);
        let done = self.new_step(id, StepRole::Done, &[start]);
        self.communicators[comm.0 as usize] = done;
        self.works.insert(work, done);
        self.add_side(id, inst, start, done);
    }

    fn end_group(&mut self, inst: &Inst, comm: CommSlot, work: WorkSlot) {
        let Some(OpenGroup { start, done }) = self.group.take() else { return };
        let stream = self.streams[inst.stream.0 as usize];
        let before = self.communicators[comm.0 as usize];
        for step in [stream, before] {
            self.all.graph.add_wait(step, start, TransferModel::Windows);
        }
        self.communicators[comm.0 as usize] = done;
        self.works.insert(work, done);
    }

    /// Adds a side of a message on a stream. The stream of the initiator waits until the copy is done; the stream of
    /// the target continues.
    fn add_stream_message(&mut self, id: InstId, inst: &Inst, work: WorkSlot) {
        let start = self.add_to_stream(id, inst, StepRole::Start);
        let done = self.new_step(id, StepRole::Done, &[start]);
        if inst.kind.initiates_transfer() {
            self.streams[inst.stream.0 as usize] = done;
        }
        self.works.insert(work, done);
        self.add_side(id, inst, start, done);
    }

    /// Adds the caller's reads and writes of inputs and outputs after the end of its stream.
    fn add_caller(&mut self) {
        let Some(&last) = self.streams.first() else { return };
        let step = QueueStep { rank: self.plan.rank, run: self.run, inst: None, role: StepRole::Read };
        let read = self.all.graph.add_step(step, &[last]);
        let write = self.all.graph.add_step(QueueStep { role: StepRole::Write, ..step }, &[read]);
        self.streams[0] = write;
        for view in self.plan.inputs.iter().chain(&self.plan.outputs).flatten() {
            // A freed output has no memory to read.
            if let Some(&memory) = self.memories.get(&view.buffer) {
                self.all.uses.add_use(read, memory, view, false);
                self.all.uses.add_use(write, memory, view, true);
            }
        }
    }
}
