//! The queues of one rank in a walk.

use super::awaited_clocks::AwaitedClocks;
use super::clock::{ChainTable, VectorClock};
use crate::ir::MessageDirection;
use crate::plan::{
    CommSlot, EventId, InstId, MatchedCommunicator, MessageHeader, Plan, PlanMatching, QueueAction, RankInst,
    StoredCursor, StoredInst, USER_STREAM, WorkSlot,
};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A stream: the instructions that the host has issued and that are not done, and the clock after the completed ones.
pub(super) struct StreamQueue<'p> {
    pub(super) clock: VectorClock,
    pub(super) issued: VecDeque<IssuedStep<'p>>,
}

/// An item of a stream.
#[derive(Clone, Copy)]
pub(super) struct IssuedStep<'p> {
    pub(super) id: InstId,
    pub(super) inst: StoredInst<'p>,
    pub(super) action: StepAction,
}

/// The part that an item plays on its stream.
#[derive(Clone, Copy)]
pub(super) enum StepAction {
    /// It posts a communication, which a communicator's unit carries out.
    Post(PostPlace),
    /// It does something on the stream alone.
    Local,
    /// It records an event.
    Record(EventId),
    /// It waits for an event.
    WaitEvent(EventId),
    /// It waits for a communication.
    WaitWork(WorkSlot),
    /// It is a send or receive on the stream.
    Message(StreamMessage),
}

/// A send or receive on a stream.
#[derive(Clone, Copy)]
pub(super) struct StreamMessage {
    pub(super) work: WorkSlot,
    /// True if the rank carries it out, false if the peer does.
    pub(super) is_initiator: bool,
    /// The other side.
    pub(super) partner: Option<RankInst>,
}

/// The unit that a post is a part of.
#[derive(Clone, Copy)]
pub(super) enum PostPlace {
    /// This one.
    Unit(PostTarget),
    /// The unit of the rank's group of this number, which exists once the host has closed the group.
    Group(usize),
}

/// A unit by its communicator and its number in the queue.
#[derive(Clone, Copy)]
pub(super) struct PostTarget {
    pub(super) comm: CommSlot,
    pub(super) number: u32,
}

/// A communication of a unit.
#[derive(Clone, Copy)]
pub(super) struct UnitInst<'p> {
    pub(super) id: InstId,
    pub(super) inst: StoredInst<'p>,
    pub(super) part: UnitPart,
}

/// The kind of a communication of a unit.
#[derive(Clone, Copy)]
pub(super) enum UnitPart {
    Collective,
    Message(UnitMessage),
}

/// A send or receive on a communicator.
#[derive(Clone, Copy)]
pub(super) struct UnitMessage {
    pub(super) work: WorkSlot,
    pub(super) direction: MessageDirection,
    /// The other side.
    pub(super) partner: Option<RankInst>,
}

/// A unit of a communicator's queue.
pub(super) struct QueuedUnit<'p> {
    pub(super) insts: SmallVec<[UnitInst<'p>; 2]>,
    pub(super) works: SmallVec<[WorkSlot; 2]>,
    /// Works of a group's messages, which have no end of their own: a Wait for one orders nothing.
    pub(super) members: SmallVec<[WorkSlot; 2]>,
    /// Posts that their streams have not come to.
    pub(super) open_posts: u32,
    pub(super) is_started: bool,
    /// A side that had not started when the unit was to end.
    pub(super) missing: Option<RankInst>,
    /// The clock at its start, as far as posts are done; once it has started, the clock at its end.
    pub(super) clock: VectorClock,
}

/// The queue of a communicator.
pub(super) struct CommunicatorQueue<'p> {
    /// The clock after the units that have ended.
    pub(super) clock: VectorClock,
    pub(super) units: VecDeque<QueuedUnit<'p>>,
    /// The number of units that have ended.
    pub(super) ended: u32,
    /// The number of collectives that have started.
    pub(super) collectives: usize,
    /// The communicator among the matched ones, and the rank's position in the team.
    pub(super) matched: Option<(usize, usize)>,
}

/// The queues of one rank.
pub(super) struct RankState<'p> {
    rank: u32,
    pub(super) cursor: StoredCursor<'p>,
    /// The index among the rank's matched messages that the host has reached.
    near: usize,
    pub(super) streams: Vec<StreamQueue<'p>>,
    /// The streams that have items.
    pub(super) busy: Vec<u32>,
    /// The number of items of all streams and units of all communicators.
    pending: usize,
    pub(super) communicators: Vec<CommunicatorQueue<'p>>,
    /// The posts of the group that the host is in.
    group: Vec<GroupPost<'p>>,
    /// The number of open groups: nested ones belong to the outermost.
    open_groups: u32,
    /// The units of the groups that the host has closed.
    groups: Vec<PostTarget>,
    events: AwaitedClocks,
    /// Events that the caller's stream records before any work.
    starts: FxHashSet<EventId>,
    works: AwaitedClocks,
    /// Works of messages on streams that the rank initiates: their streams wait without a Wait.
    pub(super) initiated: FxHashSet<WorkSlot>,
}

/// A post in a group.
enum GroupPost<'p> {
    /// The begin of a group.
    Begin,
    /// The end of a group.
    End(WorkSlot),
    /// A send, receive or collective.
    Inst(UnitInst<'p>, WorkSlot),
}

/// The progress that an issued instruction makes possible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IssueOutcome {
    /// The plan has no more instructions.
    AtEnd,
    /// Other instructions of its stream precede it, so it enables no progress.
    Queued,
    /// A stream may go on with it.
    Ready,
}

impl<'p> RankState<'p> {
    pub(super) fn new(plan: &'p Plan, chains: &ChainTable, communicators: &[MatchedCommunicator<'_>]) -> Self {
        let clock = chains.initial_clock();
        let place = |slot: CommSlot| {
            communicators.iter().enumerate().find_map(|(place, of_all)| {
                let team = of_all.communicator.team.iter();
                let position =
                    team.zip(&of_all.slots).position(|(&rank, &own)| rank == plan.rank && own == Some(slot))?;
                Some((place, position))
            })
        };
        let queue = |slot| CommunicatorQueue {
            clock: clock.clone(),
            units: VecDeque::new(),
            ended: 0,
            collectives: 0,
            matched: place(slot),
        };
        Self {
            rank: plan.rank,
            cursor: plan.stored_cursor(),
            near: 0,
            streams: (0..plan.streams).map(|_| StreamQueue { clock: clock.clone(), issued: VecDeque::new() }).collect(),
            busy: Vec::new(),
            pending: 0,
            communicators: plan.communicators.ids().map(queue).collect(),
            group: Vec::new(),
            open_groups: 0,
            groups: Vec::new(),
            events: AwaitedClocks::of_events(plan),
            starts: FxHashSet::default(),
            works: AwaitedClocks::of_works(plan),
            initiated: FxHashSet::default(),
        }
    }

    // ---- events and works ----

    /// A stream has reached the record of an event.
    pub(super) fn record_event(&mut self, event: EventId, stream: usize) {
        let clock = &self.streams[stream].clock;
        if self.events.add_clock(event.0, clock) && stream == USER_STREAM.0 as usize && clock.is_initial() {
            self.starts.insert(event);
        }
    }

    /// A communication has ended, as far as Waits know.
    pub(super) fn end_work(&mut self, work: WorkSlot, clock: &VectorClock) {
        self.works.add_clock(work.0, clock);
    }

    /// Returns true if a wait for this event orders a stream after the start of the run. Our queues are after it
    /// already; nvFuser's are not, and a program says it for them.
    pub(super) fn is_start(&self, event: EventId) -> bool {
        self.starts.contains(&event)
    }

    /// Returns true if a stream has reached the record of an event.
    pub(super) fn is_recorded(&self, event: EventId) -> bool {
        self.events.has_clock(event.0)
    }

    /// Returns true if a communication has ended, as far as Waits know.
    pub(super) fn has_ended(&self, work: WorkSlot) -> bool {
        self.works.has_clock(work.0)
    }

    /// The clock at a recorded event, for one more of its waits.
    pub(super) fn take_event(&mut self, event: EventId) -> Option<VectorClock> {
        self.events.take_clock(event.0)
    }

    /// The clock at the end of a communication, for one more of its waits.
    pub(super) fn take_work(&mut self, work: WorkSlot) -> Option<VectorClock> {
        self.works.take_clock(work.0)
    }

    // ---- queues ----

    /// Takes the next item of a stream.
    pub(super) fn pop_step(&mut self, stream: usize) -> Option<IssuedStep<'p>> {
        let step = self.streams[stream].issued.pop_front()?;
        self.pending -= 1;
        Some(step)
    }

    /// Takes the next unit of a communicator, which has ended.
    pub(super) fn pop_unit(&mut self, comm: usize) -> Option<QueuedUnit<'p>> {
        let queue = &mut self.communicators[comm];
        let unit = queue.units.pop_front()?;
        queue.ended += 1;
        self.pending -= 1;
        Some(unit)
    }

    /// The number of items of streams and units of communicators that are not done.
    pub(super) fn pending_items(&self) -> usize {
        self.pending
    }

    fn push_step(&mut self, step: IssuedStep<'p>) -> IssueOutcome {
        let stream = step.inst.template_inst().stream.0;
        let queue = &mut self.streams[stream as usize].issued;
        let outcome = if queue.is_empty() { IssueOutcome::Ready } else { IssueOutcome::Queued };
        if outcome == IssueOutcome::Ready && !self.busy.contains(&stream) {
            self.busy.push(stream);
        }
        queue.push_back(step);
        self.pending += 1;
        outcome
    }

    /// Removes a busy stream without further items, by its index among them.
    pub(super) fn retire_stream(&mut self, place: usize) {
        if self.streams[self.busy[place] as usize].issued.is_empty() {
            self.busy.swap_remove(place);
        }
    }

    /// Whether all queues are at their ends.
    pub(super) fn is_done(&self) -> bool {
        self.pending == 0 && self.group.is_empty()
    }

    // ---- issue ----

    /// The host issues its next instruction.
    pub(super) fn issue_next(&mut self, matching: &PlanMatching<'_>) -> IssueOutcome {
        let Some((id, inst)) = self.cursor.next() else { return IssueOutcome::AtEnd };
        let action = match inst.queue_action() {
            QueueAction::Local => StepAction::Local,
            QueueAction::Record(event) => StepAction::Record(event),
            QueueAction::WaitEvent(event) => StepAction::WaitEvent(event),
            QueueAction::WaitWork(work) => StepAction::WaitWork(work),
            QueueAction::GroupBegin => {
                self.open_groups += 1;
                self.group.push(GroupPost::Begin);
                StepAction::Post(PostPlace::Group(self.groups.len()))
            }
            QueueAction::GroupEnd(comm, work) => return self.close_group(IssuedPost { id, inst, comm, work }),
            QueueAction::Collective(comm, work) => {
                let post = GroupPost::Inst(UnitInst { id, inst, part: UnitPart::Collective }, work);
                StepAction::Post(PostPlace::Unit(self.push_unit(comm, [post])))
            }
            QueueAction::Message(message) => self.issue_message(id, inst, message, matching),
        };
        self.push_step(IssuedStep { id, inst, action })
    }

    fn issue_message(
        &mut self,
        id: InstId,
        inst: StoredInst<'p>,
        message: MessageHeader,
        matching: &PlanMatching<'_>,
    ) -> StepAction {
        let partner = matching.next_partner(self.rank, id, &mut self.near);
        let work = message.work;
        let Some(comm) = message.comm else {
            let is_initiator = message.initiates_transfer();
            return StepAction::Message(StreamMessage { work, is_initiator, partner });
        };
        let part = UnitPart::Message(UnitMessage { work, direction: message.direction, partner });
        let post = GroupPost::Inst(UnitInst { id, inst, part }, work);
        if self.open_groups == 0 {
            return StepAction::Post(PostPlace::Unit(self.push_unit(comm, [post])));
        }
        self.group.push(post);
        StepAction::Post(PostPlace::Group(self.groups.len()))
    }

    /// The host closes a group.
    fn close_group(&mut self, end: IssuedPost<'p>) -> IssueOutcome {
        let IssuedPost { id, inst, comm, work } = end;
        self.open_groups = self.open_groups.saturating_sub(1);
        self.group.push(GroupPost::End(work));
        self.push_step(IssuedStep { id, inst, action: StepAction::Post(PostPlace::Group(self.groups.len())) });
        if self.open_groups == 0 {
            let mut posts = std::mem::take(&mut self.group);
            let target = self.push_unit(comm, posts.drain(..));
            self.group = posts;
            self.groups.push(target);
        }
        IssueOutcome::Ready
    }

    /// Adds a unit to a communicator's queue.
    fn push_unit(&mut self, comm: CommSlot, posts: impl IntoIterator<Item = GroupPost<'p>>) -> PostTarget {
        let queue = &mut self.communicators[comm.0 as usize];
        let number = queue.ended + queue.units.len() as u32;
        let mut unit = QueuedUnit {
            insts: SmallVec::new(),
            works: SmallVec::new(),
            members: SmallVec::new(),
            open_posts: 0,
            is_started: false,
            missing: None,
            clock: queue.clock.clone(),
        };
        for post in posts {
            unit.open_posts += 1;
            match post {
                GroupPost::Begin => {}
                GroupPost::End(work) => unit.works.push(work),
                GroupPost::Inst(inst, work) => {
                    unit.insts.push(inst);
                    unit.members.push(work);
                }
            }
        }
        // A post alone has an end of its own.
        if unit.open_posts == 1 {
            unit.works.append(&mut unit.members);
        }
        queue.units.push_back(unit);
        self.pending += 1;
        PostTarget { comm, number }
    }

    // ---- posts ----

    /// The unit of a post, once the host has closed its group.
    pub(super) fn post_target(&self, place: PostPlace) -> Option<PostTarget> {
        match place {
            PostPlace::Unit(target) => Some(target),
            PostPlace::Group(number) => self.groups.get(number).copied(),
        }
    }

    /// A stream reaches a post, whose group the host has closed.
    pub(super) fn reach_post(&mut self, stream: usize, place: PostPlace) {
        let Some(target) = self.post_target(place) else { return };
        let queue = &mut self.communicators[target.comm.0 as usize];
        let place = (target.number - queue.ended) as usize;
        if let Some(unit) = queue.units.get_mut(place) {
            unit.clock.join_clock(&self.streams[stream].clock);
            unit.open_posts -= 1;
        }
    }
}

/// The end of a group, as the host issues it.
struct IssuedPost<'p> {
    id: InstId,
    inst: StoredInst<'p>,
    comm: CommSlot,
    work: WorkSlot,
}
