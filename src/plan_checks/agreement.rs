//! Checks that the sides of one communication agree: on its type, its root, and how much is sent.

use super::queues::RankQueues;
use super::walk::{CollectiveEnd, MessageEnd, WalkRanks};
use crate::diag::{Diag, codes};
use crate::ir::DType;
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, CollectiveInst, CollectiveMember, InstId, MatchedMessage, Plan, PlanMatching};

/// Whether the sides of all communications agree; a walk reports the first that do not.
pub(super) fn do_all_agree(plans: &[Plan], matching: &PlanMatching<'_>) -> bool {
    matching.messages.iter().all(|message| do_sides_agree(plans, message))
        && matching.communicators.iter().all(|of_all| {
            (0..of_all.collectives.len()).all(|number| do_members_agree(&of_all.collective_members(number, plans)))
        })
}

/// Whether a receive takes what its send gives.
fn do_sides_agree(plans: &[Plan], message: &MatchedMessage) -> bool {
    let mut views = [message.send, message.receive]
        .into_iter()
        .filter_map(|side| plans.get(side.rank as usize)?.message_view(side.inst));
    match (views.next(), views.next()) {
        (Some(source), Some(target)) => source.len() == target.len() && source.dtype == target.dtype,
        _ => false,
    }
}

fn view_bytes(view: &BufferView) -> usize {
    view.len() * view.dtype.byte_size()
}

fn are_equal(amounts: &[usize]) -> bool {
    amounts.windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether the members of a collective agree.
fn do_members_agree(members: &[CollectiveMember<'_>]) -> bool {
    let Some(first) = members.first().map(|member| &*member.collective) else { return true };
    let alike = members.iter().map(|member| &*member.collective).all(|other| {
        let types = [first, other].map(element_type);
        is_same_collective(first, other) && (types[0].is_none() || types[1].is_none() || types[0] == types[1])
    });
    let sent = members.iter().filter_map(|member| member.collective.input.as_ref());
    let sent: Vec<usize> = sent.map(view_bytes).collect();
    let received = members.iter().filter_map(|member| member.collective.output.as_ref());
    let received: Vec<usize> = received.map(view_bytes).collect();
    alike
        && are_equal(&sent)
        && are_equal(&received)
        && received.first().is_none_or(|&amount| first.kind.totals_fit(&sent, received.len(), amount))
}

/// One side of a communication, for messages.
#[derive(Clone, Copy, Debug)]
struct NamedSide {
    rank: usize,
    inst: InstId,
}

/// The error of two sides that do not agree.
fn disagreement<E, C>(walk: &WalkRanks<'_, '_, E, C>, first: NamedSide, second: NamedSide, message: String) -> Diag {
    let of_first = &walk.ranks[first.rank].queues;
    let of_second = &walk.ranks[second.rank].queues;
    let span = walk.prepared.labels.op_span(of_first.inst(first.inst).origin.op);
    let other = walk.prepared.labels.op_span(of_second.inst(second.inst).origin.op);
    Diag::error(codes::DISAGREEMENT, span, message)
        .with_primary_text(side_text(walk.prepared, of_first, first.inst))
        .with_label(other, side_text(walk.prepared, of_second, second.inst))
}

fn side_text(prepared: &PreparedProgram, queues: &RankQueues<'_>, inst: InstId) -> String {
    let origin = queues.inst(inst).origin;
    format!("rank {}: {}", queues.plan.rank, prepared.labels.origin_text(queues.plan, origin))
}

/// Checks that the members of a collective start the same one.
///
/// # Errors
/// If type, root, reduce operation or element type of two members differ.
pub(super) fn check_collective<E, C>(walk: &WalkRanks<'_, '_, E, C>, ends: &[CollectiveEnd<'_>]) -> Result<(), Diag> {
    let Some((first, others)) = ends.split_first() else { return Ok(()) };
    for other in others {
        if !is_same_collective(&other.collective, &first.collective) {
            let message = format!(
                "members of one communication disagree: rank {} starts {}, rank {} {}",
                first.rank,
                describe_collective(&first.collective),
                other.rank,
                describe_collective(&other.collective)
            );
            return Err(disagreement(walk, collective_side(first), collective_side(other), message));
        }
        check_element_types(walk, first, other)?;
    }
    Ok(())
}

/// The element type that a member sends or receives.
fn element_type(collective: &CollectiveInst) -> Option<DType> {
    collective.input.as_ref().or(collective.output.as_ref()).map(|view| view.dtype)
}

/// Checks that the members of a collective have one element type.
fn check_element_types<E, C>(
    walk: &WalkRanks<'_, '_, E, C>,
    first: &CollectiveEnd<'_>,
    other: &CollectiveEnd<'_>,
) -> Result<(), Diag> {
    match (element_type(&first.collective), element_type(&other.collective)) {
        (Some(one), Some(two)) if one != two => {
            let message = format!(
                "members of one {} do not agree: rank {} has elements of type `{}`, rank {} of `{}`",
                first.collective.kind.name(),
                first.rank,
                one.name(),
                other.rank,
                two.name()
            );
            Err(disagreement(walk, collective_side(first), collective_side(other), message))
        }
        _ => Ok(()),
    }
}

/// Whether two members start the same collective.
fn is_same_collective(a: &CollectiveInst, b: &CollectiveInst) -> bool {
    (a.kind, a.root, a.red_op) == (b.kind, b.root, b.red_op)
}

fn collective_side(end: &CollectiveEnd<'_>) -> NamedSide {
    NamedSide { rank: end.rank, inst: end.inst }
}

fn describe_collective(collective: &CollectiveInst) -> String {
    let root = collective.root.map_or(String::new(), |root| format!(" with root number {root}"));
    let op = if collective.kind.is_reducing() { collective.red_op.word() } else { "" };
    format!("{} {op}{root}", collective.kind.name()).replace("  ", " ").trim().to_owned()
}

/// Checks that a receive takes what a send gives.
///
/// # Errors
/// If numbers or types of their elements differ.
pub(super) fn check_message<E, C>(
    walk: &WalkRanks<'_, '_, E, C>,
    send: &MessageEnd<'_>,
    receive: &MessageEnd<'_>,
) -> Result<(), Diag> {
    let (source, target) = (&send.view, &receive.view);
    if source.len() == target.len() && source.dtype == target.dtype {
        return Ok(());
    }
    let message = format!(
        "rank {} sends {} elements of `{}`, but rank {} receives {} of `{}`",
        send.rank,
        source.len(),
        source.dtype.name(),
        receive.rank,
        target.len(),
        target.dtype.name()
    );
    let first = NamedSide { rank: send.rank, inst: send.inst };
    let second = NamedSide { rank: receive.rank, inst: receive.inst };
    Err(disagreement(walk, first, second, message))
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
pub(super) fn check_collective_sizes<E, C>(
    walk: &WalkRanks<'_, '_, E, C>,
    ends: &[CollectiveEnd<'_>],
) -> Result<(), Diag> {
    let Some(first) = ends.first() else { return Ok(()) };
    let kind = first.collective.kind;
    let sent: Vec<SideBytes> = side_bytes(ends, |side| side.input.as_ref()).collect();
    let received: Vec<SideBytes> = side_bytes(ends, |side| side.output.as_ref()).collect();
    for amounts in [&sent, &received] {
        let Some((one, others)) = amounts.split_first() else { continue };
        if let Some(other) = others.iter().find(|other| other.bytes != one.bytes) {
            let message = format!(
                "members of one {} disagree: rank {} has {} bytes, rank {} has {}",
                kind.name(),
                one.side.rank,
                one.bytes,
                other.side.rank,
                other.bytes
            );
            return Err(disagreement(walk, one.side, other.side, message));
        }
    }
    let Some(receiver) = received.first() else { return Ok(()) };
    let amounts: Vec<usize> = sent.iter().map(|one| one.bytes).collect();
    if kind.totals_fit(&amounts, received.len(), receiver.bytes) {
        return Ok(());
    }
    let sender = sent.first().unwrap_or(receiver);
    let total: usize = amounts.iter().sum();
    let message = format!(
        "{} cannot distribute {total} sent bytes to {} receivers of {} bytes",
        kind.name(),
        received.len(),
        receiver.bytes
    );
    Err(disagreement(walk, sender.side, receiver.side, message))
}
