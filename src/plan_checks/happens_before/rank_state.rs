//! The queues of one rank in a walk.

use super::clock::{ChainTable, VectorClock};
use crate::plan::{
    CommSlot, EventId, Inst, InstCursor, InstId, InstKind, MatchedCommunicator, Plan, USER_STREAM, WorkSlot,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;

/// A stream: the instructions that the host has issued and that are not done, and the clock behind those that are.
pub(super) struct StreamQueue<'p> {
    pub(super) clock: VectorClock,
    pub(super) issued: VecDeque<IssuedStep<'p>>,
}

/// An item of a stream.
pub(super) struct IssuedStep<'p> {
    pub(super) id: InstId,
    /// The instruction; `None` for the post of a communication, which a communicator's unit carries out.
    pub(super) inst: Option<Cow<'p, Inst>>,
}

/// An instruction that the host has issued.
pub(super) struct IssuedInst<'p> {
    pub(super) id: InstId,
    pub(super) inst: Cow<'p, Inst>,
}

/// A unit of a communicator's queue.
pub(super) struct QueuedUnit<'p> {
    pub(super) insts: Vec<IssuedInst<'p>>,
    pub(super) works: Vec<WorkSlot>,
    /// Works of a group's messages, which have no end of their own: a Wait for one orders nothing.
    pub(super) members: Vec<WorkSlot>,
    /// Posts that their streams have not come to.
    pub(super) open_posts: u32,
    pub(super) is_started: bool,
    /// The clock at its start, as far as posts are done; from the start on, that at its end.
    pub(super) clock: VectorClock,
}

/// The queue of a communicator.
pub(super) struct CommunicatorQueue<'p> {
    /// The clock behind the units that have ended.
    pub(super) clock: VectorClock,
    pub(super) units: VecDeque<QueuedUnit<'p>>,
    /// The number of units that have ended.
    pub(super) ended: u32,
    /// The number of collectives that have started.
    pub(super) collectives: usize,
    /// The communicator among the matched ones, and the rank's place in the team.
    pub(super) matched: Option<(usize, usize)>,
}

/// The queues of one rank.
pub(super) struct RankState<'p> {
    pub(super) cursor: InstCursor<'p>,
    pub(super) streams: Vec<StreamQueue<'p>>,
    /// The streams that have items.
    pub(super) busy: Vec<u32>,
    /// The number of items of all streams.
    pending: usize,
    pub(super) communicators: Vec<CommunicatorQueue<'p>>,
    /// The posts of the group that the host is in.
    pub(super) group: Vec<GroupPost<'p>>,
    /// The number of groups that are open: those inside of another one belong to it.
    pub(super) open_groups: u32,
    /// By post: the unit that waits for it.
    pub(super) posts: FxHashMap<InstId, PostTarget>,
    pub(super) events: FxHashMap<EventId, Rc<VectorClock>>,
    /// Events that the caller's stream records before it has done anything.
    starts: FxHashSet<EventId>,
    /// The waits that are to come.
    waits: WaitCounts,
    pub(super) works: FxHashMap<WorkSlot, Rc<VectorClock>>,
    /// Works of messages on streams that the rank initiates: their streams wait without a Wait.
    pub(super) initiated: FxHashSet<WorkSlot>,
}

/// A post in a group.
pub(super) struct GroupPost<'p> {
    pub(super) id: InstId,
    pub(super) work: Option<WorkSlot>,
    /// The send, receive or collective; `None` for the begin and the end of a group.
    pub(super) inst: Option<Cow<'p, Inst>>,
}

/// A unit by its communicator and its number in the queue.
#[derive(Clone, Copy)]
pub(super) struct PostTarget {
    pub(super) comm: CommSlot,
    pub(super) number: u32,
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
            cursor: plan.cursor(),
            streams: (0..plan.streams).map(|_| StreamQueue { clock: clock.clone(), issued: VecDeque::new() }).collect(),
            busy: Vec::new(),
            pending: 0,
            communicators: plan.communicators.ids().map(queue).collect(),
            group: Vec::new(),
            open_groups: 0,
            posts: FxHashMap::default(),
            events: FxHashMap::default(),
            starts: FxHashSet::default(),
            waits: WaitCounts::of_plan(plan),
            works: FxHashMap::default(),
            initiated: FxHashSet::default(),
        }
    }

    /// A stream has come to the record of an event.
    pub(super) fn record_event(&mut self, event: EventId, stream: usize) {
        if self.waits.events[event.0 as usize] > 0 {
            if stream == USER_STREAM.0 as usize && self.streams[stream].clock.is_initial() {
                self.starts.insert(event);
            }
            self.events.insert(event, Rc::new(self.streams[stream].clock.clone()));
        }
    }

    /// A communication has ended, as far as Waits know.
    pub(super) fn end_work(&mut self, work: WorkSlot, clock: &Rc<VectorClock>) {
        if self.waits.works[work.0 as usize] > 0 {
            self.works.insert(work, Rc::clone(clock));
        }
    }

    /// Whether a wait for this event puts a stream behind the start of the run. Our queues are behind it already;
    /// nvFuser's are not, and a program says it for them.
    pub(super) fn is_start(&self, event: EventId) -> bool {
        self.starts.contains(&event)
    }

    /// The clock at a recorded event, for one more of its waits.
    pub(super) fn take_event(&mut self, event: EventId) -> Option<Rc<VectorClock>> {
        let known = self.events.get(&event).cloned()?;
        let waits = &mut self.waits.events[event.0 as usize];
        *waits -= 1;
        if *waits == 0 {
            self.events.remove(&event);
        }
        Some(known)
    }

    /// Takes the next item of a stream.
    pub(super) fn pop_step(&mut self, stream: usize) -> Option<IssuedStep<'p>> {
        let step = self.streams[stream].issued.pop_front()?;
        self.pending -= 1;
        Some(step)
    }

    /// The number of items of streams and units of communicators that are not done.
    pub(super) fn pending_items(&self) -> usize {
        self.pending + self.communicators.iter().map(|queue| queue.units.len()).sum::<usize>()
    }

    fn push_step(&mut self, stream: usize, step: IssuedStep<'p>) {
        let queue = &mut self.streams[stream].issued;
        if queue.is_empty() && !self.busy.contains(&(stream as u32)) {
            self.busy.push(stream as u32);
        }
        queue.push_back(step);
        self.pending += 1;
    }

    /// Forgets a busy stream, by its place among them, that has no more items.
    pub(super) fn retire_stream(&mut self, place: usize) {
        if self.streams[self.busy[place] as usize].issued.is_empty() {
            self.busy.swap_remove(place);
        }
    }

    /// The clock at the end of a communication, for one more of its waits.
    pub(super) fn take_work(&mut self, work: WorkSlot) -> Option<Rc<VectorClock>> {
        let known = self.works.get(&work).cloned()?;
        let waits = &mut self.waits.works[work.0 as usize];
        *waits -= 1;
        if *waits == 0 {
            self.works.remove(&work);
        }
        Some(known)
    }

    /// Whether all queues are at their ends.
    pub(super) fn is_done(&self) -> bool {
        self.streams.iter().all(|stream| stream.issued.is_empty())
            && self.communicators.iter().all(|queue| queue.units.is_empty())
            && self.group.is_empty()
    }

    /// The host issues its next instruction; false at the end of the plan.
    pub(super) fn issue_next(&mut self) -> bool {
        let Some((id, inst)) = self.cursor.next() else { return false };
        let stream = inst.stream.0 as usize;
        let (comm, work) = match &inst.kind {
            InstKind::GroupBegin => {
                self.open_groups += 1;
                self.group.push(GroupPost { id, work: None, inst: None });
                self.push_step(stream, IssuedStep { id, inst: None });
                return true;
            }
            InstKind::GroupEnd { comm, work } => {
                self.open_groups = self.open_groups.saturating_sub(1);
                self.group.push(GroupPost { id, work: Some(*work), inst: None });
                if self.open_groups == 0 {
                    let posts = std::mem::take(&mut self.group);
                    self.push_unit(*comm, posts);
                }
                self.push_step(stream, IssuedStep { id, inst: None });
                return true;
            }
            InstKind::Collective(collective) => (collective.comm, collective.work),
            InstKind::Send { comm: Some(comm), work, .. } | InstKind::Recv { comm: Some(comm), work, .. } => {
                (*comm, *work)
            }
            _ => {
                self.push_step(stream, IssuedStep { id, inst: Some(inst) });
                return true;
            }
        };
        let joins_group = self.open_groups > 0 && !matches!(inst.kind, InstKind::Collective(_));
        let post = GroupPost { id, work: Some(work), inst: Some(inst) };
        self.push_step(stream, IssuedStep { id, inst: None });
        match joins_group {
            true => self.group.push(post),
            false => self.push_unit(comm, vec![post]),
        }
        true
    }

    /// Adds a unit to a communicator's queue.
    pub(super) fn push_unit(&mut self, comm: CommSlot, posts: Vec<GroupPost<'p>>) {
        let queue = &mut self.communicators[comm.0 as usize];
        let number = queue.ended + queue.units.len() as u32;
        let is_group = posts.len() > 1;
        let (members, ends): (Vec<&GroupPost<'p>>, Vec<&GroupPost<'p>>) =
            posts.iter().partition(|post| is_group && post.inst.is_some());
        let mut unit = QueuedUnit {
            insts: Vec::new(),
            works: ends.iter().filter_map(|post| post.work).collect(),
            members: members.iter().filter_map(|post| post.work).collect(),
            open_posts: posts.len() as u32,
            is_started: false,
            clock: queue.clock.clone(),
        };
        for GroupPost { id, inst, .. } in posts {
            self.posts.insert(id, PostTarget { comm, number });
            unit.insts.extend(inst.map(|inst| IssuedInst { id, inst }));
        }
        queue.units.push_back(unit);
    }

    /// A stream comes to a post, whose group the host has closed.
    pub(super) fn reach_post(&mut self, stream: usize, id: InstId) {
        let Some(target) = self.posts.remove(&id) else { return };
        let queue = &mut self.communicators[target.comm.0 as usize];
        let place = (target.number - queue.ended) as usize;
        if let Some(unit) = queue.units.get_mut(place) {
            unit.clock.join_clock(&self.streams[stream].clock);
            unit.open_posts -= 1;
        }
    }
}

/// The numbers of waits for events and works.
struct WaitCounts {
    events: Vec<u32>,
    works: Vec<u32>,
}

impl WaitCounts {
    fn of_plan(plan: &Plan) -> Self {
        let mut counts = Self { events: vec![0; plan.events as usize], works: vec![0; plan.works as usize] };
        for segment in plan.repeated_bodies() {
            for (at, inst) in segment.body.iter().enumerate() {
                if !counts.add_wait(&inst.kind) {
                    continue;
                }
                let Some(steps) = segment.steps.get(at) else { continue };
                let mut inst = inst.clone();
                for _ in 1..segment.rounds {
                    steps.move_inst(&mut inst, 1);
                    counts.add_wait(&inst.kind);
                }
            }
        }
        counts
    }

    /// Counts an instruction that waits; whether it does.
    fn add_wait(&mut self, kind: &InstKind) -> bool {
        let count = match kind {
            InstKind::WaitEvent { event } => &mut self.events[event.0 as usize],
            InstKind::WaitWork { work } => &mut self.works[work.0 as usize],
            _ => return false,
        };
        *count += 1;
        true
    }
}
