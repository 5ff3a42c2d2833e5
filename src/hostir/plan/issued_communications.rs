//! The communications that a rank's host has issued: their communicators, their handles, and the open group.

use super::{CommSlot, PlanCommunicator, WorkSlot};
use crate::ir::{IdVec, OpId, Program};
use rustc_hash::FxHashMap;

/// The communications of a rank's host. Handles are the numbers by which the text names communications and groups.
pub(crate) struct IssuedCommunications {
    /// By number: the op that the handle belongs to.
    handles: FxHashMap<u32, OpId>,
    /// By number: the completion handle that no Wait has waited for yet.
    pending: FxHashMap<u32, WorkSlot>,
    /// The `StartCoalescing` of the open group.
    open_group: Option<OpId>,
    /// The communicator of the open group, and the first message that has it.
    group_communicator: Option<(CommSlot, OpId)>,
    /// The messages on streams of the open group.
    group_messages: Vec<WorkSlot>,
    /// By the number of a group's end: its messages on streams.
    messages_of_groups: FxHashMap<u32, Vec<WorkSlot>>,
    communicators: FxHashMap<PlanCommunicator, CommSlot>,
}

impl IssuedCommunications {
    /// Those of a host before it runs the program.
    pub(super) fn new(program: &Program) -> Self {
        let mut handles = FxHashMap::default();
        program.walk(program.body(), &mut |id| {
            if let Some(number) = program.op(id).number() {
                handles.insert(number, id);
            }
        });
        Self {
            handles,
            pending: FxHashMap::default(),
            open_group: None,
            group_communicator: None,
            group_messages: Vec::new(),
            messages_of_groups: FxHashMap::default(),
            communicators: FxHashMap::default(),
        }
    }

    /// The op that a handle names.
    pub(crate) fn op_of_handle(&self, number: u32) -> Option<OpId> {
        self.handles.get(&number).copied()
    }

    /// Registers the completion handle of a communication or group. Returns true if an earlier one of this number is
    /// still pending.
    pub(crate) fn register_work(&mut self, number: u32, work: WorkSlot) -> bool {
        self.pending.insert(number, work).is_some()
    }

    /// Takes the completion handle that a Wait names.
    pub(crate) fn take_work(&mut self, number: u32) -> Option<WorkSlot> {
        self.pending.remove(&number)
    }

    /// The `StartCoalescing` of the open group.
    pub(crate) fn open_group(&self) -> Option<OpId> {
        self.open_group
    }

    /// Opens a group; returns the start of the group that is open already.
    pub(crate) fn begin_group(&mut self, start: OpId) -> Option<OpId> {
        self.open_group.replace(start)
    }

    /// Adds a message of a communicator to the open group; returns the communicator of an earlier one there, with that
    /// message.
    pub(crate) fn join_group(&mut self, comm: CommSlot, message: OpId) -> Option<(CommSlot, OpId)> {
        self.open_group?;
        let earlier = self.group_communicator;
        self.group_communicator.get_or_insert((comm, message));
        earlier
    }

    /// Takes the communicator of the group that ends.
    pub(crate) fn take_group_communicator(&mut self) -> Option<CommSlot> {
        self.group_communicator.take().map(|(comm, _)| comm)
    }

    /// Adds a message on a stream to the open group, if there is one.
    pub(crate) fn add_stream_message(&mut self, work: WorkSlot) {
        if self.open_group.is_some() {
            self.group_messages.push(work);
        }
    }

    /// Closes the open group, whose end has this number. Returns false if no group is open.
    pub(crate) fn end_group(&mut self, number: Option<u32>) -> bool {
        let messages = std::mem::take(&mut self.group_messages);
        if let (Some(number), false) = (number, messages.is_empty()) {
            self.messages_of_groups.insert(number, messages);
        }
        self.open_group.take().is_some()
    }

    /// Takes the messages on streams of the group whose end has this number.
    pub(crate) fn take_stream_messages(&mut self, number: u32) -> Vec<WorkSlot> {
        self.messages_of_groups.remove(&number).unwrap_or_default()
    }

    /// The slot of a communicator among those of the plan, which gets it if it is new.
    pub(super) fn communicator_slot(
        &mut self,
        communicator: PlanCommunicator,
        of_plan: &mut IdVec<CommSlot, PlanCommunicator>,
    ) -> CommSlot {
        if let Some(&slot) = self.communicators.get(&communicator) {
            return slot;
        }
        let slot = of_plan.push(communicator.clone());
        self.communicators.insert(communicator, slot);
        slot
    }
}
