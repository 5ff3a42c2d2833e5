//! The waits of communications for their sides on other ranks.

use super::rank_steps::{SideSteps, StepsInProgress};
use super::steps::{QueueStep, StepRole, TransferModel};
use crate::plan::{
    BufferView, CollectiveMember, InstKind, MatchedCommunicator, MemberRole, Plan, PlanMatching, RankInst,
    TeamTransfers,
};
use rustc_hash::FxHashSet;

/// Two sides of a communication that do not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SideMismatch {
    /// One side.
    pub(super) first: RankInst,
    /// Another side.
    pub(super) second: RankInst,
}

/// Joins the sides of all communications of a run.
///
/// # Errors
/// If two sides do not agree.
pub(super) fn join_sides(plans: &[Plan], run: u32, all: &mut StepsInProgress) -> Result<(), SideMismatch> {
    let matching = PlanMatching::new(plans);
    let mut joined: FxHashSet<RankInst> = FxHashSet::default();
    for message in &matching.messages {
        join_message(plans, run, message.send, message.receive, all)?;
        joined.extend([message.send, message.receive]);
    }
    for of_all in &matching.communicators {
        for number in 0..of_all.collectives.len() {
            join_collective(plans, run, of_all, number, all)?;
        }
    }
    for plan in plans {
        for (inst, _) in plan.cursor().filter(|(_, inst)| is_message(&inst.kind)) {
            let at = RankInst { rank: plan.rank, inst };
            if let Some(side) = all.sides.get(&(run, at.rank, inst)).filter(|_| !joined.contains(&at)) {
                all.graph.block_step(side.done);
            }
        }
    }
    Ok(())
}

fn is_message(kind: &InstKind) -> bool {
    kind.message().is_some()
}

fn inst_kind(plans: &[Plan], at: RankInst) -> Option<InstKind> {
    plans.get(at.rank as usize).map(|plan| plan.inst(at.inst).into_owned().kind)
}

fn join_message(
    plans: &[Plan],
    run: u32,
    send: RankInst,
    receive: RankInst,
    all: &mut StepsInProgress,
) -> Result<(), SideMismatch> {
    let sides = |at: RankInst| all.sides.get(&(run, at.rank, at.inst)).copied();
    let (Some(from), Some(to)) = (sides(send), sides(receive)) else { return Ok(()) };
    let (Some(sender), Some(receiver)) = (inst_kind(plans, send), inst_kind(plans, receive)) else { return Ok(()) };
    let (source, target) = (sender.read_views(), receiver.written_view());
    let amounts = source.first().zip(target).map(|(a, b)| (a.len(), a.dtype) == (b.len(), b.dtype));
    if amounts != Some(true) {
        return Err(SideMismatch { first: send, second: receive });
    }
    let (Some(read), Some(write)) = (from.read, to.write) else { return Ok(()) };
    all.graph.add_wait(read, write, TransferModel::Causal);
    let on_stream = sender.communicator().is_none();
    if !on_stream {
        all.graph.add_wait(from.start, to.done, TransferModel::Windows);
        all.graph.add_wait(from.start, write, TransferModel::Rendezvous);
        all.graph.add_wait(to.start, read, TransferModel::Rendezvous);
        return Ok(());
    }
    match (sender.initiates_transfer(), receiver.initiates_transfer()) {
        // The initiator accesses its own memory when both sides have started; the target's may be accessed from the
        // target's start on, and its work ends with the initiator's.
        (true, false) => {
            all.graph.add_wait(write, from.done, TransferModel::Windows);
            all.graph.add_wait(from.done, to.done, TransferModel::Windows);
            all.graph.add_wait(to.start, read, TransferModel::Windows);
        }
        (false, true) => {
            all.graph.add_wait(read, to.done, TransferModel::Windows);
            all.graph.add_wait(to.done, from.done, TransferModel::Windows);
            all.graph.add_wait(from.start, write, TransferModel::Windows);
            all.graph.add_wait(to.start, read, TransferModel::Causal);
        }
        _ => [from.done, to.done].into_iter().for_each(|step| all.graph.block_step(step)),
    }
    Ok(())
}

/// A member's side of a collective.
struct JoinedMember {
    position: usize,
    side: SideSteps,
}

fn join_collective(
    plans: &[Plan],
    run: u32,
    of_all: &MatchedCommunicator<'_>,
    number: usize,
    all: &mut StepsInProgress,
) -> Result<(), SideMismatch> {
    let members = of_all.collective_members(number, plans);
    let Some(first) = members.first() else { return Ok(()) };
    let mut joined = Vec::new();
    for member in &members {
        let (a, b) = (&first.collective, &member.collective);
        if (a.kind, a.root, a.red_op) != (b.kind, b.root, b.red_op) {
            return Err(SideMismatch { first: member_place(first), second: member_place(member) });
        }
        if let Some(&side) = all.sides.get(&(run, member.rank, member.inst)) {
            joined.push(JoinedMember { position: member.position, side });
        }
    }
    check_amounts(&members)?;
    if members.len() < of_all.communicator.team.len() {
        joined.iter().for_each(|member| all.graph.block_step(member.side.done));
    }
    let mut roles = vec![MemberRole::default(); of_all.communicator.team.len()];
    for member in &members {
        roles[member.position] = MemberRole::of_side(&member.collective);
    }
    let transfers = TeamTransfers::new(first.collective.kind, roles);
    for to in &joined {
        for from in &joined {
            let Some(read) =
                from.side.read.filter(|_| transfers.transfer_between(from.position, to.position).is_some())
            else {
                continue;
            };
            // The sender has contributed once it has started, and may read its memory until its own end.
            all.graph.add_wait(from.side.start, to.side.done, TransferModel::Windows);
            if let Some(write) = to.side.write {
                all.graph.add_wait(read, write, TransferModel::Causal);
            }
        }
    }
    add_rendezvous(run, member_place(first), &joined, all);
    Ok(())
}

/// Checks that all senders send equal amounts, that all receivers receive equal amounts, and that the two fit.
fn check_amounts(members: &[CollectiveMember<'_>]) -> Result<(), SideMismatch> {
    let Some(first) = members.first() else { return Ok(()) };
    let sent: Vec<usize> =
        members.iter().filter_map(|member| member.collective.input.as_ref().map(view_bytes)).collect();
    let received = members.iter().filter_map(|member| member.collective.output.as_ref().map(view_bytes));
    let received: Vec<usize> = received.collect();
    let fit = received.first().is_none_or(|&one| first.collective.kind.totals_fit(&sent, received.len(), one));
    if all_equal(&sent) && all_equal(&received) && fit {
        return Ok(());
    }
    Err(SideMismatch { first: member_place(first), second: member_place(members.last().unwrap_or(first)) })
}

fn member_place(member: &CollectiveMember<'_>) -> RankInst {
    RankInst { rank: member.rank, inst: member.inst }
}

fn view_bytes(view: &BufferView) -> usize {
    view.len() * view.dtype.byte_size()
}

fn all_equal(amounts: &[usize]) -> bool {
    amounts.windows(2).all(|pair| pair[0] == pair[1])
}

/// Makes the members of a collective meet before any of them moves data, in the schedules of that model.
fn add_rendezvous(run: u32, at: RankInst, members: &[JoinedMember], all: &mut StepsInProgress) {
    let step = QueueStep { rank: at.rank, run, inst: Some(at.inst), role: StepRole::Start };
    let starts: Vec<_> = members.iter().map(|member| member.side.start).collect();
    let meeting = all.graph.add_step(step, &starts);
    for SideSteps { read, write, done, .. } in members.iter().map(|member| member.side) {
        for step in read.into_iter().chain(write).chain([done]) {
            all.graph.add_wait(meeting, step, TransferModel::Rendezvous);
        }
    }
}
