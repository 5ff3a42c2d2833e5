//! `libnccl`: calls are carried out when the streams of all members have come to them. Members are threads of one
//! process, or processes that share a folder ([`MemberMail`](crate::mail::MemberMail)).
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, put_value};
use crate::communicators::{CommunicatorTable, INVALID, TeamMember};
use crate::exit::free_slowly;
use crate::member_call::{CallKind, MemberCall};
use crate::task::{DeviceWork, StreamTask};
use crate::world::{FakeWorld, wait_for_devices, world};
use hostir::ir::DType;
use hostir::plan::RedOp;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

const IN_PROGRESS: c_int = 7;

// ---- groups ----

/// The calls of a group that is open, with communicators and streams.
#[derive(Default)]
struct CallGroup {
    depth: usize,
    calls: Vec<(u64, u64, MemberCall)>,
}

thread_local! {
    static GROUP: RefCell<CallGroup> = RefCell::default();
}

/// Enqueues calls, those of each communicator as one.
fn enqueue(calls: Vec<(u64, u64, MemberCall)>) -> c_int {
    let mut of: Vec<(u64, u64, Vec<MemberCall>)> = Vec::new();
    for (comm, stream, call) in calls {
        match of.iter_mut().find(|(other, ..)| *other == comm) {
            Some((_, same, _)) if *same != stream => return INVALID,
            Some((.., list)) => list.push(call),
            None => of.push((comm, stream, vec![call])),
        }
    }
    let mut world = world();
    for (comm, stream, calls) in of {
        let turn = world.communicators.turn(comm, true);
        let works = [DeviceWork::Arrive { comm, calls: Arc::new(calls), turn }, DeviceWork::Meet { comm, turn }];
        let status = world.enqueue_task(stream, crate::driver::current_device(), StreamTask::in_order(works));
        if status != 0 {
            return 1;
        }
    }
    0
}

fn issue_one(comm: Handle, stream: Handle, call: MemberCall) -> c_int {
    let one = (comm as u64, stream as u64, call);
    let later = GROUP.with_borrow_mut(|group| match group.depth {
        0 => Some(one),
        _ => {
            group.calls.push(one);
            None
        }
    });
    later.map_or(0, |one| enqueue(vec![one]))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGroupEnd() -> c_int {
    let calls = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        if group.depth == 0 { std::mem::take(&mut group.calls) } else { Vec::new() }
    });
    enqueue(calls)
}

// ---- communicators ----

/// `ncclConfig_t`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy)]
struct CommunicatorConfig {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    put_value(version, 22_899);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGetErrorString(_: c_int) -> *const c_char {
    c"of a stand-in for NCCL".as_ptr()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGetLastError(_: Handle) -> *const c_char {
    c"".as_ptr()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclGetUniqueId(id: *mut [u8; 128]) -> c_int {
    let number = world().communicators.number();
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    put_value(id, bytes);
    0
}

/// `ncclUniqueId`.
#[repr(C)]
struct UniqueId([u8; 128]);

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommInitRankConfig(
    place: *mut Handle,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut c_void,
) -> c_int {
    let team = id.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let blocking = get_value(config.cast::<CommunicatorConfig>()).blocking != 0;
    let handle = world().communicators.join(team, size as usize, rank as usize, blocking);
    put_value(place, handle as Handle);
    creation_status(handle, blocking)
}

/// The status of a call that makes communicators: who blocks waits for the others.
fn creation_status(comm: u64, blocking: bool) -> c_int {
    if !blocking {
        return IN_PROGRESS;
    }
    wait_for_devices(|world| world.communicators.is_ready(comm).ok_or(INVALID))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommSplit(comm: Handle, color: c_int, key: c_int, place: *mut Handle, config: *mut c_void) -> c_int {
    let (comm, blocking) = (comm as u64, get_value(config.cast::<CommunicatorConfig>()).blocking != 0);
    put_value(place, std::ptr::null_mut());
    let mut world = world();
    let FakeWorld { communicators, .. } = &mut *world;
    let status = communicators.split(comm, color, key, place as usize, blocking);
    let waits = communicators.members.get(&comm).is_some_and(|member| member.blocking);
    drop(world);
    if status != 0 { status } else { creation_status(comm, waits) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommGetAsyncError(comm: Handle, state: *mut c_int) -> c_int {
    match world().communicators.is_ready(comm as u64) {
        Some(ready) => {
            put_value(state, if ready { 0 } else { IN_PROGRESS });
            0
        }
        None => INVALID,
    }
}

/// A number of a communicator's member.
fn put_member_number(
    comm: Handle,
    place: *mut c_int,
    number: impl Fn(&CommunicatorTable, &TeamMember) -> usize,
) -> c_int {
    let world = world();
    let Some(member) = world.communicators.members.get(&(comm as u64)) else { return INVALID };
    put_value(place, number(&world.communicators, member) as c_int);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommCount(comm: Handle, count: *mut c_int) -> c_int {
    put_member_number(comm, count, |table, member| table.teams.get(&member.team).map_or(0, |team| team.size))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommUserRank(comm: Handle, rank: *mut c_int) -> c_int {
    put_member_number(comm, rank, |_, member| member.rank)
}

fn end_member(comm: Handle) -> c_int {
    if world().communicators.remove_member(comm as u64) { 0 } else { INVALID }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommDestroy(comm: Handle) -> c_int {
    free_slowly(|| end_member(comm))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclCommAbort(comm: Handle) -> c_int {
    end_member(comm)
}

// ---- calls ----

/// The element type of a `ncclDataType_t`. The largest and the smallest of truth values are those of their bytes.
fn element_type(code: c_int) -> Option<DType> {
    Some(match code {
        0 => DType::Int8,
        1 => DType::UInt8,
        2 => DType::Int32,
        3 => DType::UInt32,
        4 => DType::Int,
        5 => DType::UInt64,
        6 => DType::Half,
        7 => DType::Float,
        8 => DType::Double,
        9 => DType::BFloat16,
        _ => return None,
    })
}

fn reduction_of(code: c_int) -> Option<RedOp> {
    [RedOp::Sum, RedOp::Product, RedOp::Max, RedOp::Min, RedOp::Avg].get(code as usize).copied()
}

/// The source and the target of a call's data.
struct CallEnds {
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
}

fn issue_call(kind: Option<CallKind>, ends: CallEnds, comm: Handle, stream: Handle) -> c_int {
    let CallEnds { send, recv, count, code } = ends;
    let (Some(kind), Some(dtype)) = (kind, element_type(code)) else { return INVALID };
    issue_one(comm, stream, MemberCall { kind, send: send as u64, recv: recv as u64, count, dtype })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclAllGather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    issue_call(Some(CallKind::AllGather), CallEnds { send, recv, count, code }, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclAllReduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
    op: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    issue_call(reduction_of(op).map(CallKind::AllReduce), CallEnds { send, recv, count, code }, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclReduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
    op: c_int,
    root: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    let kind = reduction_of(op).map(|op| CallKind::Reduce(op, root as usize));
    issue_call(kind, CallEnds { send, recv, count, code }, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclReduceScatter(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
    op: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    issue_call(reduction_of(op).map(CallKind::ReduceScatter), CallEnds { send, recv, count, code }, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclBroadcast(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    code: c_int,
    root: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    issue_call(Some(CallKind::Broadcast(root as usize)), CallEnds { send, recv, count, code }, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclSend(
    send: *const c_void,
    count: usize,
    code: c_int,
    peer: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    let ends = CallEnds { send, recv: std::ptr::null_mut(), count, code };
    issue_call(Some(CallKind::Send(peer as usize)), ends, comm, stream)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ncclRecv(
    recv: *mut c_void,
    count: usize,
    code: c_int,
    peer: c_int,
    comm: Handle,
    stream: Handle,
) -> c_int {
    let ends = CallEnds { send: std::ptr::null(), recv, count, code };
    issue_call(Some(CallKind::Recv(peer as usize)), ends, comm, stream)
}
