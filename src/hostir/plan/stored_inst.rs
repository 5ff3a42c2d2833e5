//! Instructions as a plan stores them, for readers of long plans that need only some of the fields.
//!
//! A [`StoredInst`] is a reference: reading it copies nothing. Only [`StoredInst::unfold_inst`] makes the instruction
//! of a round, and [`StoredInst::inst_with_views`] does if the views of the rounds differ.

use super::inst::{CommSlot, EventId, Inst, InstKind, MessageHeader, WorkSlot};
use super::inst_fields::{HANDLE_FIELD, InstSteps, MESSAGE_WORK_FIELD, PEER_FIELD};
use super::inst_list::RepeatedBody;
use std::borrow::Cow;

/// An instruction as the plan stores it: that of a loop's first round, and the number of the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredInst<'p> {
    first: &'p Inst,
    /// The steps from round to round; `None` outside of loops that are stored once.
    steps: Option<&'p InstSteps>,
    round: usize,
}

/// The role of an instruction in the order of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueAction {
    /// It does something on its stream alone.
    Local,
    /// It records an event.
    Record(EventId),
    /// It waits for an event.
    WaitEvent(EventId),
    /// It waits for a communication.
    WaitWork(WorkSlot),
    /// It opens a group.
    GroupBegin,
    /// It closes a group on a communicator; a Wait waits for the work.
    GroupEnd(CommSlot, WorkSlot),
    /// It issues a collective on a communicator; a Wait waits for the work.
    Collective(CommSlot, WorkSlot),
    /// It sends or receives.
    Message(MessageHeader),
}

impl<'p> StoredInst<'p> {
    /// The instruction of a round of a body; `at` is its index there.
    pub(super) fn of_body(body: RepeatedBody<'p>, round: usize, at: usize) -> Self {
        Self { first: &body.body[at], steps: body.steps.get(at), round }
    }

    /// Its counterpart in the first round, which has the same type, op, stream, communicator and extents.
    pub(crate) fn first_round(self) -> &'p Inst {
        self.first
    }

    /// The instruction.
    pub(crate) fn unfold_inst(self) -> Cow<'p, Inst> {
        let Some(steps) = self.steps else { return Cow::Borrowed(self.first) };
        let mut inst = self.first.clone();
        steps.move_inst(&mut inst, self.round as i64);
        Cow::Owned(inst)
    }

    /// An instruction of the same type with the same views; its other fields may be those of another round.
    pub(crate) fn inst_with_views(self) -> Cow<'p, Inst> {
        match self.steps {
            Some(steps) if steps.moves_views() => self.unfold_inst(),
            _ => Cow::Borrowed(self.first),
        }
    }

    /// Its role in the order of the queues.
    pub(crate) fn queue_action(self) -> QueueAction {
        match &self.first.kind {
            InstKind::Record { event } => QueueAction::Record(EventId(self.slot_in_round(HANDLE_FIELD, event.0))),
            InstKind::WaitEvent { event } => QueueAction::WaitEvent(EventId(self.slot_in_round(HANDLE_FIELD, event.0))),
            InstKind::WaitWork { work } => QueueAction::WaitWork(WorkSlot(self.slot_in_round(HANDLE_FIELD, work.0))),
            InstKind::GroupBegin => QueueAction::GroupBegin,
            InstKind::GroupEnd { comm, work } => {
                QueueAction::GroupEnd(*comm, WorkSlot(self.slot_in_round(HANDLE_FIELD, work.0)))
            }
            InstKind::Collective(collective) => {
                let work = self.slot_in_round(HANDLE_FIELD, collective.work.0);
                QueueAction::Collective(collective.comm, WorkSlot(work))
            }
            InstKind::Message { header, .. } => QueueAction::Message(MessageHeader {
                peer: self.slot_in_round(PEER_FIELD, header.peer),
                work: WorkSlot(self.slot_in_round(MESSAGE_WORK_FIELD, header.work.0)),
                ..*header
            }),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce(_)
            | InstKind::Take(_)
            | InstKind::Accumulate(_)
            | InstKind::Rows(_)
            | InstKind::Attention(_)
            | InstKind::Launch(_) => QueueAction::Local,
        }
    }

    /// The number of a slot or rank in this round, from its field and its number in the first round.
    fn slot_in_round(self, field: u32, number: u32) -> u32 {
        self.steps.map_or(number, |steps| steps.moved_slot(field, number, self.round as i64))
    }
}
