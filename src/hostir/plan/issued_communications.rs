//! The communications that a rank's host has issued: their communicators, their handles, and the open group.

use super::{CommSlot, LoopIteration, PlanCommunicator, WorkSlot};
use crate::ir::{AttrKey, IdVec, OpId, Program};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The communications of a rank's host. Handles are the numbers by which the text names communications and groups; a
/// number with elements names an array of handles.
pub(crate) struct IssuedCommunications {
    /// By number: the statements that start what the handle names.
    handles: FxHashMap<u32, HandleStatements>,
    /// By number and element: what no Wait has waited for yet.
    pending: FxHashMap<u32, PendingPosts>,
    /// The number of posts so far.
    count: usize,
    /// The `StartCoalescing` of the open group.
    open_group: Option<OpId>,
    /// The communicator of the open group, and the first message that has it.
    group_communicator: Option<(CommSlot, OpId)>,
    /// The messages on streams of the open group.
    group_messages: Vec<WorkSlot>,
    communicators: FxHashMap<PlanCommunicator, CommSlot>,
}

/// The statements of one handle.
#[derive(Default)]
pub(crate) struct HandleStatements {
    /// Those that start what it names: one, or several if it is an array.
    pub(crate) ops: SmallVec<[OpId; 1]>,
    /// True if they have elements.
    pub(crate) is_array: bool,
    /// The first and the last start so far; `None` before the first.
    pub(crate) starts: Option<[HandleStart; 2]>,
    /// The least and the greatest element that was started.
    pub(crate) elements: Option<[i64; 2]>,
}

/// A start of what a handle names.
#[derive(Clone, Debug)]
pub(crate) struct HandleStart {
    /// The statement.
    pub(crate) op: OpId,
    /// The indices of the loops around it.
    pub(crate) indices: LoopIteration,
}

/// By element: what is pending; without elements there is one, `None`.
type PendingPosts = FxHashMap<Option<i64>, (usize, HandlePost)>;

/// A communication or a group that the host has issued.
#[derive(Clone, Debug)]
pub(crate) struct HandlePost {
    /// Its statement.
    pub(crate) op: OpId,
    /// Its completion handle; `None` if the rank takes no part in it.
    pub(crate) work: Option<WorkSlot>,
    /// The messages on streams of a group, which end by themselves.
    pub(crate) messages: Vec<WorkSlot>,
}

impl IssuedCommunications {
    /// Those of a host before it runs the program.
    pub(super) fn new(program: &Program) -> Self {
        let mut handles: FxHashMap<u32, HandleStatements> = FxHashMap::default();
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            if let Some(number) = op.number() {
                let posts = handles.entry(number).or_default();
                posts.ops.push(id);
                posts.is_array |= op.attr(AttrKey::Element).is_some();
            }
        });
        Self {
            handles,
            pending: FxHashMap::default(),
            count: 0,
            open_group: None,
            group_communicator: None,
            group_messages: Vec::new(),
            communicators: FxHashMap::default(),
        }
    }

    /// The statements that start what a handle names.
    pub(crate) fn posts_of_handle(&self, number: u32) -> Option<&HandleStatements> {
        self.handles.get(&number)
    }

    /// Records the place of a start for messages about its handle.
    pub(crate) fn note_start(&mut self, number: u32, element: Option<i64>, start: HandleStart) {
        let Some(known) = self.handles.get_mut(&number) else { return };
        if let Some(element) = element {
            let [least, most] = known.elements.unwrap_or([element; 2]);
            known.elements = Some([least.min(element), most.max(element)]);
        }
        match &mut known.starts {
            Some([_, last]) => *last = start,
            none => *none = Some([start.clone(), start]),
        }
    }

    /// Registers a communication or group under its handle. Returns an earlier one that is still pending and that the
    /// rank takes part in.
    pub(crate) fn register_post(&mut self, number: u32, element: Option<i64>, post: HandlePost) -> Option<HandlePost> {
        self.count += 1;
        let earlier = self.pending.entry(number).or_default().insert(element, (self.count, post));
        earlier.map(|(_, post)| post).filter(|post| post.work.is_some())
    }

    /// Registers a communication in which the rank takes no part, unless an earlier one of the handle is pending.
    pub(crate) fn pass_post(&mut self, number: u32, element: Option<i64>, post: HandlePost) {
        self.count += 1;
        self.pending.entry(number).or_default().entry(element).or_insert((self.count, post));
    }

    /// Takes what a Wait for a handle, or for an element of an array, waits for.
    pub(crate) fn take_post(&mut self, number: u32, element: Option<i64>) -> Option<HandlePost> {
        self.pending.get_mut(&number)?.remove(&element).map(|(_, post)| post)
    }

    /// Takes all pending elements of an array, in the order of their posts.
    pub(crate) fn take_all_posts(&mut self, number: u32) -> Vec<HandlePost> {
        let mut found: Vec<_> = self.pending.remove(&number).unwrap_or_default().into_values().collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, post)| post).collect()
    }

    /// The pending elements of an array, in ascending order.
    pub(crate) fn pending_elements(&self, number: u32) -> Vec<i64> {
        let mut found: Vec<i64> =
            self.pending.get(&number).into_iter().flat_map(|posts| posts.keys().copied()).flatten().collect();
        found.sort_unstable();
        found
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

    /// Closes the open group and returns its messages on streams; `None` if no group is open.
    pub(crate) fn end_group(&mut self) -> Option<Vec<WorkSlot>> {
        self.open_group.take()?;
        Some(std::mem::take(&mut self.group_messages))
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
