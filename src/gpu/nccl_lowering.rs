//! Collectives and messages as calls of NCCL.
//!
//! NCCL lacks some of the language's collectives (Gather, Scatter, AllToAll, a Broadcast that not every member
//! receives): they become groups of sends and receives. A member's calls may depend on who else sends or receives,
//! which the plans of all ranks tell.

pub mod gathered_reduction;

use crate::element_range::ViewRange;
use crate::nccl_types::{NcclReduction, NcclType};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::MemberRole;
use hostir::plan::TeamTransfers;
use hostir::plan::{BufferView, CollectiveInst, CollectiveKind, RedOp, ScalarValue};

/// One call; peers and roots are positions in the team.
#[derive(Clone, PartialEq, Debug)]
pub enum NcclCall {
    /// `ncclAllGather`.
    AllGather {
        /// Elements that this rank contributes.
        send: ViewRange,
        /// Elements of all ranks.
        recv: ViewRange,
    },
    /// `ncclAllReduce`.
    AllReduce {
        /// Elements that this rank contributes.
        send: ViewRange,
        /// The result.
        recv: ViewRange,
        /// The reduction.
        op: NcclReduction,
    },
    /// `ncclReduce`.
    Reduce {
        /// Elements that this rank contributes.
        send: ViewRange,
        /// The result, on the root.
        recv: Option<ViewRange>,
        /// The reduction.
        op: NcclReduction,
        /// Position of the root.
        root: u32,
    },
    /// `ncclReduceScatter`.
    ReduceScatter {
        /// Elements that this rank contributes.
        send: ViewRange,
        /// This rank's share of the result.
        recv: ViewRange,
        /// The reduction.
        op: NcclReduction,
    },
    /// `ncclBroadcast`.
    Broadcast {
        /// Elements that the root sends.
        send: Option<ViewRange>,
        /// The received elements.
        recv: Option<ViewRange>,
        /// Position of the root.
        root: u32,
    },
    /// `ncclSend`.
    Send {
        /// The elements.
        part: ViewRange,
        /// Position of the receiver.
        peer: u32,
    },
    /// `ncclRecv`.
    Recv {
        /// The elements.
        part: ViewRange,
        /// Position of the sender.
        peer: u32,
    },
    /// `ncclRecv` into staging memory.
    Stage {
        /// Bytes from the start of the staging memory.
        bytes: usize,
        /// Number of elements.
        count: usize,
        /// Their type.
        dtype: DType,
        /// Position of the sender.
        peer: u32,
    },
    /// A copy within the device, in a team of one rank.
    Copy {
        /// Elements to copy.
        send: ViewRange,
        /// The copy.
        recv: ViewRange,
    },
}

/// Returns the calls of one member in a collective; they start together.
///
/// # Errors
/// [`Unsupported`] if NCCL lacks the element type or the operation, or requires members that do not take part.
pub fn calls(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Result<Vec<NcclCall>, Unsupported> {
    let (input, output) = (collective.input.as_ref(), collective.output.as_ref());
    if roles.len() == 1 {
        let views = input.zip(output);
        let copy = views.map(|(send, recv)| (ViewRange::whole_view(send), ViewRange::whole_view(recv)));
        return Ok(copy.map(|(send, recv)| NcclCall::Copy { send, recv }).into_iter().collect());
    }
    if let Some(dtype) = input.or(output).map(|view| view.dtype) {
        data_type(dtype)?;
    }
    match collective.kind {
        CollectiveKind::Allgather | CollectiveKind::Allreduce | CollectiveKind::ReduceScatter => {
            symmetric_calls(collective)
        }
        CollectiveKind::Reduce => reduce_calls(collective, place, roles),
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => Ok(broadcast_calls(collective, place, roles)),
        CollectiveKind::Gather | CollectiveKind::Scatter | CollectiveKind::AllToAll => {
            Ok(point_to_point(collective, place, roles))
        }
    }
}

/// The calls of collectives in which all members send and receive.
fn symmetric_calls(collective: &CollectiveInst) -> Result<Vec<NcclCall>, Unsupported> {
    let (Some(input), Some(output)) = (&collective.input, &collective.output) else {
        return Err(Unsupported::Membership("a member that does not send or receive"));
    };
    let (send, recv) = (ViewRange::whole_view(input), ViewRange::whole_view(output));
    Ok(vec![match collective.kind {
        CollectiveKind::Allgather => NcclCall::AllGather { send, recv },
        CollectiveKind::Allreduce => NcclCall::AllReduce { send, recv, op: reduction(collective)? },
        _ => NcclCall::ReduceScatter { send, recv, op: reduction(collective)? },
    }])
}

fn root_position(collective: &CollectiveInst) -> usize {
    collective.root.unwrap_or(0)
}

fn reduce_calls(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Result<Vec<NcclCall>, Unsupported> {
    let root = root_position(collective);
    if roles.iter().enumerate().any(|(member, role)| !role.sends && member != root) {
        return Err(Unsupported::Membership("a Reduce with a member that neither sends nor is the root"));
    }
    if !roles[root].sends && collective.red_op == RedOp::Avg {
        return Err(Unsupported::Membership("a Reduce with `red_op=avg` whose root does not send"));
    }
    let recv = collective.output.as_ref().filter(|_| place == root);
    // A root that does not send contributes `neutral` elements, at the place of the result.
    let Some(send) = collective.input.as_ref().or(recv) else {
        return Err(Unsupported::Membership("a member that does not send or receive"));
    };
    Ok(vec![NcclCall::Reduce {
        send: ViewRange::whole_view(send),
        recv: recv.map(ViewRange::whole_view),
        op: reduction(collective)?,
        root: root as u32,
    }])
}

/// The contribution to a Reduce of a root that does not send, since NCCL takes elements from every member: the neutral
/// elements, and where to write them before the call. A sum of floats takes -0.0, since +0.0 would turn a sum of -0.0
/// into +0.0.
pub fn neutral_contribution<'c>(
    collective: &'c CollectiveInst,
    place: usize,
    roles: &[MemberRole],
) -> Option<(&'c BufferView, ScalarValue)> {
    let is_root = collective.kind == CollectiveKind::Reduce && place == root_position(collective);
    if !is_root || roles.len() == 1 || collective.input.is_some() {
        return None;
    }
    let view = collective.output.as_ref()?;
    let ends = match view.dtype {
        DType::Int | DType::Index => (ScalarValue::Int(i64::MIN), ScalarValue::Int(i64::MAX)),
        DType::Int32 => (ScalarValue::Int(i32::MIN.into()), ScalarValue::Int(i32::MAX.into())),
        DType::Bool => (ScalarValue::Bool(false), ScalarValue::Bool(true)),
        _ => (ScalarValue::Float(f64::NEG_INFINITY), ScalarValue::Float(f64::INFINITY)),
    };
    let value = match reduction(collective).ok()? {
        NcclReduction::Prod => ScalarValue::Int(1),
        NcclReduction::Max => ends.0,
        NcclReduction::Min => ends.1,
        NcclReduction::Sum | NcclReduction::Avg if view.dtype.is_float() => ScalarValue::Float(-0.0),
        NcclReduction::Sum | NcclReduction::Avg => ScalarValue::Int(0),
    };
    Some((view, value))
}

fn broadcast_calls(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Vec<NcclCall> {
    let root = root_position(collective);
    if roles.iter().enumerate().any(|(member, role)| member != root && !role.receives) {
        return point_to_point(collective, place, roles);
    }
    let send = collective.input.as_ref().map(ViewRange::whole_view);
    let recv = collective.output.as_ref().map(ViewRange::whole_view);
    vec![NcclCall::Broadcast { send, recv, root: root as u32 }]
}

/// A member's sends and receives, one for each transfer.
fn point_to_point(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Vec<NcclCall> {
    let team = TeamTransfers::new(collective.kind, roles.iter().copied());
    let mut calls = Vec::new();
    if let Some(input) = &collective.input {
        calls.extend(team.outgoing_transfers(place).map(|transfer| NcclCall::Send {
            part: ViewRange::share(input, transfer.source),
            peer: transfer.to as u32,
        }));
    }
    if let Some(output) = &collective.output {
        calls.extend(team.incoming_transfers(place).map(|transfer| NcclCall::Recv {
            part: ViewRange::share(output, transfer.target),
            peer: transfer.from as u32,
        }));
    }
    if collective.kind == CollectiveKind::AllToAll {
        calls.sort_by_key(call_peer);
    }
    calls
}

/// The peer of a send or receive.
fn call_peer(call: &NcclCall) -> Option<u32> {
    match call {
        NcclCall::Send { peer, .. } | NcclCall::Recv { peer, .. } => Some(*peer),
        _ => None,
    }
}

/// The operation of a reduction; truth values are bytes of 0 and 1.
fn reduction(collective: &CollectiveInst) -> Result<NcclReduction, Unsupported> {
    let view = collective.input.as_ref().or(collective.output.as_ref());
    let truths = view.is_some_and(|view| view.dtype == DType::Bool);
    Ok(match collective.red_op.ignoring_nan() {
        RedOp::Sum | RedOp::Or if truths => NcclReduction::Max,
        RedOp::Product | RedOp::And if truths => NcclReduction::Min,
        RedOp::Sum => NcclReduction::Sum,
        RedOp::Product => NcclReduction::Prod,
        RedOp::Min => NcclReduction::Min,
        RedOp::Max => NcclReduction::Max,
        RedOp::Avg if !truths => NcclReduction::Avg,
        op => return Err(Unsupported::NcclReduction(op)),
    })
}

/// NCCL's name of a type.
///
/// # Errors
/// [`Unsupported`] if NCCL has no type for the elements.
pub fn data_type(dtype: DType) -> Result<NcclType, Unsupported> {
    Ok(match dtype {
        DType::Double => NcclType::Float64,
        DType::Float => NcclType::Float32,
        DType::Half => NcclType::Float16,
        DType::BFloat16 => NcclType::Bfloat16,
        DType::Int | DType::Index => NcclType::Int64,
        DType::Int32 => NcclType::Int32,
        // Bytes that are only moved: `gathered` reduces 8-bit floats.
        DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Bool => NcclType::Uint8,
        dtype => return Err(Unsupported::Communication(dtype)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::{BufferId, CommSlot, WorkSlot, row_major};

    const SENDS: MemberRole = MemberRole { sends: true, receives: false };
    const RECEIVES: MemberRole = MemberRole { sends: false, receives: true };

    fn view(buffer: u32, dtype: DType) -> BufferView {
        BufferView { buffer: BufferId(buffer), offset: 0, dims: row_major(&[8]), dtype }
    }

    /// A Reduce of three members to the second, from the view of one that sends or receives.
    fn reduce(red_op: RedOp, dtype: DType, sends: bool, receives: bool) -> CollectiveInst {
        CollectiveInst {
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
        let [NcclCall::Reduce { send, recv, root: at, .. }] = &calls(&root, 1, &roles).unwrap()[..] else {
            panic!("one call of NCCL's")
        };
        assert_eq!((Some(send), *at), (recv.as_ref(), 1));
        let sender = reduce(RedOp::Sum, DType::Float, true, false);
        let [NcclCall::Reduce { send, recv, .. }] = &calls(&sender, 0, &roles).unwrap()[..] else {
            panic!("one call of NCCL's")
        };
        assert_eq!((&send.view, recv), (&view(0, DType::Float), &None));
        assert!(neutral_contribution(&sender, 0, &roles).is_none());
        for (op, dtype, value) in [
            (RedOp::Sum, DType::Half, ScalarValue::Float(-0.0)),
            (RedOp::Sum, DType::Int, ScalarValue::Int(0)),
            (RedOp::Product, DType::Int, ScalarValue::Int(1)),
            (RedOp::Min, DType::Double, ScalarValue::Float(f64::INFINITY)),
            (RedOp::Max, DType::Int32, ScalarValue::Int(-2_147_483_648)),
            (RedOp::Or, DType::Bool, ScalarValue::Bool(false)),
            (RedOp::And, DType::Bool, ScalarValue::Bool(true)),
        ] {
            let root = reduce(op, dtype, false, true);
            assert_eq!(neutral_contribution(&root, 1, &roles), Some((&view(1, dtype), value)), "{op:?}");
            // A root that sends too gives its own.
            assert!(neutral_contribution(&reduce(op, dtype, true, true), 1, &roles).is_none());
        }
    }

    #[test]
    fn what_a_reduce_cannot_leave_out() {
        let root = reduce(RedOp::Avg, DType::Float, false, true);
        let roles = [SENDS, RECEIVES, SENDS];
        let refused = calls(&root, 1, &roles).unwrap_err();
        assert_eq!(refused.to_string(), "a Reduce with `red_op=avg` whose root does not send");
        let idle = [SENDS, RECEIVES, MemberRole::default()];
        let refused = calls(&reduce(RedOp::Sum, DType::Float, false, true), 1, &idle).unwrap_err();
        assert_eq!(refused.to_string(), "a Reduce with a member that neither sends nor is the root");
    }
}
