//! Communications by copies: which ranges of which rank's memory go where, and the flags that
//! order them.
//!
//! Every communication is cut into messages, each from one rank to another. One side of a message
//! offers its range, the other copies: with `get` the sender offers, with `put` the receiver. The
//! protocol is nvFuser's (its `cuda_p2p.cpp`), with two flags a message, each polled by its owner only:
//!
//! ```text
//! offers:  raise `offer` at the copier                      ... await own `done`, lower it
//! copies:  await own `offer`, copy, lower it, raise `done` at the one who offered
//! ```
//!
//! A flag is raised and lowered once in a run, so the flags are down again when it ends: runs follow each
//! other without a barrier, and a run that was captured as a graph can be replayed.
//!
//! Groups of messages and collectives that only move data are pushes, which take a few microseconds less than pulls. Reductions
//! pull into staging memory, which only its owner addresses, and combine in team order, which is what the
//! CPU backend does: all members round alike. A large Allreduce goes in two rounds: everybody reduces one
//! part, then pushes it to the others. In each round a member starts with the member behind it, so that no
//! two copy from or to one at the same time.

use crate::codegen;
use crate::codegen::job;
use crate::element_range::Part;
use crate::element_range::range;
use crate::memory_layout::ALIGNMENT;
use crate::transport::{Route, Routes};
use crate::unsupported::Unsupported;
use hostir::plan::{
    BufferId, Collective, CollectiveKind, CommSlot, InstKind, Plan, Prepared, RedOp, View,
};
use std::collections::{BTreeMap, BTreeSet};

/// An Allreduce of at least so many bytes goes in two rounds.
const TWO_ROUNDS: usize = 256 << 10;

/// Where a message or the result of a local step goes.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// Into a tensor.
    Part(Part),
    /// Into staging memory, so many bytes from its start.
    Staging(usize),
}

/// One range from one rank to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// The rank whose memory is read.
    pub from: u32,
    /// The rank whose memory is written.
    pub to: u32,
    /// What is read.
    pub source: Part,
    /// What is written; staging memory is written by its owner only.
    pub target: Target,
    /// Whether the sender copies.
    pub put: bool,
    /// Number of the `offer` flag among the flags of the side that copies.
    pub offer: usize,
    /// Number of the `done` flag among the flags of the side that offers.
    pub done: usize,
    /// Number of the word among the flags of the side that copies in which a kernel's blocks count themselves.
    pub counter: usize,
}

impl Message {
    /// The rank that copies.
    pub fn copier(&self) -> u32 {
        if self.put { self.from } else { self.to }
    }
    /// The rank that offers.
    pub fn offerer(&self) -> u32 {
        if self.put { self.to } else { self.from }
    }
    /// Bytes that go.
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }
}

/// The combination of what a round brought with the rank's own part.
#[derive(Clone, PartialEq, Debug)]
pub struct Combine {
    /// The reduction.
    pub op: RedOp,
    /// In team order, one of each member.
    pub inputs: Vec<Target>,
    /// Destination of the result.
    pub output: Part,
    /// Whether the result lies in what others read: it has to wait for them.
    pub settles: bool,
}

/// How the messages that a rank copies in a round follow each other where engines copy.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Pace {
    /// They do not: others may offer one of them only when another one is done.
    #[default]
    Free,
    /// One after the other, so that the first ones are there early.
    InTurn,
    /// In a row, behind all offers and in front of all answers: nobody goes on before all of them are there.
    InARow,
}

/// What a rank does in one round of a communication: it offers, copies, and combines.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Round {
    /// Messages that others copy.
    pub offers: Vec<usize>,
    /// Messages that this rank copies, in order.
    pub copies: Vec<usize>,
    /// What stays on the rank.
    pub local: Option<(Part, Part)>,
    /// What follows when all copies are done.
    pub combine: Option<Combine>,
    /// Whether it is a round of a collective: all members offer before any of them waits.
    pub collective: bool,
}

impl Round {
    /// How its copies follow each other.
    pub fn pace(&self) -> Pace {
        match self.collective {
            false => Pace::Free,
            true if self.copies.len() == self.offers.len() => Pace::InARow,
            true => Pace::InTurn,
        }
    }
}

/// All messages of a program.
#[derive(Clone, Default, Debug)]
pub struct Messages {
    /// The messages, by number.
    pub list: Vec<Message>,
    /// By rank and instruction.
    rounds: BTreeMap<(u32, usize), Vec<Round>>,
    /// How many flags each rank has.
    flags: BTreeMap<u32, usize>,
    /// Why an instruction of a rank cannot be carried out.
    refused: BTreeMap<(u32, usize), Unsupported>,
}

/// The messages of all ranks' plans.
pub fn messages(prepared: &Prepared, routes: Routes) -> Messages {
    let mut found = Messages::default();
    found.pairs(prepared, routes);
    found.collectives(prepared, routes);
    found
}

/// Whether a communicator's communications are copied.
fn copied(plan: &Plan, slot: CommSlot, routes: Routes) -> bool {
    routes.of(&plan.communicators[slot].backend) == Some(Route::Copies)
}

/// A send or receive: its rank and instruction, its view, and whether the sender copies.
type End<'p> = (u32, usize, &'p View, bool);

/// What a message belongs to: a communicator's order or (`None`) that of the streams, and its two ranks.
type Lane<'p> = (Option<(&'p [u32], &'p str)>, u32, u32);

impl Messages {
    /// What a rank does for an instruction.
    pub fn rounds(&self, rank: u32, inst: usize) -> Result<&[Round], Unsupported> {
        match self.refused.get(&(rank, inst)) {
            Some(why) => Err(why.clone()),
            None => Ok(self.rounds.get(&(rank, inst)).map_or(&[], Vec::as_slice)),
        }
    }

    /// Bytes of a rank's flags. The last word is no message's: a rank of another process that gives up sets it
    /// ([`Messages::poison`]).
    pub fn flag_bytes(&self, rank: u32) -> usize {
        self.flags.get(&rank).map_or(0, |count| (count + 1) * FLAG)
    }

    /// The number of that last word, if the rank has flags.
    pub fn poison(&self, rank: u32) -> Option<usize> {
        self.flags.get(&rank).copied()
    }

    /// The ranks that data of a rank may come to, over any number of messages: all that are connected with it.
    pub fn reachable(&self, rank: u32) -> Vec<u32> {
        let mut found = BTreeSet::from([rank]);
        let mut next = vec![rank];
        while let Some(rank) = next.pop() {
            next.extend(self.peers(rank).into_iter().filter(|peer| found.insert(*peer)));
        }
        found.into_iter().filter(|other| *other != rank).collect()
    }

    /// The ranks that read or write each other's memory.
    pub fn peers(&self, rank: u32) -> Vec<u32> {
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

    /// The buffers of a rank that messages and what is copied beside them read or write.
    pub fn buffers(&self, rank: u32) -> Vec<BufferId> {
        let ends = self.list.iter().flat_map(|message| {
            let target = match &message.target {
                Target::Part(part) if message.to == rank => Some(part.view.buffer),
                _ => None,
            };
            [(message.from == rank).then_some(message.source.view.buffer), target]
        });
        let rounds = self.rounds.range((rank, 0)..=(rank, usize::MAX)).flat_map(|(_, all)| all);
        let local = rounds.filter_map(|round| round.local.as_ref());
        let local = local.flat_map(|(from, to)| [from.view.buffer, to.view.buffer]);
        ends.flatten().chain(local).collect()
    }

    fn flag(&mut self, rank: u32) -> usize {
        let count = self.flags.entry(rank).or_default();
        *count += 1;
        *count - 1
    }

    fn message(&mut self, from: u32, to: u32, source: Part, target: Target, put: bool) -> usize {
        let (copier, offerer) = if put { (from, to) } else { (to, from) };
        let (offer, done, counter) = (self.flag(copier), self.flag(offerer), self.flag(copier));
        self.list.push(Message { from, to, source, target, put, offer, done, counter });
        self.list.len() - 1
    }

    fn refuse(&mut self, rank: u32, inst: usize, why: &Unsupported) {
        self.refused.insert((rank, inst), why.clone());
    }

    // ---- sends and receives ----

    /// Pairs sends with receives: in issue order for each pair of ranks, on streams and on each
    /// communicator.
    fn pairs(&mut self, prepared: &Prepared, routes: Routes) {
        let mut lanes: BTreeMap<Lane<'_>, (Vec<End<'_>>, Vec<End<'_>>)> = BTreeMap::new();
        for plan in &prepared.plans {
            // A communicator's group offers everything before it copies anything, so between two groups
            // senders may push. Messages on streams are outside of groups.
            let mut grouped = false;
            for (at, inst) in plan.iter().enumerate() {
                let (comm, peer, view, put, sends) = match &inst.kind {
                    InstKind::GroupBegin => {
                        grouped = true;
                        continue;
                    }
                    InstKind::GroupEnd { .. } => {
                        grouped = false;
                        continue;
                    }
                    InstKind::Send { comm, put, peer, view, .. } => {
                        (*comm, *peer, view, *put || (grouped && comm.is_some()), true)
                    }
                    InstKind::Recv { comm, put, peer, view, .. } => {
                        (*comm, *peer, view, *put || (grouped && comm.is_some()), false)
                    }
                    _ => continue,
                };
                if comm.is_some_and(|slot| !copied(plan, slot, routes)) {
                    continue;
                }
                let order = comm.map(|slot| {
                    let communicator = &plan.communicators[slot];
                    (communicator.team.as_slice(), communicator.backend.as_str())
                });
                let ranks = if sends { (plan.rank, peer) } else { (peer, plan.rank) };
                let lane = lanes.entry((order, ranks.0, ranks.1)).or_default();
                let ends = if sends { &mut lane.0 } else { &mut lane.1 };
                ends.push((plan.rank, at, view, put));
            }
        }
        for (sends, receives) in lanes.into_values() {
            for (send, receive) in sends.into_iter().zip(receives) {
                self.pair(send, receive);
            }
        }
    }

    fn pair(&mut self, send: End<'_>, receive: End<'_>) {
        let put = send.3 && receive.3;
        let target = Target::Part(Part::whole(receive.2));
        let message = self.message(send.0, receive.0, Part::whole(send.2), target, put);
        let (copier, offerer) = if put { (send, receive) } else { (receive, send) };
        let round = Round { copies: vec![message], ..Round::default() };
        self.rounds.insert((copier.0, copier.1), vec![round]);
        let round = Round { offers: vec![message], ..Round::default() };
        self.rounds.insert((offerer.0, offerer.1), vec![round]);
    }

    // ---- collectives ----

    fn collectives(&mut self, prepared: &Prepared, routes: Routes) {
        let mut all: BTreeMap<(&[u32], &str, usize), Vec<Member<'_>>> = BTreeMap::new();
        for plan in &prepared.plans {
            let mut numbers: BTreeMap<CommSlot, usize> = BTreeMap::new();
            for (at, inst) in plan.iter().enumerate() {
                let InstKind::Collective(collective) = &inst.kind else { continue };
                if !copied(plan, collective.comm, routes) {
                    continue;
                }
                let communicator = &plan.communicators[collective.comm];
                let number = numbers.entry(collective.comm).or_default();
                let key = (communicator.team.as_slice(), communicator.backend.as_str(), *number);
                *number += 1;
                let place = communicator.team.iter().position(|&rank| rank == plan.rank);
                let Some(place) = place else { continue };
                all.entry(key).or_default().push(Member { rank: plan.rank, at, place, collective });
            }
        }
        for mut members in all.into_values() {
            members.sort_by_key(|member| member.place);
            let mut rounds = vec![Vec::new(); members.len()];
            match self.collective(&members, &mut rounds) {
                Ok(()) => {
                    for (member, rounds) in members.iter().zip(rounds) {
                        self.rounds.insert((member.rank, member.at), rounds);
                    }
                }
                Err(why) => {
                    members.iter().for_each(|member| self.refuse(member.rank, member.at, &why));
                }
            }
        }
    }

    fn collective(
        &mut self,
        members: &[Member<'_>],
        rounds: &mut [Vec<Round>],
    ) -> Result<(), Unsupported> {
        let Some(first) = members.first() else { return Ok(()) };
        let kind = first.collective.kind;
        if !kind.reduces() {
            apart(members, kind)?;
            self.round(members, rounds, |from, to| moved(members, kind, from, to));
            return Ok(());
        }
        let large = bytes(&first.collective.input) >= TWO_ROUNDS;
        let even =
            first.collective.input.as_ref().is_some_and(|view| view.len() % members.len() == 0);
        match kind {
            CollectiveKind::Allreduce if large && even && members.len() > 1 => {
                self.reduce(members, rounds, Share::Parts)?;
                let count = members.len();
                self.round(members, rounds, |from, to| {
                    let part = |member: usize| {
                        let output = members[member].collective.output.as_ref()?;
                        Some(Part::of(output, from, count))
                    };
                    if from == to { None } else { part(from).zip(part(to)) }
                });
                Ok(())
            }
            CollectiveKind::ReduceScatter => self.reduce(members, rounds, Share::Parts),
            _ => self.reduce(members, rounds, Share::Whole),
        }
    }

    /// One more round in which members push what `moved` says: what goes from one to another. Each member
    /// starts with the member behind it, so that no two push to one at the same time.
    fn round(
        &mut self,
        members: &[Member<'_>],
        rounds: &mut [Vec<Round>],
        moved: impl Fn(usize, usize) -> Option<(Part, Part)>,
    ) {
        let count = members.len();
        let mut new = vec![Round { collective: true, ..Round::default() }; count];
        for from in 0..count {
            new[from].local = moved(from, from).filter(|(from, to)| !same_place(from, to));
            for step in 1..count {
                let to = (from + step) % count;
                let Some((source, target)) = moved(from, to) else { continue };
                let (sender, receiver) = (members[from].rank, members[to].rank);
                let message = self.message(sender, receiver, source, Target::Part(target), true);
                new[from].copies.push(message);
                new[to].offers.push(message);
            }
        }
        rounds.iter_mut().zip(new).for_each(|(rounds, round)| rounds.push(round));
    }

    /// One round in which every member that receives pulls all others' (parts of) inputs and combines.
    fn reduce(
        &mut self,
        members: &[Member<'_>],
        rounds: &mut [Vec<Round>],
        share: Share,
    ) -> Result<(), Unsupported> {
        let count = members.len();
        let mut new = vec![Round { collective: true, ..Round::default() }; count];
        for to in 0..count {
            let Some(output) = &members[to].collective.output else { continue };
            let of = |view: &View| match share {
                Share::Parts => Part::of(view, to, count),
                Share::Whole => Part::whole(view),
            };
            let output = match members[to].collective.kind {
                CollectiveKind::ReduceScatter => Part::whole(output),
                _ => of(output),
            };
            let size = output.bytes().next_multiple_of(ALIGNMENT);
            let mut inputs: Vec<(usize, Target)> = Vec::new();
            for step in 0..count {
                let from = (to + step) % count;
                let Some(input) = &members[from].collective.input else { continue };
                if from == to {
                    inputs.push((from, Target::Part(of(input))));
                    continue;
                }
                let target = Target::Staging(new[to].copies.len() * size);
                let (sender, receiver) = (members[from].rank, members[to].rank);
                let message = self.message(sender, receiver, of(input), target.clone(), false);
                new[to].copies.push(message);
                new[from].offers.push(message);
                inputs.push((from, target));
            }
            if inputs.is_empty() {
                return Err(Unsupported::Membership("a reduction that nobody sends to"));
            }
            inputs.sort_by_key(|(member, _)| *member);
            let inputs = inputs.into_iter().map(|(_, target)| target).collect();
            let own = members[to].collective.input.as_ref();
            // In two rounds each member writes the part that only it reads.
            let settles = match members[to].collective.kind {
                CollectiveKind::Allreduce if matches!(share, Share::Parts) => false,
                _ => own.is_some_and(|own| own.buffer == output.view.buffer),
            };
            let op = members[to].collective.red_op;
            new[to].combine = Some(Combine { op, inputs, output, settles });
        }
        rounds.iter_mut().zip(new).for_each(|(rounds, round)| rounds.push(round));
        Ok(())
    }
}

/// Bytes of a flag.
pub const FLAG: usize = 4;

/// A member of a collective.
struct Member<'p> {
    rank: u32,
    at: usize,
    place: usize,
    collective: &'p Collective,
}

/// What of an input each receiver of a reduction needs.
#[derive(Clone, Copy)]
enum Share {
    Parts,
    Whole,
}

fn same_place(a: &Part, b: &Part) -> bool {
    a.view.buffer == b.view.buffer && a.view.offset + a.start == b.view.offset + b.start
}

fn bytes(view: &Option<View>) -> usize {
    view.as_ref().map_or(0, |view| view.len() * view.dtype.size())
}

/// What goes from one member to another, in a collective that does not reduce.
fn moved(
    members: &[Member<'_>],
    kind: CollectiveKind,
    from: usize,
    to: usize,
) -> Option<(Part, Part)> {
    let input = members[from].collective.input.as_ref()?;
    let output = members[to].collective.output.as_ref()?;
    let count = members.len();
    let among = |side: fn(&Collective) -> bool, member: usize| {
        let before = members[..member].iter().filter(|member| side(member.collective)).count();
        let all = members.iter().filter(|member| side(member.collective)).count();
        (before, all)
    };
    Some(match kind {
        CollectiveKind::Gather | CollectiveKind::Allgather => {
            let (place, senders) = among(|collective| collective.input.is_some(), from);
            (Part::whole(input), Part::of(output, place, senders))
        }
        CollectiveKind::Scatter => {
            let (place, receivers) = among(|collective| collective.output.is_some(), to);
            (Part::of(input, place, receivers), Part::whole(output))
        }
        CollectiveKind::AllToAll => (Part::of(input, to, count), Part::of(output, from, count)),
        CollectiveKind::Broadcast
        | CollectiveKind::SendRecv
        | CollectiveKind::Reduce
        | CollectiveKind::Allreduce
        | CollectiveKind::ReduceScatter => (Part::whole(input), Part::whole(output)),
    })
}

/// Members write their output while others read their input, so the two may share memory only where a
/// member's own part already is in its place.
fn apart(members: &[Member<'_>], kind: CollectiveKind) -> Result<(), Unsupported> {
    for (place, member) in members.iter().enumerate() {
        let (Some(input), Some(output)) = (&member.collective.input, &member.collective.output)
        else {
            continue;
        };
        let own = moved(members, kind, place, place);
        let stays =
            own.is_some_and(|(from, to)| same_place(&from, &to) && from.count == input.len());
        if input.buffer == output.buffer && !stays && !codegen::disjoint(input, output) {
            return Err(Unsupported::SharedMemory(kind));
        }
    }
    Ok(())
}

/// The job of a combination. Staging memory appears as scratch memory of the job.
pub fn combine(combine: &Combine) -> Result<job::Job, Unsupported> {
    let output = range(&combine.output);
    // Buffers of the plan have small numbers: these stand for pieces of staging memory.
    let staged = |number: usize| BufferId(u32::MAX - number as u32);
    let inputs: Vec<View> = combine
        .inputs
        .iter()
        .enumerate()
        .map(|(number, input)| match input {
            Target::Part(part) => range(part),
            Target::Staging(_) => View { buffer: staged(number), offset: 0, ..output.clone() },
        })
        .collect();
    let mut job = codegen::members(combine.op, &inputs, &output)?;
    let offset = |view: &View| {
        combine.inputs.iter().enumerate().find_map(|(number, input)| match input {
            Target::Staging(offset) if staged(number) == view.buffer => Some(*offset),
            _ => None,
        })
    };
    for param in job.launches.iter_mut().flat_map(|launch| &mut launch.params) {
        let job::Param::View(view) = param else { continue };
        if let Some(offset) = offset(view) {
            *param = job::Param::Scratch(offset);
        }
    }
    let size = output.len() * output.dtype.size();
    let ends = combine.inputs.iter().map(|input| match input {
        Target::Staging(offset) => offset + size,
        Target::Part(_) => 0,
    });
    job.scratch = ends.max().unwrap_or(0);
    Ok(job)
}
