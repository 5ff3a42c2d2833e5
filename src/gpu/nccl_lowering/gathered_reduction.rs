//! Reductions that NCCL does not compute as the language defines them: bitwise ones, those of 8-bit and 4-bit floats,
//! which it rounds at every step or lacks, those of 16-bit integers, which it lacks, and averages of 8-bit and 32-bit
//! integers, whose sums it wraps. Members send their shards to the receivers, into staging memory, and a kernel
//! combines them in team order: all members round alike, once, as on the CPU.

use crate::element_range::ViewRange;
use crate::memory_layout::ALIGNMENT;
use crate::nccl_lowering::{NcclCall, NcclFunction, nccl_reduction};
use crate::p2p::{MessageTarget, RoundReduction};
use hostir::ir::DType;
use hostir::plan::{CollectiveInst, MemberRole, RedOp, TeamTransfers};

/// One member's commands in a reduction that is gathered over point-to-point transfers and then combined.
#[derive(Clone, PartialEq, Debug)]
pub struct GatheredReduction {
    /// Sends and receives that start together.
    pub calls: Vec<NcclCall>,
    /// The combination that a receiving member computes afterwards.
    pub combine: Option<RoundReduction>,
}

/// Returns true if NCCL reduces elements of a type as the language defines it.
fn nccl_reduces(op: RedOp, dtype: DType) -> bool {
    match dtype {
        DType::Int16 | DType::UInt16 => false,
        DType::Int8 | DType::UInt8 | DType::Int32 | DType::UInt32 => op != RedOp::Avg,
        _ => hostir::data::fp8::decoder_for(dtype).is_none(),
    }
}

/// A member's commands in a gathered reduction; `None` if NCCL reduces, or no other member takes part.
pub fn gathered_reduction(
    collective: &CollectiveInst,
    place: usize,
    roles: &[MemberRole],
) -> Option<GatheredReduction> {
    let any = collective.input.as_ref().or(collective.output.as_ref())?;
    let foreign = !nccl_reduces(collective.red_op, any.dtype) || nccl_reduction(collective).is_err();
    if !collective.kind.is_reducing() || roles.len() == 1 || !foreign {
        return None;
    }
    let team = TeamTransfers::new(collective.kind, roles.iter().copied());
    let mut calls = Vec::new();
    if let Some(input) = &collective.input {
        let others = team.outgoing_transfers(place).filter(|transfer| transfer.to != place);
        calls.extend(
            others.map(|transfer| NcclCall::send(ViewRange::share(input, transfer.source), transfer.to as u32)),
        );
    }
    let output = collective.output.as_ref().filter(|_| roles[place].receives).map(ViewRange::whole_view);
    let combine = output.map(|output| {
        let size = (output.count * any.dtype.byte_size()).next_multiple_of(ALIGNMENT);
        let mut inputs = Vec::new();
        for transfer in team.incoming_transfers(place) {
            if let Some(input) = collective.input.as_ref().filter(|_| transfer.from == place) {
                inputs.push(MessageTarget::Part(ViewRange::share(input, transfer.source)));
                continue;
            }
            let staging = MessageTarget::Staging(inputs.len() * size);
            inputs.push(staging.clone());
            let function = NcclFunction::Recv { peer: transfer.from as u32 };
            let (count, dtype) = (output.count, any.dtype);
            calls.push(NcclCall { function, reduction: None, send: None, recv: Some(staging), count, dtype });
        }
        RoundReduction { op: collective.red_op, inputs, output, waits_for_readers: false }
    });
    Some(GatheredReduction { calls, combine })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::{BufferId, BufferView, CollectiveKind, CommSlot, WorkSlot, row_major};

    const BOTH: MemberRole = MemberRole { sends: true, receives: true };
    const SENDS: MemberRole = MemberRole { sends: true, receives: false };
    const RECEIVES: MemberRole = MemberRole { sends: false, receives: true };

    fn view(buffer: u32, dtype: DType, elements: usize) -> BufferView {
        BufferView { buffer: BufferId(buffer), offset: 0, dims: row_major(&[elements]), dtype }
    }

    fn collective(kind: CollectiveKind, red_op: RedOp, dtype: DType) -> CollectiveInst {
        let output = if kind == CollectiveKind::ReduceScatter { 4 } else { 12 };
        CollectiveInst {
            comm: CommSlot(0),
            kind,
            root: Some(1),
            red_op,
            input: Some(view(0, dtype, 12)),
            output: Some(view(1, dtype, output)),
            work: WorkSlot(0),
        }
    }

    #[test]
    fn what_nccl_does_is_left_to_it() {
        let roles = [BOTH; 3];
        let of = |kind, op, dtype| gathered_reduction(&collective(kind, op, dtype), 0, &roles).is_some();
        let all = CollectiveKind::Allreduce;
        assert!(of(all, RedOp::Sum, DType::Float8E4M3) && of(all, RedOp::Max, DType::Float8E5M2));
        assert!(of(all, RedOp::Xor, DType::Int32) && of(all, RedOp::Xor, DType::Bool));
        assert!(!of(all, RedOp::Sum, DType::Half) && !of(all, RedOp::Or, DType::Bool));
        assert!(of(all, RedOp::Sum, DType::Int16) && of(all, RedOp::Max, DType::UInt16));
        assert!(of(all, RedOp::Avg, DType::UInt8) && !of(all, RedOp::Sum, DType::UInt8));
        assert!(of(all, RedOp::Avg, DType::UInt32) && !of(all, RedOp::Sum, DType::Int32));
        assert!(!of(all, RedOp::Min, DType::Int8) && !of(all, RedOp::Avg, DType::UInt64));
        assert!(!of(CollectiveKind::Allgather, RedOp::Sum, DType::Float8E4M3));
        let alone = collective(all, RedOp::Xor, DType::Int32);
        assert!(gathered_reduction(&alone, 0, &[BOTH]).is_none());
    }

    /// Every receive has its send, of the same part, and the inputs are those of the team in order.
    #[test]
    fn parts_go_where_they_are_needed() {
        for kind in [CollectiveKind::Allreduce, CollectiveKind::ReduceScatter, CollectiveKind::Reduce] {
            let one = collective(kind, RedOp::Or, DType::Int32);
            // The root of the Reduce does not send.
            let roles: Vec<MemberRole> = match kind {
                CollectiveKind::Reduce => vec![SENDS, RECEIVES, SENDS],
                _ => vec![BOTH; 3],
            };
            let member = |place: usize| {
                let mut own = one.clone();
                own.input = own.input.filter(|_| roles[place].sends);
                own.output = own.output.filter(|_| roles[place].receives);
                gathered_reduction(&own, place, &roles).unwrap()
            };
            let all: Vec<GatheredReduction> = (0..3).map(member).collect();
            for (to, own) in all.iter().enumerate() {
                assert_eq!(own.combine.is_some(), roles[to].receives);
                let Some(combine) = &own.combine else { continue };
                assert_eq!(combine.inputs.len(), roles.iter().filter(|role| role.sends).count());
                let mut staged = Vec::new();
                for call in &own.calls {
                    let (NcclFunction::Recv { peer }, Some(target)) = (call.function, &call.recv) else { continue };
                    assert_eq!(call.count, combine.output.count);
                    staged.push(target.clone());
                    let to_this = NcclFunction::Send { peer: to as u32 };
                    let sends = all[peer as usize].calls.iter().filter(|call| call.function == to_this);
                    let parts: Vec<&ViewRange> = sends.filter_map(|call| call.send.as_ref()).collect();
                    let start = if kind == CollectiveKind::ReduceScatter { 4 * to } else { 0 };
                    assert_eq!((parts.len(), parts[0].start, parts[0].count), (1, start, call.count));
                }
                let own = |input: &&MessageTarget| matches!(input, MessageTarget::Staging(_));
                assert!(combine.inputs.iter().filter(own).eq(staged.iter()));
                let place = combine.inputs.iter().position(|input| !own(&input));
                assert_eq!(place, roles[to].sends.then_some(to));
            }
        }
    }
}
