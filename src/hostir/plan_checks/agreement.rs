//! Checks that the sides of one communication agree on its type, its root, and the amounts sent.

use super::walk::{CollectiveEnd, MessageEnd};
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{DType, bare_head, quoted_type};
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, CollectiveInst, InstId, MatchedMessage, Plan, PlanMatching, RankInst};

/// The first error of all communications; a walk reports only those that it reaches.
///
/// # Errors
/// If the sides of one do not agree.
pub(super) fn check_all_sides(prepared: &PreparedProgram, matching: &PlanMatching<'_>) -> Result<(), Diag> {
    let plans = &prepared.plans;
    for message in &matching.messages {
        if are_equal_amounts(plans, message) {
            continue;
        }
        if let (Some(send), Some(receive)) = (message_end(plans, message.send), message_end(plans, message.receive)) {
            check_message(prepared, &send, &receive)?;
        }
    }
    for of_all in &matching.communicators {
        for number in 0..of_all.collectives.len() {
            let members = of_all.collective_members(number, plans);
            let ends: Vec<CollectiveEnd<'_>> = members.into_iter().map(CollectiveEnd::of_member).collect();
            check_collective(prepared, &ends)?;
        }
    }
    Ok(())
}

/// Returns true if the sides of a message have equally many elements of one type, equal in all rounds of a loop.
fn are_equal_amounts(plans: &[Plan], message: &MatchedMessage) -> bool {
    let [one, other] = [message.send, message.receive].map(|side| {
        let view = plans.get(side.rank as usize)?.stored_inst(side.inst).template_inst().kind.message_view()?;
        Some((view.len(), view.dtype))
    });
    one.is_some() && one == other
}

/// A send or receive as a side of its message.
fn message_end(plans: &[Plan], side: RankInst) -> Option<MessageEnd<'_>> {
    let rank = side.rank as usize;
    Some(MessageEnd { rank, inst: side.inst, view: plans.get(rank)?.message_view(side.inst)? })
}

/// One side of a communication, for messages.
#[derive(Clone, Copy, Debug)]
struct NamedSide {
    rank: usize,
    inst: InstId,
}

/// The error of two sides that do not agree, each with what it does.
fn disagreement(
    prepared: &PreparedProgram,
    [first, second]: [NamedSide; 2],
    message: Message,
    [found, other]: [Message; 2],
) -> Diag {
    let [span, second_span] = [first, second].map(|side| {
        let plan = &prepared.plans[side.rank];
        prepared.labels.op_span(plan.inst(side.inst).origin.op)
    });
    Diag::error(codes::DISAGREEMENT, span, message)
        .with_primary_text(side_text(prepared, first, &found))
        .with_label(second_span, side_text(prepared, second, &other))
}

/// `rank 1 at s=2: root 1`.
fn side_text(prepared: &PreparedProgram, side: NamedSide, found: &Message) -> Message {
    let plan = &prepared.plans[side.rank];
    let iteration = prepared.labels.iteration_text(plan.iteration_of(plan.inst(side.inst).origin));
    let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
    message!("rank {}{}: {}", plan.rank, at, found)
}

/// Checks that the members of a collective agree.
///
/// # Errors
/// If type, root, reduce operation, element type or amounts of two members do not fit.
pub(super) fn check_collective(prepared: &PreparedProgram, ends: &[CollectiveEnd<'_>]) -> Result<(), Diag> {
    check_kinds(prepared, ends)?;
    check_collective_sizes(prepared, ends)
}

/// Checks that the members of a collective start the same one.
///
/// # Errors
/// If type, root, reduce operation or element type of two members differ.
fn check_kinds(prepared: &PreparedProgram, ends: &[CollectiveEnd<'_>]) -> Result<(), Diag> {
    let Some((first, others)) = ends.split_first() else { return Ok(()) };
    for other in others {
        if !is_same_collective(&other.collective, &first.collective) {
            let message = message!(
                "members of one communication disagree: rank {} starts {}, rank {} {}",
                first.rank,
                describe_collective(&first.collective),
                other.rank,
                describe_collective(&other.collective)
            );
            let note = agreement_note(&first.collective, &other.collective);
            let sides = [first, other].map(collective_side);
            let found = [first, other].map(|end| describe_collective(&end.collective));
            return Err(disagreement(prepared, sides, message, found).with_note(note));
        }
        check_element_types(prepared, first, other)?;
    }
    Ok(())
}

/// The element type that a member sends or receives.
fn element_type(collective: &CollectiveInst) -> Option<DType> {
    collective.input.as_ref().or(collective.output.as_ref()).map(|view| view.dtype)
}

/// Checks that the members of a collective have one element type.
fn check_element_types(
    prepared: &PreparedProgram,
    first: &CollectiveEnd<'_>,
    other: &CollectiveEnd<'_>,
) -> Result<(), Diag> {
    match (element_type(&first.collective), element_type(&other.collective)) {
        (Some(one), Some(two)) if one != two => {
            let message = message!(
                "members of one {} do not agree: rank {} has elements of type `{}`, rank {} of `{}`",
                bare_head(first.collective.kind.name()),
                first.rank,
                quoted_type(one),
                other.rank,
                quoted_type(two)
            );
            let found = [one, two].map(|dtype| message!("`{}`", quoted_type(dtype)));
            Err(disagreement(prepared, [first, other].map(collective_side), message, found))
        }
        _ => Ok(()),
    }
}

/// Returns true if two members start the same collective.
fn is_same_collective(a: &CollectiveInst, b: &CollectiveInst) -> bool {
    (a.kind, a.root, a.red_op) == (b.kind, b.root, b.red_op)
}

/// The way to make two members start the same collective.
fn agreement_note(one: &CollectiveInst, other: &CollectiveInst) -> &'static str {
    match one.kind == other.kind {
        true if one.root != other.root => "all members of a team name one root: write the same one on each path",
        true => "all members of a team reduce by one operation, and start their collectives in one order",
        false => {
            "the first collective that each member starts is one, then the second: start them in one order on all ranks"
        }
    }
}

fn collective_side(end: &CollectiveEnd<'_>) -> NamedSide {
    NamedSide { rank: end.rank, inst: end.inst }
}

fn describe_collective(collective: &CollectiveInst) -> Message {
    let root = collective.root.map_or(String::new(), |root| format!(" with root number {root} of the team"));
    let op = if collective.kind.is_reducing() { format!(" {}", collective.red_op.word()) } else { String::new() };
    message!("{}{}{}", bare_head(collective.kind.name()), op, root)
}

/// Checks that a receive matches the data of its send.
///
/// # Errors
/// If numbers or types of their elements differ.
pub(super) fn check_message(
    prepared: &PreparedProgram,
    send: &MessageEnd<'_>,
    receive: &MessageEnd<'_>,
) -> Result<(), Diag> {
    let (source, target) = (&send.view, &receive.view);
    if source.len() == target.len() && source.dtype == target.dtype {
        return Ok(());
    }
    let message = message!(
        "rank {} sends {} elements of `{}`, but rank {} receives {} of `{}`",
        send.rank,
        source.len(),
        quoted_type(source.dtype),
        receive.rank,
        target.len(),
        quoted_type(target.dtype)
    );
    let first = NamedSide { rank: send.rank, inst: send.inst };
    let second = NamedSide { rank: receive.rank, inst: receive.inst };
    let found = [
        message!("sends {} elements of `{}`", source.len(), quoted_type(source.dtype)),
        message!("receives {} of `{}`", target.len(), quoted_type(target.dtype)),
    ];
    Err(disagreement(prepared, [first, second], message, found))
}

/// A member's amount, in bytes.
#[derive(Clone, Copy, Debug)]
struct SideBytes {
    side: NamedSide,
    bytes: usize,
}

fn side_bytes<'e>(
    ends: &'e [CollectiveEnd<'_>],
    view: fn(&CollectiveInst) -> Option<&BufferView>,
) -> impl Iterator<Item = SideBytes> + 'e {
    ends.iter().filter_map(move |end| {
        let view = view(&end.collective)?;
        Some(SideBytes { side: collective_side(end), bytes: view.len() * view.dtype.byte_size() })
    })
}

/// Checks that all senders of a collective send equal amounts, that all receivers receive equal amounts,
/// and that the two fit.
///
/// # Errors
/// If they do not.
fn check_collective_sizes(prepared: &PreparedProgram, ends: &[CollectiveEnd<'_>]) -> Result<(), Diag> {
    let Some(first) = ends.first() else { return Ok(()) };
    let kind = first.collective.kind;
    let sent: Vec<SideBytes> = side_bytes(ends, |side| side.input.as_ref()).collect();
    let received: Vec<SideBytes> = side_bytes(ends, |side| side.output.as_ref()).collect();
    for amounts in [&sent, &received] {
        let Some((one, others)) = amounts.split_first() else { continue };
        if let Some(other) = others.iter().find(|other| other.bytes != one.bytes) {
            let message = message!(
                "members of one {} disagree: rank {} has {} bytes, rank {} has {}",
                bare_head(kind.name()),
                one.side.rank,
                one.bytes,
                other.side.rank,
                other.bytes
            );
            let found = [one, other].map(|side| format!("{} bytes", side.bytes).into());
            return Err(disagreement(prepared, [one.side, other.side], message, found));
        }
    }
    let Some(receiver) = received.first() else { return Ok(()) };
    let amounts: Vec<usize> = sent.iter().map(|one| one.bytes).collect();
    if kind.totals_fit(&amounts, received.len(), receiver.bytes) {
        return Ok(());
    }
    let sender = sent.first().unwrap_or(receiver);
    let total: usize = amounts.iter().sum();
    let message = message!(
        "{} cannot distribute {} sent bytes to {} receivers of {} bytes",
        bare_head(kind.name()),
        total,
        received.len(),
        receiver.bytes
    );
    let found = [format!("sends {total} bytes in all").into(), format!("receives {} bytes", receiver.bytes).into()];
    Err(disagreement(prepared, [sender.side, receiver.side], message, found))
}
