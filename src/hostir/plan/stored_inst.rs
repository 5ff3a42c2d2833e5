//! Instructions as a plan stores them, for readers of long plans that need only some of the fields.
//!
//! A [`StoredInst`] is a reference: reading it copies nothing. Only [`StoredInst::unfold_inst`] makes the instruction,
//! and an [`InstReader`] makes one for each template and changes its numbers.

use super::inst::{CommSlot, EventId, Inst, InstKind, InstOrigin, IterationId, MessageHeader, WorkSlot};
use super::inst_fields::{
    HANDLE_FIELD, ITERATION_FIELD, InstNumbers, InstSteps, MESSAGE_WORK_FIELD, PEER_FIELD, ViewMotion, motion_between,
    moved_number, set_numbers,
};
use super::inst_list::RepeatedBody;
use std::borrow::Cow;

/// An instruction as the plan stores it: its template, the numbers of a loop's first round, and the number of the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredInst<'p> {
    template: &'p Inst,
    /// The number of the template.
    number: u32,
    round: u32,
    numbers: InstNumbers<'p>,
    /// The steps from round to round; `None` outside of loops that are stored once.
    steps: Option<&'p InstSteps>,
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
        let number = body.insts.packed_insts()[at].template;
        Self {
            template: &body.templates.inst_template(number).inst,
            number,
            round: round as u32,
            numbers: body.insts.numbers(at, body.templates),
            steps: body.steps.get(at),
        }
    }

    /// An instruction of the same type with the same op, stream, communicator and extents, whose other numbers are 0.
    pub(crate) fn template_inst(self) -> &'p Inst {
        self.template
    }

    /// The op and the loop iteration that it comes from.
    pub(crate) fn origin(self) -> InstOrigin {
        let iteration = IterationId(self.number_in_round(ITERATION_FIELD));
        InstOrigin { op: self.template.origin.op, iteration }
    }

    /// The instruction.
    pub(crate) fn unfold_inst(self) -> Cow<'p, Inst> {
        if self.numbers.others.is_empty() && self.origin() == self.template.origin {
            return Cow::Borrowed(self.template);
        }
        let mut inst = self.template.clone();
        self.set_numbers(&mut inst);
        Cow::Owned(inst)
    }

    /// The change of the instruction's views from this round to the next.
    pub(crate) fn view_motion(self) -> ViewMotion {
        let next = Self { round: self.round + 1, ..self };
        motion_between(&self.unfold_inst(), &next.unfold_inst())
    }

    fn set_numbers(self, inst: &mut Inst) {
        set_numbers(inst, self.numbers, self.steps, self.round as usize);
    }

    /// Its role in the order of the queues.
    pub(crate) fn queue_action(self) -> QueueAction {
        match &self.template.kind {
            InstKind::Record { .. } => QueueAction::Record(EventId(self.number_in_round(HANDLE_FIELD))),
            InstKind::WaitEvent { .. } => QueueAction::WaitEvent(EventId(self.number_in_round(HANDLE_FIELD))),
            InstKind::WaitWork { .. } => QueueAction::WaitWork(WorkSlot(self.number_in_round(HANDLE_FIELD))),
            InstKind::GroupBegin => QueueAction::GroupBegin,
            InstKind::GroupEnd { comm, .. } => {
                QueueAction::GroupEnd(*comm, WorkSlot(self.number_in_round(HANDLE_FIELD)))
            }
            InstKind::Collective(collective) => {
                let work = self.number_in_round(HANDLE_FIELD);
                QueueAction::Collective(collective.comm, WorkSlot(work))
            }
            InstKind::Message { header, .. } => QueueAction::Message(MessageHeader {
                peer: self.number_in_round(PEER_FIELD),
                work: WorkSlot(self.number_in_round(MESSAGE_WORK_FIELD)),
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

    /// The number of a field in this round.
    fn number_in_round(self, field: u32) -> u32 {
        moved_number(self.numbers, self.steps, field, self.round as usize)
    }
}

/// Reads the instructions of one plan. It has room for one of each template, so that reading takes no memory.
#[derive(Default, Debug)]
pub(crate) struct InstReader {
    /// By number of template.
    insts: Vec<Option<Box<Inst>>>,
}

impl InstReader {
    /// The instruction, until the next one is read.
    pub(crate) fn read_inst(&mut self, stored: StoredInst<'_>) -> &Inst {
        let place = stored.number as usize;
        if place >= self.insts.len() {
            self.insts.resize(place + 1, None);
        }
        let inst = self.insts[place].get_or_insert_with(|| Box::new(stored.template.clone()));
        stored.set_numbers(inst);
        inst
    }
}
