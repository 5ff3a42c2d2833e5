//! Tests of PlanMatching against a plain loop over all pairs of instructions, and against tables written by hand.

use super::*;
use crate::ir::MessageDirection::{Recv, Send};
use crate::ir::MessageProtocol::{Get, Put};
use crate::ir::{CommBackend, DType, MessageDirection, MessageProtocol, OpId};
use crate::plan::{
    BufferId, BufferView, CollectiveInst, CollectiveKind, Inst, InstOrigin, IterationId, RedOp, USER_STREAM, WorkSlot,
    row_major,
};

fn view() -> BufferView {
    BufferView { buffer: BufferId(0), offset: 0, dims: row_major(&[4]), dtype: DType::Float }
}

fn message(direction: MessageDirection, comm: Option<u32>, peer: u32, protocol: MessageProtocol) -> InstKind {
    let header = MessageHeader { direction, comm: comm.map(CommSlot), protocol, peer, work: WorkSlot(0) };
    InstKind::Message { header, view: Box::new(view()) }
}

fn collective(comm: u32) -> InstKind {
    InstKind::Collective(Box::new(CollectiveInst {
        comm: CommSlot(comm),
        kind: CollectiveKind::Allreduce,
        root: None,
        red_op: RedOp::Sum,
        input: Some(view()),
        output: Some(view()),
        work: WorkSlot(0),
    }))
}

/// A rank's plan with these communicators.
fn plan(rank: u32, communicators: &[(&[u32], CommBackend)], insts: Vec<InstKind>) -> Plan {
    let mut plan = Plan { rank, streams: 1, ..Plan::default() };
    for (team, backend) in communicators {
        let (team, backend) = (team.to_vec(), *backend);
        plan.communicators.push(PlanCommunicator { team, backend, name: None });
    }
    let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
    for kind in insts {
        plan.push_inst(Inst { kind, stream: USER_STREAM, origin });
    }
    plan
}

fn at(rank: u32, inst: u32) -> RankInst {
    RankInst { rank, inst: InstId(inst) }
}

#[test]
fn messages_match_in_issue_order_for_each_pair_and_communicator() {
    let world: &[(&[u32], CommBackend)] = &[(&[0, 1], CommBackend::Nccl)];
    let plans = [
        plan(
            0,
            world,
            vec![
                message(Send, None, 1, Get),
                message(Send, Some(0), 1, Get),
                message(Send, None, 1, Put),
                message(Recv, None, 1, Put),
                message(Send, None, 1, Put),
            ],
        ),
        plan(
            1,
            world,
            vec![
                message(Send, None, 0, Put),
                message(Recv, None, 0, Get),
                message(Recv, None, 0, Put),
                message(Recv, Some(0), 0, Get),
            ],
        ),
    ];
    let matching = PlanMatching::new(&plans);
    let found: Vec<(RankInst, RankInst, bool)> =
        matching.messages.iter().map(|one| (one.send, one.receive, one.put)).collect();
    // Those of streams first, by sender; rank 0's last send has no receive.
    let expected = [
        (at(0, 0), at(1, 1), false),
        (at(0, 2), at(1, 2), true),
        (at(1, 0), at(0, 3), true),
        (at(0, 1), at(1, 3), false),
    ];
    assert_eq!(found, expected);
    assert_eq!(matching.message_partner(1, InstId(2)), Some(at(0, 2)));
    assert_eq!(matching.message_partner(0, InstId(3)), Some(at(1, 0)));
    assert_eq!(matching.message_partner(0, InstId(4)), None);
    assert_eq!(matching.message_partner(7, InstId(0)), None);
}

/// The next number of a linear congruential generator (Knuth's MMIX), below a bound.
fn random_below(state: &mut u64, bound: u32) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as u32 % bound
}

/// Random plans of three ranks: the n-th send of one to another meets the n-th receive, found by counting.
#[test]
fn any_messages_match_as_a_loop_counts_them() {
    let mut state = 7;
    let mut below = |bound: u32| random_below(&mut state, bound);
    for _ in 0..200 {
        let world: &[(&[u32], CommBackend)] = &[(&[0, 1, 2], CommBackend::Nccl)];
        let plans: Vec<Plan> = (0..3u32)
            .map(|rank| {
                let count = below(12);
                let insts = (0..count).map(|_| {
                    let peer = (rank + 1 + below(2)) % 3;
                    let comm = (below(2) == 0).then_some(0);
                    if below(2) == 0 { message(Send, comm, peer, Get) } else { message(Recv, comm, peer, Get) }
                });
                plan(rank, world, insts.collect())
            })
            .collect();
        let matching = PlanMatching::new(&plans);
        for (rank, plan) in plans.iter().enumerate() {
            let mut near = 0;
            for (inst, of_inst) in plan.cursor() {
                let rank = rank as u32;
                let expected = counted(&plans, rank, &of_inst.kind, inst);
                assert_eq!(matching.message_partner(rank, inst), expected);
                assert_eq!(matching.next_partner(rank, inst, &mut near), expected);
            }
        }
    }
}

/// The partner of an instruction: as many like it come before its partner as before it.
fn counted(plans: &[Plan], rank: u32, own: &InstKind, inst: InstId) -> Option<RankInst> {
    let key = |kind: &InstKind| kind.message().map(|one| (one.direction.is_send(), one.comm, one.peer));
    let (sends, comm, peer) = key(own)?;
    let own_plan = &plans[rank as usize];
    let before = own_plan.cursor_before(inst).filter(|(_, one)| key(&one.kind) == key(own)).count();
    let answers = (!sends, comm, rank);
    let mut answering = plans[peer as usize].cursor().filter(|(_, one)| key(&one.kind) == Some(answers));
    answering.nth(before).map(|(inst, _)| RankInst { rank: peer, inst })
}

#[test]
fn only_two_groups_push() {
    let world: &[(&[u32], CommBackend)] = &[(&[0, 1], CommBackend::Nccl)];
    let end = || InstKind::GroupEnd { comm: CommSlot(0), work: WorkSlot(1) };
    let grouped = |inst| vec![InstKind::GroupBegin, inst, end()];
    let put = |sender, receiver| {
        let plans = [plan(0, world, sender), plan(1, world, receiver)];
        PlanMatching::new(&plans).messages[0].put
    };
    assert!(put(grouped(message(Send, Some(0), 1, Get)), grouped(message(Recv, Some(0), 0, Get))));
    assert!(!put(grouped(message(Send, Some(0), 1, Get)), vec![message(Recv, Some(0), 0, Get)]));
    assert!(!put(grouped(message(Send, None, 1, Get)), grouped(message(Recv, None, 0, Get))));
    assert!(!put(vec![message(Send, None, 1, Put)], vec![message(Recv, None, 0, Get)]));
}

#[test]
fn collectives_match_by_team_and_order() {
    // Rank 2 numbers its communicators the other way round, and is the first of one team.
    let plans = [
        plan(0, &[(&[2, 0], CommBackend::Nccl), (&[0], CommBackend::Nccl)], vec![collective(0), collective(1)]),
        plan(1, &[], Vec::new()),
        plan(
            2,
            &[(&[2], CommBackend::Ucc), (&[2, 0], CommBackend::Nccl)],
            vec![collective(1), collective(0), collective(1)],
        ),
    ];
    let matching = PlanMatching::new(&plans);
    let teams: Vec<(&[u32], CommBackend)> =
        matching.communicators.iter().map(|one| (one.communicator.team.as_slice(), one.communicator.backend)).collect();
    assert_eq!(teams, [(&[0][..], CommBackend::Nccl), (&[2][..], CommBackend::Ucc), (&[2, 0][..], CommBackend::Nccl)]);
    let [alone, _, both] = &matching.communicators[..] else { panic!("three communicators") };
    assert_eq!(alone.collectives, [[Some(InstId(1))]]);
    assert_eq!(both.slots, [Some(CommSlot(1)), Some(CommSlot(0))]);
    // Rank 0 starts one, rank 2 two.
    let expected = [[Some(InstId(0)), Some(InstId(0))], [Some(InstId(2)), None]];
    assert_eq!(both.collectives, expected);
}
