//! Communications by copies: the ranges that are copied between ranks' memories, and the semaphores that order them.
//!
//! Every communication is divided into messages, each from one rank to another. One side of a message is the initiator,
//! which copies; the other is the target. With `get` the receiver is the initiator, with `put` the sender. The
//! protocol is nvFuser's (its `cuda_p2p.cpp`), with two semaphores for each message, each polled by its owner only:
//!
//! ```text
//! target:     signal `ready` at the initiator            ... wait for own `done`, reset it
//! initiator:  wait for own `ready`, copy, reset it, signal `done` at the target
//! ```
//!
//! A semaphore is signalled and reset once in a run, so all are reset when the run ends: runs follow each
//! other without a barrier, and a run that was captured as a graph can be replayed.
//!
//! Groups of messages and collectives that only move data push (put), which takes a few microseconds less than pulling
//! (get). Reductions pull into staging memory, which only its owner addresses, and combine in team order as the CPU
//! backend does, so that all members round alike. A large Allreduce has two rounds: every member reduces one shard,
//! then pushes it to the others. In each round a member starts with the member after it in team order, so that no two
//! members copy from or to the same one at the same time.

use crate::codegen;
use crate::codegen::job;
use crate::element_range::ViewRange;
use crate::element_range::range_view;
use crate::exchanges;
use crate::memory_layout::ALIGNMENT;
use crate::operand::SymbolicAddress;
use crate::transport::{BackendTransports, CommTransport};
use crate::unsupported::{MembershipFault, Unsupported};
use hostir::lower::PreparedProgram;
use hostir::plan::CollectiveMember;
use hostir::plan::InstId;
use hostir::plan::MatchedCommunicator;
use hostir::plan::MatchedMessage;
use hostir::plan::MemberRole;
use hostir::plan::PlanMatching;
use hostir::plan::RankInst;
use hostir::plan::TeamTransfers;
use hostir::plan::{BufferId, BufferView, CollectiveKind, Plan, RedOp, are_disjoint};
use std::collections::{BTreeMap, BTreeSet};

/// The size in bytes from which an Allreduce has two rounds.
const TWO_ROUNDS: usize = 256 << 10;

/// The destination of a message or of a local step's result.
#[derive(Clone, PartialEq, Debug)]
pub enum MessageTarget {
    /// Into a tensor.
    Part(ViewRange),
    /// Staging memory, at this offset in bytes.
    Staging(usize),
}

impl MessageTarget {
    /// The elements of a tensor, if the target is one.
    pub fn as_part(&self) -> Option<&ViewRange> {
        match self {
            MessageTarget::Part(part) => Some(part),
            MessageTarget::Staging(_) => None,
        }
    }
}

/// The copy of one range from one rank to another.
#[derive(Clone, PartialEq, Debug)]
pub struct P2pMessage {
    /// The rank whose memory is read.
    pub from: u32,
    /// The rank whose memory is written.
    pub to: u32,
    /// The range that is read.
    pub source: ViewRange,
    /// The range that is written; only the owner writes staging memory.
    pub target: MessageTarget,
    /// True if the sender is the initiator (put).
    pub put: bool,
    /// Number of the ready semaphore among the initiator's semaphores.
    pub ready: usize,
    /// Number of the done semaphore among the target's semaphores.
    pub done: usize,
    /// Number of the word, among the initiator's semaphores, in which the blocks of a kernel count themselves.
    pub counter: usize,
}

impl P2pMessage {
    /// The rank that copies: the initiator.
    pub fn initiator_rank(&self) -> u32 {
        if self.put { self.from } else { self.to }
    }
    /// The rank whose memory the initiator copies to or from: the target.
    pub fn target_rank(&self) -> u32 {
        if self.put { self.to } else { self.from }
    }
    /// The size in bytes.
    pub fn byte_count(&self) -> usize {
        self.source.byte_count()
    }
    /// The ranges that are in a rank's tensors.
    pub fn ranges_of(&self, rank: u32) -> impl Iterator<Item = &ViewRange> {
        let source = (self.from == rank).then_some(&self.source);
        let target = match &self.target {
            MessageTarget::Part(part) if self.to == rank => Some(part),
            _ => None,
        };
        source.into_iter().chain(target)
    }
}

/// The combination of the data of a round with the rank's own shard.
#[derive(Clone, PartialEq, Debug)]
pub struct RoundReduction {
    /// The reduction.
    pub op: RedOp,
    /// The inputs in team order, one for each member.
    pub inputs: Vec<MessageTarget>,
    /// Destination of the result.
    pub output: ViewRange,
    /// True if the result is in memory that other members read, so that it has to wait for them.
    pub waits_for_readers: bool,
}

/// The order among the copies of one round when copy engines execute them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum CopyOrder {
    /// Independent: a copy may become ready only after another one is done.
    #[default]
    Free,
    /// Serialized, so that the first ones complete early.
    InTurn,
    /// Batched: after all ready semaphores and before all done semaphores, so that the peers continue together.
    InARow,
}

/// One round of a rank in a communication: it signals its own buffers ready, copies, and combines.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct P2pRound {
    /// Messages of which this rank is the target.
    pub ready_signals: Vec<usize>,
    /// Messages of which this rank is the initiator, in order.
    pub copies: Vec<usize>,
    /// The copy within the rank.
    pub local: Option<(ViewRange, ViewRange)>,
    /// The combination after all copies are done.
    pub combine: Option<RoundReduction>,
    /// True if the round belongs to a collective, in which all members signal ready before any of them waits.
    pub collective: bool,
}

impl P2pRound {
    /// Returns the order among the round's copies.
    pub fn copy_order(&self) -> CopyOrder {
        match self.collective {
            false => CopyOrder::Free,
            true if self.copies.len() == self.ready_signals.len() => CopyOrder::InARow,
            true => CopyOrder::InTurn,
        }
    }
}

/// All messages of a program.
#[derive(Clone, Default, Debug)]
pub struct MessagePlan {
    /// The messages, by number.
    pub list: Vec<P2pMessage>,
    /// The rounds by rank and instruction.
    rounds: BTreeMap<RankInst, Vec<P2pRound>>,
    /// The number of semaphores of each rank.
    flags: BTreeMap<u32, usize>,
    /// By rank and instruction: the reason why copies cannot carry it out.
    refused: BTreeMap<RankInst, Unsupported>,
    /// The sends of complete exchanges, each with the first one of its rank; none where no stores are joined.
    exchanges: BTreeMap<RankInst, InstId>,
}

/// The messages of all ranks' plans. Complete exchanges are found if stores of several products may be joined
/// ([`ScheduleSettings::joins_stores`](crate::schedule::ScheduleSettings::joins_stores)).
pub fn plan_messages(prepared: &PreparedProgram, routes: BackendTransports, joins_stores: bool) -> MessagePlan {
    let matching = PlanMatching::new(&prepared.plans);
    let mut found = MessagePlan::default();
    if joins_stores {
        found.exchanges = exchanges::complete_exchanges(&prepared.plans, &matching.messages);
    }
    for message in &matching.messages {
        found.add_pair(message, &prepared.plans, routes);
    }
    for of_all in &matching.communicators {
        if routes.for_backend(of_all.communicator.backend) == Some(CommTransport::Copies) {
            found.add_collectives(of_all, &prepared.plans);
        }
    }
    found
}

impl MessagePlan {
    /// Returns the rounds of a rank for an instruction.
    ///
    /// # Errors
    /// [`Unsupported`] if copies cannot carry out the instruction's communication.
    pub fn inst_rounds(&self, rank: u32, inst: InstId) -> Result<&[P2pRound], Unsupported> {
        let at = RankInst { rank, inst };
        match self.refused.get(&at) {
            Some(why) => Err(why.clone()),
            None => Ok(self.rounds.get(&at).map_or(&[], Vec::as_slice)),
        }
    }

    /// The first send of the complete exchange that a send belongs to, all of whose sends may start together.
    pub fn exchange_of_send(&self, rank: u32, inst: InstId) -> Option<InstId> {
        self.exchanges.get(&RankInst { rank, inst }).copied()
    }

    /// The bytes of a rank's semaphores. The last word belongs to no message: a rank of another process sets it when it
    /// gives up ([`MessagePlan::poison_word`]).
    pub fn flag_bytes(&self, rank: u32) -> usize {
        self.flags.get(&rank).map_or(0, |count| (count + 1) * FLAG)
    }

    /// The number of that last word, if the rank has semaphores.
    pub fn poison_word(&self, rank: u32) -> Option<usize> {
        self.flags.get(&rank).copied()
    }

    /// The ranks that are connected with a rank by any chain of messages.
    pub fn reachable_ranks(&self, rank: u32) -> Vec<u32> {
        let mut found = BTreeSet::from([rank]);
        let mut next = vec![rank];
        while let Some(rank) = next.pop() {
            next.extend(self.peer_ranks(rank).into_iter().filter(|peer| found.insert(*peer)));
        }
        found.into_iter().filter(|other| *other != rank).collect()
    }

    /// The ranks with which a rank exchanges messages.
    pub fn peer_ranks(&self, rank: u32) -> Vec<u32> {
        let mut peers: Vec<u32> = self
            .list
            .iter()
            .filter(|message| message.from == rank || message.to == rank)
            .flat_map(|message| [message.from, message.to])
            .filter(|&peer| peer != rank)
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// The buffers of a rank that other ranks read (get) or write (put) directly.
    pub fn peer_accessed_buffers(&self, rank: u32) -> Vec<BufferId> {
        let accessed = self.list.iter().filter(|message| message.initiator_rank() != rank);
        accessed.flat_map(|message| message.ranges_of(rank)).map(|range| range.view.buffer).collect()
    }

    fn allocate_flag(&mut self, rank: u32) -> usize {
        let count = self.flags.entry(rank).or_default();
        *count += 1;
        *count - 1
    }

    fn add_message(&mut self, from: u32, to: u32, source: ViewRange, target: MessageTarget, put: bool) -> usize {
        let (copier, offerer) = if put { (from, to) } else { (to, from) };
        let (ready, done, counter) =
            (self.allocate_flag(copier), self.allocate_flag(offerer), self.allocate_flag(copier));
        self.list.push(P2pMessage { from, to, source, target, put, ready, done, counter });
        self.list.len() - 1
    }

    fn refuse_inst(&mut self, member: &CollectiveMember<'_>, why: &Unsupported) {
        self.refused.insert(member_inst(member), why.clone());
    }

    // ---- sends and receives ----

    /// Adds the message of a matched send and receive if their communicator uses copies.
    fn add_pair(&mut self, matched: &MatchedMessage, plans: &[Plan], routes: BackendTransports) {
        let (send, receive) = (matched.send, matched.receive);
        let plan = &plans[send.rank as usize];
        let target_plan = &plans[receive.rank as usize];
        let (Some(source), Some(target)) = (plan.message_view(send.inst), target_plan.message_view(receive.inst))
        else {
            return;
        };
        let backend = plan.inst(send.inst).kind.communicator().map(|slot| plan.communicators[slot].backend);
        if backend.is_some_and(|backend| routes.for_backend(backend) != Some(CommTransport::Copies)) {
            return;
        }
        let target = MessageTarget::Part(ViewRange::whole_view(&target));
        let source = ViewRange::whole_view(&source);
        let message = self.add_message(send.rank, receive.rank, source, target, matched.put);
        let (copier, offerer) = if matched.put { (send, receive) } else { (receive, send) };
        let round = P2pRound { copies: vec![message], ..P2pRound::default() };
        self.rounds.insert(copier, vec![round]);
        let round = P2pRound { ready_signals: vec![message], ..P2pRound::default() };
        self.rounds.insert(offerer, vec![round]);
    }

    // ---- collectives ----

    /// Adds the messages of a communicator's collectives.
    fn add_collectives(&mut self, of_all: &MatchedCommunicator<'_>, plans: &[Plan]) {
        for number in 0..of_all.collectives.len() {
            let members = of_all.collective_members(number, plans);
            let mut rounds = vec![Vec::new(); members.len()];
            match self.plan_collective(&members, &mut rounds) {
                Ok(()) => {
                    for (member, rounds) in members.iter().zip(rounds) {
                        self.rounds.insert(member_inst(member), rounds);
                    }
                }
                Err(why) => {
                    members.iter().for_each(|member| self.refuse_inst(member, &why));
                }
            }
        }
    }

    fn plan_collective(
        &mut self,
        members: &[CollectiveMember<'_>],
        rounds: &mut [Vec<P2pRound>],
    ) -> Result<(), Unsupported> {
        let Some(first) = members.first() else { return Ok(()) };
        let kind = first.collective.kind;
        if !kind.is_reducing() {
            check_no_overlap(members, kind)?;
            let team = team_transfers(kind, members);
            self.add_push_round(members, rounds, |from, to| moved(members, &team, from, to));
            return Ok(());
        }
        let large = view_bytes(&first.collective.input) >= TWO_ROUNDS;
        let even = first.collective.input.as_ref().is_some_and(|view| view.len() % members.len() == 0);
        match kind {
            CollectiveKind::Allreduce if large && even && members.len() > 1 => {
                self.add_reduce_round(members, rounds, CollectiveKind::ReduceScatter)?;
                let team = team_transfers(CollectiveKind::Allgather, members);
                self.add_push_round(members, rounds, |from, to| {
                    let share = team.transfer_between(from, to)?.target;
                    let source = members[from].collective.output.as_ref().filter(|_| from != to)?;
                    let target = members[to].collective.output.as_ref()?;
                    Some((ViewRange::share(source, share), ViewRange::share(target, share)))
                });
                Ok(())
            }
            kind => self.add_reduce_round(members, rounds, kind),
        }
    }

    /// Adds a round in which members push the ranges that `moved` returns from one member to another. Each member
    /// starts with the next member, so that no two push to one at the same time.
    fn add_push_round(
        &mut self,
        members: &[CollectiveMember<'_>],
        rounds: &mut [Vec<P2pRound>],
        moved: impl Fn(usize, usize) -> Option<(ViewRange, ViewRange)>,
    ) {
        let count = members.len();
        let mut new = vec![P2pRound { collective: true, ..P2pRound::default() }; count];
        for from in 0..count {
            new[from].local = moved(from, from).filter(|(from, to)| !is_same_place(from, to));
            for step in 1..count {
                let to = (from + step) % count;
                let Some((source, target)) = moved(from, to) else { continue };
                let (sender, receiver) = (members[from].rank, members[to].rank);
                let message = self.add_message(sender, receiver, source, MessageTarget::Part(target), true);
                new[from].copies.push(message);
                new[to].ready_signals.push(message);
            }
        }
        rounds.iter_mut().zip(new).for_each(|(rounds, round)| rounds.push(round));
    }

    /// Adds a round in which every receiving member pulls the inputs of all others (or shards of them), by the `kind`
    /// of reduction, and combines them.
    fn add_reduce_round(
        &mut self,
        members: &[CollectiveMember<'_>],
        rounds: &mut [Vec<P2pRound>],
        kind: CollectiveKind,
    ) -> Result<(), Unsupported> {
        let count = members.len();
        let team = team_transfers(kind, members);
        let mut new = vec![P2pRound { collective: true, ..P2pRound::default() }; count];
        for to in 0..count {
            let Some(output) = &members[to].collective.output else { continue };
            let Some(share) = team.incoming_transfers(to).next().map(|transfer| transfer.source) else {
                return Err(Unsupported::Membership(MembershipFault::NoSender));
            };
            let output = match members[to].collective.kind {
                CollectiveKind::ReduceScatter => ViewRange::whole_view(output),
                _ => ViewRange::share(output, share),
            };
            let size = output.byte_count().next_multiple_of(ALIGNMENT);
            let mut inputs: Vec<(usize, MessageTarget)> = Vec::new();
            for step in 0..count {
                let from = (to + step) % count;
                let Some(input) = &members[from].collective.input else { continue };
                if from == to {
                    inputs.push((from, MessageTarget::Part(ViewRange::share(input, share))));
                    continue;
                }
                let target = MessageTarget::Staging(new[to].copies.len() * size);
                let (sender, receiver) = (members[from].rank, members[to].rank);
                let source = ViewRange::share(input, share);
                let message = self.add_message(sender, receiver, source, target.clone(), false);
                new[to].copies.push(message);
                new[from].ready_signals.push(message);
                inputs.push((from, target));
            }
            inputs.sort_by_key(|(member, _)| *member);
            let inputs = inputs.into_iter().map(|(_, target)| target).collect();
            let own = members[to].collective.input.as_ref();
            // In two rounds each member writes the shard that only it reads.
            let waits_for_readers = match members[to].collective.kind {
                CollectiveKind::Allreduce if kind == CollectiveKind::ReduceScatter => false,
                _ => own.is_some_and(|own| own.buffer == output.view.buffer),
            };
            let op = members[to].collective.red_op;
            new[to].combine = Some(RoundReduction { op, inputs, output, waits_for_readers });
        }
        rounds.iter_mut().zip(new).for_each(|(rounds, round)| rounds.push(round));
        Ok(())
    }
}

/// The instruction of a member's side of a collective.
fn member_inst(member: &CollectiveMember<'_>) -> RankInst {
    RankInst { rank: member.rank, inst: member.inst }
}

/// The size of a semaphore in bytes.
pub const FLAG: usize = 4;

fn is_same_place(a: &ViewRange, b: &ViewRange) -> bool {
    a.view.buffer == b.view.buffer && a.view.offset + a.start == b.view.offset + b.start
}

fn view_bytes(view: &Option<BufferView>) -> usize {
    view.as_ref().map_or(0, |view| view.len() * view.dtype.byte_size())
}

/// The transfers of a collective of a kind between these members.
fn team_transfers(kind: CollectiveKind, members: &[CollectiveMember<'_>]) -> TeamTransfers {
    TeamTransfers::new(kind, members.iter().map(|member| MemberRole::of_side(&member.collective)))
}

/// The ranges of a transfer from one member to another.
fn moved(
    members: &[CollectiveMember<'_>],
    team: &TeamTransfers,
    from: usize,
    to: usize,
) -> Option<(ViewRange, ViewRange)> {
    let transfer = team.transfer_between(from, to)?;
    let input = members[from].collective.input.as_ref()?;
    let output = members[to].collective.output.as_ref()?;
    Some((ViewRange::share(input, transfer.source), ViewRange::share(output, transfer.target)))
}

/// Checks that outputs and inputs do not overlap: members write their output while others read their input. They may
/// share memory only if a member's own shard is already in its place.
fn check_no_overlap(members: &[CollectiveMember<'_>], kind: CollectiveKind) -> Result<(), Unsupported> {
    let team = team_transfers(kind, members);
    for (place, member) in members.iter().enumerate() {
        let (Some(input), Some(output)) = (&member.collective.input, &member.collective.output) else {
            continue;
        };
        let own = moved(members, &team, place, place);
        let stays = own.is_some_and(|(from, to)| is_same_place(&from, &to) && from.count == input.len());
        if input.buffer == output.buffer && !stays && !are_disjoint(input, output) {
            return Err(Unsupported::SharedMemory(kind));
        }
    }
    Ok(())
}

/// Generates the job of a combination; staging memory is the job's scratch memory.
///
/// # Errors
/// [`Unsupported`] if kernels cannot compute the operation on the element type.
pub fn generate_combine(combine: &RoundReduction) -> Result<job::KernelJob, Unsupported> {
    let output = range_view(&combine.output);
    let inputs: Vec<BufferView> = combine
        .inputs
        .iter()
        .enumerate()
        .map(|(number, input)| match input {
            MessageTarget::Part(part) => range_view(part),
            MessageTarget::Staging(_) => BufferView { buffer: staging_buffer(number), offset: 0, ..output.clone() },
        })
        .collect();
    let mut job = codegen::generate_member_fold(combine.op, &inputs, &output)?;
    for param in job.launches.iter_mut().flat_map(|launch| &mut launch.params) {
        let SymbolicAddress::View(view) = param else { continue };
        if let Some(offset) = staging_offset(combine, view.buffer) {
            *param = SymbolicAddress::Scratch(offset);
        }
    }
    let size = output.len() * output.dtype.byte_size();
    let ends = combine.inputs.iter().map(|input| match input {
        MessageTarget::Staging(offset) => offset + size,
        MessageTarget::Part(_) => 0,
    });
    job.scratch = ends.max().unwrap_or(0);
    Ok(job)
}

/// The buffer that stands for a piece of staging memory; buffers of the plan have smaller numbers.
fn staging_buffer(number: usize) -> BufferId {
    BufferId(u32::MAX - number as u32)
}

/// The offset of the piece of staging memory that a buffer stands for.
fn staging_offset(combine: &RoundReduction, buffer: BufferId) -> Option<usize> {
    combine.inputs.iter().enumerate().find_map(|(number, input)| match input {
        MessageTarget::Staging(offset) if staging_buffer(number) == buffer => Some(*offset),
        _ => None,
    })
}
