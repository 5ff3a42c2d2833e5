//! The cause of a deadlock: teams, backends or peers that do not fit, and messages that one side lacks.

use super::queues::RankQueues;
use crate::diag::message;
use crate::diag::{Cause, CountMismatch, Message, PeerMismatch};
use crate::ir::{quoted_argument, quoted_team};
use crate::lower::PreparedProgram;
use crate::plan::{CommSlot, InstId, InstOrigin, MessageHeader};

/// One thing a rank waits for.
pub(super) struct BlockedWait {
    pub(super) rank: usize,
    /// Instruction to name.
    pub(super) inst: InstId,
    /// A description of the missing event, for the message.
    pub(super) text: Message,
    /// Ranks it waits for.
    pub(super) others: Vec<usize>,
    /// The sends and receives of a group that have no peer yet.
    pub(super) messages: Vec<InstId>,
}

/// The origin of the instruction in which a rank waits.
pub(super) fn blocked_origin(entry: &BlockedWait, ranks: &[&RankQueues<'_>]) -> InstOrigin {
    ranks[entry.rank].inst(entry.inst).origin
}

/// The cause of a deadlock.
#[derive(Default)]
pub(super) struct DeadlockCause {
    pub(super) note: Message,
    /// An instruction of a rank that the others do not wait in, and its label.
    pub(super) other: Option<(usize, InstId, Message)>,
    /// The cause as data, if advice can be given about it.
    pub(super) data: Option<Cause>,
}

/// The cause of a deadlock, if it is not the order of the communications.
pub(super) fn find_cause(
    prepared: &PreparedProgram,
    blocked: &[BlockedWait],
    ranks: &[&RankQueues<'_>],
) -> Option<DeadlockCause> {
    // Members in another order are a team of the same ranks.
    let order = team_order_note(blocked, ranks).map(|note| DeadlockCause { note, ..DeadlockCause::default() });
    let team = order.or_else(|| {
        let note = team_note(prepared, blocked, ranks)?;
        Some(DeadlockCause { note, data: Some(Cause::Teams), other: None })
    });
    team.or_else(|| mixed_backend_cause(blocked, ranks))
        .or_else(|| other_communicator_cause(blocked, ranks))
        .or_else(|| missing_message_cause(prepared, blocked, ranks))
        .or_else(|| other_peers_cause(prepared, blocked, ranks))
}

/// Explains that two ranks wait in one statement, and the message of the first one is not among those of the second.
fn other_peers_cause(
    prepared: &PreparedProgram,
    blocked: &[BlockedWait],
    ranks: &[&RankQueues<'_>],
) -> Option<DeadlockCause> {
    let place = |entry: &BlockedWait| {
        let (plan, origin) = (ranks[entry.rank].plan, blocked_origin(entry, ranks));
        (origin.op, prepared.labels.iteration_text(plan.iteration_of(origin)))
    };
    let header = |rank: usize, inst: InstId| ranks[rank].inst(inst).kind.message().copied();
    blocked.iter().flat_map(|entry| entry.messages.iter().map(move |inst| (entry, *inst))).find_map(|(entry, inst)| {
        let own = header(entry.rank, inst)?;
        let other = blocked.iter().find(|other| other.rank == own.peer as usize && place(other) == place(entry))?;
        let me = ranks[entry.rank].plan.rank;
        let mut answers = other.messages.iter().filter_map(|&inst| Some((inst, header(other.rank, inst)?)));
        let facing = |answer: &MessageHeader| answer.direction.is_send() != own.direction.is_send();
        let (answer_inst, answer) = answers.clone().find(|(_, answer)| facing(answer))?;
        if answers.any(|(_, answer)| facing(&answer) && answer.peer == me) {
            return None;
        }
        let posted = RankMessage { rank: entry.rank, inst };
        let answered = RankMessage { rank: other.rank, inst: answer_inst };
        Some(mismatch_cause(prepared, [posted, answered], own, answer, ranks))
    })
}

/// A message of a rank.
#[derive(Clone, Copy)]
struct RankMessage {
    rank: usize,
    inst: InstId,
}

/// The cause that the message of a rank and that of its peer are no sides of one.
fn mismatch_cause(
    prepared: &PreparedProgram,
    [posted, answered]: [RankMessage; 2],
    own: MessageHeader,
    answer: MessageHeader,
    ranks: &[&RankQueues<'_>],
) -> DeadlockCause {
    let [me, peer] = [posted, answered].map(|side| ranks[side.rank].plan.rank);
    let [does, answers] =
        if own.direction.is_send() { ["sends to", "receives from"] } else { ["receives from", "sends to"] };
    let note = message!(
        "rank {} {} rank {}, but rank {} {} rank {} there, not rank {}",
        me,
        does,
        peer,
        peer,
        answers,
        answer.peer,
        me
    );
    let text = message!("rank {} {} rank {} here", peer, answers, answer.peer);
    let spans = [posted, answered].map(|side| prepared.labels.op_span(ranks[side.rank].inst(side.inst).origin.op));
    let [posted, answered_span] = spans;
    let mismatch = PeerMismatch { posted, answered: answered_span, ranks: [me, peer], found: answer.peer };
    DeadlockCause { note, other: Some((answered.rank, answered.inst, text)), data: Some(Cause::Peers(mismatch)) }
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
        Some(DeadlockCause { note, other: Some((own.peer as usize, other, text)), data: None })
    })
}

/// Explains that the two sides of a message are on communicators of different names (`comm=`).
fn other_communicator_cause(blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<DeadlockCause> {
    let name = |rank: usize, slot: CommSlot| ranks[rank].plan.communicators[slot].name.clone();
    open_messages(blocked).find_map(|(rank, inst)| {
        let own = *ranks[rank].inst(inst).kind.message()?;
        let (peer, me) = (*ranks.get(own.peer as usize)?, ranks[rank].plan.rank);
        let own_name = name(rank, own.comm?);
        let mut answers = other_sides(peer, own).filter(|(_, answer)| answer.peer == me);
        let (other, answer) = answers.next()?;
        let other_name = name(own.peer as usize, answer.comm?);
        // A further answer may be the one that is meant.
        if other_name == own_name || answers.next().is_some() {
            return None;
        }
        let [does, answered] = if own.direction.is_send() { ["sends", "receives"] } else { ["receives", "sends"] };
        let [with, with_other] = [own_name, other_name].map(|name| match name {
            Some(name) => message!("on the communicator `{}`", quoted_argument("comm", &name)),
            None => "without `comm=`".into(),
        });
        let note = message!(
            "rank {} {} {}, and rank {} {} {}: both sides of a message name one communicator",
            me,
            does,
            with,
            own.peer,
            answered,
            with_other.clone()
        );
        let text = message!("rank {} {} {}", own.peer, answered, with_other);
        Some(DeadlockCause { note, other: Some((own.peer as usize, other, text)), data: None })
    })
}

/// Explains that a rank sends more messages to another one in the whole program than that one receives from it, or
/// receives more than that one sends.
fn missing_message_cause(
    prepared: &PreparedProgram,
    blocked: &[BlockedWait],
    ranks: &[&RankQueues<'_>],
) -> Option<DeadlockCause> {
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
            let posted = RankMessage { rank, inst };
            let answered = RankMessage { rank: own.peer as usize, inst: other };
            return Some(mismatch_cause(prepared, [posted, answered], own, answer, ranks));
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
        let found = others.iter().find(|(_, answer)| answer.peer == me);
        let span = |queues: &RankQueues<'_>, inst| prepared.labels.op_span(queues.inst(inst).origin.op);
        let mismatch = CountMismatch {
            posted: span(ranks[rank], inst),
            answered: found.map(|&(other, _)| span(peer, other)),
            ranks: [me, own.peer],
            sends: own.direction.is_send(),
        };
        let other = found.map(|&(other, _)| {
            let text = message!("rank {} {} rank {} here, {}", own.peer, answers, me, times_text(answered));
            (own.peer as usize, other, text)
        });
        Some(DeadlockCause { note, other, data: Some(Cause::Counts(mismatch)) })
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

/// Explains that two ranks which run one statement compute different teams there, although the first one's has both.
fn team_note(prepared: &PreparedProgram, blocked: &[BlockedWait], ranks: &[&RankQueues<'_>]) -> Option<Message> {
    let waits: Vec<(&BlockedWait, Vec<i64>)> =
        blocked.iter().filter_map(|entry| Some((entry, waited_team(entry, ranks)?))).collect();
    let pairs = waits.iter().flat_map(|first| waits.iter().map(move |second| (first, second)));
    let mut differing = pairs.filter(|((first, team), (second, other))| {
        let [place, same] = [first, second].map(|entry| {
            let (plan, origin) = (ranks[entry.rank].plan, blocked_origin(entry, ranks));
            (origin.op, prepared.labels.iteration_text(plan.iteration_of(origin)))
        });
        place == same && team != other && team.contains(&(second.rank as i64))
    });
    let ((first, team), (second, other)) = differing.next()?;
    Some(message!(
        "the team there is {} on rank {}, but {} on rank {}: all members of a team must compute the same one",
        quoted_team(team),
        first.rank,
        quoted_team(other),
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
