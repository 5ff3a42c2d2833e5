//! `libnccl`: calls are carried out when the streams of all members have come to them. Members are threads of one
//! process, or processes that share a folder ([`MemberMail`]).
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, put_value};
use crate::compute;
use crate::exit::free_slowly;
use crate::mail::{MemberMail, TeamSeat};
use crate::memory::DeviceMemory;
use crate::task::{DeviceWork, StreamTask};
use crate::world::{FakeWorld, world};
use hostir::ir::DType;
use hostir::plan::RedOp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::Arc;

const INVALID: c_int = 4;
const IN_PROGRESS: c_int = 7;

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
    send: u64,
    recv: u64,
    count: usize,
    dtype: DType,
}

impl MemberCall {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.dtype.byte_size()
    }

    /// Whether two members mean the same collective.
    fn is_alike(&self, other: &Self) -> bool {
        (self.kind, self.count, self.dtype) == (other.kind, other.count, other.dtype)
    }
}

/// A call that a member has come to, of its turn.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    member: u64,
    rank: usize,
    turn: u64,
    call: MemberCall,
}

/// The members of a communicator and what they have come to.
#[derive(Default, Debug)]
struct MemberTeam {
    size: usize,
    joined: usize,
    messages: Vec<PendingCall>,
    /// By number: the collectives that not all members have come to.
    collectives: BTreeMap<u64, Vec<PendingCall>>,
    /// By number: what each member asks for in a split that not all have come to.
    splits: BTreeMap<u64, Vec<SplitWish>>,
}

#[derive(Clone, Copy, Debug)]
struct SplitWish {
    member: u64,
    color: c_int,
    key: c_int,
    place: usize,
}

/// One rank's side of a communicator.
#[derive(Default, Debug)]
struct TeamMember {
    team: u64,
    rank: usize,
    blocking: bool,
    /// Turns that were issued, collectives that were come to, splits that were asked for and made.
    turns: u64,
    collectives: u64,
    splits: u64,
    split: u64,
    /// By turn that was come to: how many calls are open.
    open: BTreeMap<u64, usize>,
}

/// All communicators.
#[derive(Default)]
pub(crate) struct CommunicatorTable {
    teams: BTreeMap<u64, MemberTeam>,
    members: BTreeMap<u64, TeamMember>,
    next: u64,
    /// The messages of members that are processes.
    mail: Option<MemberMail>,
}

impl CommunicatorTable {
    /// Those of this process's threads, or with a folder of processes that share it.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { mail: folder.map(MemberMail::new), ..Self::default() }
    }

    /// A number that no other team or communicator has.
    fn number(&mut self) -> u64 {
        self.next += 16;
        // Other processes make some too.
        self.next | u64::from(std::process::id()) << 32
    }

    fn join(&mut self, team: u64, size: usize, rank: usize, blocking: bool) -> u64 {
        let handle = self.number();
        if let Some(mail) = &mut self.mail {
            mail.join(handle, TeamSeat { team, size, rank });
        }
        let of = self.teams.entry(team).or_default();
        of.size = size;
        of.joined += 1;
        self.members.insert(handle, TeamMember { team, rank, blocking, ..TeamMember::default() });
        handle
    }

    /// Whether nothing that makes a communicator is under way; `None` of one that there is not.
    fn is_ready(&mut self, comm: u64) -> Option<bool> {
        if let Some(mail) = &mut self.mail {
            let seats = mail.split_seats(comm);
            let ready = mail.is_ready(comm);
            for (place, seat) in seats {
                let handle = self.join(seat.team, seat.size, seat.rank, true);
                put_value(place as *mut Handle, handle as Handle);
            }
            return self.members.contains_key(&comm).then_some(ready);
        }
        let member = self.members.get(&comm)?;
        let team = self.teams.get(&member.team)?;
        Some(team.joined >= team.size && member.split == member.splits)
    }

    /// The number of a member's next calls, or of its last ones.
    pub(crate) fn turn(&mut self, comm: u64, next: bool) -> u64 {
        let Some(member) = self.members.get_mut(&comm) else { return 0 };
        member.turns += u64::from(next);
        member.turns
    }

    /// Whether calls have been carried out, or never will be.
    pub(crate) fn is_over(&mut self, memory: &mut DeviceMemory, comm: u64, turn: u64) -> Result<bool, String> {
        let Some(member) = self.members.get(&comm) else { return Ok(true) };
        match &mut self.mail {
            Some(mail) => mail.is_over(memory, comm, turn),
            None => Ok(member.open.get(&turn) == Some(&0)),
        }
    }

    /// A member comes to calls: what everybody else has come to is carried out.
    pub(crate) fn arrive(
        &mut self,
        memory: &mut DeviceMemory,
        comm: u64,
        calls: &[MemberCall],
        turn: u64,
    ) -> Result<(), String> {
        let Some(member) = self.members.get_mut(&comm) else { return Ok(()) };
        if let Some(mail) = &mut self.mail {
            return mail.arrive(memory, comm, calls, turn);
        }
        member.open.insert(turn, calls.len());
        let (rank, id) = (member.rank, member.team);
        let mut ready = Vec::new();
        for &call in calls {
            let Some(member) = self.members.get_mut(&comm) else { continue };
            let Some(team) = self.teams.get_mut(&id) else { continue };
            let pending = PendingCall { member: comm, rank, turn, call };
            if matches!(call.kind, CallKind::Send(_) | CallKind::Recv(_)) {
                ready.extend(team.message(pending)?);
                continue;
            }
            let sides = team.collectives.entry(member.collectives).or_default();
            sides.push(pending);
            if sides.len() == team.size {
                ready.push(team.collectives.remove(&member.collectives).unwrap_or_default());
            }
            member.collectives += 1;
        }
        for mut sides in ready {
            sides.sort_by_key(|side| side.rank);
            carry_out(memory, &sides)?;
            for side in sides {
                let open = self.members.get_mut(&side.member).and_then(|member| member.open.get_mut(&side.turn));
                if let Some(open) = open {
                    *open -= 1;
                }
            }
        }
        Ok(())
    }

    /// Takes a member away; what others wait for with it never ends.
    fn remove_member(&mut self, comm: u64) -> bool {
        if let Some(mail) = &mut self.mail {
            mail.remove(comm);
        }
        self.members.remove(&comm).is_some()
    }

    /// A member asks for a split; the last one makes it.
    fn split(&mut self, comm: u64, color: c_int, key: c_int, place: usize, blocking: bool) -> c_int {
        if let Some(mail) = &mut self.mail {
            mail.split(comm, color, key, place);
            return 0;
        }
        let Some(member) = self.members.get_mut(&comm) else { return INVALID };
        let number = member.splits;
        member.splits += 1;
        let Some(team) = self.teams.get_mut(&member.team) else { return INVALID };
        let asked = team.splits.entry(number).or_default();
        asked.push(SplitWish { member: comm, color, key, place });
        if asked.len() < team.size {
            return 0;
        }
        let mut asked = team.splits.remove(&number).unwrap_or_default();
        asked.sort_by_key(|one| (one.color, one.key));
        for one in &asked {
            if let Some(member) = self.members.get_mut(&one.member) {
                member.split += 1;
            }
        }
        for group in asked.chunk_by(|a, b| a.color == b.color).filter(|group| group[0].color >= 0) {
            let team = self.number();
            for (rank, one) in group.iter().enumerate() {
                let handle = self.join(team, group.len(), rank, blocking);
                put_value(one.place as *mut Handle, handle as Handle);
            }
        }
        0
    }
}

impl MemberTeam {
    /// A message whose other side is there, or nothing: then it waits for that.
    fn message(&mut self, new: PendingCall) -> Result<Option<Vec<PendingCall>>, String> {
        let fits = |old: &PendingCall| match (new.call.kind, old.call.kind) {
            (CallKind::Send(to), CallKind::Recv(from)) | (CallKind::Recv(to), CallKind::Send(from)) => {
                to == old.rank && from == new.rank
            }
            _ => false,
        };
        let Some(at) = self.messages.iter().position(fits) else {
            self.messages.push(new);
            return Ok(None);
        };
        let old = self.messages.remove(at);
        match new.call.bytes() == old.call.bytes() {
            true => Ok(Some(vec![old, new])),
            false => Err(format!("a message is sent and received alike: {old:?} and {new:?}")),
        }
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

/// Moves the data of a message, or of a collective whose members are in order.
fn carry_out(memory: &mut DeviceMemory, sides: &[PendingCall]) -> Result<(), String> {
    let Some(first) = sides.first().map(|side| side.call) else { return Ok(()) };
    if matches!(first.kind, CallKind::Send(_) | CallKind::Recv(_)) {
        let side = |sends: bool| sides.iter().find(|side| matches!(side.call.kind, CallKind::Send(_)) == sends);
        let (Some(from), Some(to)) = (side(true), side(false)) else { return Ok(()) };
        let content = memory.read_bytes(from.call.send, from.call.bytes())?;
        return memory.write_bytes(to.call.recv, &content);
    }
    if !sides.iter().all(|side| side.call.is_alike(&first)) {
        return Err(format!("members of a collective call it in other ways: {sides:?}"));
    }
    let mut all = Vec::new();
    for side in sides {
        all.push(member_contribution(memory, &side.call, side.rank, sides.len())?);
    }
    let joined = joined_contributions(&first, &all)?;
    sides.iter().try_for_each(|side| deliver_part(memory, &side.call, side.rank, &joined))
}

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

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    0
}

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    put_value(version, 22_899);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(_: c_int) -> *const c_char {
    c"of a stand-in for NCCL".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_: Handle) -> *const c_char {
    c"".as_ptr()
}

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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
    crate::world::wait_for_devices(|world| world.communicators.is_ready(comm).ok_or(INVALID))
}

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
extern "C" fn ncclCommCount(comm: Handle, count: *mut c_int) -> c_int {
    put_member_number(comm, count, |table, member| table.teams.get(&member.team).map_or(0, |team| team.size))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommUserRank(comm: Handle, rank: *mut c_int) -> c_int {
    put_member_number(comm, rank, |_, member| member.rank)
}

fn end_member(comm: Handle) -> c_int {
    if world().communicators.remove_member(comm as u64) { 0 } else { INVALID }
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(comm: Handle) -> c_int {
    free_slowly(|| end_member(comm))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(comm: Handle) -> c_int {
    end_member(comm)
}

// ---- calls ----

/// The element type of a `ncclDataType_t`. Bytes are truth values where they are reduced.
fn element_type(code: c_int) -> Option<DType> {
    Some(match code {
        1 => DType::Bool,
        2 => DType::Int32,
        4 => DType::Int,
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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

#[unsafe(no_mangle)]
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
