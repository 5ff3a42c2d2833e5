//! Tests of collectives against plain loops: the data of every member afterwards, element by element.

use super::*;

/// By member: its input, or its output.
type MemberData = Vec<Option<Vec<i64>>>;

/// Element `index` of a member's input.
fn element(member: usize, index: usize) -> i64 {
    (member * 100 + index) as i64 + 1
}

fn inputs(lengths: &[Option<usize>]) -> MemberData {
    let of_member = |(member, length): (usize, &Option<usize>)| {
        length.map(|length| (0..length).map(|index| element(member, index)).collect())
    };
    lengths.iter().enumerate().map(of_member).collect()
}

/// Carries out a collective by its transfers; reductions are sums.
fn moved(kind: CollectiveKind, inputs: &MemberData, outputs: &[Option<usize>]) -> MemberData {
    let roles = inputs.iter().zip(outputs);
    let roles = roles.map(|(input, output)| MemberRole { sends: input.is_some(), receives: output.is_some() });
    let team = TeamTransfers::new(kind, roles);
    let mut received: MemberData = Vec::new();
    for (to, length) in outputs.iter().enumerate() {
        let mut output = length.map(|length| vec![0; length]);
        let mut covered = 0;
        for transfer in team.incoming_transfers(to) {
            assert_eq!(team.transfer_between(transfer.from, to), Some(transfer));
            assert!(team.outgoing_transfers(transfer.from).any(|other| other == transfer));
            let input = inputs[transfer.from].as_ref().expect("a sender has an input");
            let source = &input[transfer.source.share_range(input.len())];
            let output = output.as_mut().expect("a receiver has an output");
            let target = transfer.target.share_range(output.len());
            assert_eq!(source.len(), target.len());
            if !kind.is_reducing() {
                assert_eq!(covered, target.start, "targets lie one behind the other");
                covered = target.end;
            }
            for (sum, value) in output[target].iter_mut().zip(source) {
                *sum += value;
            }
        }
        received.push(output);
    }
    received
}

/// Four members with the senders and receivers of each type; the root is member 2.
fn roles(kind: CollectiveKind, members: usize) -> Vec<MemberRole> {
    let seat = |member| MemberSeat {
        is_root: member == 2,
        is_alone: members == 1,
        in_input_mesh: member != 1,
        in_output_mesh: member != 3,
    };
    (0..members).map(|member| kind.member_role(seat(member))).collect()
}

fn members_that(kind: CollectiveKind, role: fn(&MemberRole) -> bool) -> Vec<usize> {
    let all = roles(kind, 4);
    (0..4).filter(|&member| role(&all[member])).collect()
}

#[test]
fn members_that_send_and_receive() {
    let table: [(CollectiveKind, &[usize], &[usize]); 8] = [
        (CollectiveKind::Gather, &[0, 2, 3], &[2]),
        (CollectiveKind::Allgather, &[0, 1, 2, 3], &[0, 1, 2, 3]),
        (CollectiveKind::Scatter, &[2], &[0, 1, 2]),
        (CollectiveKind::Reduce, &[0, 2, 3], &[2]),
        (CollectiveKind::Allreduce, &[0, 1, 2, 3], &[0, 1, 2, 3]),
        (CollectiveKind::ReduceScatter, &[0, 1, 2, 3], &[0, 1, 2, 3]),
        (CollectiveKind::Broadcast, &[2], &[0, 1, 2]),
        (CollectiveKind::AllToAll, &[0, 1, 2, 3], &[0, 1, 2, 3]),
    ];
    for (kind, senders, receivers) in table {
        assert_eq!(members_that(kind, |role| role.sends), senders, "{kind:?}");
        assert_eq!(members_that(kind, |role| role.receives), receivers, "{kind:?}");
    }
    // A SendRecv with itself is a copy; else only the other member receives.
    let seat = MemberSeat { is_root: true, is_alone: true, in_input_mesh: true, in_output_mesh: true };
    let alone = CollectiveKind::SendRecv.member_role(seat);
    assert_eq!(alone, MemberRole { sends: true, receives: true });
    let root = CollectiveKind::SendRecv.member_role(MemberSeat { is_alone: false, ..seat });
    assert_eq!(root, MemberRole { sends: true, receives: false });
    let other = MemberSeat { is_root: false, is_alone: false, ..seat };
    let other = CollectiveKind::SendRecv.member_role(other);
    assert_eq!(other, MemberRole { sends: false, receives: true });
}

#[test]
fn gathers_join_the_senders_in_team_order() {
    let sent = inputs(&[Some(2), None, Some(2), Some(2)]);
    let joined = vec![1, 2, 201, 202, 301, 302];
    let found = moved(CollectiveKind::Gather, &sent, &[None, None, Some(6), None]);
    assert_eq!(found, [None, None, Some(joined), None]);
    let sent = inputs(&[Some(2); 3]);
    let joined = Some(vec![1, 2, 101, 102, 201, 202]);
    let found = moved(CollectiveKind::Allgather, &sent, &[Some(6); 3]);
    assert_eq!(found, [joined.clone(), joined.clone(), joined]);
}

#[test]
fn scatters_cut_for_the_receivers_in_team_order() {
    let sent = inputs(&[None, Some(6), None, None]);
    let found = moved(CollectiveKind::Scatter, &sent, &[Some(2), None, Some(2), Some(2)]);
    assert_eq!(found, [Some(vec![101, 102]), None, Some(vec![103, 104]), Some(vec![105, 106])]);
}

#[test]
fn broadcasts_copy_the_root() {
    let sent = inputs(&[None, Some(3), None]);
    let copy = Some(vec![101, 102, 103]);
    let found = moved(CollectiveKind::Broadcast, &sent, &[Some(3), None, Some(3)]);
    assert_eq!(found, [copy.clone(), None, copy.clone()]);
    let found = moved(CollectiveKind::SendRecv, &inputs(&[None, Some(3)]), &[Some(3), None]);
    assert_eq!(found, [copy, None]);
}

#[test]
fn reductions_sum_over_the_senders() {
    let mut sums = vec![0; 6];
    for member in [0, 2] {
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum += element(member, index);
        }
    }
    let sent = inputs(&[Some(6), None, Some(6)]);
    let found = moved(CollectiveKind::Reduce, &sent, &[None, Some(6), None]);
    assert_eq!(found, [None, Some(sums), None]);
    let mut sums = vec![0; 6];
    for member in 0..3 {
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum += element(member, index);
        }
    }
    let found = moved(CollectiveKind::Allreduce, &inputs(&[Some(6); 3]), &[Some(6); 3]);
    assert_eq!(found, vec![Some(sums.clone()); 3]);
    let found = moved(CollectiveKind::ReduceScatter, &inputs(&[Some(6); 3]), &[Some(2); 3]);
    let shares: MemberData = sums.chunks(2).map(|share| Some(share.to_vec())).collect();
    assert_eq!(found, shares);
}

#[test]
fn all_to_all_transposes() {
    let found = moved(CollectiveKind::AllToAll, &inputs(&[Some(6); 3]), &[Some(6); 3]);
    let mut expected = vec![vec![0; 6]; 3];
    for (to, output) in expected.iter_mut().enumerate() {
        for from in 0..3 {
            for index in 0..2 {
                output[from * 2 + index] = element(from, to * 2 + index);
            }
        }
    }
    assert_eq!(found, expected.into_iter().map(Some).collect::<Vec<_>>());
}

#[test]
fn counts_that_fit() {
    use CollectiveKind as K;
    // By type: the numbers of elements that one of four members may send and receive, and a count that does not fit.
    let table = [
        (K::Allgather, 3, 12, 9),
        (K::ReduceScatter, 12, 3, 4),
        (K::Gather, 3, 9, 10),
        (K::Scatter, 9, 3, 4),
        (K::Allreduce, 5, 5, 6),
        (K::AllToAll, 8, 8, 4),
    ];
    for (kind, sent, received, wrong) in table {
        assert!(kind.counts_fit(4, sent, received), "{kind:?}");
        assert!(!kind.counts_fit(4, sent, wrong), "{kind:?}");
    }
    assert!(!K::Gather.counts_fit(4, 0, 4) && !K::Scatter.counts_fit(4, 4, 0));
    assert!(!K::Allgather.counts_fit(4, usize::MAX, 4));
    assert!(K::Gather.totals_fit(&[2, 2, 2], 1, 6) && !K::Gather.totals_fit(&[2, 2], 1, 6));
    assert!(K::Scatter.totals_fit(&[6], 3, 2) && !K::Scatter.totals_fit(&[6], 2, 2));
    assert!(K::Reduce.totals_fit(&[4, 4], 1, 4) && !K::Reduce.totals_fit(&[8, 8], 1, 4));
    assert!(K::Broadcast.totals_fit(&[4], 3, 4) && !K::Broadcast.totals_fit(&[4], 3, 2));
}
