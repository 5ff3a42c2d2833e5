//! Creates communicators, which takes all ranks: limits the wait for the others, and aborts a communicator that they
//! did not join.
//!
//! A thread of NCCL does the work. A caller that stops waiting for it aborts the communicator, which ends that thread:
//! NCCL refuses to destroy a communicator that is not ready, and leaves the thread at work.

use crate::NcclCommunicator;
use crate::api::{CommHandle, Error, Library, UniqueId};
use crate::communicator::Config;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// The pause between two polls of NCCL.
const PAUSE: Duration = Duration::from_micros(200);

/// The limits of a call's wait for the other ranks.
#[derive(Clone, Copy)]
pub struct WaitLimits<'a> {
    /// The time at which it is over.
    pub deadline: Instant,
    /// Returns true once waiting is pointless because a rank is known not to come. It is called between polls of
    /// NCCL and must be cheap.
    pub give_up: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for WaitLimits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The address at which NCCL stores a handle. NCCL's thread may write it after the caller has stopped waiting; in
/// that case the memory is never freed.
struct HandleSlot(*mut CommHandle);

impl HandleSlot {
    fn new() -> Self {
        Self(Box::into_raw(Box::new(std::ptr::null_mut())))
    }

    fn read_handle(&self) -> CommHandle {
        // SAFETY: the place lives until `free`; both sides write whole pointers.
        unsafe { AtomicPtr::from_ptr(self.0) }.load(Ordering::Acquire)
    }

    /// Nobody will write there any more.
    fn free_slot(self) {
        // SAFETY: made by a box in `new`; this is the only way to give it back.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl NcclCommunicator {
    /// Joins a new communicator of `size` ranks as `rank`; waits for the others within the limits of `patience`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error, [`Error::Timeout`] or [`Error::GivenUp`] if the other ranks do not
    /// join within `patience`.
    pub fn init_rank(
        library: &Arc<Library>,
        id: UniqueId,
        size: u32,
        rank: u32,
        patience: WaitLimits<'_>,
    ) -> Result<Self, Error> {
        let mut config = Config { blocking: false }.to_raw();
        let slot = HandleSlot::new();
        // SAFETY: the slot stays until the call has ended; the configuration is of the stated size and
        // is copied.
        let status = unsafe { (library.init_rank)(slot.0, size as c_int, id, rank as c_int, &raw mut config) };
        library.check_status("ncclCommInitRankConfig", status, std::ptr::null_mut())?;
        let handle = slot.read_handle();
        let comm = Self { library: library.clone(), handle, size, rank, borrowed: false, blocking: false };
        comm.ready_or_abort("ncclCommInitRankConfig", patience).inspect(|_| slot.free_slot())
    }

    /// Splits: ranks with the same color form a new communicator, in the order of their keys; without a color a rank
    /// takes part and gets none. Every rank has to call it. `size` is the number of ranks of this color. After an error
    /// this communicator is only good for [`NcclCommunicator::abort`].
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error, [`Error::Timeout`] or [`Error::GivenUp`] if the other ranks do not
    /// call it within `patience`.
    pub fn split(
        &self,
        color: Option<u32>,
        key: u32,
        size: u32,
        config: Config,
        patience: WaitLimits<'_>,
    ) -> Result<Option<Self>, Error> {
        const NO_COLOR: c_int = -1;
        let mut raw = config.to_raw();
        let slot = HandleSlot::new();
        let color_code = color.map_or(NO_COLOR, |color| color as c_int);
        // SAFETY: this communicator is alive; the slot stays until the call has ended; the
        // configuration is of the stated size and is copied.
        let status = unsafe { (self.library.split)(self.handle, color_code, key as c_int, slot.0, &raw mut raw) };
        self.library.check_status("ncclCommSplit", status, self.handle)?;
        self.wait_until_ready("ncclCommSplit", patience)?;
        let handle = slot.read_handle();
        slot.free_slot();
        if color.is_none() || handle.is_null() {
            return Ok(None);
        }
        let Config { blocking } = config;
        let comm = Self { library: self.library.clone(), handle, size, rank: key, borrowed: false, blocking };
        comm.ready_or_abort("ncclCommSplit", patience).map(Some)
    }

    /// Returns this communicator once it is ready; aborts one that will not be.
    fn ready_or_abort(self, call: &'static str, patience: WaitLimits<'_>) -> Result<Self, Error> {
        match self.wait_until_ready(call, patience) {
            Ok(()) => Ok(self),
            Err(error) => {
                let _ = self.abort();
                Err(error)
            }
        }
    }

    /// Waits until no call is in progress.
    fn wait_until_ready(&self, call: &'static str, patience: WaitLimits<'_>) -> Result<(), Error> {
        while self.in_progress(call)? {
            if (patience.give_up)() {
                return Err(Error::GivenUp { call });
            }
            if Instant::now() > patience.deadline {
                return Err(Error::Timeout { call });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
