//! Tests against a library of our own, whose communicators are ready when a test says so.

use super::*;
use crate::api::{IN_PROGRESS, RawConfig, SUCCESS};
use std::cell::Cell;
use std::ffi::{c_char, c_void};

const FAILED: c_int = 3;

/// The behaviour of the fake library below and a record of the calls to it, per test thread.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The number of polls for which a communicator is still being created; then it has `state`.
    busy: u32,
    state: c_int,
    aborted: u32,
    destroyed: u32,
}

thread_local! {
    static SEEN: Cell<Seen> = const { Cell::new(Seen { busy: 0, state: SUCCESS, aborted: 0, destroyed: 0 }) };
}

fn change(work: impl FnOnce(&mut Seen)) {
    let mut seen = SEEN.get();
    work(&mut seen);
    SEEN.set(seen);
}

unsafe extern "C" fn init(slot: *mut CommHandle, _: c_int, _: UniqueId, _: c_int, _: *mut RawConfig) -> c_int {
    // SAFETY: the caller's place for a handle.
    unsafe { *slot = std::ptr::dangling_mut::<c_void>() };
    IN_PROGRESS
}

unsafe extern "C" fn split(_: CommHandle, color: c_int, _: c_int, slot: *mut CommHandle, _: *mut RawConfig) -> c_int {
    if color >= 0 {
        // SAFETY: as in `init`.
        unsafe { *slot = std::ptr::dangling_mut::<c_void>() };
    }
    IN_PROGRESS
}

unsafe extern "C" fn async_error(_: CommHandle, state: *mut c_int) -> c_int {
    change(|seen| {
        let now = if seen.busy > 0 { IN_PROGRESS } else { seen.state };
        seen.busy = seen.busy.saturating_sub(1);
        // SAFETY: the caller's integer.
        unsafe { *state = now };
    });
    SUCCESS
}

unsafe extern "C" fn abort(_: CommHandle) -> c_int {
    change(|seen| seen.aborted += 1);
    SUCCESS
}

unsafe extern "C" fn destroy(_: CommHandle) -> c_int {
    change(|seen| seen.destroyed += 1);
    SUCCESS
}

unsafe extern "C" fn text(_: c_int) -> *const c_char {
    c"unhandled system error".as_ptr()
}

unsafe extern "C" fn none() -> c_int {
    SUCCESS
}

unsafe extern "C" fn number(_: *mut c_int) -> c_int {
    SUCCESS
}

unsafe extern "C" fn count(_: CommHandle, number: *mut c_int) -> c_int {
    // SAFETY: the caller's integer.
    unsafe { *number = 5 };
    SUCCESS
}

unsafe extern "C" fn id(_: *mut UniqueId) -> c_int {
    SUCCESS
}

unsafe extern "C" fn last(_: CommHandle) -> *const c_char {
    std::ptr::null()
}

/// An address, or a stream.
type Any = *mut c_void;
unsafe extern "C" fn gather(_: *const c_void, _: Any, _: usize, _: c_int, _: CommHandle, _: Any) -> c_int {
    FAILED
}

unsafe extern "C" fn reduced(_: *const c_void, _: Any, _: usize, _: c_int, _: c_int, _: CommHandle, _: Any) -> c_int {
    FAILED
}

unsafe extern "C" fn rooted(
    _: *const c_void,
    _: Any,
    _: usize,
    _: c_int,
    _: c_int,
    _: c_int,
    _: CommHandle,
    _: Any,
) -> c_int {
    FAILED
}

unsafe extern "C" fn sent(_: *const c_void, _: usize, _: c_int, _: c_int, _: CommHandle, _: Any) -> c_int {
    FAILED
}

unsafe extern "C" fn received(_: Any, _: usize, _: c_int, _: c_int, _: CommHandle, _: Any) -> c_int {
    FAILED
}

/// A library that carries nothing out.
fn library() -> Arc<Library> {
    Arc::new(Library {
        get_version: number,
        get_unique_id: id,
        error_string: text,
        last_error: last,
        init_rank: init,
        split,
        destroy,
        abort,
        comm_count: count,
        comm_rank: count,
        async_error,
        group_start: none,
        group_end: none,
        all_gather: gather,
        all_reduce: reduced,
        reduce: rooted,
        reduce_scatter: reduced,
        broadcast: reduced,
        send: sent,
        recv: received,
        path: "a test's".to_owned(),
    })
}

fn joined(busy: u32, state: c_int, patience: WaitLimits<'_>) -> Result<NcclCommunicator, Error> {
    change(|seen| *seen = Seen { busy, state, ..Seen::default() });
    NcclCommunicator::init_rank(&library(), UniqueId { bytes: [0; 128] }, 2, 0, patience)
}

fn in_a_while() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn waits_until_all_are_there() {
    let comm = joined(5, SUCCESS, WaitLimits { deadline: in_a_while(), give_up: &|| false });
    let comm = comm.unwrap();
    assert_eq!((comm.size(), comm.rank(), SEEN.get().aborted), (2, 0, 0));
    let patience = WaitLimits { deadline: in_a_while(), give_up: &|| false };
    let config = Config { blocking: true };
    let part = comm.split(Some(0), 1, 2, config, patience).unwrap().unwrap();
    assert_eq!((part.size(), part.rank()), (2, 1));
    assert!(comm.split(None, 0, 2, config, patience).unwrap().is_none());
    drop((part, comm));
    assert_eq!((SEEN.get().aborted, SEEN.get().destroyed), (0, 2));
}

#[test]
fn gives_up_when_it_is_told_to_and_aborts() {
    let asked = Cell::new(0);
    let give_up = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let start = Instant::now();
    let error = joined(u32::MAX, SUCCESS, WaitLimits { deadline: in_a_while(), give_up: &give_up });
    assert_eq!(error.unwrap_err(), Error::GivenUp { call: "ncclCommInitRankConfig" });
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!((asked.get(), SEEN.get().aborted, SEEN.get().destroyed), (3, 1, 0));
}

#[test]
fn a_split_that_is_given_up_leaves_the_parent_to_its_owner() {
    let patience = WaitLimits { deadline: in_a_while(), give_up: &|| true };
    let comm = joined(0, SUCCESS, patience).unwrap();
    change(|seen| seen.busy = u32::MAX);
    let error = comm.split(Some(0), 0, 2, Config { blocking: true }, patience).unwrap_err();
    assert_eq!(error, Error::GivenUp { call: "ncclCommSplit" });
    assert_eq!((SEEN.get().aborted, SEEN.get().destroyed), (0, 0));
    comm.abort().unwrap();
    assert_eq!((SEEN.get().aborted, SEEN.get().destroyed), (1, 0));
}

#[test]
fn the_time_may_be_up_and_calls_may_fail() {
    let patience = WaitLimits { deadline: Instant::now(), give_up: &|| false };
    let error = joined(u32::MAX, SUCCESS, patience).unwrap_err();
    assert_eq!(error, Error::Timeout { call: "ncclCommInitRankConfig" });
    assert_eq!(SEEN.get().aborted, 1);
    let patience = WaitLimits { deadline: in_a_while(), give_up: &|| false };
    let error = joined(2, FAILED, patience).unwrap_err();
    let text = "ncclCommInitRankConfig failed: unhandled system error";
    assert_eq!(error.to_string(), text);
    assert_eq!((SEEN.get().aborted, SEEN.get().destroyed), (1, 0));
}

#[test]
fn what_is_borrowed_is_neither_destroyed_nor_aborted() {
    change(|seen| *seen = Seen { busy: 1, state: SUCCESS, ..Seen::default() });
    let patience = WaitLimits { deadline: in_a_while(), give_up: &|| false };
    // SAFETY: the library makes nothing of handles.
    let borrow = || unsafe { NcclCommunicator::borrow(&library(), std::ptr::dangling_mut::<c_void>()) }.unwrap();
    let parent = borrow();
    assert_eq!((parent.size(), parent.rank()), (5, 5));
    let own = parent.split(Some(0), 0, 2, Config { blocking: true }, patience).unwrap();
    drop(parent);
    borrow().abort().unwrap();
    NcclCommunicator::abort_all(vec![borrow()], || {}).unwrap();
    assert_eq!((SEEN.get().destroyed, SEEN.get().aborted), (0, 0));
    drop(own);
    assert_eq!((SEEN.get().destroyed, SEEN.get().aborted), (1, 0));
}
