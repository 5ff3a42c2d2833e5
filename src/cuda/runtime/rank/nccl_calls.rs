//! A rank's NCCL calls: resolves their addresses and issues them.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::RankFailure;
use crate::runtime::rank::allocation::RankAllocation;
use crate::sys::Error;
use crate::sys::driver::CudaStream;
use hostir::ir::DType;
use hostir::plan::RedOp;
use hostir_gpu::nccl_lowering::{NcclCall, NcclFunction, is_nccl_type};
use hostir_gpu::p2p::MessageTarget;
use hostir_gpu::unsupported::Unsupported;
use nccl_rs::{DataType, NcclCommunicator, NcclRedOp};

/// A call of NCCL with its addresses, in the terms of the library.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ResolvedNcclCall {
    pub(crate) function: NcclFunction,
    /// The operation of a function that reduces.
    pub(crate) reduction: NcclRedOp,
    /// The address of this rank's contribution; of a rank without one, that of its result.
    pub(crate) send: u64,
    /// The address of this rank's result; of a rank without one, that of its contribution.
    pub(crate) recv: u64,
    pub(crate) count: usize,
    pub(crate) dtype: DataType,
}

/// Resolves the addresses of a call on this stream.
pub(crate) fn resolve_nccl_call(
    memory: &RankAllocation,
    call: &NcclCall,
    stream: usize,
) -> Result<ResolvedNcclCall, Error> {
    let send = call.send.as_ref().map(|part| memory.range_address(part));
    let recv = call.recv.as_ref().map(|target| match target {
        MessageTarget::Part(part) => memory.range_address(part),
        MessageTarget::Staging(bytes) => memory.scratch_address(stream, *bytes),
    });
    // NCCL takes an address of both sides from every member.
    let (Some(send), Some(recv)) = (send.or(recv), recv.or(send)) else {
        return Err(Error::Internal { what: "a call of NCCL without data".to_owned() });
    };
    let reduction = call.reduction.map_or(Ok(NcclRedOp::Sum), library_reduction)?;
    let is_copy = call.function == NcclFunction::Copy;
    let (count, dtype) = match is_copy {
        true => (call.count * call.dtype.byte_size(), DataType::Uint8),
        false => (call.count, library_type(call.dtype)?),
    };
    Ok(ResolvedNcclCall { function: call.function, reduction, send, recv, count, dtype })
}

/// Returns the library's form of a reduction.
fn library_reduction(op: RedOp) -> Result<NcclRedOp, Error> {
    Ok(match op {
        RedOp::Sum => NcclRedOp::Sum,
        RedOp::Product => NcclRedOp::Prod,
        RedOp::Max => NcclRedOp::Max,
        RedOp::Min => NcclRedOp::Min,
        RedOp::Avg => NcclRedOp::Avg,
        op => return Err(Unsupported::NcclReduction(op).into()),
    })
}

/// Returns the library's form of an element type.
fn library_type(dtype: DType) -> Result<DataType, Error> {
    Ok(match dtype {
        DType::Double => DataType::Float64,
        DType::Float => DataType::Float32,
        DType::Half => DataType::Float16,
        DType::BFloat16 => DataType::Bfloat16,
        DType::Int | DType::Index => DataType::Int64,
        DType::Int32 => DataType::Int32,
        DType::Int8 => DataType::Int8,
        DType::UInt64 => DataType::Uint64,
        DType::UInt32 => DataType::Uint32,
        DType::UInt8 => DataType::Uint8,
        // Pairs of bytes that are only moved.
        DType::Int16 | DType::UInt16 => DataType::Float16,
        // Bytes that are only moved.
        dtype if is_nccl_type(dtype) => DataType::Uint8,
        dtype => return Err(Unsupported::Communication(dtype).into()),
    })
}

/// Issues NCCL calls, as a group if there are several.
///
/// # Safety
/// The contracts of [`CudaStream`] and [`NcclCommunicator`] for these calls.
pub(crate) unsafe fn issue_nccl_calls(
    comm: Option<&mut NcclCommunicator>,
    calls: &[ResolvedNcclCall],
    stream: &CudaStream,
) -> Result<(), RankFailure> {
    for call in calls.iter().filter(|call| call.function == NcclFunction::Copy) {
        // SAFETY: as the caller promises.
        unsafe { stream.copy(call.recv, call.send, call.count) }?;
    }
    let Some(comm) = comm else { return Ok(()) };
    let library = comm.library().clone();
    if calls.len() > 1 {
        library.group_start()?;
    }
    let result = calls.iter().try_for_each(|call| {
        // SAFETY: as the caller promises.
        unsafe { issue_nccl_call(comm, *call, stream.as_nccl()) }
    });
    if calls.len() > 1 {
        library.group_end()?;
    }
    Ok(result?)
}

/// Makes one call of NCCL.
///
/// # Safety
/// [`NcclCommunicator`]'s contract for this call.
unsafe fn issue_nccl_call(
    comm: &mut NcclCommunicator,
    call: ResolvedNcclCall,
    stream: nccl_rs::StreamRef<'_>,
) -> Result<(), nccl_rs::Error> {
    let ResolvedNcclCall { function, reduction, send, recv, count, dtype } = call;
    match function {
        // SAFETY: as the caller promises.
        NcclFunction::AllGather => unsafe { comm.all_gather(send, recv, count, dtype, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::AllReduce => unsafe { comm.all_reduce(send, recv, count, dtype, reduction, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::Reduce { root } => unsafe { comm.reduce(send, recv, count, dtype, reduction, root, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::ReduceScatter => unsafe { comm.reduce_scatter(send, recv, count, dtype, reduction, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::Broadcast { root } => unsafe { comm.broadcast(send, recv, count, dtype, root, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::Send { peer } => unsafe { comm.send(send, count, dtype, peer, stream) },
        // SAFETY: as the caller promises.
        NcclFunction::Recv { peer } => unsafe { comm.recv(recv, count, dtype, peer, stream) },
        NcclFunction::Copy => Ok(()),
    }
}
