//! Collectives and messages as calls of NCCL.
//!
//! NCCL lacks some of the language's types (Gather, Scatter, AllToAll, a Broadcast that not every member
//! receives): those are groups of sends and receives. What a member has to do may depend on who else
//! sends or receives, which the plans of all ranks tell.

pub(super) mod gathered;

use crate::ir::DType;
use crate::lower::Prepared;
use crate::plan::{
    Collective, CollectiveKind, EqualShare, MatchedCommunicator, MemberRole, Plan, PlanMatching,
    RedOp, Scalar, TeamTransfers, View,
};
use nccl_rs::DataType;

/// A team and the roles of its members in each collective, in the order of the communicator.
#[derive(Clone, Default, Debug)]
pub(super) struct Team {
    /// Absolute ranks in order.
    pub(super) ranks: Vec<u32>,
    /// By collective and position in the team.
    pub(super) roles: Vec<Vec<MemberRole>>,
}

/// All teams of a program with their backends, in a fixed order.
pub(super) fn teams(prepared: &Prepared) -> Vec<(String, Team)> {
    let matching = PlanMatching::new(&prepared.plans);
    let communicators = matching.communicators.iter();
    communicators
        .map(|of_all| {
            let ranks = of_all.communicator.team.clone();
            let numbers = 0..of_all.collectives.len();
            let roles = numbers.map(|number| team_roles(of_all, number, &prepared.plans)).collect();
            (of_all.communicator.backend.clone(), Team { ranks, roles })
        })
        .collect()
}

/// The roles of all members of a team in its collective of a number.
fn team_roles(of_all: &MatchedCommunicator<'_>, number: usize, plans: &[Plan]) -> Vec<MemberRole> {
    let mut roles = vec![MemberRole::default(); of_all.communicator.team.len()];
    for member in of_all.collective_members(number, plans) {
        roles[member.position] = MemberRole::of_side(member.collective);
    }
    roles
}

/// Where a plan's communicator stands in the table of [`teams`].
pub(super) fn entry(
    teams: &[(String, Team)],
    plan: &Plan,
    slot: crate::plan::CommSlot,
) -> Option<usize> {
    let communicator = &plan.communicators[slot];
    teams.iter().position(|(backend, team)| {
        *backend == communicator.backend && team.ranks == communicator.team
    })
}

/// A run of a view's elements: from where, how many. `None` for whole views.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Part {
    /// The (contiguous) view.
    pub(super) view: View,
    /// First element behind the view's first.
    pub(super) start: usize,
    /// Number of elements.
    pub(super) count: usize,
}

impl Part {
    pub(super) fn whole(view: &View) -> Self {
        Part { start: 0, count: view.len(), view: view.clone() }
    }
    /// Part `index` of `count` equal ones.
    pub(super) fn of(view: &View, index: usize, count: usize) -> Self {
        let length = view.len() / count.max(1);
        Part { view: view.clone(), start: index * length, count: length }
    }
    /// An equal share of a view.
    pub(super) fn share(view: &View, share: EqualShare) -> Self {
        Self::of(view, share.index, share.count)
    }
    /// Its size.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.view.dtype.size()
    }
}

/// One call; peers and roots are positions in the team.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Call {
    AllGather {
        send: Part,
        recv: Part,
    },
    AllReduce {
        send: Part,
        recv: Part,
        op: nccl_rs::RedOp,
    },
    Reduce {
        send: Part,
        recv: Option<Part>,
        op: nccl_rs::RedOp,
        root: u32,
    },
    ReduceScatter {
        send: Part,
        recv: Part,
        op: nccl_rs::RedOp,
    },
    Broadcast {
        send: Option<Part>,
        recv: Option<Part>,
        root: u32,
    },
    Send {
        part: Part,
        peer: u32,
    },
    Recv {
        part: Part,
        peer: u32,
    },
    /// Receives into staging memory, so many bytes from its start.
    Stage {
        bytes: usize,
        count: usize,
        dtype: DType,
        peer: u32,
    },
    /// Nobody else takes part.
    Copy {
        send: Part,
        recv: Part,
    },
}

/// What a member does in a collective: calls that start together.
pub(super) fn calls(
    collective: &Collective,
    place: usize,
    roles: &[MemberRole],
) -> Result<Vec<Call>, String> {
    let (input, output) = (collective.input.as_ref(), collective.output.as_ref());
    if roles.len() == 1 {
        let copy = |(send, recv)| Call::Copy { send: Part::whole(send), recv: Part::whole(recv) };
        return Ok(input.zip(output).map(copy).into_iter().collect());
    }
    if let Some(dtype) = input.or(output).map(|view| view.dtype) {
        data_type(dtype)?;
    }
    match collective.kind {
        CollectiveKind::Allgather | CollectiveKind::Allreduce | CollectiveKind::ReduceScatter => {
            together(collective)
        }
        CollectiveKind::Reduce => reduce(collective, place, roles),
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => {
            Ok(broadcast(collective, place, roles))
        }
        CollectiveKind::Gather | CollectiveKind::Scatter | CollectiveKind::AllToAll => {
            Ok(point_to_point(collective, place, roles))
        }
    }
}

/// Collectives in which everybody sends and receives.
fn together(collective: &Collective) -> Result<Vec<Call>, String> {
    let (Some(input), Some(output)) = (&collective.input, &collective.output) else {
        return Err("a member that does not send or receive".to_owned());
    };
    let (send, recv) = (Part::whole(input), Part::whole(output));
    Ok(vec![match collective.kind {
        CollectiveKind::Allgather => Call::AllGather { send, recv },
        CollectiveKind::Allreduce => Call::AllReduce { send, recv, op: reduction(collective)? },
        _ => Call::ReduceScatter { send, recv, op: reduction(collective)? },
    }])
}

fn root(collective: &Collective) -> usize {
    collective.root.unwrap_or(0)
}

fn reduce(
    collective: &Collective,
    place: usize,
    roles: &[MemberRole],
) -> Result<Vec<Call>, String> {
    let root = root(collective);
    if roles.iter().enumerate().any(|(member, role)| !role.sends && member != root) {
        return Err("a Reduce with a member that neither sends nor is the root".to_owned());
    }
    if !roles[root].sends && collective.red_op == RedOp::Avg {
        return Err("a Reduce with `red_op=avg` whose root does not send".to_owned());
    }
    let recv = collective.output.as_ref().filter(|_| place == root);
    // A root that does not send gives what `neutral` put where the result goes.
    let Some(send) = collective.input.as_ref().or(recv) else {
        return Err("a member that does not send or receive".to_owned());
    };
    Ok(vec![Call::Reduce {
        send: Part::whole(send),
        recv: recv.map(Part::whole),
        op: reduction(collective)?,
        root: root as u32,
    }])
}

/// NCCL takes something from every member of a Reduce. A root that does not send gives elements that
/// change nothing: where to write them before the call, and what.
pub(super) fn neutral<'c>(
    collective: &'c Collective,
    place: usize,
    roles: &[MemberRole],
) -> Option<(&'c View, Scalar)> {
    let is_root = collective.kind == CollectiveKind::Reduce && place == root(collective);
    if !is_root || roles.len() == 1 || collective.input.is_some() {
        return None;
    }
    let view = collective.output.as_ref()?;
    let ends = match view.dtype {
        DType::Int | DType::Index => (Scalar::Int(i64::MIN), Scalar::Int(i64::MAX)),
        DType::Int32 => (Scalar::Int(i32::MIN.into()), Scalar::Int(i32::MAX.into())),
        DType::Bool => (Scalar::Bool(false), Scalar::Bool(true)),
        _ => (Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)),
    };
    let value = match reduction(collective).ok()? {
        nccl_rs::RedOp::Prod => Scalar::Int(1),
        nccl_rs::RedOp::Max => ends.0,
        nccl_rs::RedOp::Min => ends.1,
        nccl_rs::RedOp::Sum | nccl_rs::RedOp::Avg => Scalar::Int(0),
    };
    Some((view, value))
}

fn broadcast(collective: &Collective, place: usize, roles: &[MemberRole]) -> Vec<Call> {
    let root = root(collective);
    if roles.iter().enumerate().any(|(member, role)| member != root && !role.receives) {
        return point_to_point(collective, place, roles);
    }
    let send = collective.input.as_ref().map(Part::whole);
    let recv = collective.output.as_ref().map(Part::whole);
    vec![Call::Broadcast { send, recv, root: root as u32 }]
}

/// A member's sends and receives, one for each transfer.
fn point_to_point(collective: &Collective, place: usize, roles: &[MemberRole]) -> Vec<Call> {
    let team = TeamTransfers::new(collective.kind, roles.iter().copied());
    let mut calls = Vec::new();
    if let Some(input) = &collective.input {
        calls.extend(team.outgoing_transfers(place).map(|transfer| Call::Send {
            part: Part::share(input, transfer.source),
            peer: transfer.to as u32,
        }));
    }
    if let Some(output) = &collective.output {
        calls.extend(team.incoming_transfers(place).map(|transfer| Call::Recv {
            part: Part::share(output, transfer.target),
            peer: transfer.from as u32,
        }));
    }
    if collective.kind == CollectiveKind::AllToAll {
        calls.sort_by_key(call_peer);
    }
    calls
}

/// The peer of a send or receive.
fn call_peer(call: &Call) -> Option<u32> {
    match call {
        Call::Send { peer, .. } | Call::Recv { peer, .. } => Some(*peer),
        _ => None,
    }
}

/// The operation of a reduction; truth values are bytes of 0 and 1.
fn reduction(collective: &Collective) -> Result<nccl_rs::RedOp, String> {
    let view = collective.input.as_ref().or(collective.output.as_ref());
    let truths = view.is_some_and(|view| view.dtype == DType::Bool);
    Ok(match collective.red_op {
        RedOp::Sum | RedOp::Or if truths => nccl_rs::RedOp::Max,
        RedOp::Product | RedOp::And if truths => nccl_rs::RedOp::Min,
        RedOp::Sum => nccl_rs::RedOp::Sum,
        RedOp::Product => nccl_rs::RedOp::Prod,
        RedOp::Min => nccl_rs::RedOp::Min,
        RedOp::Max => nccl_rs::RedOp::Max,
        RedOp::Avg if !truths => nccl_rs::RedOp::Avg,
        op => return Err(format!("the reduce operation `{}`, which NCCL lacks", op.word())),
    })
}

/// NCCL's name of a type.
pub(super) fn data_type(dtype: DType) -> Result<DataType, String> {
    Ok(match dtype {
        DType::Double => DataType::Float64,
        DType::Float => DataType::Float32,
        DType::Half => DataType::Float16,
        DType::BFloat16 => DataType::Bfloat16,
        DType::Int | DType::Index => DataType::Int64,
        DType::Int32 => DataType::Int32,
        // Bytes that are only moved: `gathered` reduces 8-bit floats.
        DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Bool => DataType::Uint8,
        dtype => return Err(format!("a communication of `{}`", dtype.name())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{BufferId, CommSlot, WorkSlot, row_major};

    const SENDS: MemberRole = MemberRole { sends: true, receives: false };
    const RECEIVES: MemberRole = MemberRole { sends: false, receives: true };

    fn view(buffer: u32, dtype: DType) -> View {
        View { buffer: BufferId(buffer), offset: 0, dims: row_major(&[8]), dtype }
    }

    /// A Reduce of three members to the second, as one that sends or receives takes part in it.
    fn reduce(red_op: RedOp, dtype: DType, sends: bool, receives: bool) -> Collective {
        Collective {
            comm: CommSlot(0),
            kind: CollectiveKind::Reduce,
            root: Some(1),
            red_op,
            input: sends.then(|| view(0, dtype)),
            output: receives.then(|| view(1, dtype)),
            work: WorkSlot(0),
        }
    }

    #[test]
    fn a_root_that_does_not_send_gives_what_changes_nothing() {
        let roles = [SENDS, RECEIVES, SENDS];
        let root = reduce(RedOp::Sum, DType::Float, false, true);
        let [Call::Reduce { send, recv, root: at, .. }] = &calls(&root, 1, &roles).unwrap()[..]
        else {
            panic!("one call of NCCL's")
        };
        assert_eq!((Some(send), *at), (recv.as_ref(), 1));
        let sender = reduce(RedOp::Sum, DType::Float, true, false);
        let [Call::Reduce { send, recv, .. }] = &calls(&sender, 0, &roles).unwrap()[..] else {
            panic!("one call of NCCL's")
        };
        assert_eq!((&send.view, recv), (&view(0, DType::Float), &None));
        assert!(neutral(&sender, 0, &roles).is_none());
        for (op, dtype, value) in [
            (RedOp::Sum, DType::Half, Scalar::Int(0)),
            (RedOp::Product, DType::Int, Scalar::Int(1)),
            (RedOp::Min, DType::Double, Scalar::Float(f64::INFINITY)),
            (RedOp::Max, DType::Int32, Scalar::Int(-2_147_483_648)),
            (RedOp::Or, DType::Bool, Scalar::Bool(false)),
            (RedOp::And, DType::Bool, Scalar::Bool(true)),
        ] {
            let root = reduce(op, dtype, false, true);
            assert_eq!(neutral(&root, 1, &roles), Some((&view(1, dtype), value)), "{op:?}");
            // A root that sends too gives its own.
            assert!(neutral(&reduce(op, dtype, true, true), 1, &roles).is_none());
        }
    }

    #[test]
    fn what_a_reduce_cannot_leave_out() {
        let root = reduce(RedOp::Avg, DType::Float, false, true);
        let roles = [SENDS, RECEIVES, SENDS];
        let refused = calls(&root, 1, &roles).unwrap_err();
        assert_eq!(refused, "a Reduce with `red_op=avg` whose root does not send");
        let idle = [SENDS, RECEIVES, MemberRole::default()];
        let refused = calls(&reduce(RedOp::Sum, DType::Float, false, true), 1, &idle).unwrap_err();
        assert_eq!(refused, "a Reduce with a member that neither sends nor is the root");
    }
}
