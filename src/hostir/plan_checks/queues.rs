//! The queues of one rank, and the progress in each.
//!
//! A plan's instructions are in issue order. They are divided into queues: one for each stream, and one for each
//! communicator, whose units start once the earlier work of the issuing stream is done.

use super::hang_report::{RankPosition, RankProgress};
use crate::ir::MessageDirection;
use crate::plan::{
    CommSlot, EventId, Inst, InstId, MessageHeader, Plan, QueueAction, StoredInst, StreamSlot, WorkSlot,
};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// A point of a stream: the number of its completed instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamPosition {
    pub(crate) stream: StreamSlot,
    pub(crate) count: u32,
}

/// An entry of a communicator's queue: one collective, or sends and receives that start together.
#[derive(Clone, Debug)]
pub(crate) struct CommunicationUnit {
    /// One collective, or sends and receives.
    pub(crate) insts: SmallVec<[InstId; 4]>,
    /// By instruction: it is done.
    done: SmallVec<[bool; 16]>,
    /// Points that the streams must reach before the unit starts.
    pub(crate) after: SmallVec<[StreamPosition; 2]>,
    /// Works that end with it.
    pub(crate) works: SmallVec<[WorkSlot; 4]>,
    /// The instruction that a message names: the last one of a group.
    pub(crate) label: InstId,
}

impl CommunicationUnit {
    /// The unit of one instruction.
    fn of_inst(inst: InstId, after: StreamPosition, work: WorkSlot) -> Self {
        let (insts, done) = (smallvec![inst], smallvec![false]);
        Self { insts, done, after: smallvec![after], works: smallvec![work], label: inst }
    }

    /// An empty group.
    fn empty_group(label: InstId) -> Self {
        let (after, works) = (SmallVec::new(), SmallVec::new());
        Self { insts: SmallVec::new(), done: SmallVec::new(), after, works, label }
    }

    /// Adds a point that a stream must reach: of several of one stream in a row, the last.
    fn wait_for(&mut self, position: StreamPosition) {
        match self.after.last_mut().filter(|last| last.stream == position.stream) {
            Some(last) => last.count = last.count.max(position.count),
            None => self.after.push(position),
        }
    }

    /// The instructions that are not done.
    fn open_insts(&self) -> impl Iterator<Item = InstId> {
        self.insts.iter().zip(&self.done).filter(|(_, done)| !**done).map(|(&inst, _)| inst)
    }
}

/// A list that is read in order.
#[derive(Clone, Debug)]
struct ReadQueue<T> {
    items: Vec<T>,
    position: usize,
}

impl<T> Default for ReadQueue<T> {
    fn default() -> Self {
        Self { items: Vec::new(), position: 0 }
    }
}

impl<T> ReadQueue<T> {
    fn head_item(&self) -> Option<&T> {
        self.items.get(self.position)
    }
}

/// A send or receive of a started unit that is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenMessage {
    pub(crate) inst: InstId,
    pub(crate) peer: usize,
}

/// The queues of one rank.
pub(crate) struct RankQueues<'p> {
    /// The plan that they are cut from.
    pub(crate) plan: &'p Plan,
    streams: Vec<ReadQueue<InstId>>,
    communicators: Vec<ReadQueue<CommunicationUnit>>,
    works: Vec<bool>,
    events: Vec<bool>,
    /// Sends and receives that streams have reached but not yet their initiator, the peer; in the order in which they
    /// were reached.
    announced: Vec<InstId>,
}

impl<'p> RankQueues<'p> {
    /// Cuts a plan into queues.
    pub(crate) fn new(plan: &'p Plan) -> Self {
        let mut queues = Self {
            plan,
            streams: vec![ReadQueue::default(); plan.streams as usize],
            communicators: vec![ReadQueue::default(); plan.communicators.len()],
            works: vec![false; plan.works as usize],
            events: vec![false; plan.events as usize],
            announced: Vec::new(),
        };
        let mut group: Option<CommunicationUnit> = None;
        for (id, inst) in plan.stored_cursor() {
            queues.enqueue_inst(id, inst, &mut group);
        }
        queues
    }

    fn enqueue_inst(&mut self, id: InstId, inst: StoredInst<'p>, group: &mut Option<CommunicationUnit>) {
        let stream = inst.template_inst().stream;
        let count = self.streams[stream.0 as usize].items.len() as u32;
        let after = StreamPosition { stream, count };
        match inst.queue_action() {
            QueueAction::GroupBegin => *group = Some(CommunicationUnit::empty_group(id)),
            QueueAction::GroupEnd(comm, work) => {
                let alone = CommunicationUnit::of_inst(id, after, work);
                let mut unit = group.take().unwrap_or(alone);
                unit.label = id;
                unit.wait_for(after);
                unit.works.push(work);
                self.communicators[comm.0 as usize].items.push(unit);
            }
            QueueAction::Collective(comm, work) => {
                self.communicators[comm.0 as usize].items.push(CommunicationUnit::of_inst(id, after, work));
            }
            QueueAction::Message(MessageHeader { comm: Some(comm), work, .. }) => match group {
                Some(unit) => {
                    unit.insts.push(id);
                    unit.done.push(false);
                    unit.wait_for(after);
                    unit.works.push(work);
                }
                None => {
                    self.communicators[comm.0 as usize].items.push(CommunicationUnit::of_inst(id, after, work));
                }
            },
            _ => self.streams[stream.0 as usize].items.push(id),
        }
    }

    /// An instruction.
    pub(crate) fn inst(&self, id: InstId) -> Cow<'p, Inst> {
        self.plan.inst(id)
    }

    /// An instruction, as the plan stores it.
    pub(crate) fn stored_inst(&self, id: InstId) -> StoredInst<'p> {
        self.plan.stored_inst(id)
    }

    /// A send or receive without its data.
    fn message(&self, id: InstId) -> Option<MessageHeader> {
        match self.stored_inst(id).queue_action() {
            QueueAction::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Whether all queues are at their end.
    pub(crate) fn is_done(&self) -> bool {
        self.streams.iter().all(|queue| queue.head_item().is_none())
            && self.communicators.iter().all(|queue| queue.head_item().is_none())
    }

    /// The progress of the rank.
    pub(super) fn rank_position(&self) -> RankPosition {
        let progress = self.first_pending().map_or(RankProgress::Ended, RankProgress::At);
        RankPosition { rank: self.plan.rank, progress }
    }

    /// The first instruction, in issue order, that is not done.
    fn first_pending(&self) -> Option<InstId> {
        let streams = self.streams.iter().filter_map(|queue| queue.head_item().copied());
        let units = self.communicators.iter().filter_map(|queue| queue.head_item()?.open_insts().next());
        streams.chain(units).min()
    }

    // ---- streams ----

    /// Number of streams.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Number of instructions on streams.
    pub(crate) fn stream_insts(&self) -> u64 {
        self.streams.iter().map(|queue| queue.items.len() as u64).sum()
    }

    /// A stream's next instruction.
    pub(crate) fn stream_head(&self, stream: usize) -> Option<InstId> {
        self.streams[stream].head_item().copied()
    }

    /// A stream is done with its next instruction.
    pub(crate) fn advance_stream(&mut self, stream: usize) {
        self.streams[stream].position += 1;
    }

    /// Returns true if a stream whose next instruction has this role does not have to wait.
    pub(crate) fn can_proceed(&self, action: QueueAction) -> bool {
        match action {
            QueueAction::WaitWork(work) => self.works[work.0 as usize],
            QueueAction::WaitEvent(event) => self.events[event.0 as usize],
            QueueAction::Message(message) => !message.initiates_transfer(),
            _ => true,
        }
    }

    /// An event is recorded.
    pub(crate) fn record_event(&mut self, event: EventId) {
        self.events[event.0 as usize] = true;
    }

    // ---- communicators ----

    /// Number of communicators.
    pub(crate) fn communicator_count(&self) -> usize {
        self.communicators.len()
    }

    /// All units of a communicator that have not ended, in order.
    pub(crate) fn open_units(&self, comm: CommSlot) -> &[CommunicationUnit] {
        let queue = &self.communicators[comm.0 as usize];
        queue.items.get(queue.position..).unwrap_or_default()
    }

    /// The next unit of a communicator, started or not.
    pub(crate) fn next_unit(&self, comm: CommSlot) -> Option<&CommunicationUnit> {
        self.communicators[comm.0 as usize].head_item()
    }

    /// The unit that a communicator's queue has started and not ended.
    pub(crate) fn started_unit(&self, comm: CommSlot) -> Option<&CommunicationUnit> {
        let unit = self.next_unit(comm)?;
        unit.after.iter().all(|position| self.has_reached(*position)).then_some(unit)
    }

    fn has_reached(&self, position: StreamPosition) -> bool {
        self.streams[position.stream.0 as usize].position >= position.count as usize
    }

    /// The collective that a communicator has started.
    pub(crate) fn started_collective(&self, comm: CommSlot) -> Option<InstId> {
        let &inst = self.started_unit(comm)?.insts.first()?;
        self.stored_inst(inst).template_inst().kind.collective().is_some().then_some(inst)
    }

    /// The sends (or receives) of a communicator's started unit that are not done.
    pub(crate) fn open_messages(&self, comm: CommSlot, direction: MessageDirection) -> Vec<OpenMessage> {
        let Some(unit) = self.started_unit(comm) else { return Vec::new() };
        let open = unit.open_insts().filter_map(|inst| {
            let message = self.message(inst).filter(|message| message.direction == direction)?;
            Some(OpenMessage { inst, peer: message.peer as usize })
        });
        open.collect()
    }

    /// The sends and receives of a communicator's started unit that are not done, without their data.
    pub(crate) fn open_sides(&self, comm: CommSlot) -> impl Iterator<Item = MessageHeader> {
        let open = self.started_unit(comm).into_iter().flat_map(CommunicationUnit::open_insts);
        open.filter_map(move |inst| self.message(inst))
    }

    /// Returns true if an instruction of a communicator's started unit is not done.
    pub(crate) fn is_open(&self, comm: CommSlot, inst: InstId) -> bool {
        self.started_unit(comm).is_some_and(|unit| unit.open_insts().any(|open| open == inst))
    }

    /// Marks an instruction of the next unit as done.
    pub(crate) fn finish_inst(&mut self, comm: CommSlot, inst: InstId) {
        let queue = &mut self.communicators[comm.0 as usize];
        let Some(unit) = queue.items.get_mut(queue.position) else { return };
        if let Some(place) = unit.insts.iter().position(|&other| other == inst) {
            unit.done[place] = true;
        }
    }

    /// Ends the started unit if nothing of it is left, and returns it.
    pub(crate) fn end_unit(&mut self, comm: CommSlot) -> Option<CommunicationUnit> {
        self.started_unit(comm).filter(|unit| unit.done.iter().all(|&done| done))?;
        let queue = &mut self.communicators[comm.0 as usize];
        let unit = queue.items.get_mut(queue.position)?;
        let unit = std::mem::replace(unit, CommunicationUnit::empty_group(unit.label));
        queue.position += 1;
        for work in &unit.works {
            self.works[work.0 as usize] = true;
        }
        Some(unit)
    }

    // ---- messages on streams ----

    /// Sends and receives that streams have reached and that this rank initiates, with their streams.
    pub(crate) fn initiated_messages(&self) -> Vec<(usize, InstId)> {
        let mut found = Vec::new();
        for (stream, queue) in self.streams.iter().enumerate() {
            if let Some(&inst) = queue.head_item()
                && self.message(inst).is_some_and(|message| message.initiates_transfer())
            {
                found.push((stream, inst));
            }
        }
        found
    }

    /// A stream has reached a send or receive that the peer initiates.
    pub(crate) fn announce_message(&mut self, inst: InstId) {
        self.announced.push(inst);
    }

    /// Returns true if a stream has reached a send or receive that the peer initiates and that is not done.
    pub(crate) fn is_announced(&self, inst: InstId) -> bool {
        self.announced.contains(&inst)
    }

    /// A message on streams is done on this side.
    pub(crate) fn finish_message(&mut self, inst: InstId) -> Option<WorkSlot> {
        self.announced.retain(|&other| other != inst);
        let work = self.message(inst)?.work;
        self.works[work.0 as usize] = true;
        Some(work)
    }

    /// Announced sends and receives for which a stream waits.
    pub(crate) fn awaited_messages(&self) -> Vec<InstId> {
        let announced = self.announced.iter().copied();
        announced.filter(|&inst| self.is_awaited(self.message(inst).map(|message| message.work))).collect()
    }

    fn is_awaited(&self, awaited: Option<WorkSlot>) -> bool {
        let mut heads = self.streams.iter().filter_map(ReadQueue::head_item);
        awaited.is_some_and(|awaited| heads.any(|&head| self.inst(head).kind.awaited_work() == Some(awaited)))
    }
}
