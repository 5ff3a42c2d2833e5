//! Matches the communications that ranks have started, and carries them out.

use super::lanes::{Lanes, class};
use super::rank::Rank;
use super::reduce::combine;
use super::{Fault, Stats};
use crate::diag::Diag;
use crate::diag::codes;
use crate::plan::{Collective, CollectiveKind, CommSlot, InstKind, Prepared, View};
use std::collections::BTreeMap;

/// Ranks in team order, with each one's slot for the communicator.
type Slots = Vec<(usize, Option<CommSlot>)>;

/// One communicator as all its members see it.
pub(super) struct Member {
    /// The ranks in team order, with each one's slot for it.
    pub(super) slots: Slots,
}

/// All communicators of a run.
pub(super) struct Exchange {
    /// In the order of team and backend.
    pub(super) comms: Vec<Member>,
}

impl Exchange {
    /// Joins the ranks' communicators by team and backend.
    pub(super) fn new(prepared: &Prepared) -> Self {
        let mut table: BTreeMap<(&[u32], &str), Slots> = BTreeMap::new();
        for (rank, plan) in prepared.plans.iter().enumerate() {
            for (slot, communicator) in plan.communicators.iter() {
                let key = (communicator.team.as_slice(), communicator.backend.as_str());
                let slots = table.entry(key).or_insert_with(|| {
                    communicator.team.iter().map(|&member| (member as usize, None)).collect()
                });
                if let Some(entry) = slots.iter_mut().find(|(member, _)| *member == rank) {
                    entry.1 = Some(slot);
                }
            }
        }
        Self { comms: table.into_values().map(|slots| Member { slots }).collect() }
    }

    /// Carries out everything whose members are all there; whether that was anything.
    pub(super) fn step(
        &mut self,
        prepared: &Prepared,
        ranks: &mut [Rank<'_>],
        stats: &mut Stats,
    ) -> Result<bool, Diag> {
        let mut progress = false;
        for member in &self.comms {
            while run_collective(prepared, member, ranks, stats)?
                || run_pairs(prepared, member, ranks, stats)?
            {
                progress = true;
            }
        }
        Ok(run_stream_pairs(prepared, ranks, stats)? || progress)
    }
}

/// The collective that a rank has started on a communicator.
pub(super) fn started<'p>(rank: &Rank<'p>, slot: CommSlot) -> Option<(u32, &'p Collective)> {
    let &index = rank.unit(slot)?.insts.first()?;
    match &rank.inst(index).kind {
        InstKind::Collective(collective) => Some((index, collective)),
        _ => None,
    }
}

fn run_collective(
    prepared: &Prepared,
    member: &Member,
    ranks: &mut [Rank<'_>],
    stats: &mut Stats,
) -> Result<bool, Diag> {
    let mut parts = Vec::new();
    for &(rank, slot) in &member.slots {
        let Some(slot) = slot else { return Ok(false) };
        let Some((index, collective)) = ranks.get(rank).and_then(|rank| started(rank, slot)) else {
            return Ok(false);
        };
        parts.push((rank, slot, index, collective));
    }
    let Some(&(first, _, index, collective)) = parts.first() else { return Ok(false) };
    for &(rank, _, other_index, other) in &parts[1..] {
        let same = (other.kind, other.root, other.red_op)
            == (collective.kind, collective.root, collective.red_op);
        if !same {
            let (a, b) = (describe(collective), describe(other));
            let message = format!(
                "members of one communication do not agree: rank {first} starts {a}, rank {rank} {b}"
            );
            return Err(disagree(prepared, ranks, (first, index), (rank, other_index), message));
        }
    }
    let sides: Vec<(usize, u32, &Collective)> =
        parts.iter().map(|&(rank, _, index, collective)| (rank, index, collective)).collect();
    if !ranks[first].dry {
        move_data(prepared, ranks, (first, index), &sides, stats)?;
    }
    let start = parts.iter().map(|&(rank, slot, ..)| ranks[rank].takes_part(slot)).max();
    let ends = parts
        .iter()
        .map(|&(rank, _, index, _)| ranks[rank].communicated(start.unwrap_or(0), index));
    let end = ends.max().unwrap_or(0);
    for &(rank, slot, index, _) in &parts {
        ranks[rank].complete(slot, index, end);
    }
    Ok(true)
}

/// Reads what the members send, combines it and writes what they receive. `first` is a member and its
/// instruction, for messages.
fn move_data(
    prepared: &Prepared,
    ranks: &mut [Rank<'_>],
    (first, index): (usize, u32),
    sides: &[(usize, u32, &Collective)],
    stats: &mut Stats,
) -> Result<(), Diag> {
    let sent = gather_inputs(prepared, ranks, sides)?;
    check_sizes(prepared, ranks, sides, &sent)?;
    let (plan, origin) = (ranks[first].plan, ranks[first].inst(index).origin);
    let received = transfer(sides, sent).map_err(|fault| fault.at(prepared, plan, origin))?;
    for (&(rank, _, side), bytes) in sides.iter().zip(received) {
        stats.communications += 1;
        if let (Some(view), Some(bytes)) = (&side.output, bytes) {
            stats.bytes += bytes.len() as u64;
            write(prepared, &mut ranks[rank], view, &bytes, index)?;
        }
    }
    Ok(())
}

fn describe(collective: &Collective) -> String {
    let root = collective.root.map_or(String::new(), |root| format!(" with root number {root}"));
    let op = if collective.kind.reduces() { collective.red_op.word() } else { "" };
    format!("{} {op}{root}", collective.kind.name()).replace("  ", " ").trim().to_owned()
}

fn disagree(
    prepared: &Prepared,
    ranks: &[Rank<'_>],
    a: (usize, u32),
    b: (usize, u32),
    message: String,
) -> Diag {
    let label = |(rank, index): (usize, u32)| {
        let rank = &ranks[rank];
        let origin = rank.inst(index).origin;
        let text =
            format!("rank {}: {}", rank.plan.rank, prepared.labels.origin(rank.plan, origin));
        (prepared.labels.span(origin.op), text)
    };
    let ((span, text), (other, other_text)) = (label(a), label(b));
    Diag::error(codes::DISAGREEMENT, span, message).here(text).label(other, other_text)
}

/// Each member's input as bytes.
fn gather_inputs(
    prepared: &Prepared,
    ranks: &[Rank<'_>],
    sides: &[(usize, u32, &Collective)],
) -> Result<Vec<Option<Vec<u8>>>, Diag> {
    let mut sent = Vec::new();
    for &(rank, index, side) in sides {
        sent.push(match &side.input {
            None => None,
            Some(view) => Some(read(prepared, &ranks[rank], view, index)?),
        });
    }
    Ok(sent)
}

fn read(prepared: &Prepared, rank: &Rank<'_>, view: &View, index: u32) -> Result<Vec<u8>, Diag> {
    let origin = rank.inst(index).origin;
    let bytes = rank.memory.read_bytes(rank.plan, view);
    bytes.map_err(|fault| fault.at(prepared, rank.plan, origin))
}

fn write(
    prepared: &Prepared,
    rank: &mut Rank<'_>,
    view: &View,
    bytes: &[u8],
    index: u32,
) -> Result<(), Diag> {
    let plan = rank.plan;
    let written = rank.memory.write_bytes(plan, view, bytes);
    written.map_err(|fault| fault.at(prepared, plan, plan.insts[index as usize].origin))
}

fn size(view: &Option<View>) -> Option<usize> {
    view.as_ref().map(|view| view.len() * view.dtype.size())
}

/// Senders send equal amounts, receivers receive equal amounts, and the two fit.
fn check_sizes(
    prepared: &Prepared,
    ranks: &[Rank<'_>],
    sides: &[(usize, u32, &Collective)],
    sent: &[Option<Vec<u8>>],
) -> Result<(), Diag> {
    let Some(&(_, _, first)) = sides.first() else { return Ok(()) };
    type Side = fn(&Collective) -> &Option<View>;
    for side in [(|c| &c.input) as Side, |c| &c.output] {
        let mut known: Option<(usize, u32, usize)> = None;
        for &(rank, index, collective) in sides {
            let Some(bytes) = size(side(collective)) else { continue };
            match known {
                Some((other, other_index, expected)) if expected != bytes => {
                    let message = format!(
                        "members of one {} do not agree: rank {other} has {expected} bytes, rank {rank} has {bytes}",
                        first.kind.name()
                    );
                    return Err(disagree(
                        prepared,
                        ranks,
                        (other, other_index),
                        (rank, index),
                        message,
                    ));
                }
                Some(_) => {}
                None => known = Some((rank, index, bytes)),
            }
        }
    }
    let total_in: usize = sent.iter().flatten().map(Vec::len).sum();
    let outputs: Vec<(usize, u32, usize)> = sides
        .iter()
        .filter_map(|&(rank, index, side)| Some((rank, index, size(&side.output)?)))
        .collect();
    let Some(&(receiver, receiver_index, bytes)) = outputs.first() else { return Ok(()) };
    let fits = match first.kind {
        CollectiveKind::Gather => total_in == bytes,
        CollectiveKind::Scatter => total_in == bytes * outputs.len(),
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => total_in == bytes,
        CollectiveKind::Reduce => sent.iter().flatten().all(|one| one.len() == bytes),
        CollectiveKind::Allgather
        | CollectiveKind::Allreduce
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll => true,
    };
    if fits {
        return Ok(());
    }
    let sender = sides.iter().find(|(_, _, side)| side.input.is_some());
    let (sender, sender_index) = sender.map_or((receiver, receiver_index), |&(r, i, _)| (r, i));
    let message = format!(
        "{} cannot take the {total_in} bytes that are sent to {} receivers of {bytes} bytes",
        first.kind.name(),
        outputs.len()
    );
    Err(disagree(prepared, ranks, (sender, sender_index), (receiver, receiver_index), message))
}

/// What each member receives.
fn transfer(
    sides: &[(usize, u32, &Collective)],
    sent: Vec<Option<Vec<u8>>>,
) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    let Some(&(.., collective)) = sides.first() else { return Ok(Vec::new()) };
    let members = sides.len();
    let receives: Vec<bool> = sides.iter().map(|(.., side)| side.output.is_some()).collect();
    let all = |bytes: &Vec<u8>| receives.iter().map(|&r| r.then(|| bytes.clone())).collect();
    match collective.kind {
        CollectiveKind::Gather | CollectiveKind::Allgather => {
            let joined: Vec<u8> = sent.into_iter().flatten().flatten().collect();
            Ok(all(&joined))
        }
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => {
            Ok(all(&sent.into_iter().flatten().next().unwrap_or_default()))
        }
        CollectiveKind::Scatter => {
            let whole = sent.into_iter().flatten().next().unwrap_or_default();
            let receivers = receives.iter().filter(|&&r| r).count().max(1);
            let mut parts = whole.chunks((whole.len() / receivers).max(1));
            let part = |&r: &bool| r.then(|| parts.next().unwrap_or_default().to_vec());
            Ok(receives.iter().map(part).collect())
        }
        CollectiveKind::Reduce | CollectiveKind::Allreduce => {
            Ok(all(&reduced(collective, sides, sent)?))
        }
        CollectiveKind::ReduceScatter => {
            let whole = reduced(collective, sides, sent)?;
            let mut parts = whole.chunks((whole.len() / members).max(1));
            Ok(receives.iter().map(|_| Some(parts.next().unwrap_or_default().to_vec())).collect())
        }
        CollectiveKind::AllToAll => {
            let part = |from: &Option<Vec<u8>>, to: usize| {
                let bytes = from.as_deref().unwrap_or_default();
                let length = bytes.len() / members;
                bytes[to * length..(to + 1) * length].to_vec()
            };
            let to = |to: usize| Some(sent.iter().flat_map(|from| part(from, to)).collect());
            Ok((0..members).map(to).collect())
        }
    }
}

/// The members' inputs combined in team order, rounded to their type once.
fn reduced(
    collective: &Collective,
    sides: &[(usize, u32, &Collective)],
    sent: Vec<Option<Vec<u8>>>,
) -> Result<Vec<u8>, Fault> {
    let dtype = sides.iter().find_map(|(.., side)| side.input.as_ref().map(|view| view.dtype));
    let Some(dtype) = dtype else { return Ok(Vec::new()) };
    class(dtype)?;
    let members: Result<Vec<Lanes>, Fault> =
        sent.into_iter().flatten().map(|bytes| Lanes::from_bytes(dtype, &bytes)).collect();
    let truths = dtype == crate::ir::DType::Bool;
    match combine(collective.red_op, truths, members?)? {
        Some(lanes) => lanes.into_bytes(dtype),
        None => Ok(Vec::new()),
    }
}

/// The sends (or receives) of a rank's started unit that are not done: instruction, peer, view.
pub(super) fn open_items<'p>(
    rank: &Rank<'p>,
    slot: CommSlot,
    sends: bool,
) -> Vec<(u32, usize, &'p View)> {
    let Some(unit) = rank.unit(slot) else { return Vec::new() };
    let open = unit.insts.iter().zip(&unit.done).filter(|(_, done)| !**done);
    open.filter_map(|(&index, _)| match &rank.inst(index).kind {
        InstKind::Send { peer, view, .. } if sends => Some((index, *peer as usize, view)),
        InstKind::Recv { peer, view, .. } if !sends => Some((index, *peer as usize, view)),
        _ => None,
    })
    .collect()
}

/// Sends and receives of one communicator, matched in order for each pair of ranks.
fn run_pairs(
    prepared: &Prepared,
    member: &Member,
    ranks: &mut [Rank<'_>],
    stats: &mut Stats,
) -> Result<bool, Diag> {
    let mut progress = false;
    for &(from, slot) in &member.slots {
        let Some(slot) = slot else { continue };
        for (index, to, view) in open_items(&ranks[from], slot, true) {
            let peer = member.slots.iter().find(|(rank, _)| *rank == to);
            let Some(&(_, Some(peer_slot))) = peer else { continue };
            let items = open_items(&ranks[to], peer_slot, false);
            let found = items.into_iter().find(|(_, source, _)| *source == from);
            let Some((other, _, target)) = found else { continue };
            deliver(prepared, ranks, (from, index, view), (to, other, target), stats)?;
            let start = ranks[from].takes_part(slot).max(ranks[to].takes_part(peer_slot));
            let end = ranks[from].communicated(start, index);
            ranks[from].complete(slot, index, end);
            ranks[to].complete(peer_slot, other, end);
            progress = true;
        }
    }
    Ok(progress)
}

/// Moves one message.
fn deliver(
    prepared: &Prepared,
    ranks: &mut [Rank<'_>],
    (from, send, source): (usize, u32, &View),
    (to, recv, target): (usize, u32, &View),
    stats: &mut Stats,
) -> Result<(), Diag> {
    if source.len() != target.len() || source.dtype != target.dtype {
        let message = format!(
            "rank {from} sends {} elements of `{}` where rank {to} receives {} of `{}`",
            source.len(),
            source.dtype.name(),
            target.len(),
            target.dtype.name()
        );
        return Err(disagree(prepared, ranks, (from, send), (to, recv), message));
    }
    if ranks[from].dry {
        return Ok(());
    }
    let bytes = read(prepared, &ranks[from], source, send)?;
    stats.communications += 2;
    stats.bytes += bytes.len() as u64;
    write(prepared, &mut ranks[to], target, &bytes, recv)
}

/// Sends and receives that run on streams: the side that copies takes what the other one offers.
fn run_stream_pairs(
    prepared: &Prepared,
    ranks: &mut [Rank<'_>],
    stats: &mut Stats,
) -> Result<bool, Diag> {
    let mut progress = false;
    for copier in 0..ranks.len() {
        for (stream, inst) in ranks[copier].copying() {
            let (puts, peer, near) = match &ranks[copier].inst(inst).kind {
                InstKind::Send { peer, view, .. } => (true, *peer as usize, view),
                InstKind::Recv { peer, view, .. } => (false, *peer as usize, view),
                _ => continue,
            };
            let turn = ranks[copier].turn(inst);
            let found = offered(&ranks[peer], copier, puts, turn);
            let Some((place, offer, far)) = found else { continue };
            let (here, there) = ((copier, inst, near), (peer, offer, far));
            let (from, to) = if puts { (here, there) } else { (there, here) };
            let sides = ranks[copier].side_there(Some(stream), inst);
            let start = sides.max(ranks[peer].side_there(None, offer));
            deliver(prepared, ranks, from, to, stats)?;
            let end = ranks[copier].communicated(start, inst);
            ranks[peer].complete_offer(place, end);
            ranks[copier].complete_copying(stream, inst, end);
            progress = true;
        }
    }
    Ok(progress)
}

/// The receive (or send) that a rank offers another one and whose turn it is: its place, instruction and view.
/// Messages pair in issue order, which need not be the order in which streams reach them.
fn offered<'p>(
    rank: &Rank<'p>,
    to: usize,
    receive: bool,
    turn: u32,
) -> Option<(usize, u32, &'p View)> {
    rank.offers.iter().enumerate().find_map(|(place, offer)| {
        let view = match &rank.inst(offer.inst).kind {
            InstKind::Recv { view, .. } if receive => view,
            InstKind::Send { view, .. } if !receive => view,
            _ => return None,
        };
        (offer.peer as usize == to && offer.turn == turn).then_some((place, offer.inst, view))
    })
}
