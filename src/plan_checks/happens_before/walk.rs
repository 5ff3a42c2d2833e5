//! The walk: each queue goes on as far as others let it, and clocks go with it.

use super::clock::{ChainPoint, ChainTable, VectorClock};
use crate::plan::{
    BufferView, CommSlot, EventId, Inst, InstId, InstKind, MatchedCommunicator, MemberRole, Plan, PlanMatching,
    RankInst, StreamSlot, TeamTransfers, WorkSlot,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::rc::Rc;

/// The end of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessEnd {
    /// A point of a queue.
    Point(ChainPoint),
    /// The end of a message on streams that the peer carries out, by the instruction of the peer.
    Message(RankInst),
}

/// An access to elements of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess<'i> {
    /// The rank that owns the buffer.
    pub(crate) rank: usize,
    /// The rank's instruction.
    pub(crate) inst: InstId,
    /// The elements.
    pub(crate) view: &'i BufferView,
    /// True if it writes them.
    pub(crate) is_write: bool,
    /// Its end.
    pub(crate) end: AccessEnd,
}

/// An instruction that makes a stream wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitInst {
    /// The rank.
    pub(crate) rank: usize,
    /// The instruction.
    pub(crate) inst: InstId,
    /// False if the stream was behind what it waits for already.
    pub(crate) adds_order: bool,
}

/// Learns of accesses and waits.
pub(crate) trait OrderObserver {
    /// The accesses of one instruction; all reads come before the write. The observer may add an order that it takes for
    /// granted from then on.
    fn observe_accesses(&mut self, walk: &WalkedEnds, accesses: &[MemoryAccess<'_>], clock: &mut VectorClock);
    /// A stream has waited.
    fn observe_wait(&mut self, wait: WaitInst);
    /// A rank's caller goes on: the clock at the end of its stream.
    fn observe_end(&mut self, walk: &WalkedEnds, rank: usize, clock: &VectorClock);
}

/// The ends of messages on streams so far.
#[derive(Default, Debug)]
pub(crate) struct WalkedEnds {
    messages: FxHashMap<RankInst, ChainPoint>,
}

impl WalkedEnds {
    /// Whether whatever comes with a clock happens after the end of an access.
    pub(crate) fn is_behind(&self, clock: &VectorClock, end: AccessEnd) -> bool {
        self.end_point(end).is_some_and(|point| clock.has_reached(point))
    }
    /// The point of an end, if the walk has come to it.
    pub(crate) fn end_point(&self, end: AccessEnd) -> Option<ChainPoint> {
        match end {
            AccessEnd::Point(point) => Some(point),
            AccessEnd::Message(message) => self.messages.get(&message).copied(),
        }
    }
}

/// A stream: the instructions that the host has issued and that are not done, and the clock behind those that are.
struct StreamQueue {
    clock: VectorClock,
    issued: VecDeque<InstId>,
}

/// A unit of a communicator's queue.
struct QueuedUnit {
    insts: Vec<InstId>,
    works: Vec<WorkSlot>,
    /// Posts that their streams have not come to.
    open_posts: u32,
    is_started: bool,
    /// The clock at its start, as far as posts are done; from the start on, that at its end.
    clock: VectorClock,
}

/// The queue of a communicator.
struct CommunicatorQueue {
    /// The clock behind the units that have ended.
    clock: VectorClock,
    units: VecDeque<QueuedUnit>,
    /// The number of units that have ended.
    ended: u32,
    /// The number of collectives that have started.
    collectives: usize,
    /// The communicator among the matched ones, and the rank's place in the team.
    matched: Option<(usize, usize)>,
}

/// The queues of one rank.
struct RankState<'p> {
    plan: &'p Plan,
    cursor: crate::plan::InstCursor<'p>,
    streams: Vec<StreamQueue>,
    communicators: Vec<CommunicatorQueue>,
    /// The posts of the group that the host is in.
    group: Vec<GroupPost>,
    /// The number of groups that are open: those inside of another one belong to it.
    open_groups: u32,
    /// By post: the unit that waits for it.
    posts: FxHashMap<InstId, PostTarget>,
    events: FxHashMap<EventId, Rc<VectorClock>>,
    works: FxHashMap<WorkSlot, Rc<VectorClock>>,
    /// Works of messages on streams that the rank initiates: their streams wait without a Wait.
    initiated: FxHashSet<WorkSlot>,
}

/// A post in a group.
struct GroupPost {
    inst: InstId,
    work: Option<WorkSlot>,
}

/// A unit by its communicator and its number in the queue.
#[derive(Clone, Copy)]
struct PostTarget {
    comm: CommSlot,
    number: u32,
}

/// The walk over the queues of all ranks.
struct OrderWalk<'p, 'm, O> {
    plans: &'p [Plan],
    matching: &'m PlanMatching<'p>,
    chains: ChainTable,
    ranks: Vec<RankState<'p>>,
    ends: WalkedEnds,
    /// Clocks at the starts of units, by send or collective, and at posts of messages on streams that the peer
    /// initiates.
    starts: FxHashMap<RankInst, Rc<VectorClock>>,
    observer: &'m mut O,
}

/// Goes through all instructions. The plans must pass the check for deadlocks; what can never start is left out.
pub(crate) fn walk_order<'p, O: OrderObserver>(plans: &'p [Plan], matching: &PlanMatching<'p>, observer: &mut O) {
    OrderWalk::new(plans, matching, observer).walk_to_end();
}

impl<'p, 'm, O: OrderObserver> OrderWalk<'p, 'm, O> {
    fn new(plans: &'p [Plan], matching: &'m PlanMatching<'p>, observer: &'m mut O) -> Self {
        let chains = ChainTable::new(plans);
        let ranks = plans.iter().map(|plan| RankState::new(plan, &chains, &matching.communicators)).collect();
        Self { plans, matching, chains, ranks, ends: WalkedEnds::default(), starts: FxHashMap::default(), observer }
    }

    fn walk_to_end(mut self) {
        loop {
            let mut moved = false;
            for rank in 0..self.ranks.len() {
                moved |= self.walk_rank(rank);
            }
            if !moved {
                break;
            }
        }
        for (rank, state) in self.ranks.iter().enumerate() {
            self.observer.observe_end(&self.ends, rank, &state.streams[0].clock);
        }
    }

    /// Takes a rank as far as it goes without others; whether that was any step.
    fn walk_rank(&mut self, rank: usize) -> bool {
        let mut moved = false;
        loop {
            let streams = (0..self.ranks[rank].streams.len()).any(|stream| self.walk_stream(rank, stream));
            let units = (0..self.ranks[rank].communicators.len()).any(|comm| self.walk_communicator(rank, comm));
            let issued = streams || units || self.ranks[rank].issue_next();
            if !issued {
                return moved;
            }
            moved = true;
        }
    }

    /// Takes a stream as far as it goes; whether that was any step.
    fn walk_stream(&mut self, rank: usize, stream: usize) -> bool {
        let mut moved = false;
        while let Some(&id) = self.ranks[rank].streams[stream].issued.front() {
            let inst = self.plans[rank].inst(id);
            if !self.run_inst(rank, stream, id, &inst) {
                break;
            }
            self.ranks[rank].streams[stream].issued.pop_front();
            moved = true;
        }
        moved
    }

    /// Carries out a stream's next instruction, if it does not have to wait.
    fn run_inst(&mut self, rank: usize, stream: usize, id: InstId, inst: &Inst) -> bool {
        match &inst.kind {
            InstKind::Record { event } => {
                let state = &mut self.ranks[rank];
                state.events.insert(*event, Rc::new(state.streams[stream].clock.clone()));
                true
            }
            InstKind::WaitEvent { event } => {
                let known = self.ranks[rank].events.get(event).cloned();
                self.wait_for(rank, stream, id, known)
            }
            InstKind::WaitWork { work } => {
                let known = self.ranks[rank].works.remove(work);
                self.wait_for(rank, stream, id, known)
            }
            InstKind::Send { comm: None, .. } | InstKind::Recv { comm: None, .. } => {
                if inst.kind.initiates_transfer() {
                    return self.run_message(rank, stream, id, inst);
                }
                self.announce_message(rank, stream, id, inst);
                true
            }
            InstKind::Collective(_)
            | InstKind::Send { .. }
            | InstKind::Recv { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. } => self.ranks[rank].reach_post(stream, id),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce { .. }
            | InstKind::Take(_)
            | InstKind::Accumulate(_) => {
                let clock = &mut self.ranks[rank].streams[stream].clock;
                let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
                let accesses = accesses_of(rank, id, inst, AccessEnd::Point(clock.next_point(chain)));
                if !accesses.is_empty() {
                    self.observer.observe_accesses(&self.ends, &accesses, clock);
                }
                clock.advance_chain(chain);
                true
            }
        }
    }

    /// Makes a stream wait for a clock, if it is known.
    fn wait_for(&mut self, rank: usize, stream: usize, inst: InstId, known: Option<Rc<VectorClock>>) -> bool {
        let Some(known) = known else { return false };
        let adds_order = self.ranks[rank].streams[stream].clock.join_clock(&known);
        let by_itself = match &self.plans[rank].inst(inst).kind {
            InstKind::WaitWork { work } => self.ranks[rank].initiated.contains(work),
            _ => false,
        };
        if adds_order || !by_itself {
            self.observer.observe_wait(WaitInst { rank, inst, adds_order });
        }
        true
    }

    // ---- messages on streams ----

    /// A stream comes to a message that the peer initiates: from here on its buffer is in use.
    fn announce_message(&mut self, rank: usize, stream: usize, id: InstId, inst: &Inst) {
        let partner = self.matching.message_partner(rank as u32, id);
        let clock = &mut self.ranks[rank].streams[stream].clock;
        let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
        let end = AccessEnd::Message(partner.unwrap_or(RankInst { rank: rank as u32, inst: id }));
        self.observer.observe_accesses(&self.ends, &accesses_of(rank, id, inst, end), clock);
        clock.advance_chain(chain);
        self.starts.insert(RankInst { rank: rank as u32, inst: id }, Rc::new(clock.clone()));
    }

    /// Carries out a message that this rank initiates, if the peer has come to it.
    fn run_message(&mut self, rank: usize, stream: usize, id: InstId, inst: &Inst) -> bool {
        let Some(partner) = self.matching.message_partner(rank as u32, id) else { return false };
        let Some(announced) = self.starts.remove(&partner) else { return false };
        let clock = &mut self.ranks[rank].streams[stream].clock;
        clock.join_clock(&announced);
        let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
        let point = clock.next_point(chain);
        let accesses = accesses_of(rank, id, inst, AccessEnd::Point(point));
        self.observer.observe_accesses(&self.ends, &accesses, clock);
        clock.advance_chain(chain);
        self.ends.messages.insert(RankInst { rank: rank as u32, inst: id }, point);
        let done = Rc::new(clock.clone());
        if let Some(work) = inst.kind.message_work() {
            self.ranks[rank].works.insert(work, Rc::clone(&done));
            self.ranks[rank].initiated.insert(work);
        }
        let peer = partner.rank as usize;
        if let Some(work) = self.plans[peer].inst(partner.inst).kind.message_work() {
            self.ranks[peer].works.insert(work, done);
        }
        true
    }

    // ---- communicators ----

    /// Starts and ends units of a communicator as far as it goes; whether that was any step.
    fn walk_communicator(&mut self, rank: usize, comm: usize) -> bool {
        let mut moved = false;
        loop {
            let queue = &self.ranks[rank].communicators[comm];
            let Some(unit) = queue.units.front() else { return moved };
            let stepped = if unit.is_started {
                self.end_unit(rank, comm)
            } else if unit.open_posts == 0 {
                self.start_unit(rank, comm);
                true
            } else {
                false
            };
            if !stepped {
                return moved;
            }
            moved = true;
        }
    }

    /// Starts the unit at the head of a communicator's queue.
    fn start_unit(&mut self, rank: usize, comm: usize) {
        let state = &mut self.ranks[rank];
        let queue = &mut state.communicators[comm];
        let chain = self.chains.communicator_chain(rank, CommSlot(comm as u32));
        let Some(unit) = queue.units.front_mut() else { return };
        unit.clock.join_clock(&queue.clock);
        unit.is_started = true;
        let end = AccessEnd::Point(unit.clock.next_point(chain));
        for &id in &unit.insts {
            let inst = state.plan.inst(id);
            let accesses = accesses_of(rank, id, &inst, end);
            self.observer.observe_accesses(&self.ends, &accesses, &mut unit.clock);
        }
        let start = Rc::new(unit.clock.clone());
        for &inst in &unit.insts {
            self.starts.insert(RankInst { rank: rank as u32, inst }, Rc::clone(&start));
        }
    }

    /// Ends the started unit of a communicator, if everything that it gets has started.
    fn end_unit(&mut self, rank: usize, comm: usize) -> bool {
        let queue = &self.ranks[rank].communicators[comm];
        let Some(unit) = queue.units.front() else { return false };
        let mut sources = Vec::new();
        for &inst in &unit.insts {
            if !self.push_sources(rank, queue, inst, &mut sources) {
                return false;
            }
        }
        let chain = self.chains.communicator_chain(rank, CommSlot(comm as u32));
        let state = &mut self.ranks[rank];
        let queue = &mut state.communicators[comm];
        let Some(mut unit) = queue.units.pop_front() else { return false };
        for source in sources {
            unit.clock.join_clock(&source);
        }
        unit.clock.advance_chain(chain);
        let has_collective = unit.insts.iter().any(|&id| matches!(state.plan.inst(id).kind, InstKind::Collective(_)));
        queue.collectives += usize::from(has_collective);
        queue.ended += 1;
        queue.clock = unit.clock.clone();
        let done = Rc::new(unit.clock);
        for work in unit.works {
            state.works.insert(work, Rc::clone(&done));
        }
        true
    }

    /// Adds the clocks at the starts of all whose data an instruction gets; false if one has not started.
    fn push_sources(
        &self,
        rank: usize,
        queue: &CommunicatorQueue,
        inst: InstId,
        sources: &mut Vec<Rc<VectorClock>>,
    ) -> bool {
        match &self.plans[rank].inst(inst).kind {
            InstKind::Recv { .. } => {
                let partner = self.matching.message_partner(rank as u32, inst);
                let start = partner.and_then(|partner| self.starts.get(&partner));
                sources.extend(start.cloned());
                start.is_some()
            }
            InstKind::Collective(_) => {
                let Some((place, position)) = queue.matched else { return true };
                self.push_members(&self.matching.communicators[place], queue.collectives, position, sources)
            }
            _ => true,
        }
    }

    /// Adds the clocks at the starts of the members of a collective from which one gets data.
    fn push_members(
        &self,
        of_all: &MatchedCommunicator<'p>,
        number: usize,
        position: usize,
        sources: &mut Vec<Rc<VectorClock>>,
    ) -> bool {
        let members = of_all.collective_members(number, self.plans);
        let Some(kind) = members.first().map(|member| member.collective.kind) else { return true };
        let roles = members.iter().map(|member| MemberRole::of_side(&member.collective));
        let transfers = TeamTransfers::new(kind, roles);
        let own = members.iter().position(|member| member.position == position);
        let Some(own) = own else { return true };
        for transfer in transfers.incoming_transfers(own) {
            let Some(member) = members.get(transfer.from) else { continue };
            match self.starts.get(&RankInst { rank: member.rank, inst: member.inst }) {
                Some(start) => sources.push(Rc::clone(start)),
                None => return false,
            }
        }
        true
    }
}

impl<'p> RankState<'p> {
    fn new(plan: &'p Plan, chains: &ChainTable, communicators: &[MatchedCommunicator<'_>]) -> Self {
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
            plan,
            cursor: plan.cursor(),
            streams: (0..plan.streams).map(|_| StreamQueue { clock: clock.clone(), issued: VecDeque::new() }).collect(),
            communicators: plan.communicators.ids().map(queue).collect(),
            group: Vec::new(),
            open_groups: 0,
            posts: FxHashMap::default(),
            events: FxHashMap::default(),
            works: FxHashMap::default(),
            initiated: FxHashSet::default(),
        }
    }

    /// The host issues its next instruction; false at the end of the plan.
    fn issue_next(&mut self) -> bool {
        let Some((id, inst)) = self.cursor.next() else { return false };
        self.streams[inst.stream.0 as usize].issued.push_back(id);
        match &inst.kind {
            InstKind::GroupBegin => {
                self.open_groups += 1;
                self.group.push(GroupPost { inst: id, work: None });
            }
            InstKind::GroupEnd { comm, work } => {
                self.open_groups = self.open_groups.saturating_sub(1);
                self.group.push(GroupPost { inst: id, work: Some(*work) });
                if self.open_groups == 0 {
                    let posts = std::mem::take(&mut self.group);
                    self.push_unit(*comm, posts);
                }
            }
            InstKind::Collective(collective) => {
                self.push_unit(collective.comm, vec![GroupPost { inst: id, work: Some(collective.work) }]);
            }
            InstKind::Send { comm: Some(comm), work, .. } | InstKind::Recv { comm: Some(comm), work, .. } => {
                let post = GroupPost { inst: id, work: Some(*work) };
                if self.open_groups > 0 {
                    self.group.push(post);
                } else {
                    self.push_unit(*comm, vec![post]);
                }
            }
            _ => {}
        }
        true
    }

    /// Adds a unit to a communicator's queue.
    fn push_unit(&mut self, comm: CommSlot, posts: Vec<GroupPost>) {
        let queue = &mut self.communicators[comm.0 as usize];
        let number = queue.ended + queue.units.len() as u32;
        let communicates = |post: &&GroupPost| {
            matches!(
                self.plan.inst(post.inst).kind,
                InstKind::Collective(_) | InstKind::Send { .. } | InstKind::Recv { .. }
            )
        };
        let mut unit = QueuedUnit {
            insts: posts.iter().filter(communicates).map(|post| post.inst).collect(),
            works: posts.iter().filter_map(|post| post.work).collect(),
            open_posts: 0,
            is_started: false,
            clock: queue.clock.clone(),
        };
        for post in &posts {
            self.posts.insert(post.inst, PostTarget { comm, number });
            unit.open_posts += 1;
        }
        queue.units.push_back(unit);
    }

    /// A stream comes to a post; false if the host has not closed its group.
    fn reach_post(&mut self, stream: usize, id: InstId) -> bool {
        let Some(target) = self.posts.remove(&id) else { return false };
        let queue = &mut self.communicators[target.comm.0 as usize];
        let place = (target.number - queue.ended) as usize;
        if let Some(unit) = queue.units.get_mut(place) {
            unit.clock.join_clock(&self.streams[stream].clock);
            unit.open_posts -= 1;
        }
        true
    }
}

/// The accesses of an instruction, reads first.
fn accesses_of(rank: usize, id: InstId, inst: &Inst, end: AccessEnd) -> Vec<MemoryAccess<'_>> {
    let reads = inst.kind.read_views();
    let mut accesses: Vec<MemoryAccess<'_>> =
        reads.into_iter().map(|view| MemoryAccess { rank, inst: id, view, is_write: false, end }).collect();
    accesses.extend(inst.kind.written_view().map(|view| MemoryAccess { rank, inst: id, view, is_write: true, end }));
    accesses
}
