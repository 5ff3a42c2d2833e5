//! Collectives and messages as calls of NCCL.
//!
//! NCCL lacks some of the language's collectives (Gather, Scatter, AllToAll, a Broadcast that not every member
//! receives): they become groups of sends and receives. A member's calls may depend on who else sends or receives,
//! which the plans of all ranks tell.

pub mod gathered_reduction;

use crate::element_range::ViewRange;
use crate::p2p::MessageTarget;
use crate::unsupported::{MembershipFault, Unsupported};
use hostir::ir::DType;
use hostir::plan::MemberRole;
use hostir::plan::TeamTransfers;
use hostir::plan::{BufferView, CollectiveInst, CollectiveKind, RedOp, ScalarValue, type_range};

/// A function of NCCL; peers and roots are positions in the team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NcclFunction {
    /// `ncclAllGather`.
    AllGather,
    /// `ncclAllReduce`.
    AllReduce,
    /// `ncclReduce`.
    Reduce {
        /// Position of the root.
        root: u32,
    },
    /// `ncclReduceScatter`.
    ReduceScatter,
    /// `ncclBroadcast`.
    Broadcast {
        /// Position of the root.
        root: u32,
    },
    /// `ncclSend`.
    Send {
        /// Position of the receiver.
        peer: u32,
    },
    /// `ncclRecv`.
    Recv {
        /// Position of the sender.
        peer: u32,
    },
    /// A copy within the device, in a team of one rank.
    Copy,
}

impl NcclFunction {
    /// The position of the other side of a send or receive.
    pub fn message_peer(self) -> Option<u32> {
        match self {
            NcclFunction::Send { peer } | NcclFunction::Recv { peer } => Some(peer),
            _ => None,
        }
    }
}

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub struct NcclCall {
    /// The function.
    pub function: NcclFunction,
    /// The operation of a reducing collective, which is one that NCCL has.
    pub reduction: Option<RedOp>,
    /// The elements that this rank contributes, if any.
    pub send: Option<ViewRange>,
    /// The memory that receives this rank's result, if it gets one.
    pub recv: Option<MessageTarget>,
    /// The number of elements as the function counts them: of one rank's share.
    pub count: usize,
    /// The element type.
    pub dtype: DType,
}

impl NcclCall {
    /// A send of elements to the rank at a position.
    pub fn send(part: ViewRange, peer: u32) -> Self {
        let (count, dtype) = (part.count, part.view.dtype);
        let function = NcclFunction::Send { peer };
        Self { function, reduction: None, send: Some(part), recv: None, count, dtype }
    }
    /// A receive of elements from the rank at a position.
    pub fn receive(part: ViewRange, peer: u32) -> Self {
        let (count, dtype) = (part.count, part.view.dtype);
        let function = NcclFunction::Recv { peer };
        Self { function, reduction: None, send: None, recv: Some(MessageTarget::Part(part)), count, dtype }
    }
    /// A collective, or a copy, of whole views; a function that reduces has an operation.
    fn collective(
        function: NcclFunction,
        reduction: Option<RedOp>,
        [send, recv]: [Option<&BufferView>; 2],
    ) -> Result<Self, Unsupported> {
        let sides = || send.into_iter().chain(recv);
        let (Some(count), Some(view)) = (sides().map(BufferView::len).min(), sides().next()) else {
            return Err(Unsupported::Membership(MembershipFault::PassiveMember));
        };
        let recv = recv.map(|view| MessageTarget::Part(ViewRange::whole_view(view)));
        Ok(Self { function, reduction, send: send.map(ViewRange::whole_view), recv, count, dtype: view.dtype })
    }
    /// The views of the rank's memory that the call reads or writes.
    pub fn views(&self) -> impl Iterator<Item = &BufferView> {
        let received = self.recv.as_ref().and_then(MessageTarget::as_part);
        self.send.iter().chain(received).map(|part| &part.view)
    }
}

/// Returns the calls of one member in a collective; they start together.
///
/// # Errors
/// [`Unsupported`] if NCCL lacks the element type or the operation, or requires members that do not take part.
pub fn calls(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Result<Vec<NcclCall>, Unsupported> {
    let (input, output) = (collective.input.as_ref(), collective.output.as_ref());
    if roles.len() == 1 {
        let copy = input.zip(output).map(|(send, recv)| [Some(send), Some(recv)]);
        return copy.map(|sides| NcclCall::collective(NcclFunction::Copy, None, sides)).into_iter().collect();
    }
    if let Some(dtype) = input.or(output).map(|view| view.dtype).filter(|dtype| !is_nccl_type(*dtype)) {
        return Err(Unsupported::Communication(dtype));
    }
    match collective.kind {
        CollectiveKind::Allgather => symmetric_call(collective, NcclFunction::AllGather, None),
        CollectiveKind::Allreduce => {
            symmetric_call(collective, NcclFunction::AllReduce, Some(nccl_reduction(collective)))
        }
        CollectiveKind::ReduceScatter => {
            symmetric_call(collective, NcclFunction::ReduceScatter, Some(nccl_reduction(collective)))
        }
        CollectiveKind::Reduce => reduce_call(collective, place, roles),
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => broadcast_calls(collective, place, roles),
        CollectiveKind::Gather | CollectiveKind::Scatter | CollectiveKind::AllToAll => {
            Ok(point_to_point(collective, place, roles))
        }
    }
}

/// A collective in which everybody sends and receives.
fn symmetric_call(
    collective: &CollectiveInst,
    function: NcclFunction,
    reduction: Option<Result<RedOp, Unsupported>>,
) -> Result<Vec<NcclCall>, Unsupported> {
    let (Some(input), Some(output)) = (&collective.input, &collective.output) else {
        return Err(Unsupported::Membership(MembershipFault::PassiveMember));
    };
    Ok(vec![NcclCall::collective(function, reduction.transpose()?, [Some(input), Some(output)])?])
}

fn root_position(collective: &CollectiveInst) -> usize {
    collective.root.unwrap_or(0)
}

fn reduce_call(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Result<Vec<NcclCall>, Unsupported> {
    let root = root_position(collective);
    if roles.iter().enumerate().any(|(member, role)| !role.sends && member != root) {
        return Err(Unsupported::Membership(MembershipFault::IdleMember));
    }
    if !roles[root].sends && collective.red_op == RedOp::Avg {
        return Err(Unsupported::Membership(MembershipFault::AverageWithoutRoot));
    }
    let recv = collective.output.as_ref().filter(|_| place == root);
    // A root that does not send gives what `neutral_contribution` put where the result goes.
    let Some(send) = collective.input.as_ref().or(recv) else {
        return Err(Unsupported::Membership(MembershipFault::PassiveMember));
    };
    let function = NcclFunction::Reduce { root: root as u32 };
    Ok(vec![NcclCall::collective(function, Some(nccl_reduction(collective)?), [Some(send), recv])?])
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
    let [low, high] = type_range(view.dtype);
    let value = match nccl_reduction(collective).ok()? {
        RedOp::Product => ScalarValue::Int(1),
        RedOp::Max => low,
        RedOp::Min => high,
        _ if view.dtype.is_float() => ScalarValue::Float(-0.0),
        _ => ScalarValue::Int(0),
    };
    Some((view, value))
}

fn broadcast_calls(
    collective: &CollectiveInst,
    place: usize,
    roles: &[MemberRole],
) -> Result<Vec<NcclCall>, Unsupported> {
    let root = root_position(collective);
    if roles.iter().enumerate().any(|(member, role)| member != root && !role.receives) {
        return Ok(point_to_point(collective, place, roles));
    }
    let sides = [collective.input.as_ref(), collective.output.as_ref()];
    Ok(vec![NcclCall::collective(NcclFunction::Broadcast { root: root as u32 }, None, sides)?])
}

/// A member's sends and receives, one for each transfer.
fn point_to_point(collective: &CollectiveInst, place: usize, roles: &[MemberRole]) -> Vec<NcclCall> {
    let team = TeamTransfers::new(collective.kind, roles.iter().copied());
    let mut calls = Vec::new();
    if let Some(input) = &collective.input {
        let outgoing = team.outgoing_transfers(place);
        calls.extend(
            outgoing.map(|transfer| NcclCall::send(ViewRange::share(input, transfer.source), transfer.to as u32)),
        );
    }
    if let Some(output) = &collective.output {
        let incoming = team.incoming_transfers(place);
        calls.extend(
            incoming.map(|transfer| NcclCall::receive(ViewRange::share(output, transfer.target), transfer.from as u32)),
        );
    }
    if collective.kind == CollectiveKind::AllToAll {
        calls.sort_by_key(|call| call.function.message_peer());
    }
    calls
}

/// The operation of NCCL that a reduction needs: sum, product, smallest, largest or mean. Truth values are bytes of 0
/// and 1.
fn nccl_reduction(collective: &CollectiveInst) -> Result<RedOp, Unsupported> {
    let view = collective.input.as_ref().or(collective.output.as_ref());
    let truths = view.is_some_and(|view| view.dtype == DType::Bool);
    Ok(match collective.red_op.ignoring_nan() {
        RedOp::Sum | RedOp::Or if truths => RedOp::Max,
        RedOp::Product | RedOp::And if truths => RedOp::Min,
        RedOp::Avg if truths => return Err(Unsupported::NcclReduction(RedOp::Avg)),
        op @ (RedOp::Sum | RedOp::Product | RedOp::Min | RedOp::Max | RedOp::Avg) => op,
        op => return Err(Unsupported::NcclReduction(op)),
    })
}

/// Returns true if NCCL moves elements of a type. Narrower floats than 16 bits and truth values are bytes for it, and
/// 16-bit integers pairs of bytes, which `gathered_reduction` reduces.
pub fn is_nccl_type(dtype: DType) -> bool {
    dtype.is_integer() || dtype.is_float() || dtype == DType::Bool
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
        let [call] = &calls(&root, 1, &roles).unwrap()[..] else { panic!("one call of NCCL's") };
        assert_eq!(call.function, NcclFunction::Reduce { root: 1 });
        assert_eq!(call.send.as_ref(), call.recv.as_ref().and_then(MessageTarget::as_part));
        let sender = reduce(RedOp::Sum, DType::Float, true, false);
        let [call] = &calls(&sender, 0, &roles).unwrap()[..] else { panic!("one call of NCCL's") };
        assert_eq!(call.send.as_ref().map(|part| &part.view), Some(&view(0, DType::Float)));
        assert_eq!(call.recv, None);
        assert!(neutral_contribution(&sender, 0, &roles).is_none());
        for (op, dtype, value) in [
            (RedOp::Sum, DType::Half, ScalarValue::Float(-0.0)),
            (RedOp::Sum, DType::Int, ScalarValue::Int(0)),
            (RedOp::Product, DType::Int, ScalarValue::Int(1)),
            (RedOp::Min, DType::Double, ScalarValue::Float(f64::INFINITY)),
            (RedOp::Max, DType::Int32, ScalarValue::Int(-2_147_483_648)),
            (RedOp::Max, DType::Int8, ScalarValue::Int(-128)),
            (RedOp::Min, DType::UInt32, ScalarValue::Int(4_294_967_295)),
            (RedOp::Min, DType::UInt64, ScalarValue::Unsigned(u64::MAX)),
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
