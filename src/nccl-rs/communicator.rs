//! Communicators and what they carry out.

use crate::api::{CommHandle, DataType, Error, IN_PROGRESS, Library, NcclRedOp, RawConfig, SUCCESS};
use crate::{DeviceAddress, StreamRef};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Settings of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// True if calls return only after their work on the host is done. Otherwise they continue in a thread of
    /// NCCL, and [`NcclCommunicator::in_progress`] reports when they are done.
    pub blocking: bool,
}

impl Config {
    pub(crate) fn to_raw(self) -> RawConfig {
        const UNSET: c_int = c_int::MIN;
        RawConfig {
            size: size_of::<RawConfig>(),
            magic: 0xcafe_beef,
            version: 21_800,
            blocking: c_int::from(self.blocking),
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: std::ptr::null(),
            split_share: UNSET,
        }
    }
}

/// One rank's side of a communicator. Its methods are called from one thread at a time.
///
/// The methods that move data are `unsafe`, with one contract. The caller promises:
///
/// - the rank's device is current, and the stream is of it;
/// - `send` is the address of as many elements of the type as the call reads, `recv` has room for as many as it
///   writes (each method states how many), aligned for the type, in memory that the device reaches;
/// - that memory, the communicator and the stream stay until the stream has run the call, or the communicator was
///   aborted and the stream has ended; meanwhile nothing else writes the elements that it reads, or uses those that it
///   writes;
/// - every rank of the communicator makes the same calls in the same order, with the same count, type, operation
///   and root: NCCL does not compare them, and writes as much as the other end sends;
/// - in a stream that captures, all this holds for each launch of the graph.
///
/// ```compile_fail,E0133
/// fn sends(communicator: &mut nccl_rs::NcclCommunicator, anywhere: u64, stream: nccl_rs::StreamRef<'_>) {
///     let _ = communicator.send(anywhere, 1, nccl_rs::DataType::Int8, 0, stream);
/// }
/// ```
#[derive(Debug)]
pub struct NcclCommunicator {
    pub(crate) library: Arc<Library>,
    pub(crate) handle: CommHandle,
    pub(crate) size: u32,
    pub(crate) rank: u32,
    /// True if another owner destroys it.
    pub(crate) borrowed: bool,
    /// [`Config::blocking`].
    pub(crate) blocking: bool,
}

// SAFETY: NCCL allows a communicator to be used from any thread, one at a time; `&mut` and ownership see
// to that.
unsafe impl Send for NcclCommunicator {}

impl NcclCommunicator {
    /// The library.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Another owner's communicator, to split others off it ([`NcclCommunicator::split`]). This library neither
    /// destroys nor aborts it.
    ///
    /// # Safety
    /// The handle is a communicator of this very library, loaded once in the process. It stays alive until the value is
    /// dropped, and until then nobody else makes a call with it except to query its errors.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL does not accept the handle.
    pub unsafe fn borrow(library: &Arc<Library>, handle: *mut c_void) -> Result<Self, Error> {
        let (mut size, mut rank) = (0, 0);
        // SAFETY: alive, as the caller promises; the pointer is to an integer of this frame.
        let status = unsafe { (library.comm_count)(handle, &raw mut size) };
        library.check_status("ncclCommCount", status, std::ptr::null_mut())?;
        // SAFETY: as above.
        let status = unsafe { (library.comm_rank)(handle, &raw mut rank) };
        library.check_status("ncclCommUserRank", status, std::ptr::null_mut())?;
        Ok(Self {
            library: library.clone(),
            handle,
            size: size as u32,
            rank: rank as u32,
            borrowed: true,
            blocking: true,
        })
    }

    /// The handle (`ncclComm_t`), which lives as long as this value.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns true while a call continues in the background; fails if a call or a peer failed.
    ///
    /// # Errors
    /// [`Error::Call`] if the call failed, or NCCL reports the failure of a peer.
    pub fn in_progress(&self, call: &'static str) -> Result<bool, Error> {
        let mut state = SUCCESS;
        // SAFETY: the communicator is alive; the pointer is to an integer of this frame.
        let status = unsafe { (self.library.async_error)(self.handle, &raw mut state) };
        self.library.check_status("ncclCommGetAsyncError", status, self.handle)?;
        self.library.check_status(call, state, self.handle)?;
        Ok(state == IN_PROGRESS)
    }

    /// Ends all work of this communicator, on the device too. It cannot be used afterwards. Does nothing to another
    /// owner's communicator.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error; the communicator cannot be used in any case.
    pub fn abort(mut self) -> Result<(), Error> {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if self.borrowed {
            return Ok(());
        }
        // SAFETY: alive until this call, and never used after it.
        let status = unsafe { (self.library.abort)(handle) };
        self.library.check_status("ncclCommAbort", status, std::ptr::null_mut())
    }

    /// Ends all work of these communicators: tells all of their kernels to end before it waits for any; calls `notified` in
    /// between. They are of one rank. A group holds either blocking or non-blocking communicators, as NCCL demands:
    /// there is one for each kind, and the blocking ones, which wait, come last.
    ///
    /// # Errors
    /// The first one, after all of them.
    pub fn abort_all(communicators: Vec<Self>, notified: impl FnOnce()) -> Result<(), Error> {
        let (blocking, background): (Vec<_>, Vec<_>) =
            communicators.into_iter().partition(|communicator| communicator.blocking);
        let first = Self::abort_group(background, || {});
        first.and(Self::abort_group(blocking, notified))
    }

    /// Aborts communicators of one kind as one group.
    fn abort_group(communicators: Vec<Self>, notified: impl FnOnce()) -> Result<(), Error> {
        let Some(library) = communicators.first().map(|first| first.library.clone()) else {
            notified();
            return Ok(());
        };
        let opened = library.group_start();
        let mut result = Ok(());
        for communicator in communicators {
            result = result.and(communicator.abort());
        }
        notified();
        opened.and(result).and(library.group_end())
    }

    /// Gathers every rank's `count` elements, one after the other, on every rank.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: `count` elements at `send`, room for `size * count` at `recv`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn all_gather(
        &mut self,
        send: DeviceAddress,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: the communicator is alive; the rest is the caller's promise.
        let status = unsafe {
            (self.library.all_gather)(to_pointer(send), to_pointer(recv), count, dtype as c_int, self.handle, stream.0)
        };
        self.library.check_status("ncclAllGather", status, self.handle)
    }

    /// Reduces every rank's `count` elements, and gives the result to every rank.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: `count` elements at `send`, room for `count` at `recv`, which may be `send`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn all_reduce(
        &mut self,
        send: DeviceAddress,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        op: NcclRedOp,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.all_reduce)(
                to_pointer(send),
                to_pointer(recv),
                count,
                dtype as c_int,
                op as c_int,
                self.handle,
                stream.0,
            )
        };
        self.library.check_status("ncclAllReduce", status, self.handle)
    }

    /// Reduces every rank's `count` elements, and gives the result to the root.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: `count` elements at `send`; on the root room for `count` at `recv`, which may
    /// be `send`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    #[allow(clippy::too_many_arguments, reason = "the arguments of ncclReduce")]
    pub unsafe fn reduce(
        &mut self,
        send: DeviceAddress,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        op: NcclRedOp,
        root: u32,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.reduce)(
                to_pointer(send),
                to_pointer(recv),
                count,
                dtype as c_int,
                op as c_int,
                root as c_int,
                self.handle,
                stream.0,
            )
        };
        self.library.check_status("ncclReduce", status, self.handle)
    }

    /// Reduces every rank's `size * count` elements, and gives each rank its shard of the result.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: `size * count` elements at `send`, room for `count` at `recv`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn reduce_scatter(
        &mut self,
        send: DeviceAddress,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        op: NcclRedOp,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.reduce_scatter)(
                to_pointer(send),
                to_pointer(recv),
                count,
                dtype as c_int,
                op as c_int,
                self.handle,
                stream.0,
            )
        };
        self.library.check_status("ncclReduceScatter", status, self.handle)
    }

    /// The root's `count` elements, to every rank.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: on the root `count` elements at `send`; room for `count` at `recv`, which may
    /// be `send`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn broadcast(
        &mut self,
        send: DeviceAddress,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        root: u32,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.broadcast)(
                to_pointer(send),
                to_pointer(recv),
                count,
                dtype as c_int,
                root as c_int,
                self.handle,
                stream.0,
            )
        };
        self.library.check_status("ncclBroadcast", status, self.handle)
    }

    /// Sends to a rank that receives as much.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: `count` elements at `send`; the peer receives as many of the same type from
    /// this rank.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn send(
        &mut self,
        send: DeviceAddress,
        count: usize,
        dtype: DataType,
        peer: u32,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.send)(to_pointer(send), count, dtype as c_int, peer as c_int, self.handle, stream.0)
        };
        self.library.check_status("ncclSend", status, self.handle)
    }

    /// Receives from a rank that sends as much.
    ///
    /// # Safety
    /// [`NcclCommunicator`]'s contract: room for `count` elements at `recv`; the peer sends as many of the same type to
    /// this rank.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL refuses the call. Errors on the device appear later, in
    /// [`NcclCommunicator::in_progress`].
    pub unsafe fn recv(
        &mut self,
        recv: DeviceAddress,
        count: usize,
        dtype: DataType,
        peer: u32,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        // SAFETY: as in `all_gather`.
        let status = unsafe {
            (self.library.recv)(to_pointer(recv), count, dtype as c_int, peer as c_int, self.handle, stream.0)
        };
        self.library.check_status("ncclRecv", status, self.handle)
    }
}

impl Drop for NcclCommunicator {
    fn drop(&mut self) {
        if !self.handle.is_null() && !self.borrowed {
            // SAFETY: alive until this call. Its work has ended or its owner gave up on it; an error
            // leaves nothing to do.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}

fn to_pointer(address: DeviceAddress) -> *mut c_void {
    address as *mut c_void
}
