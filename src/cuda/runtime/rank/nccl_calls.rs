//! A rank's NCCL calls: resolves their addresses and issues them.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::RankFailure;
use crate::runtime::rank::allocation::RankAllocation;
use crate::sys::Error;
use crate::sys::driver::CudaStream;
use hostir::ir::DType;
use hostir_gpu::nccl_lowering;
use hostir_gpu::nccl_lowering::data_type;
use hostir_gpu::nccl_types::{NcclReduction, NcclType};
use nccl_rs::{DataType, NcclCommunicator};

/// A message or collective with its addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ResolvedNcclCall {
    AllGather { send: u64, recv: u64, count: usize },
    AllReduce { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp },
    Reduce { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp, root: u32 },
    ReduceScatter { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp },
    Broadcast { send: u64, recv: u64, count: usize, root: u32 },
    Send { from: u64, count: usize, peer: u32 },
    Recv { to: u64, count: usize, peer: u32 },
    Copy { to: u64, from: u64, bytes: usize },
}

/// Resolves the addresses of a call on this stream.
pub(crate) fn resolve_nccl_call(
    memory: &RankAllocation,
    call: &nccl_lowering::NcclCall,
    stream: usize,
) -> Result<(ResolvedNcclCall, DataType), Error> {
    use nccl_lowering::NcclCall as C;
    let (raw, view) = match call {
        C::AllGather { send, recv } => {
            let (from, to) = (memory.range_address(send), memory.range_address(recv));
            (ResolvedNcclCall::AllGather { send: from, recv: to, count: send.count }, &send.view)
        }
        C::AllReduce { send, recv, op } => {
            let (from, to) = (memory.range_address(send), memory.range_address(recv));
            (
                ResolvedNcclCall::AllReduce { send: from, recv: to, count: send.count, op: library_reduction(*op) },
                &send.view,
            )
        }
        C::Reduce { send, recv, op, root } => {
            let from = memory.range_address(send);
            let to = recv.as_ref().map_or(from, |recv| memory.range_address(recv));
            let raw = ResolvedNcclCall::Reduce {
                send: from,
                recv: to,
                count: send.count,
                op: library_reduction(*op),
                root: *root,
            };
            (raw, &send.view)
        }
        C::ReduceScatter { send, recv, op } => {
            let (from, to) = (memory.range_address(send), memory.range_address(recv));
            (
                ResolvedNcclCall::ReduceScatter { send: from, recv: to, count: recv.count, op: library_reduction(*op) },
                &send.view,
            )
        }
        C::Broadcast { send, recv, root } => {
            let sides = [send.as_ref(), recv.as_ref()];
            let Some(any) = sides.into_iter().flatten().next() else {
                return Err(Error::Internal { what: "a Broadcast without data".to_owned() });
            };
            // NCCL takes an address of both sides from every member.
            let [send, recv] = sides.map(|side| memory.range_address(side.unwrap_or(any)));
            (ResolvedNcclCall::Broadcast { send, recv, count: any.count, root: *root }, &any.view)
        }
        C::Send { part, peer } => {
            (ResolvedNcclCall::Send { from: memory.range_address(part), count: part.count, peer: *peer }, &part.view)
        }
        C::Recv { part, peer } => {
            (ResolvedNcclCall::Recv { to: memory.range_address(part), count: part.count, peer: *peer }, &part.view)
        }
        C::Stage { bytes, count, dtype, peer } => {
            let to = memory.scratch_address(stream, *bytes);
            let raw = ResolvedNcclCall::Recv { to, count: *count, peer: *peer };
            return Ok((raw, library_type(*dtype)?));
        }
        C::Copy { send, recv } => {
            let bytes = send.byte_count();
            let raw =
                ResolvedNcclCall::Copy { to: memory.range_address(recv), from: memory.range_address(send), bytes };
            return Ok((raw, DataType::Uint8));
        }
    };
    Ok((raw, library_type(view.dtype)?))
}

/// Returns the library's form of a reduction.
fn library_reduction(reduction: NcclReduction) -> nccl_rs::NcclRedOp {
    match reduction {
        NcclReduction::Sum => nccl_rs::NcclRedOp::Sum,
        NcclReduction::Prod => nccl_rs::NcclRedOp::Prod,
        NcclReduction::Max => nccl_rs::NcclRedOp::Max,
        NcclReduction::Min => nccl_rs::NcclRedOp::Min,
        NcclReduction::Avg => nccl_rs::NcclRedOp::Avg,
    }
}

/// Returns the library's form of an element type.
fn library_type(dtype: DType) -> Result<DataType, Error> {
    Ok(match data_type(dtype)? {
        NcclType::Uint8 => DataType::Uint8,
        NcclType::Int32 => DataType::Int32,
        NcclType::Int64 => DataType::Int64,
        NcclType::Float16 => DataType::Float16,
        NcclType::Float32 => DataType::Float32,
        NcclType::Float64 => DataType::Float64,
        NcclType::Bfloat16 => DataType::Bfloat16,
    })
}

/// Issues NCCL calls, as a group if there are several.
///
/// # Safety
/// The contracts of [`CudaStream`] and [`NcclCommunicator`] for these calls.
pub(crate) unsafe fn issue_nccl_calls(
    comm: Option<&mut NcclCommunicator>,
    calls: &[(ResolvedNcclCall, DataType)],
    stream: &CudaStream,
) -> Result<(), RankFailure> {
    for (raw, _) in calls {
        if let ResolvedNcclCall::Copy { to, from, bytes } = raw {
            // SAFETY: as the caller promises.
            unsafe { stream.copy(*to, *from, *bytes) }?;
        }
    }
    let Some(comm) = comm else { return Ok(()) };
    let library = comm.library().clone();
    if calls.len() > 1 {
        library.group_start()?;
    }
    let result = calls.iter().try_for_each(|(raw, dtype)| {
        // SAFETY: as the caller promises.
        unsafe { issue_nccl_call(comm, *raw, *dtype, stream.as_nccl()) }
    });
    if calls.len() > 1 {
        library.group_end()?;
    }
    Ok(result?)
}

/// # Safety
/// [`NcclCommunicator`]'s contract for this call.
unsafe fn issue_nccl_call(
    comm: &mut NcclCommunicator,
    raw: ResolvedNcclCall,
    dtype: DataType,
    stream: nccl_rs::StreamRef<'_>,
) -> Result<(), nccl_rs::Error> {
    match raw {
        // SAFETY: as the caller promises.
        ResolvedNcclCall::AllGather { send, recv, count } => unsafe {
            comm.all_gather(send, recv, count, dtype, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::AllReduce { send, recv, count, op } => unsafe {
            comm.all_reduce(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Reduce { send, recv, count, op, root } => unsafe {
            comm.reduce(send, recv, count, dtype, op, root, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::ReduceScatter { send, recv, count, op } => unsafe {
            comm.reduce_scatter(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Broadcast { send, recv, count, root } => unsafe {
            comm.broadcast(send, recv, count, dtype, root, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Send { from, count, peer } => unsafe { comm.send(from, count, dtype, peer, stream) },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Recv { to, count, peer } => unsafe { comm.recv(to, count, dtype, peer, stream) },
        ResolvedNcclCall::Copy { .. } => Ok(()),
    }
}
