//! The walk: each queue advances as far as others permit, with its clock.

use super::clock::{ChainPoint, ChainTable, RankRotation, VectorClock};
use super::rank_state::{
    CommunicatorQueue, IssueOutcome, IssuedStep, RankState, StepAction, StreamMessage, UnitInst, UnitPart,
};
use crate::ir::MessageDirection;
use crate::ir::OpId;
use crate::plan::{
    BufferView, CommSlot, Inst, InstId, InstKind, InstReader, Plan, PlanMatching, RankInst, StreamSlot, WorkSlot,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;

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
    /// False if earlier waits imply the order.
    pub(crate) adds_order: bool,
}

/// Learns of accesses and waits.
pub(crate) trait OrderObserver {
    /// The accesses of one instruction; all reads come before the write. The observer may add an order that holds from
    /// then on.
    fn observe_accesses(&mut self, walk: &WalkedEnds, accesses: &[MemoryAccess<'_>], clock: &mut VectorClock);
    /// A stream has waited.
    fn observe_wait(&mut self, wait: WaitInst);
    /// A rank's caller continues: the clock at the end of its stream.
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
    /// Returns true if every step with a clock happens after the end of an access.
    pub(crate) fn is_after(&self, clock: &VectorClock, end: AccessEnd) -> bool {
        self.end_point(end).is_some_and(|point| clock.has_reached(point))
    }
    /// The point of an end, if the walk has reached it.
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
    clock: VectorClock,
    /// The work of a message on streams.
    work: Option<WorkSlot>,
    /// The number of sides that have not ended.
    readers: usize,
}

/// The clocks at the starts of a collective's senders, merged: a member that receives has data of all of them.
struct JoinedStarts {
    clock: VectorClock,
    /// The number of members that have not ended.
    readers: usize,
}

/// The outcome of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalkOutcome {
    /// All queues are at their ends.
    Finished,
    /// Some ranks wait for each other, or for a side that nothing provides.
    Blocked,
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

/// The walk over the queues of all ranks; for plans that differ by a rotation, over those of rank 0.
struct OrderWalk<'p, 'm, O> {
    plans: &'p [Plan],
    matching: &'m PlanMatching<'p>,
    chains: ChainTable,
    ranks: Vec<RankState<'p>>,
    /// By rank.
    readers: Vec<InstReader>,
    ends: WalkedEnds,
    /// The number of a rank's instructions that the host may issue ahead; it grows when no queue can advance.
    lookahead: usize,
    /// Starts of units, by send, receive or collective, and posts of messages on streams that the peer initiates, as
    /// long as another side has not ended.
    starts: FxHashMap<RankInst, StartedSide>,
    /// By matched communicator and the number of its collective: the starts of the members that send, while a member has
    /// not ended.
    joined: FxHashMap<(usize, usize), JoinedStarts>,
    observer: &'m mut O,
}

/// Walks through all instructions, until the ends of all queues or until no queue can advance. A communication is done
/// once all its sides have started, as in a run.
pub(crate) fn walk_order<'p, O: OrderObserver>(
    plans: &'p [Plan],
    matching: &PlanMatching<'p>,
    observer: &mut O,
) -> WalkOutcome {
    let all = plans.len();
    OrderWalk::new(plans, all, matching, observer).walk_to_end()
}

/// Like [`walk_order`], for plans that differ by a rotation, matched by [`PlanMatching::of_rotated_plans`]: rank 0
/// stands for all others, so only its queues are walked.
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
        let readers = (0..walked).map(|_| InstReader::default()).collect();
        Self {
            plans,
            matching,
            chains,
            ranks,
            readers,
            ends,
            lookahead: FIRST_LOOKAHEAD,
            starts,
            joined: FxHashMap::default(),
            observer,
        }
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
            if self.ranks.iter().all(|state| state.cursor.is_at_end()) {
                break;
            }
            self.lookahead *= 2;
        }
        if !self.ranks.iter().all(RankState::is_done) {
            return WalkOutcome::Blocked;
        }
        for (rank, state) in self.ranks.iter().enumerate() {
            self.observer.observe_end(&self.ends, rank, &state.streams[0].clock);
        }
        WalkOutcome::Finished
    }

    // ---- starts ----

    /// The clock at which a side of a communication started, if it has.
    fn start_of(&self, at: RankInst) -> Option<VectorClock> {
        let own = self.starts.get(&self.walked_side(at))?;
        Some(match self.ends.rotation {
            None => own.clock.clone(),
            Some(rotation) => own.clock.rotated_by(rotation, at.rank),
        })
    }

    /// The side itself, or its counterpart on the walked rank.
    fn walked_side(&self, at: RankInst) -> RankInst {
        if self.ends.rotation.is_some() { RankInst { rank: 0, ..at } } else { at }
    }

    fn has_started(&self, at: RankInst) -> bool {
        self.starts.contains_key(&self.walked_side(at))
    }

    /// A side that read this start has ended.
    fn release_start(&mut self, at: RankInst) {
        if let Entry::Occupied(mut side) = self.starts.entry(self.walked_side(at)) {
            side.get_mut().readers -= 1;
            if side.get().readers == 0 {
                side.remove();
            }
        }
    }

    /// Advances a rank as far as possible without others; returns true if it made a step.
    fn walk_rank(&mut self, rank: usize) -> bool {
        let mut moved = false;
        loop {
            let streams = self.walk_busy_streams(rank);
            let units = (0..self.ranks[rank].communicators.len()).any(|comm| self.walk_communicator(rank, comm));
            if !(streams || units || self.issue_ahead(rank)) {
                return moved;
            }
            moved = true;
        }
    }

    /// Issues instructions of a rank up to the first that can run; returns true if there was any.
    fn issue_ahead(&mut self, rank: usize) -> bool {
        let state = &mut self.ranks[rank];
        let mut is_any = false;
        while state.pending_items() < self.lookahead {
            match state.issue_next(self.matching) {
                IssueOutcome::AtEnd => break,
                IssueOutcome::Queued => is_any = true,
                IssueOutcome::Ready => return true,
            }
        }
        is_any
    }

    /// Advances the streams with items as far as possible; returns true if any made a step.
    fn walk_busy_streams(&mut self, rank: usize) -> bool {
        let mut moved = false;
        for place in (0..self.ranks[rank].busy.len()).rev() {
            let stream = self.ranks[rank].busy[place] as usize;
            moved |= self.walk_stream(rank, stream);
            self.ranks[rank].retire_stream(place);
        }
        moved
    }

    /// Advances a stream as far as possible; returns true if it made a step.
    fn walk_stream(&mut self, rank: usize, stream: usize) -> bool {
        let mut moved = false;
        while self.is_ready(rank, stream) {
            let Some(step) = self.ranks[rank].pop_step(stream) else { break };
            self.run_step(rank, stream, step);
            moved = true;
        }
        moved
    }

    /// Returns true if a stream has a next item that does not have to wait.
    fn is_ready(&self, rank: usize, stream: usize) -> bool {
        let state = &self.ranks[rank];
        let Some(step) = state.streams[stream].issued.front() else { return false };
        match step.action {
            // The post waits until the host has closed its group.
            StepAction::Post(place) => state.post_target(place).is_some(),
            StepAction::WaitEvent(event) => state.is_recorded(event),
            StepAction::WaitWork(work) => state.has_ended(work),
            StepAction::Message(StreamMessage { is_initiator: true, partner, .. }) => {
                partner.is_some_and(|partner| self.has_started(partner))
            }
            StepAction::Message(_) | StepAction::Local | StepAction::Record(_) => true,
        }
    }

    /// Carries out an item of a stream.
    fn run_step(&mut self, rank: usize, stream: usize, step: IssuedStep<'p>) {
        let op = step.inst.template_inst().origin.op;
        let state = &mut self.ranks[rank];
        match step.action {
            StepAction::Post(place) => state.reach_post(stream, place),
            StepAction::Record(event) => state.record_event(event, stream),
            StepAction::WaitEvent(event) => {
                let subject = if state.is_start(event) { WaitSubject::Start } else { WaitSubject::Event };
                let known = state.take_event(event);
                self.wait_for(rank, stream, known, op, subject);
            }
            StepAction::WaitWork(work) => {
                let known = state.take_work(work);
                self.wait_for(rank, stream, known, op, WaitSubject::Work(work));
            }
            StepAction::Message(message) if message.is_initiator => self.run_message(rank, stream, step, message),
            StepAction::Message(message) => self.announce_message(rank, stream, step, message),
            StepAction::Local => {
                let clock = &mut state.streams[stream].clock;
                let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
                let inst = self.readers[rank].read_inst(step.inst);
                let accesses = accesses_of(rank, step.id, inst, AccessEnd::Point(clock.next_point(chain)));
                if !accesses.is_empty() {
                    self.observer.observe_accesses(&self.ends, &accesses, clock);
                }
                clock.advance_chain(chain);
            }
        }
    }

    /// Makes a stream wait for a clock.
    fn wait_for(&mut self, rank: usize, stream: usize, known: Option<VectorClock>, op: OpId, subject: WaitSubject) {
        let Some(known) = known else { return };
        let state = &mut self.ranks[rank];
        let adds_order = state.streams[stream].clock.join_clock(&known);
        let is_counted = match subject {
            WaitSubject::Event => true,
            WaitSubject::Start => adds_order,
            // The stream waits without it, but other backends need it.
            WaitSubject::Work(work) => adds_order || !state.initiated.contains(&work),
        };
        if is_counted {
            self.observer.observe_wait(WaitInst { op, adds_order });
        }
    }

    // ---- messages on streams ----

    /// A stream reaches a message that the peer initiates: from here on its buffer is in use.
    fn announce_message(&mut self, rank: usize, stream: usize, step: IssuedStep<'p>, message: StreamMessage) {
        let own = RankInst { rank: rank as u32, inst: step.id };
        let clock = &mut self.ranks[rank].streams[stream].clock;
        let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
        let end = AccessEnd::Message(message.partner.unwrap_or(own));
        let inst = self.readers[rank].read_inst(step.inst);
        self.observer.observe_accesses(&self.ends, &accesses_of(rank, step.id, inst, end), clock);
        clock.advance_chain(chain);
        self.starts.insert(own, StartedSide { clock: clock.clone(), work: Some(message.work), readers: 1 });
    }

    /// Carries out a message that this rank initiates; the peer has reached it.
    fn run_message(&mut self, rank: usize, stream: usize, step: IssuedStep<'p>, message: StreamMessage) {
        let Some(partner) = message.partner else { return };
        let Some(announced) = self.start_of(partner) else { return };
        let peer_work = self.starts.get(&self.walked_side(partner)).and_then(|side| side.work);
        self.release_start(partner);
        let clock = &mut self.ranks[rank].streams[stream].clock;
        clock.join_clock(&announced);
        let chain = self.chains.stream_chain(rank, StreamSlot(stream as u32));
        let point = clock.next_point(chain);
        let inst = self.readers[rank].read_inst(step.inst);
        let accesses = accesses_of(rank, step.id, inst, AccessEnd::Point(point));
        self.observer.observe_accesses(&self.ends, &accesses, clock);
        clock.advance_chain(chain);
        self.ends.messages.insert(RankInst { rank: rank as u32, inst: step.id }, point);
        let done = clock.clone();
        self.ranks[rank].end_work(message.work, &done);
        self.ranks[rank].initiated.insert(message.work);
        if let Some(work) = peer_work {
            let (peer, done) = match self.ends.rotation {
                None => (partner.rank as usize, done),
                // The peer that carries out this rank's counterpart of the message is the opposite one.
                Some(rotation) => (0, done.rotated_by(rotation, rotation.opposite_of(partner.rank))),
            };
            self.ranks[peer].end_work(work, &done);
        }
    }

    // ---- communicators ----

    /// Starts and ends units of a communicator as far as possible; returns true if it made a step.
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
        for UnitInst { id, inst, .. } in &unit.insts {
            let inst = self.readers[rank].read_inst(*inst);
            let accesses = accesses_of(rank, *id, inst, end);
            self.observer.observe_accesses(&self.ends, &accesses, &mut unit.clock);
        }
        let members = queue.matched.map_or(1, |(place, _)| self.matching.communicators[place].slots.len());
        for UnitInst { id, part, .. } in &unit.insts {
            let (work, readers) = match part {
                UnitPart::Message(message) => (Some(message.work), 1),
                UnitPart::Collective if self.ends.rotation.is_some() => (None, 1),
                UnitPart::Collective => (None, members),
            };
            let side = StartedSide { clock: unit.clock.clone(), work, readers };
            self.starts.insert(RankInst { rank: rank as u32, inst: *id }, side);
        }
        let (start, messages) = (unit.clock.clone(), std::mem::take(&mut unit.members));
        for work in messages {
            state.end_work(work, &start);
        }
    }

    /// Ends the started unit of a communicator, if all other sides have started.
    fn end_unit(&mut self, rank: usize, comm: usize) -> bool {
        let queue = &self.ranks[rank].communicators[comm];
        let Some(unit) = queue.units.front() else { return false };
        if unit.missing.is_some_and(|missing| !self.has_started(missing)) {
            return false;
        }
        let mut sources = UnitSources::default();
        if let Err(missing) = unit.insts.iter().try_for_each(|inst| self.push_sources(queue, inst, &mut sources)) {
            if let Some(unit) = self.ranks[rank].communicators[comm].units.front_mut() {
                unit.missing = missing.side;
            }
            return false;
        }
        if let Some((place, number)) = sources.collective {
            let joined = self.take_joined_starts(place, number);
            sources.clocks.extend(joined.filter(|_| sources.receives));
        }
        sources.sides.iter().for_each(|&side| self.release_start(side));
        let chain = self.chains.communicator_chain(rank, CommSlot(comm as u32));
        let state = &mut self.ranks[rank];
        let Some(mut unit) = state.pop_unit(comm) else { return false };
        for source in &sources.clocks {
            unit.clock.join_clock(source);
        }
        if let (Some(source), Some(rotation)) = (sources.of_all, self.ends.rotation) {
            unit.clock.join_rotations(&source, rotation);
        }
        unit.clock.advance_chain(chain);
        let queue = &mut state.communicators[comm];
        queue.collectives += usize::from(sources.has_collective);
        queue.clock = unit.clock.clone();
        for work in unit.works {
            state.end_work(work, &unit.clock);
        }
        true
    }

    /// Adds the sides of a communication, and the clocks of those whose data it receives.
    ///
    /// # Errors
    /// If a side has not started.
    fn push_sources(
        &self,
        queue: &CommunicatorQueue<'p>,
        inst: &UnitInst<'p>,
        sources: &mut UnitSources,
    ) -> Result<(), MissingSide> {
        match inst.part {
            UnitPart::Message(message) => {
                let partner = message.partner.ok_or(MissingSide::default())?;
                self.require_start(partner)?;
                sources.sides.push(partner);
                if message.direction == MessageDirection::Recv {
                    sources.clocks.extend(self.start_of(partner));
                }
                Ok(())
            }
            UnitPart::Collective => {
                sources.has_collective = true;
                let collective = inst.inst.template_inst().kind.collective();
                sources.receives = collective.is_some_and(|collective| collective.output.is_some());
                let (place, position) = queue.matched.ok_or(MissingSide::default())?;
                self.push_members(place, queue.collectives, position, sources)
            }
        }
    }

    fn require_start(&self, side: RankInst) -> Result<(), MissingSide> {
        if self.has_started(side) { Ok(()) } else { Err(MissingSide { side: Some(side) }) }
    }

    /// Adds the members of a collective.
    fn push_members(
        &self,
        place: usize,
        number: usize,
        position: usize,
        sources: &mut UnitSources,
    ) -> Result<(), MissingSide> {
        let of_all = &self.matching.communicators[place];
        let insts = of_all.collectives.get(number).ok_or(MissingSide::default())?;
        if self.ends.rotation.is_some() {
            let own = insts[position].map(|inst| RankInst { rank: 0, inst });
            sources.sides.extend(own);
            sources.of_all = own.and_then(|own| self.start_of(own));
            return if sources.of_all.is_some() { Ok(()) } else { Err(MissingSide::default()) };
        }
        let members = of_all.communicator.team.iter().zip(insts);
        for (&rank, &inst) in members {
            let side = inst.map(|inst| RankInst { rank, inst }).ok_or(MissingSide::default())?;
            self.require_start(side)?;
            sources.sides.push(side);
        }
        sources.collective = Some((place, number));
        Ok(())
    }

    /// The clocks at the starts of a collective's senders, merged, for one more of its members. All have started.
    fn take_joined_starts(&mut self, place: usize, number: usize) -> Option<VectorClock> {
        let known = match self.joined.remove(&(place, number)) {
            Some(known) => known,
            None => self.join_starts(place, number)?,
        };
        let clock = known.clock.clone();
        let readers = known.readers - 1;
        if readers > 0 {
            self.joined.insert((place, number), JoinedStarts { readers, ..known });
        }
        Some(clock)
    }

    fn join_starts(&self, place: usize, number: usize) -> Option<JoinedStarts> {
        let of_all = &self.matching.communicators[place];
        let insts = of_all.collectives.get(number)?;
        let mut clock = self.chains.initial_clock();
        for (&rank, inst) in
            of_all.communicator.team.iter().zip(insts).filter_map(|(rank, inst)| Some((rank, (*inst)?)))
        {
            let own = self.plans.get(rank as usize)?.stored_inst(inst).template_inst().kind.collective()?;
            if own.input.is_some() {
                clock.join_clock(&self.start_of(RankInst { rank, inst })?);
            }
        }
        Some(JoinedStarts { clock, readers: insts.len() })
    }
}

/// The other sides of a unit's communications.
#[derive(Default)]
struct UnitSources {
    sides: SmallVec<[RankInst; 4]>,
    /// The clocks at the starts of the sides whose data it receives.
    clocks: SmallVec<[VectorClock; 2]>,
    /// For plans that differ by a rotation: the clock at the start of a collective, in which all members receive data
    /// from all.
    of_all: Option<VectorClock>,
    /// The matched communicator of a collective, and the collective's number there.
    collective: Option<(usize, usize)>,
    has_collective: bool,
    /// The rank receives data in the collective.
    receives: bool,
}

/// A side of a communication that has not started; `None` for one that does not exist.
#[derive(Clone, Copy, Default, Debug)]
struct MissingSide {
    side: Option<RankInst>,
}

/// The accesses of an instruction, reads first.
fn accesses_of(rank: usize, id: InstId, inst: &Inst, end: AccessEnd) -> SmallVec<[MemoryAccess<'_>; 4]> {
    let access = |view, is_write| MemoryAccess { rank, inst: id, kind: &inst.kind, view, is_write, end };
    let reads = inst.kind.read_views().into_iter().map(|view| access(view, false));
    reads.chain(inst.kind.written_views().into_iter().map(|view| access(view, true))).collect()
}
