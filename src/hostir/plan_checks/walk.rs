//! Walks the plans of all ranks in order, to their end.
//!
//! Each rank runs its streams until only communications can make progress; then the walk executes the communications
//! with all sides present (`plan::PlanMatching`), and so on. If no progress is possible and work is left, `deadlock`
//! reports the ranks that wait for each other.
//!
//! A walk only determines order. A [`RankExecutor`] does the work of the instructions, and a [`RankClock`] observes
//! when they begin and end.

use super::agreement;
use super::deadlock;
use super::hang_report::{RankPosition, report_hang};
use super::queues::{CommunicationUnit, RankQueues};
use crate::diag::{Diag, codes};
use crate::ir::MessageDirection;
use crate::lower::PreparedProgram;
use crate::plan::time_limit_advice;
use crate::plan::{
    BufferView, CollectiveInst, CollectiveMember, CommSlot, Deadline, Inst, InstId, InstKind, InstReader,
    MatchedCommunicator, Plan, PlanMatching, StoredInst, WorkSlot,
};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A stream's next instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamStep<'p> {
    /// The stream.
    pub(crate) stream: usize,
    /// The instruction.
    pub(crate) id: InstId,
    /// The same, as the plan has it.
    pub(crate) inst: &'p Inst,
}

/// A side of a message.
#[derive(Clone, Debug)]
pub(crate) struct MessageEnd<'p> {
    /// The rank.
    pub(crate) rank: usize,
    /// Its send or receive.
    pub(crate) inst: InstId,
    /// The view that is read or written.
    pub(crate) view: Cow<'p, BufferView>,
}

/// A member's side of a collective.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveEnd<'p> {
    /// The rank.
    pub(crate) rank: usize,
    /// Its slot for the communicator.
    pub(crate) slot: CommSlot,
    /// Its instruction.
    pub(crate) inst: InstId,
    /// The same, as the plan has it.
    pub(crate) collective: Cow<'p, CollectiveInst>,
}

impl<'p> CollectiveEnd<'p> {
    /// The side of a matched collective's member.
    pub(crate) fn of_member(member: CollectiveMember<'p>) -> Self {
        let slot = member.collective.comm;
        Self { rank: member.rank as usize, slot, inst: member.inst, collective: member.collective }
    }
}

/// Does the work of one rank's instructions.
pub(crate) trait RankExecutor: Send + Sized {
    /// Carries out an instruction of a stream.
    fn execute_step(&mut self, prepared: &PreparedProgram, step: &StreamStep<'_>) -> Result<(), Diag>;
    /// A communication no longer needs its views.
    fn release_views(&mut self, inst: &Inst);
    /// Moves a message, whose sides agree.
    fn move_message<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        send: &MessageEnd<'_>,
        receive: &MessageEnd<'_>,
    ) -> Result<(), Diag>;
    /// Moves the data of a collective, whose members agree on its type.
    fn move_collective<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        ends: &[CollectiveEnd<'_>],
    ) -> Result<(), Diag>;
}

/// The executor that does nothing.
pub(crate) struct OrderOnly;

impl RankExecutor for OrderOnly {
    fn execute_step(&mut self, _: &PreparedProgram, _: &StreamStep<'_>) -> Result<(), Diag> {
        Ok(())
    }
    fn release_views(&mut self, _: &Inst) {}
    fn move_message<C: RankClock>(
        _: &mut WalkRanks<'_, '_, Self, C>,
        _: &MessageEnd<'_>,
        _: &MessageEnd<'_>,
    ) -> Result<(), Diag> {
        Ok(())
    }
    fn move_collective<C: RankClock>(_: &mut WalkRanks<'_, '_, Self, C>, _: &[CollectiveEnd<'_>]) -> Result<(), Diag> {
        Ok(())
    }
}

/// Observes when one rank's instructions begin and end. Times are nanoseconds; an untimed walk has none.
pub(crate) trait RankClock: Send {
    /// A stream's instruction begins; returns the time.
    fn begin_step(&mut self, _stream: usize) -> u64 {
        0
    }
    /// A stream has done its next instruction, which began at `start`.
    fn end_step(&mut self, _step: &StreamStep<'_>, _start: u64) {}
    /// The time at which a stream continues with an instruction that can run.
    fn ready_time(&self, _stream: usize, _kind: &InstKind) -> u64 {
        0
    }
    /// The time at which the streams reached the posts of a communicator's unit.
    fn posted_time(&self, _unit: &CommunicationUnit) -> u64 {
        0
    }
    /// The time at which the rank takes part in a communicator's next unit, whose posts were reached at `posted`.
    fn join_time(&self, _comm: CommSlot, _posted: u64) -> u64 {
        0
    }
    /// The end of a communication of this rank that starts with its last side, at `start`, and is carried out now.
    fn communication_end(&mut self, _start: u64, _id: InstId, _inst: &Inst) -> u64 {
        0
    }
    /// An instruction of a communicator's unit, which started at `start` on all its sides, is done.
    fn end_communication(&mut self, _comm: CommSlot, _inst: &Inst, _start: u64, _end: u64) {}
    /// A communicator's unit, whose posts were reached at `posted`, is done.
    fn end_unit(&mut self, _comm: CommSlot, _posted: u64, _plan: &Plan, _unit: &CommunicationUnit) {}
    /// The time at which a stream reached a send or receive that the peer initiates.
    fn announced_time(&self, _inst: InstId) -> u64 {
        0
    }
    /// The peer has carried out an announced send or receive.
    fn end_announced(&mut self, _inst: InstId, _work: WorkSlot, _end: u64) {}
    /// This rank has carried out a message that it initiates, and its stream continues.
    fn end_initiated(&mut self, _step: &StreamStep<'_>, _work: WorkSlot, _end: u64) {}
}

/// No times.
pub(crate) struct NoClock;

impl RankClock for NoClock {}

/// One rank of a walk.
pub(crate) struct RankWalk<'p, E, C> {
    /// The progress of the rank's queues.
    pub(crate) queues: RankQueues<'p>,
    /// Does its work.
    pub(crate) executor: E,
    /// Times it.
    pub(crate) clock: C,
    reader: InstReader,
    /// A communication has ended since the flag was taken.
    has_ended: bool,
    deadline: Option<Deadline>,
}

/// The ranks of a walk, for the data of a communication.
pub(crate) struct WalkRanks<'w, 'p, E, C> {
    /// Plans, and names for messages.
    pub(crate) prepared: &'p PreparedProgram,
    /// All ranks.
    pub(crate) ranks: &'w mut [RankWalk<'p, E, C>],
}

impl<'p, E: RankExecutor, C: RankClock> RankWalk<'p, E, C> {
    /// Runs the streams, in turn, until each is at its end or waits.
    fn run_streams(&mut self, prepared: &PreparedProgram) -> Result<(), Diag> {
        loop {
            let mut progress = self.end_units();
            for stream in 0..self.queues.stream_count() {
                while self.run_step(stream, prepared)? {
                    progress = true;
                }
            }
            if !progress {
                return Ok(());
            }
        }
    }

    /// Executes a stream's next instruction, unless it has to wait.
    pub(crate) fn run_step(&mut self, stream: usize, prepared: &PreparedProgram) -> Result<bool, Diag> {
        let Some(id) = self.queues.stream_head(stream) else { return Ok(false) };
        let stored = self.queues.stored_inst(id);
        if !self.queues.can_proceed(stored.queue_action()) {
            return Ok(false);
        }
        let step = StreamStep { stream, id, inst: self.reader.read_inst(stored) };
        if let Some(note) = self.deadline.and_then(|deadline| deadline.expiry_note()) {
            return Err(late_error(note));
        }
        let began = self.clock.begin_step(stream);
        match &step.inst.kind {
            InstKind::Message { .. } => self.queues.announce_message(id),
            InstKind::Record { event } => self.queues.record_event(*event),
            _ => {}
        }
        self.executor.execute_step(prepared, &step)?;
        self.clock.end_step(&step, began);
        self.queues.advance_stream(stream);
        Ok(true)
    }

    /// The time at which a stream continues with its next instruction, which can run.
    pub(crate) fn ready_time(&self, stream: usize, inst: StoredInst<'_>) -> u64 {
        match &inst.template_inst().kind {
            kind if kind.is_wait() => self.clock.ready_time(stream, &inst.unfold_inst().kind),
            kind => self.clock.ready_time(stream, kind),
        }
    }

    /// Returns true if a communication has ended since the flag was taken.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes the flag that a communication has ended.
    pub(crate) fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// Ends empty started units; returns true if there were any.
    pub(crate) fn end_units(&mut self) -> bool {
        let mut progress = false;
        for comm in 0..self.queues.communicator_count() {
            while self.end_unit(CommSlot(comm as u32)) {
                progress = true;
            }
        }
        progress
    }

    /// Ends the started unit if nothing of it is left; returns true if so.
    fn end_unit(&mut self, comm: CommSlot) -> bool {
        let posted = self.posted_time(comm);
        let Some(unit) = self.queues.end_unit(comm) else { return false };
        self.has_ended = true;
        self.clock.end_unit(comm, posted, self.queues.plan, &unit);
        true
    }

    /// The time at which the streams reached the posts of a communicator's next unit.
    fn posted_time(&self, comm: CommSlot) -> u64 {
        self.queues.next_unit(comm).map_or(0, |unit| self.clock.posted_time(unit))
    }

    /// The time at which this rank takes part in the started unit of a communicator.
    fn join_time(&self, comm: CommSlot) -> u64 {
        self.clock.join_time(comm, self.posted_time(comm))
    }

    fn communication_end(&mut self, start: u64, inst: InstId) -> u64 {
        self.clock.communication_end(start, inst, self.reader.read_inst(self.queues.stored_inst(inst)))
    }

    /// An instruction of a communicator's started unit, which started at `start`, is done at `end`.
    fn finish_inst(&mut self, comm: CommSlot, inst: InstId, start: u64, end: u64) {
        self.clock.end_communication(comm, self.reader.read_inst(self.queues.stored_inst(inst)), start, end);
        self.queues.finish_inst(comm, inst);
        self.executor.release_views(self.reader.read_inst(self.queues.stored_inst(inst)));
        self.end_unit(comm);
    }

    /// A message on streams that this rank initiates is done at `end`.
    fn finish_initiated(&mut self, stream: usize, id: InstId, end: u64) {
        let inst = self.reader.read_inst(self.queues.stored_inst(id));
        if let Some(work) = self.queues.finish_message(id) {
            self.clock.end_initiated(&StreamStep { stream, id, inst }, work, end);
        }
        self.executor.release_views(inst);
        self.queues.advance_stream(stream);
        self.has_ended = true;
    }

    /// A message on streams that the peer initiates is done at `end`.
    fn finish_announced(&mut self, id: InstId, end: u64) {
        if let Some(work) = self.queues.finish_message(id) {
            self.clock.end_announced(id, work, end);
        }
        self.executor.release_views(self.reader.read_inst(self.queues.stored_inst(id)));
        self.has_ended = true;
    }
}

const LATE: &str = "the run exceeded the time limit";

/// The error for a run that exceeds its time; without the positions of the ranks.
fn late_error(note: String) -> Diag {
    Diag::global_error(codes::TIMEOUT, LATE).with_note(note).with_note(time_limit_advice())
}

/// The plans of all ranks, and the progress of each.
pub(crate) struct PlanWalk<'p, E, C> {
    prepared: &'p PreparedProgram,
    /// The communications of all ranks.
    pub(crate) matching: PlanMatching<'p>,
    /// By communicator: the number of its collectives that are done.
    collectives_done: Vec<usize>,
    /// All ranks.
    pub(crate) ranks: Vec<RankWalk<'p, E, C>>,
}

impl<'p, E: RankExecutor, C: RankClock> PlanWalk<'p, E, C> {
    /// The start of a walk with an executor and a clock for each rank.
    pub(crate) fn new(prepared: &'p PreparedProgram, ranks: Vec<(E, C)>) -> Self {
        let matching = PlanMatching::new(&prepared.plans);
        let ranks = prepared.plans.iter().zip(ranks).map(|(plan, (executor, clock))| RankWalk {
            queues: RankQueues::new(plan),
            executor,
            clock,
            reader: InstReader::default(),
            has_ended: false,
            deadline: None,
        });
        let (ranks, collectives_done) = (ranks.collect(), vec![0; matching.communicators.len()]);
        Self { prepared, matching, collectives_done, ranks }
    }

    /// Runs all queues to their ends, the ranks in parallel.
    pub(crate) fn run_to_end(&mut self) -> Result<(), Vec<Diag>> {
        let prepared = self.prepared;
        let deadline = Deadline::after(prepared.time);
        self.ranks.iter_mut().for_each(|rank| rank.deadline = deadline);
        loop {
            let ranks = self.ranks.par_iter_mut();
            let faults: Vec<Diag> = ranks.filter_map(|rank| rank.run_streams(prepared).err()).collect();
            if !faults.is_empty() {
                return Err(self.explain_faults(faults));
            }
            if self.is_done() {
                return Ok(());
            }
            if !self.run_communications().map_err(|diag| vec![diag])? {
                return Err(vec![self.deadlock()]);
            }
        }
    }

    /// The errors of a state in which ranks have failed; one for all ranks if they exceeded their time.
    fn explain_faults(&self, faults: Vec<Diag>) -> Vec<Diag> {
        if !faults.iter().all(|fault| fault.code == codes::TIMEOUT) {
            return distinct_errors(faults);
        }
        let positions: Vec<RankPosition> = self.ranks.iter().map(|rank| rank.queues.rank_position()).collect();
        let notes = faults.into_iter().next().map(|fault| fault.notes).unwrap_or_default();
        let error = Diag { notes, ..Diag::global_error(codes::TIMEOUT, LATE) };
        vec![report_hang(self.prepared, error, &positions)]
    }

    /// Whether all queues are at their ends.
    pub(crate) fn is_done(&self) -> bool {
        self.ranks.iter().all(|rank| rank.queues.is_done())
    }

    /// The report for a state in which no rank can continue.
    pub(crate) fn deadlock(&self) -> Diag {
        let queues: Vec<&RankQueues<'_>> = self.ranks.iter().map(|rank| &rank.queues).collect();
        deadlock::report_deadlock(self.prepared, &self.matching.communicators, &queues)
    }

    /// Carries out every communication whose sides are all there; returns true if there was any.
    pub(crate) fn run_communications(&mut self) -> Result<bool, Diag> {
        let all = 0..self.matching.communicators.len();
        Ok(self.run_communicators(all)? | self.run_stream_messages()?)
    }

    /// Carries out the communications of some matched communicators whose sides are all there; returns true if there was
    /// any.
    fn run_communicators(&mut self, places: impl Iterator<Item = usize>) -> Result<bool, Diag> {
        let mut progress = false;
        let mut ranks = WalkRanks { prepared: self.prepared, ranks: &mut self.ranks };
        for place in places {
            let (of_all, done) = (&self.matching.communicators[place], &mut self.collectives_done[place]);
            while ranks.run_collective(of_all, done)? || ranks.run_messages(of_all, &self.matching)? {
                progress = true;
            }
        }
        Ok(progress)
    }

    /// Carries out the communications of a matched communicator whose sides are all there, if only those of some members
    /// can be: these have started a unit since the last call. Returns the ranks that took part in one.
    pub(crate) fn run_posted(&mut self, place: usize, members: &[usize]) -> Result<Vec<usize>, Diag> {
        let mut ranks = WalkRanks { prepared: self.prepared, ranks: &mut self.ranks };
        let (of_all, done) = (&self.matching.communicators[place], &mut self.collectives_done[place]);
        let (mut waiting, mut ended) = (WaitingSenders::default(), Vec::new());
        for &rank in members {
            ranks.add_senders(of_all, rank, &mut waiting);
        }
        loop {
            if ranks.run_collective(of_all, done)? {
                for &rank in &of_all.communicator.team {
                    ended.push(rank as usize);
                    ranks.add_senders(of_all, rank as usize, &mut waiting);
                }
                waiting.restart();
            } else if let Some(position) = waiting.next_position() {
                let ran = ranks.run_messages_from(of_all, &self.matching, position)?;
                for rank in ran {
                    ended.push(rank);
                    ranks.add_senders(of_all, rank, &mut waiting);
                }
            } else {
                return Ok(ended);
            }
        }
    }

    /// Carries out the messages on streams whose sides are both there; returns true if there was any.
    pub(crate) fn run_stream_messages(&mut self) -> Result<bool, Diag> {
        let mut ranks = WalkRanks { prepared: self.prepared, ranks: &mut self.ranks };
        ranks.run_stream_messages(&self.matching)
    }
}

/// The members of a communicator whose messages may be able to be carried out, by their positions in the team. They are
/// visited in the order of the team, over and over.
#[derive(Default)]
struct WaitingSenders {
    positions: BTreeSet<usize>,
    /// The position from which the order goes on.
    next: usize,
}

impl WaitingSenders {
    fn add_position(&mut self, position: usize) {
        self.positions.insert(position);
    }

    fn next_position(&mut self) -> Option<usize> {
        let position = self.positions.range(self.next..).next().or_else(|| self.positions.first()).copied()?;
        self.positions.remove(&position);
        self.next = position + 1;
        Some(position)
    }

    /// Goes on from the first member.
    fn restart(&mut self) {
        self.next = 0;
    }
}

/// Drops errors that differ from an earlier one only in the rank.
fn distinct_errors(faults: Vec<Diag>) -> Vec<Diag> {
    let mut kept: Vec<Diag> = Vec::new();
    for fault in faults {
        if !kept.iter().any(|old| old.code == fault.code && old.primary == fault.primary) {
            kept.push(fault);
        }
    }
    kept
}

impl<'p, E: RankExecutor, C: RankClock> WalkRanks<'_, 'p, E, C> {
    /// The sides of the next collective of a communicator, if all members have started it.
    fn collective_ends(&self, of_all: &MatchedCommunicator<'_>, number: usize) -> Option<Vec<CollectiveEnd<'p>>> {
        let insts = of_all.collectives.get(number)?;
        let team = of_all.communicator.team.iter().zip(&of_all.slots).zip(insts);
        let mut members = team.clone();
        let has_all = members.all(|((&rank, &slot), &inst)| {
            let queues = self.ranks.get(rank as usize).map(|rank| &rank.queues);
            inst.is_some() && queues.zip(slot).and_then(|(queues, slot)| queues.started_collective(slot)) == inst
        });
        if !has_all {
            return None;
        }
        team.map(|((&rank, &slot), &inst)| {
            let (rank, slot, inst) = (rank as usize, slot?, inst?);
            let collective = self.ranks.get(rank)?.queues.plan.collective_of(inst)?;
            Some(CollectiveEnd { rank, slot, inst, collective })
        })
        .collect()
    }

    /// Carries out the next collective of a communicator, if all members have started it. `done` counts the completed
    /// ones.
    fn run_collective(&mut self, of_all: &MatchedCommunicator<'_>, done: &mut usize) -> Result<bool, Diag> {
        let Some(ends) = self.collective_ends(of_all, *done) else { return Ok(false) };
        agreement::check_collective(self.prepared, &ends)?;
        E::move_collective(self, &ends)?;
        let start = ends.iter().map(|end| self.ranks[end.rank].join_time(end.slot)).max();
        let start = start.unwrap_or(0);
        let mut all_end = 0;
        for end in &ends {
            all_end = self.ranks[end.rank].communication_end(start, end.inst).max(all_end);
        }
        for end in &ends {
            self.ranks[end.rank].finish_inst(end.slot, end.inst, start, all_end);
        }
        *done += 1;
        Ok(true)
    }

    /// Carries out the messages of a communicator whose sides are both there; returns true if there was any.
    fn run_messages(&mut self, of_all: &MatchedCommunicator<'_>, matching: &PlanMatching<'_>) -> Result<bool, Diag> {
        let mut progress = false;
        for position in 0..of_all.communicator.team.len() {
            progress |= !self.run_messages_from(of_all, matching, position)?.is_empty();
        }
        Ok(progress)
    }

    /// Carries out the messages that a member of a communicator sends and whose sides are both there; returns the ranks
    /// of their sides.
    fn run_messages_from(
        &mut self,
        of_all: &MatchedCommunicator<'_>,
        matching: &PlanMatching<'_>,
        position: usize,
    ) -> Result<Vec<usize>, Diag> {
        let mut ran = Vec::new();
        let (Some(slot), from) = (of_all.slots[position], of_all.communicator.team[position] as usize) else {
            return Ok(ran);
        };
        for open in self.ranks[from].queues.open_messages(slot, MessageDirection::Send) {
            let Some(send) = message_end(&self.ranks[from].queues, from as u32, open.inst) else { continue };
            let Some((peer_slot, receive)) = self.receive_of(of_all, matching, &send) else {
                continue;
            };
            self.run_message(&send, &receive)?;
            let joined = self.ranks[from].join_time(slot);
            let start = joined.max(self.ranks[receive.rank].join_time(peer_slot));
            let end = self.ranks[from].communication_end(start, send.inst);
            self.ranks[from].finish_inst(slot, send.inst, start, end);
            self.ranks[receive.rank].finish_inst(peer_slot, receive.inst, start, end);
            ran.extend([from, receive.rank]);
        }
        Ok(ran)
    }

    /// Adds the members that send messages of which a member's started unit has a side.
    fn add_senders(&self, of_all: &MatchedCommunicator<'_>, rank: usize, waiting: &mut WaitingSenders) {
        let Some(position) = of_all.position_of(rank as u32) else { return };
        let Some((slot, state)) = of_all.slots[position].zip(self.ranks.get(rank)) else { return };
        for message in state.queues.open_sides(slot) {
            let sender = match message.direction {
                MessageDirection::Send => Some(position),
                MessageDirection::Recv => of_all.position_of(message.peer),
            };
            if let Some(position) = sender {
                waiting.add_position(position);
            }
        }
    }

    /// The receive that matches a started send on a communicator, if it has started too, and the receiver's slot for
    /// the communicator.
    fn receive_of(
        &self,
        of_all: &MatchedCommunicator<'_>,
        matching: &PlanMatching<'_>,
        send: &MessageEnd<'_>,
    ) -> Option<(CommSlot, MessageEnd<'p>)> {
        let partner = matching.message_partner(send.rank as u32, send.inst)?;
        let slot = of_all.slots[of_all.position_of(partner.rank)?]?;
        let queues = &self.ranks.get(partner.rank as usize)?.queues;
        if !queues.is_open(slot, partner.inst) {
            return None;
        }
        Some((slot, message_end(queues, partner.rank, partner.inst)?))
    }

    /// Checks and moves one message.
    fn run_message(&mut self, send: &MessageEnd<'_>, receive: &MessageEnd<'_>) -> Result<(), Diag> {
        agreement::check_message(self.prepared, send, receive)?;
        E::move_message(self, send, receive)
    }

    /// Carries out the messages on streams whose initiator has reached them after its peer; returns true if there was
    /// any.
    fn run_stream_messages(&mut self, matching: &PlanMatching<'_>) -> Result<bool, Diag> {
        let mut progress = false;
        for initiator in 0..self.ranks.len() {
            for (stream, inst) in self.ranks[initiator].queues.initiated_messages() {
                progress |= self.run_stream_message(matching, initiator, stream, inst)?;
            }
        }
        Ok(progress)
    }

    fn run_stream_message(
        &mut self,
        matching: &PlanMatching<'_>,
        initiator: usize,
        stream: usize,
        inst: InstId,
    ) -> Result<bool, Diag> {
        let partner = matching.message_partner(initiator as u32, inst);
        let Some(partner) = partner.filter(|partner| self.is_announced(partner.rank, partner.inst)) else {
            return Ok(false);
        };
        let target = partner.rank as usize;
        let queues = &self.ranks[initiator].queues;
        let stored = queues.stored_inst(inst);
        let here = message_end(queues, initiator as u32, inst);
        let there = message_end(&self.ranks[target].queues, partner.rank, partner.inst);
        let (Some(here), Some(there)) = (here, there) else { return Ok(false) };
        let sends = stored.template_inst().kind.is_message(MessageDirection::Send);
        let (send, receive) = if sends { (here, there) } else { (there, here) };
        let ready = self.ranks[initiator].ready_time(stream, stored);
        let start = ready.max(self.ranks[target].clock.announced_time(partner.inst));
        self.run_message(&send, &receive)?;
        let end = self.ranks[initiator].communication_end(start, inst);
        self.ranks[target].finish_announced(partner.inst, end);
        self.ranks[initiator].finish_initiated(stream, inst, end);
        Ok(true)
    }

    fn is_announced(&self, rank: u32, inst: InstId) -> bool {
        self.ranks.get(rank as usize).is_some_and(|rank| rank.queues.is_announced(inst))
    }
}

/// A send or receive as a side of its message.
fn message_end<'p>(queues: &RankQueues<'p>, rank: u32, inst: InstId) -> Option<MessageEnd<'p>> {
    Some(MessageEnd { rank: rank as usize, inst, view: queues.plan.message_view(inst)? })
}
