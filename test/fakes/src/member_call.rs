//! Calls of NCCL's by one member of a communicator, and the bytes that they move.

use crate::compute;
use crate::memory::DeviceMemory;
use hostir::ir::DType;
use hostir::plan::RedOp;

/// The operation of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallKind {
    AllGather,
    AllReduce(RedOp),
    Reduce(RedOp, usize),
    ReduceScatter(RedOp),
    Broadcast(usize),
    Send(usize),
    Recv(usize),
}

/// A call of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberCall {
    pub(crate) kind: CallKind,
    pub(crate) send: u64,
    pub(crate) recv: u64,
    pub(crate) count: usize,
    pub(crate) dtype: DType,
}

impl MemberCall {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.dtype.byte_size()
    }

    /// Whether two members mean the same collective.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        (self.kind, self.count, self.dtype) == (other.kind, other.count, other.dtype)
    }
}

/// The contribution of a member to a call.
pub(crate) fn member_contribution(
    memory: &mut DeviceMemory,
    call: &MemberCall,
    rank: usize,
    size: usize,
) -> Result<Vec<u8>, String> {
    match call.kind {
        CallKind::ReduceScatter(_) => memory.read_bytes(call.send, size * call.bytes()),
        CallKind::Broadcast(root) if rank != root => Ok(Vec::new()),
        CallKind::Recv(_) => Ok(Vec::new()),
        _ => memory.read_bytes(call.send, call.bytes()),
    }
}

/// The result of a collective for all members together.
pub(crate) fn joined_contributions(call: &MemberCall, all: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    match call.kind {
        CallKind::AllReduce(op) | CallKind::Reduce(op, _) | CallKind::ReduceScatter(op) => {
            compute::combine_members(op, call.dtype, all)
        }
        _ => Ok(all.concat()),
    }
}

/// Writes a member's part of that.
pub(crate) fn deliver_part(
    memory: &mut DeviceMemory,
    call: &MemberCall,
    rank: usize,
    joined: &[u8],
) -> Result<(), String> {
    match call.kind {
        CallKind::Reduce(_, root) if rank != root => Ok(()),
        CallKind::ReduceScatter(_) => {
            let start = rank * call.bytes();
            memory.write_bytes(call.recv, &joined[start..start + call.bytes()])
        }
        _ => memory.write_bytes(call.recv, joined),
    }
}
