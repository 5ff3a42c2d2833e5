//! The deadlock report: the ranks that wait for each other, with lines and iterations.

use super::deadlock_cause::{BlockedWait, DeadlockCause, blocked_origin, find_cause};
use super::queues::RankQueues;
use crate::diag::codes::DEADLOCK;
use crate::diag::message;
use crate::diag::{Cause, Diag, Message};
use crate::ir::{MessageDirection, MessageProtocol, bare_head, quoted_argument, quoted_team};
use crate::lower::PreparedProgram;
use crate::plan::{InstId, MatchedCommunicator, MessageHeader};
use std::collections::BTreeSet;

/// The number of notes that are written out; the rest is counted.
const MOST_NOTES: usize = 16;

/// The same after a note with the cause.
const FEW_NOTES: usize = 4;

/// The number of waits that have labels.
const MOST_WAITS: usize = 4;

/// The number of labels: waits, and messages of groups.
const MOST_LABELS: usize = 8;

/// The report for a state in which no rank can continue.
pub(super) fn report_deadlock(
    prepared: &PreparedProgram,
    communicators: &[MatchedCommunicator<'_>],
    ranks: &[&RankQueues<'_>],
) -> Diag {
    let communicators = communicators.iter();
    let mut blocked: Vec<BlockedWait> = communicators.flat_map(|of_all| on_communicator(of_all, ranks)).collect();
    blocked.extend(blocked_streams(ranks));
    blocked.sort_by_key(|entry| (entry.rank, entry.inst));
    let Some(first) = blocked.first() else {
        return Diag::global_error(DEADLOCK, "deadlock: streams wait for each other and none can proceed");
    };
    let blocked_ranks: BTreeSet<usize> = blocked.iter().map(|entry| entry.rank).collect();
    let message = message!("deadlock: {} of {} ranks wait and none can proceed", blocked_ranks.len(), ranks.len());
    let mut diag = Diag::error(DEADLOCK, prepared.labels.op_span(blocked_origin(first, ranks).op), message)
        .with_primary_text(message!("rank {} waits here", ranks[first.rank].plan.rank));
    let cycle = waiting_cycle(&blocked);
    let mut shown = vec![blocked_origin(first, ranks).op];
    // The ops of the cycle come before those of other ranks.
    for entry in cycle.iter().flatten().copied().chain(&blocked) {
        let op = blocked_origin(entry, ranks).op;
        if !shown.contains(&op) && shown.len() < MOST_WAITS {
            shown.push(op);
            let text = format!("rank {} waits here", ranks[entry.rank].plan.rank);
            diag = diag.with_label(prepared.labels.op_span(op), text);
        }
    }
    for (entry, message) in blocked.iter().flat_map(|entry| entry.messages.iter().map(move |inst| (entry, *inst))) {
        let op = ranks[entry.rank].inst(message).origin.op;
        if !shown.contains(&op) && shown.len() < MOST_LABELS {
            shown.push(op);
            let text = format!("rank {} waits for the peer of this", ranks[entry.rank].plan.rank);
            diag = diag.with_label(prepared.labels.op_span(op), text);
        }
    }
    let reason = find_reason(prepared, &blocked, cycle.as_deref(), ranks);
    if let Some((rank, inst, text)) = reason.other {
        let op = ranks[rank].inst(inst).origin.op;
        if !shown.contains(&op) {
            diag = diag.with_label(prepared.labels.op_span(op), text);
        }
    }
    diag.cause = reason.data.map(Box::new);
    diag.notes = reason.notes;
    let most = if reason.is_cause { FEW_NOTES } else { MOST_NOTES };
    for entry in blocked.iter().take(most) {
        let place = prepared.labels.origin_text(ranks[entry.rank].plan, blocked_origin(entry, ranks));
        diag = diag.with_note(message!("rank {} waits in {} for {}", entry.rank, place, entry.text));
    }
    if blocked.len() > most {
        diag = diag.with_note(message!("and {} more", blocked.len() - most));
    }
    match cycle {
        Some(cycle) if !reason.is_cause => diag.with_note(cycle_text(prepared, &cycle, ranks)),
        _ => diag,
    }
}

/// The notes before those about the waits.
#[derive(Default)]
struct DeadlockReason {
    notes: Vec<Message>,
    /// True if that explains all of the deadlock, otherwise it is about the repair.
    is_cause: bool,
    /// An instruction of a rank that the others do not wait in, and its label.
    other: Option<(usize, InstId, Message)>,
    data: Option<Cause>,
}

fn find_reason(
    prepared: &PreparedProgram,
    blocked: &[BlockedWait],
    cycle: Option<&[&BlockedWait]>,
    ranks: &[&RankQueues<'_>],
) -> DeadlockReason {
    if let Some(DeadlockCause { note, other, data }) = find_cause(prepared, blocked, ranks) {
        return DeadlockReason { notes: vec![note], is_cause: true, other, data };
    }
    let notes = match cycle {
        Some(cycle) => match blocked.iter().find_map(|entry| stream_order_note(ranks, entry)) {
            Some(note) => vec![note],
            None if cycle.iter().all(|entry| waits_for_message(entry, ranks)) => vec![group_advice()],
            None => Vec::new(),
        },
        None => finished_notes(blocked, ranks),
    };
    let started = started_members(blocked, ranks);
    let is_absent = cycle.is_none() && !started.is_empty() && finished_ranks(blocked, ranks).is_some();
    let data = is_absent.then_some(Cause::Members(started));
    DeadlockReason { notes, data, ..DeadlockReason::default() }
}

/// The ranks that have finished while others wait for them, and the repair of a collective that they do not start.
fn finished_notes(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Vec<Message> {
    let Some(finished) = finished_ranks(blocked, ranks) else { return Vec::new() };
    let mut notes = vec![finished.into()];
    if blocked.iter().any(|entry| waits_for_members(entry, ranks)) {
        notes.push(absent_members_advice(blocked, ranks));
    }
    notes
}

/// The repair of a collective that some members never start.
fn absent_members_advice(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Message {
    let started = started_members(blocked, ranks);
    let all = "all members of a team start its collectives: start this one on every path";
    match started.len() {
        0 | 1 => all.into(),
        _ => message!("{}, or name those that do start it, `{}`", all, team_argument(&started)),
    }
}

/// The ranks that wait for others to start a collective.
fn started_members(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Vec<i64> {
    let waiting = blocked.iter().filter(|entry| waits_for_members(entry, ranks));
    let mut started: Vec<i64> = waiting.map(|entry| entry.rank as i64).collect();
    started.sort_unstable();
    started.dedup();
    started
}

/// `team=[0, 1]`, or `team=(0 1)`.
fn team_argument(devices: &[i64]) -> Message {
    message!("team={}", quoted_team(devices))
}

/// Returns true if a rank waits for others to start a collective.
fn waits_for_members(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> bool {
    entry.messages.is_empty() && !waits_for_message(entry, ranks)
}

/// Waits for the communications of a communicator.
fn on_communicator(of_all: &MatchedCommunicator<'_>, ranks: &[&RankQueues<'_>]) -> Vec<BlockedWait> {
    let mut blocked = Vec::new();
    for (&rank, slot) in of_all.communicator.team.iter().zip(&of_all.slots) {
        let (Some(slot), rank) = (*slot, rank as usize) else { continue };
        let Some(unit) = ranks[rank].started_unit(slot) else { continue };
        if let Some(inst) = ranks[rank].started_collective(slot) {
            let unfinished = ranks[rank].inst(inst);
            let Some(collective) = unfinished.kind.collective() else { continue };
            let others = absent_members(of_all, ranks);
            let text = message!(
                "{} to start this {}{}",
                rank_names(&others),
                bare_head(collective.kind.name()),
                team_text(&of_all.communicator.team, ranks.len())
            );
            blocked.push(BlockedWait { rank, inst, text, others, messages: Vec::new() });
            continue;
        }
        let mut parts = Vec::new();
        let mut others = Vec::new();
        let mut messages = Vec::new();
        for message in ranks[rank].open_messages(slot, MessageDirection::Send) {
            parts.push(message!("rank {} to receive from it", message.peer));
            others.push(message.peer);
            messages.push(message.inst);
        }
        for message in ranks[rank].open_messages(slot, MessageDirection::Recv) {
            parts.push(message!("rank {} to send to it", message.peer));
            others.push(message.peer);
            messages.push(message.inst);
        }
        blocked.push(BlockedWait { rank, inst: unit.label, text: Message::join(&parts, " and "), others, messages });
    }
    blocked
}

/// `` of the team `[0, 1]` ``, unless it has all ranks.
fn team_text(team: &[u32], ranks: usize) -> Message {
    if team.len() == ranks {
        return Message::default();
    }
    let members: Vec<i64> = team.iter().map(|&member| i64::from(member)).collect();
    message!(" of the team {}", quoted_team(&members))
}

/// Members of a communicator that have not started a collective.
fn absent_members(of_all: &MatchedCommunicator<'_>, ranks: &[&RankQueues<'_>]) -> Vec<usize> {
    let team = of_all.communicator.team.iter().map(|&rank| rank as usize).zip(&of_all.slots);
    team.filter(|(rank, slot)| slot.is_none_or(|slot| ranks[*rank].started_collective(slot).is_none()))
        .map(|(rank, _)| rank)
        .collect()
}

/// Waits for messages on streams.
fn blocked_streams(ranks: &[&RankQueues<'_>]) -> Vec<BlockedWait> {
    let mut blocked = Vec::new();
    for (index, rank) in ranks.iter().enumerate() {
        let initiated = rank.initiated_messages().into_iter().map(|(_, inst)| inst);
        for inst in initiated.chain(rank.awaited_messages()) {
            let Some(&MessageHeader { direction, peer, .. }) = rank.inst(inst).kind.message() else { continue };
            let what = if direction.is_send() { "receive from" } else { "send to" };
            let text = message!("rank {} to {} it", peer, what);
            let others = vec![peer as usize];
            blocked.push(BlockedWait { rank: index, inst, text, others, messages: Vec::new() });
        }
    }
    blocked
}

/// Explains the protocol that both sides of a transfer need, or the order that messages on streams need, if the
/// initiator of a transfer waits for an instruction that is queued after another wait.
fn stream_order_note(ranks: &[&RankQueues<'_>], entry: &BlockedWait) -> Option<Message> {
    let own = *ranks[entry.rank].inst(entry.inst).kind.message().filter(|message| message.comm.is_none())?;
    let (sends, protocol) = (own.direction.is_send(), own.protocol.word());
    let rank = u32::try_from(entry.rank).ok()?;
    let peers = entry.others.iter().filter_map(|&other| ranks.get(other));
    let answers: Vec<(u32, MessageProtocol)> = peers.flat_map(|peer| stream_answers(peer, !sends, rank)).collect();
    let &(peer, other) = answers.first()?;
    if answers.iter().all(|(_, other)| *other != own.protocol) {
        let [does, done] = if sends { ["sends", "receives"] } else { ["receives", "sends"] };
        return Some(message!(
            "rank {} {} with `{}`, and rank {} {} with `{}`: give both sides one protocol",
            rank,
            does,
            quoted_argument("protocol", protocol),
            peer,
            done,
            quoted_argument("protocol", other.word())
        ));
    }
    let (first, second) = match own.protocol {
        MessageProtocol::Put => ("receive", "send"),
        MessageProtocol::Get => ("send", "receive"),
    };
    // The side that is to start first has started.
    if sends == (own.protocol == MessageProtocol::Get) {
        return None;
    }
    Some(message!(
        "with `{}` and `{}`, start the {} before the {}, also in a group",
        quoted_argument("backend", "CUDA"),
        quoted_argument("protocol", protocol),
        first,
        second
    ))
}

/// A plan's sends to (or receives from) a rank on a stream: the plan's rank, and the protocol.
fn stream_answers(queues: &RankQueues<'_>, sends: bool, rank: u32) -> Vec<(u32, MessageProtocol)> {
    let messages = queues.plan.iter().filter_map(|inst| inst.kind.message().copied());
    let answers = messages
        .filter(|message| message.comm.is_none() && message.direction.is_send() == sends && message.peer == rank);
    answers.map(|message| (queues.plan.rank, message.protocol)).collect()
}

fn rank_names(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match list.len() {
        0 => "other ranks".into(),
        1 => format!("rank {}", list[0]),
        _ => format!("ranks {}", list.join(", ")),
    }
}

/// Finds a cycle of ranks that wait for each other, the first one from the lowest rank: for each rank the wait that the
/// next rank of the cycle has to end.
fn waiting_cycle(blocked: &[BlockedWait]) -> Option<Vec<&BlockedWait>> {
    let first: BTreeSet<usize> = blocked.iter().map(|entry| entry.rank).collect();
    for &start in &first {
        let mut path = vec![start];
        let mut seen = BTreeSet::from([start]);
        while let Some(&last) = path.last() {
            let candidates = awaited_ranks(blocked, last);
            if path.len() > 1 && candidates.contains(&start) {
                path.push(start);
                let pairs = path.iter().zip(&path[1..]);
                return pairs.map(|(&rank, &next)| wait_for_rank(blocked, rank, next)).collect();
            }
            match candidates.into_iter().find(|rank| seen.insert(*rank)) {
                Some(rank) => path.push(rank),
                None => {
                    path.pop();
                }
            }
        }
    }
    None
}

/// The wait of a rank that another one has to end.
fn wait_for_rank(blocked: &[BlockedWait], rank: usize, other: usize) -> Option<&BlockedWait> {
    blocked.iter().find(|entry| entry.rank == rank && entry.others.contains(&other))
}

/// The repair if all ranks of a cycle wait for messages.
fn group_advice() -> Message {
    Message::advice(
        "post the messages of a rank between StartCoalescing and EndCoalescing, or let one side send first",
        "post the messages of a rank in one group, `wait { send(..); recv(..) }`, or let one side send first",
    )
}

/// Returns true if a rank waits for one message on a communicator.
fn waits_for_message(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> bool {
    ranks[entry.rank].inst(entry.inst).kind.message().is_some_and(|message| message.comm.is_some())
}

/// A cycle with the op and iteration of each rank in it.
fn cycle_text(prepared: &PreparedProgram, cycle: &[&BlockedWait], ranks: &[&RankQueues<'_>]) -> Message {
    let mut steps: Vec<Message> = Vec::new();
    for entry in cycle {
        let plan = ranks[entry.rank].plan;
        let place = prepared.labels.origin_text(plan, blocked_origin(entry, ranks));
        steps.push(message!("rank {} in {}", plan.rank, place));
    }
    steps.extend(cycle.first().map(|entry| message!("rank {}", ranks[entry.rank].plan.rank)));
    message!("the ranks wait in a cycle: {}", Message::join(&steps, " -> "))
}

/// The ranks that a rank waits for, in order.
fn awaited_ranks(blocked: &[BlockedWait], rank: usize) -> Vec<usize> {
    let own = blocked.iter().filter(|entry| entry.rank == rank);
    let mut ranks: Vec<usize> = own.flat_map(|entry| entry.others.iter().copied()).collect();
    ranks.sort_unstable();
    ranks
}

/// Finished ranks for which others wait.
fn finished_ranks(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<String> {
    let others: BTreeSet<usize> = blocked.iter().flat_map(|entry| entry.others.iter().copied()).collect();
    let done: Vec<usize> =
        others.into_iter().filter(|&rank| ranks.get(rank).is_some_and(|rank| rank.is_done())).collect();
    (!done.is_empty()).then(|| {
        let verb = if done.len() == 1 { "has" } else { "have" };
        format!("{} {verb} already finished", rank_names(&done))
    })
}
