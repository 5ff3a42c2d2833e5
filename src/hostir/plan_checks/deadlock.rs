//! The deadlock report: the ranks that wait for each other, with lines and iterations.

use super::queues::RankQueues;
use crate::diag::codes::DEADLOCK;
use crate::diag::message;
use crate::diag::{Diag, Message};
use crate::ir::{MessageDirection, MessageProtocol, bare_head, quoted_argument, quoted_team};
use crate::lower::PreparedProgram;
use crate::plan::MessageHeader;
use crate::plan::{InstId, InstOrigin, MatchedCommunicator};
use std::collections::BTreeSet;

/// The number of notes that are written out; the rest is counted.
const MOST_NOTES: usize = 16;

/// The number of waits that have labels.
const MOST_WAITS: usize = 4;

/// The number of labels: waits, and messages of groups.
const MOST_LABELS: usize = 8;

/// One thing a rank waits for.
struct BlockedWait {
    rank: usize,
    /// Instruction to name.
    inst: InstId,
    /// A description of the missing event, for the message.
    text: Message,
    /// Ranks it waits for.
    others: Vec<usize>,
    /// The sends and receives of a group that have no peer yet.
    messages: Vec<InstId>,
}

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
    for entry in blocked.iter().take(MOST_NOTES) {
        let place = prepared.labels.origin_text(ranks[entry.rank].plan, blocked_origin(entry, ranks));
        diag = diag.with_note(message!("rank {} waits in {} for {}", entry.rank, place, entry.text));
    }
    if blocked.len() > MOST_NOTES {
        diag = diag.with_note(message!("and {} more", blocked.len() - MOST_NOTES));
    }
    let cause = find_cause(&blocked, ranks);
    let is_known = cause.is_some();
    if let Some(DeadlockCause { note, other }) = cause {
        diag.notes.push(note);
        if let Some((rank, inst, text)) = other {
            let op = ranks[rank].inst(inst).origin.op;
            if !shown.contains(&op) {
                diag = diag.with_label(prepared.labels.op_span(op), text);
            }
        }
    }
    match cycle {
        Some(cycle) => {
            let mut diag = diag.with_note(cycle_text(prepared, &cycle, ranks));
            if !is_known && cycle.iter().all(|entry| waits_for_message(entry, ranks)) {
                diag = diag.with_note(group_advice());
            }
            match blocked.iter().find_map(|entry| stream_order_note(ranks, entry)) {
                Some(note) => diag.with_note(note).with_note(message!(
                    "or use `{}`; `--map-backend=NCCL=CUDA` runs it with copies, too",
                    quoted_argument("backend", "NCCL")
                )),
                None => diag,
            }
        }
        None => match finished_ranks(&blocked, ranks) {
            Some(text) => {
                let diag = diag.with_note(text);
                match blocked.iter().any(|entry| waits_for_members(entry, ranks)) {
                    true => diag.with_note(absent_members_advice(&blocked, ranks)),
                    false => diag,
                }
            }
            None => diag,
        },
    }
}

/// The cause of a deadlock.
struct DeadlockCause {
    note: Message,
    /// An instruction of a rank that the others do not wait in, and its label.
    other: Option<(usize, InstId, Message)>,
}

/// The cause of a deadlock, if it is not the order of the communications.
fn find_cause(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<DeadlockCause> {
    let team = team_note(blocked, ranks).or_else(|| team_order_note(blocked, ranks));
    let team = team.map(|note| DeadlockCause { note, other: None });
    team.or_else(|| mixed_backend_cause(blocked, ranks)).or_else(|| missing_message_cause(blocked, ranks))
}

/// The repair of a collective that some members never start.
fn absent_members_advice(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Message {
    let mut started: Vec<i64> =
        blocked.iter().filter(|entry| waits_for_members(entry, ranks)).map(|entry| entry.rank as i64).collect();
    started.sort_unstable();
    started.dedup();
    let all = "all members of a team start its collectives: start this one on every path";
    match started.len() {
        0 | 1 => all.into(),
        _ => message!(
            "{}, or name those that do start it, `{}`, with tensors on a mesh of these devices",
            all,
            team_argument(&started)
        ),
    }
}

/// `team=[0, 1]`, or `team=(0 1)`.
fn team_argument(devices: &[i64]) -> Message {
    message!("team={}", quoted_team(devices))
}

/// The messages with which a rank is in a deadlock: those of its groups, and the one that it waits in.
fn open_messages(blocked: &[BlockedWait]) -> impl Iterator<Item = (usize, InstId)> {
    let open = blocked.iter().flat_map(|entry| entry.messages.iter().map(move |inst| (entry.rank, *inst)));
    open.chain(blocked.iter().map(|entry| (entry.rank, entry.inst)))
}

/// The messages of a plan in the other direction than a message of another rank, with their headers.
fn other_sides(queues: &RankQueues<'_>, own: MessageHeader) -> impl Iterator<Item = (InstId, MessageHeader)> {
    let sends = !own.direction.is_send();
    let messages = queues.plan.cursor().filter_map(|(id, inst)| Some((id, *inst.kind.message()?)));
    messages.filter(move |(_, message)| message.direction.is_send() == sends)
}

/// Returns true if a rank waits for others to start a collective.
fn waits_for_members(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> bool {
    entry.messages.is_empty() && !waits_for_message(entry, ranks)
}

/// The origin of the instruction in which a rank waits.
fn blocked_origin(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> InstOrigin {
    ranks[entry.rank].inst(entry.inst).origin
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
            let text = message!("{} to start this {}", rank_names(&others), bare_head(collective.kind.name()));
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

/// Explains that two ranks name the members of one team in other orders, which makes two communicators.
fn team_order_note(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<Message> {
    let teams = || blocked.iter().filter_map(|entry| Some((entry.rank, waited_team(entry, ranks)?)));
    let sorted = |team: &[i64]| {
        let mut members = team.to_vec();
        members.sort_unstable();
        members
    };
    let (rank, team) = teams().next()?;
    let (other_rank, other) = teams().find(|(_, other)| *other != team && sorted(other) == sorted(&team))?;
    Some(message!(
        "rank {} names the team {}, and rank {} {}: these are two communicators; write the members in one order",
        rank,
        quoted_team(&team),
        other_rank,
        quoted_team(&other)
    ))
}

/// Explains that one side of a message is on a stream, and the other one on a communicator.
fn mixed_backend_cause(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<DeadlockCause> {
    open_messages(blocked).find_map(|(rank, inst)| {
        let own = *ranks[rank].inst(inst).kind.message()?;
        let (peer, me) = (*ranks.get(own.peer as usize)?, ranks[rank].plan.rank);
        let on_stream = own.comm.is_none();
        let answers: Vec<(InstId, MessageHeader)> =
            other_sides(peer, own).filter(|(_, answer)| answer.peer == me).collect();
        let has_answer = answers.iter().any(|(_, answer)| answer.comm.is_none() == on_stream);
        let &(other, _) = answers.first().filter(|_| !has_answer)?;
        let [does, answered] = if own.direction.is_send() { ["sends", "receives"] } else { ["receives", "sends"] };
        let [with, with_other] = if on_stream { ["CUDA", "NCCL"] } else { ["NCCL", "CUDA"] };
        let note = message!(
            "rank {} {} with `{}`, and rank {} {} with `{}`: give both sides one of them",
            me,
            does,
            quoted_argument("backend", with),
            own.peer,
            answered,
            quoted_argument("backend", with_other)
        );
        let text = message!("rank {} {} with `{}`", own.peer, answered, quoted_argument("backend", with_other));
        Some(DeadlockCause { note, other: Some((own.peer as usize, other, text)) })
    })
}

/// Explains that a rank sends more messages to another one in the whole program than that one receives from it, or
/// receives more than that one sends.
fn missing_message_cause(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<DeadlockCause> {
    open_messages(blocked).find_map(|(rank, inst)| {
        let own = *ranks[rank].inst(inst).kind.message().filter(|message| message.comm.is_some())?;
        let (peer, me) = (*ranks.get(own.peer as usize)?, ranks[rank].plan.rank);
        let posted = count_messages(ranks[rank], own.direction.is_send(), own.peer);
        let answered = count_messages(peer, !own.direction.is_send(), me);
        if posted <= answered {
            return None;
        }
        let [does, answers, missing] = match own.direction.is_send() {
            true => ["sends to", "receives from", "recv"],
            false => ["receives from", "sends to", "send"],
        };
        let others: Vec<(InstId, MessageHeader)> =
            other_sides(peer, own).filter(|(_, answer)| answer.comm.is_some()).collect();
        if answered == 0
            && let Some(&(other, answer)) = others.iter().find(|(_, answer)| is_unanswered(peer, *answer, ranks))
        {
            let note = message!(
                "rank {} {} rank {}, but rank {} {} rank {}: the two sides of a message have to name each other",
                me,
                does,
                own.peer,
                own.peer,
                answers,
                answer.peer
            );
            let text = message!("rank {} {} rank {} here", own.peer, answers, answer.peer);
            return Some(DeadlockCause { note, other: Some((own.peer as usize, other, text)) });
        }
        let note = message!(
            "rank {} {} rank {} {}, but rank {} {} rank {} {}: a {} there is missing, or this one is too many",
            me,
            does,
            own.peer,
            times_text(posted),
            own.peer,
            answers,
            rank,
            times_text(answered),
            message_word(missing)
        );
        let other = others.iter().find(|(_, answer)| answer.peer == me).map(|&(other, _)| {
            let text = message!("rank {} {} rank {} here, {}", own.peer, answers, me, times_text(answered));
            (own.peer as usize, other, text)
        });
        Some(DeadlockCause { note, other })
    })
}

/// Returns true if a rank posts more messages like one of its own than its peer answers.
fn is_unanswered(queues: &RankQueues<'_>, own: MessageHeader, ranks: &[&RankQueues<'_>]) -> bool {
    let posted = count_messages(queues, own.direction.is_send(), own.peer);
    let peer = ranks.get(own.peer as usize);
    peer.is_none_or(|peer| posted > count_messages(peer, !own.direction.is_send(), queues.plan.rank))
}

/// `recv`, or `P2PCommunication` of the other direction.
fn message_word(word: &'static str) -> Message {
    Message::advice(format!("P2PCommunication of type {word}"), format!("`{word}`"))
}

fn times_text(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

/// The number of a plan's sends to, or receives from, a rank on communicators.
fn count_messages(queues: &RankQueues<'_>, sends: bool, rank: u32) -> usize {
    let messages = queues.plan.iter().filter_map(|inst| inst.kind.message().copied());
    let counted = messages
        .filter(|message| message.comm.is_some() && message.direction.is_send() == sends && message.peer == rank);
    counted.count()
}

/// Explains that two ranks which run one statement compute different teams there, although each team has both.
fn team_note(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<Message> {
    let mut waits = blocked.iter().filter_map(|entry| Some((entry, waited_team(entry, ranks)?)));
    let (first, team) = waits.next()?;
    let (second, other) = waits.find(|(second, other)| {
        blocked_origin(first, ranks).op == blocked_origin(second, ranks).op
            && *other != team
            && [&team, other]
                .iter()
                .all(|team| team.contains(&(first.rank as i64)) && team.contains(&(second.rank as i64)))
    })?;
    Some(message!(
        "the team there is {} on rank {}, but {} on rank {}: all members of a team must compute the same one",
        quoted_team(&team),
        first.rank,
        quoted_team(&other),
        second.rank
    ))
}

/// The team of the collective in which a rank waits.
fn waited_team(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> Option<Vec<i64>> {
    let rank = ranks[entry.rank];
    let inst = rank.inst(entry.inst);
    let comm = inst.kind.collective()?.comm;
    Some(rank.plan.communicators[comm].team.iter().map(|&member| i64::from(member)).collect())
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
