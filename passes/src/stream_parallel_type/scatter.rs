//! Reduces and scatters partial results over the devices, one part in each iteration.
//!
//! The partial results are `[device, stream, ..]`: the first axis counts the devices that have them, the second those
//! that will. A `Set` to `[stream, device, ..]` collects those of a device's own part, a reduction to
//! `[reduced stream, device, ..]` also adds them. The loop runs over the *operand's* stream axis, which is that of the
//! GEMM before, and which the result has on its devices.

use super::config::ReduceScatter;
use super::exchange::{Swap, check_devices, check_messages, device_shards, emit_messages, opposite_rank};
use super::loop_body::LoopBody;
use crate::support::builder::printed_domain;
use hostir::analysis::{AxisMap, MappedAxis};
use hostir::axes::logical_axes;
use hostir::diag::Diag;
use hostir::ir::Transfer;
use hostir::ir::{BinaryOp, DomainId, OpId, ParallelType, Program, TensorId};
use hostir::plan::{CollectiveKind, RedOp, starts_from_identity};

/// The places of the two axes.
const FIRST: usize = 0;
const SECOND: usize = 1;

/// The stream axis of the operand and its class, if the op scatters partial results in the requested way.
pub(super) fn reduce_scatter_axis(
    program: &Program,
    map: &AxisMap,
    how: Option<ReduceScatter>,
    id: OpId,
) -> Option<(DomainId, u32)> {
    let how = how?;
    let op = program.op(id);
    // Only a copy moves parts unchanged, and a communication adds only for a sum.
    let fits = match how {
        ReduceScatter::P2p => op.kind.transfer() == Some(Transfer::Copy),
        ReduceScatter::Reduce => {
            let plain = Some((RedOp::Sum, true));
            op.kind.transfer() == Some(Transfer::Reduction) && starts_from_identity(program, id) == plain
        }
    };
    let (input, output) = operand_and_result(program, id).filter(|_| fits)?;
    if map.is_split(input) || map.is_split(output) {
        return None;
    }
    let (from, to) = (logical_axes(program, input).axes, logical_axes(program, output).axes);
    let (whose, part) = (from.get(FIRST)?, from.get(SECOND)?);
    let (left, kept) = (to.get(FIRST)?, to.get(SECOND)?);
    let turned = whose.is_sharded()
        && is_stream_type(part.parallel)
        && !part.is_reduction()
        && is_stream_type(left.parallel)
        && left.is_reduction() == (how == ReduceScatter::Reduce)
        && kept.device_type() == whose.device_type();
    let class = map.class_of(input, SECOND as u32);
    let straight = map.class_of(input, FIRST as u32) == map.class_of(output, FIRST as u32)
        && class == map.class_of(output, SECOND as u32)
        && device_shards(program, input, SECOND + 1) == device_shards(program, output, SECOND + 1);
    if !turned || !straight {
        return None;
    }
    Some((printed_domain(program, input, part.printed), class?))
}

fn is_stream_type(parallel: ParallelType) -> bool {
    parallel == ParallelType::Stream
}

fn operand_and_result(program: &Program, id: OpId) -> Option<(TensorId, TensorId)> {
    let op = program.op(id);
    Some((op.input_tensors().next()?, op.output_tensors().next()?))
}

/// An axis by its position among a tensor's logical axes.
fn mapped_axis_at(program: &Program, tensor: TensorId, place: usize) -> MappedAxis {
    let printed = logical_axes(program, tensor).axes.get(place).map_or(0, |axis| axis.printed);
    MappedAxis { axis: place as u32, printed }
}

/// In iteration i rank r sends its results for rank `r + i` there, and receives those for itself from rank
/// `r - i`.
pub(super) fn emit_exchange(body: &mut LoopBody<'_, '_, '_>, id: OpId) -> Result<(), Diag> {
    let program = body.program();
    let Some((input, output)) = operand_and_result(program, id) else { return Ok(()) };
    check_devices(program, id, input, output)?;
    check_messages(program, body.config, id)?;
    let (part, whose) = (mapped_axis_at(program, input, SECOND), mapped_axis_at(program, output, FIRST));
    let domain = printed_domain(program, input, part.printed);
    let from = opposite_rank(body.build, body.config, domain);
    let sent = body.slice(input, part);
    let received = body.select(output, whose, from);
    let (to, rank) = (body.index, body.build.name_expr("rank"));
    let copy = vec![body.build.build_set(received, sent)];
    let own = body.build.binary_expr(BinaryOp::Eq, to, rank);
    emit_messages(body, &Swap { received, sent, from, to, own }, copy);
    Ok(())
}

/// In iteration i all ranks reduce their results for rank i, which keeps the sum.
pub(super) fn emit_reduce(body: &mut LoopBody<'_, '_, '_>, id: OpId) -> Result<(), Diag> {
    let program = body.program();
    let Some((input, output)) = operand_and_result(program, id) else { return Ok(()) };
    check_devices(program, id, input, output)?;
    let (part, kept) = (mapped_axis_at(program, input, SECOND), mapped_axis_at(program, output, SECOND));
    let sent = body.slice(input, part);
    // A device holds one index of an axis that is sharded over devices, whichever index is selected.
    let received = body.slice(output, kept);
    body.collective(CollectiveKind::Reduce, input, sent, received);
    Ok(())
}
