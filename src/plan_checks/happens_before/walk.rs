//! The walk: each queue goes on as far as others let it, and clocks go with it.

use super::clock::{ChainPoint, ChainTable, RankRotation, VectorClock};
use super::rank_state::{CommunicatorQueue, IssuedInst, IssuedStep, RankState};
use crate::ir::OpId;
use crate::plan::{
    BufferView, CommSlot, Inst, InstId, InstKind, MatchedCommunicator, MemberRole, Plan, PlanMatching, RankInst,
    StreamSlot, TeamTransfers, WorkSlot,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
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
    /// The operation of the instruction.
    pub(crate) kind: &'i InstKind,
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
    /// The op of the instruction.
    pub(crate) op: OpId,
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
    /// For plans that differ by a rotation: only rank 0 is walked.
    rotation: Option<RankRotation>,
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
            AccessEnd::Message(message) => match self.rotation {
                None => self.messages.get(&message).copied(),
                Some(rotation) => {
                    let own = self.messages.get(&RankInst { rank: 0, ..message })?;
                    Some(rotation.rotate_point(*own, message.rank))
                }
            },
        }
    }
}

/// A side of a communication that has started.
struct StartedSide {
    clock: Rc<VectorClock>,
    /// The work of a message on streams.
    work: Option<WorkSlot>,
    /// The number of sides that have not ended.
    readers: usize,
}

/// The outcome of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalkOutcome {
    /// All queues are at their ends.
    Finished,
    /// Some ranks wait for each other, or for a side that nothing provides.
    Stuck,
}

/// The subject of a stream's wait.
#[derive(Clone, Copy)]
enum WaitSubject {
    /// An event.
    Event,
    /// An event of the caller's stream at the start of the run.
    Start,
    /// A communication.
    Work(WorkSlot),
}

/// The number of instructions that a host may issue ahead at first.
const FIRST_LOOKAHEAD: usize = 256;

/// The walk over the queues of all ranks; of plans that differ by a rotation, over those of rank 0.
struct OrderWalk<'p, 'm, O> {
    plans: &'p [Plan],
    matching: &'m PlanMatching<'p>,
    chains: ChainTable,
    ranks: Vec<RankState<'p>>,
    ends: WalkedEnds,
    /// The number of a rank's instructions that the host may issue ahead; it grows when nothing else can go on.
    lookahead: usize,
    /// Starts of units, by send, receive or collective, and posts of messages on streams that the peer initiates, as long
    /// as another side has not ended.
    starts: FxHashMap<RankInst, StartedSide>,
    observer: &'m mut O,
}

/// Goes through all instructions, until the ends of all queues or until nothing can go on. A communication is done once
/// all its sides have started, as in a run.
pub(crate) fn walk_order<'p, O: OrderObserver>(
    plans: &'p [Plan],
    matching: &PlanMatching<'p>,
    observer: &mut O,
) -> WalkOutcome {
    let all = plans.len();
    OrderWalk::new(plans, all, matching, observer).walk_to_end()
}

/// Like [`walk_order`], for plans that differ by a rotation, matched by [`PlanMatching::of_rotated_plans`]: what happens on
/// rank 0 happens on all others, so only rank 0 is walked.
pub(crate) fn walk_rotated_order<'p, O: OrderObserver>(
    plans: &'p [Plan],
    matching: &PlanMatching<'p>,
    observer: &mut O,
) -> WalkOutcome {
    let mut walk = OrderWalk::new(plans, 1, matching, observer);
    walk.ends.rotation = Some(walk.chains.rank_rotation());
    walk.walk_to_end()
}

impl<'p, 'm, O: OrderObserver> OrderWalk<'p, 'm, O> {
    /// A walk over the first `walked` ranks.
    fn new(plans: &'p [Plan], walked: usize, matching: &'m PlanMatching<'p>, observer: &'m mut O) -> Self {
        let chains = ChainTable::new(plans);
        let ranks = plans[..walked].iter().map(|plan| RankState::new(plan, &chains, &matching.communicators)).collect();
        let (ends, starts) = (WalkedEnds::default(), FxHashMap::default());
        Self { plans, matching, chains, ranks, ends, lookahead: FIRST_LOOKAHEAD, starts, observer }
    }

    fn walk_to_end(mut self) -> WalkOutcome {
        loop {
            let mut moved = false;
            for rank in 0..self.ranks.len() {
                moved |= self.walk_rank(rank);
            }
            if moved {
                continue;
            }
            if self.ranks.iter().all(|state| state.cursor.len() == 0) {
                break;
            }
            self.lookahead *= 2;
        }
        if !self.ranks.iter().all(RankState::is_done) {
            return WalkOutcome::Stuck;
        }
        for (rank, state) in self.ranks.iter().enumerate() {
            self.observer.observe_end(&self.ends, rank, &state.streams[0].clock);
        }
        WalkOutcome::Finished
    }

    // ---- starts ----

    /// The clock at which a side of a communication started, if it has.
    fn start_of(&self, at: RankInst) -> Option<Rc<VectorClock>> {
        match self.ends.rotation {
            None => self.starts.get(&at).map(|side| Rc::clone(&side.clock)),
            Some(rotation) => {
                let own = self.starts.get(&RankInst { rank: 0, ..at })?;
                Some(Rc::new(own.clock.rotated_by(rotation, at.rank)))
            }
        }
    }

    /// The side itself, or its counterpart on the rank that is walked.
    fn walked_side(&self, at: RankInst) -> RankInst {
        if self.ends.rotation.is_some() { RankInst { rank: 0, ..at } } else { at }
    }

    fn has_started(&self, at: RankInst) -> bool {
        self.starts.contains_key(&self.walked_side(at))
    }

    /// A side that read this start has ended.
    fn release_start(&mut self, at: RankInst) {
        let walked = self.walked_side(at);
        if let Some(side) = self.starts.get_mut(&walked) {
            side.readers -= 1;
            if side.readers == 0 {
                self.starts.remove(&walked);
            }
        }
    }

    /// Takes a rank as far as it goes without others; whether that was any step.
    fn walk_rank(&mut self, rank: usize) -> bool {
        let mut moved = false;
        loop {
            let streams = self.walk_busy_streams(rank);
            let units = (0..self.ranks[rank].communicators.len()).any(|comm| self.walk_communicator(rank, comm));
            let may_issue = self.ranks[rank].pending_items() < self.lookahead;
            let issued = streams || units || (may_issue && self.ranks[rank].issue_next());
            if !issued {
                return moved;
            }
            moved = true;
        }
    }

    /// Takes the streams that have items as far as they go; whether that was any step.
    fn walk_busy_streams(&mut self, rank: usize) -> bool {
        let mut moved = false;
        for place in (0..self.ranks[rank].busy.len()).rev() {
            let stream = self.ranks[rank].busy[place] as usize;
            moved |= self.walk_stream(rank, stream);
            self.ranks[rank].retire_stream(place);
        }
        moved
    }

    /// Takes a stream as far as it goes; whether that was any step.
    fn walk_stream(&mut self, rank: usize, stream: usize) -> bool {
        let mut moved = false;
        while self.is_ready(rank, stream) {
            let Some(step) = self.ranks[rank].pop_step(stream) else { break };
            match step.inst {
                None => self.ranks[rank].reach_post(stream, step.id),
                Some(inst) => self.run_inst(rank, stream, step.id, &inst),
            }
            moved = true;
        }
        moved
    }

    /// Whether a stream has a next item that does not have to wait.
    fn is_ready(&self, rank: usize, stream: usize) -> bool {
        let state = &self.ranks[rank];
        match state.streams[stream].issued.front() {
            None => false,
            // The post waits until the host has closed its group.
            Some(IssuedStep { id, inst: None }) => state.posts.contains_key(id),
            Some(IssuedStep { id, inst: Some(inst) }) => match &inst.kind {
                InstKind::WaitEvent { event } => state.events.contains_key(event),
                InstKind::WaitWork { work } => state.works.contains_key(work),
                kind if kind.initiates_transfer() => {
                    let partner = self.matching.message_partner(rank as u32, *id);
                    partner.is_some_and(|partner| self.has_started(partner))
                }
                _ => true,
            },
        }
    }

    /// Carries out an instruction of a stream.
    fn run_inst(&mut self, rank: usize, stream: usize, id: InstId, inst: &Inst) {
        let op = inst.origin.op;
        match &inst.kind {
            InstKind::Record { event } => {
                self.ranks[rank].record_event(*event, stream);
            }
            InstKind::WaitEvent { event } => {
                let state = &mut self.ranks[rank];
                let subject = if state.is_start(*event) { WaitSubject::Start } else { WaitSubject::Event };
                let known = state.take_event(*event);
                self.wait_for(rank, stream, known, op, subject);
            }
            InstKind::WaitWork { work } => {
                let known = self.ranks[rank].take_work(*work);
                self.wait_for(rank, stream, known, op, WaitSubject::Work(*work));
            }
            kind if kind.initiates_transfer() => self.run_message(rank, stream, id, inst),
            InstKind::Send { .. } | InstKind::Recv { .. } => self.announce_message(rank, stream, id, inst),
            InstKind::Collective(_) | InstKind::GroupBegin | InstKind::GroupEnd { .. } => {}
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
            }
        }
    }

    /// Makes a stream wait for a clock.
    fn wait_for(&mut self, rank: usize, stream: usize, known: Option<Rc<VectorClock>>, op: OpId, subject: WaitSubject) {
        let Some(known) = known else { return };
        let state = &mut self.ranks[rank];
        let adds_order = state.streams[stream].clock.join_clock(&known);
        let is_counted = match subject {
            WaitSubject::Event => true,
            WaitSubject::Start => adds_order,
            // The stream waits without it, and other backends need it.
            WaitSubject::Work(work) => adds_order || !state.initiated.contains(&work),
        };
        if is_counted {
            self.observer.observe_wait(WaitInst { op, adds_order });
        }
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
        let side = StartedSide { clock: Rc::new(clock.clone()), work: inst.kind.message_work(), readers: 1 };
        self.starts.insert(RankInst { rank: rank as u32, inst: id }, side);
    }

    /// Carries out a message that this rank initiates; the peer has come to it.
    fn run_message(&mut self, rank: usize, stream: usize, id: InstId, inst: &Inst) {
        let Some(partner) = self.matching.message_partner(rank as u32, id) else { return };
        let Some(announced) = self.start_of(partner) else { return };
        let peer_work = self.starts.get(&self.walked_side(partner)).and_then(|side| side.work);
        self.release_start(partner);
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
            self.ranks[rank].end_work(work, &done);
            self.ranks[rank].initiated.insert(work);
        }
        if let Some(work) = peer_work {
            let (peer, done) = match self.ends.rotation {
                None => (partner.rank as usize, done),
                // The peer that carries out this rank's counterpart of the message is the opposite one.
                Some(rotation) => {
                    let done = done.rotated_by(rotation, rotation.opposite_of(partner.rank));
                    (0, Rc::new(done))
                }
            };
            self.ranks[peer].end_work(work, &done);
        }
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
        for IssuedInst { id, inst } in &unit.insts {
            let accesses = accesses_of(rank, *id, inst, end);
            self.observer.observe_accesses(&self.ends, &accesses, &mut unit.clock);
        }
        let start = Rc::new(unit.clock.clone());
        let members = queue.matched.map_or(1, |(place, _)| self.matching.communicators[place].slots.len());
        let messages = std::mem::take(&mut unit.members);
        for IssuedInst { id, inst } in &unit.insts {
            let work = inst.kind.message_work();
            let readers = if work.is_some() || self.ends.rotation.is_some() { 1 } else { members };
            let side = StartedSide { clock: Rc::clone(&start), work, readers };
            self.starts.insert(RankInst { rank: rank as u32, inst: *id }, side);
        }
        for work in messages {
            state.end_work(work, &start);
        }
    }

    /// Ends the started unit of a communicator, if all other sides have started.
    fn end_unit(&mut self, rank: usize, comm: usize) -> bool {
        let queue = &self.ranks[rank].communicators[comm];
        let Some(unit) = queue.units.front() else { return false };
        let mut sources = UnitSources::default();
        for inst in &unit.insts {
            if !self.push_sources(rank, queue, inst, &mut sources) {
                return false;
            }
        }
        sources.sides.iter().for_each(|&side| self.release_start(side));
        let chain = self.chains.communicator_chain(rank, CommSlot(comm as u32));
        let state = &mut self.ranks[rank];
        let queue = &mut state.communicators[comm];
        let Some(mut unit) = queue.units.pop_front() else { return false };
        for source in sources.clocks {
            unit.clock.join_clock(&source);
        }
        if let (Some(source), Some(rotation)) = (sources.of_all, self.ends.rotation) {
            unit.clock.join_rotations(&source, rotation);
        }
        unit.clock.advance_chain(chain);
        queue.collectives += usize::from(sources.has_collective);
        queue.ended += 1;
        queue.clock = unit.clock.clone();
        let done = Rc::new(unit.clock);
        for work in unit.works {
            state.end_work(work, &done);
        }
        true
    }

    /// Adds the sides that an instruction communicates with, and the clocks of those whose data it gets; false if one has
    /// not started.
    fn push_sources(
        &self,
        rank: usize,
        queue: &CommunicatorQueue<'p>,
        inst: &IssuedInst<'p>,
        sources: &mut UnitSources,
    ) -> bool {
        match &inst.inst.kind {
            kind @ (InstKind::Recv { .. } | InstKind::Send { .. }) => {
                let Some(partner) = self.matching.message_partner(rank as u32, inst.id) else { return false };
                if !self.has_started(partner) {
                    return false;
                }
                sources.sides.push(partner);
                if matches!(kind, InstKind::Recv { .. }) {
                    sources.clocks.extend(self.start_of(partner));
                }
                true
            }
            InstKind::Collective(_) => {
                sources.has_collective = true;
                let Some((place, position)) = queue.matched else { return false };
                self.push_members(&self.matching.communicators[place], queue.collectives, position, sources)
            }
            _ => true,
        }
    }

    /// Adds the members of a collective, and the clocks at the starts of those from which one gets data.
    fn push_members(
        &self,
        of_all: &MatchedCommunicator<'p>,
        number: usize,
        position: usize,
        sources: &mut UnitSources,
    ) -> bool {
        let Some(insts) = of_all.collectives.get(number) else { return false };
        if self.ends.rotation.is_some() {
            let own = insts[position].map(|inst| RankInst { rank: 0, inst });
            sources.sides.extend(own);
            sources.of_all = own.and_then(|own| self.start_of(own));
            return sources.of_all.is_some();
        }
        let members = of_all.communicator.team.iter().zip(insts);
        for (&rank, &inst) in members {
            let Some(side) = inst.map(|inst| RankInst { rank, inst }).filter(|&side| self.has_started(side)) else {
                return false;
            };
            sources.sides.push(side);
        }
        let members = of_all.collective_members(number, self.plans);
        let Some(kind) = members.first().map(|member| member.collective.kind) else { return true };
        let roles = members.iter().map(|member| MemberRole::of_side(&member.collective));
        let transfers = TeamTransfers::new(kind, roles);
        for transfer in transfers.incoming_transfers(position) {
            let Some(member) = members.get(transfer.from) else { continue };
            sources.clocks.extend(self.start_of(RankInst { rank: member.rank, inst: member.inst }));
        }
        true
    }
}

/// The other sides of a unit's communications.
#[derive(Default)]
struct UnitSources {
    sides: Vec<RankInst>,
    /// The clocks at the starts of those whose data it gets.
    clocks: Vec<Rc<VectorClock>>,
    /// Of plans that differ by a rotation: the clock at the start of a collective, in which all members get data of all.
    of_all: Option<Rc<VectorClock>>,
    has_collective: bool,
}

/// The accesses of an instruction, reads first.
fn accesses_of(rank: usize, id: InstId, inst: &Inst, end: AccessEnd) -> SmallVec<[MemoryAccess<'_>; 4]> {
    let access = |view, is_write| MemoryAccess { rank, inst: id, kind: &inst.kind, view, is_write, end };
    let reads = inst.kind.read_views().into_iter().map(|view| access(view, false));
    reads.chain(inst.kind.written_view().map(|view| access(view, true))).collect()
}
