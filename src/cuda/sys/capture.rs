//! Recordings that a caller makes: whether a stream is being recorded, and the resources that a recorded graph keeps
//! alive.

use crate::sys::Error;
use crate::sys::context::CallerStream;
use crate::sys::driver::CudaStream;
use crate::sys::tables;
use cudarc::driver::sys::{CUgraph, CUstream, CUstreamCaptureStatus, CUuserObject_flags, CUuserObjectRetain_flags};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A capture in progress on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenCapture {
    /// Number of the recording, unique in the process.
    id: u64,
    graph: CUgraph,
}

// SAFETY: the handle is used by whoever records, in one thread at a time.
unsafe impl Send for OpenCapture {}
// SAFETY: as above.
unsafe impl Sync for OpenCapture {}

/// A resource that recorded graphs refer to. Each holds a share of it until the graph, its copies and their instances
/// are destroyed.
#[derive(Clone, Default, Debug)]
pub(crate) struct GraphLease(Arc<()>);

impl GraphLease {
    /// Returns true if a graph holds a share.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl CudaStream {
    /// The recording that the stream takes part in.
    pub(crate) fn open_capture(&self) -> Result<Option<OpenCapture>, Error> {
        // SAFETY: the stream is alive.
        unsafe { OpenCapture::of_stream(self.raw_handle()) }
    }
}

impl CallerStream {
    /// The recording that the stream takes part in.
    pub(crate) fn open_capture(&self) -> Result<Option<OpenCapture>, Error> {
        // SAFETY: the stream is alive, as `from_raw` asks for.
        unsafe { OpenCapture::of_stream(self.raw_handle()) }
    }
}

impl OpenCapture {
    /// The recording that a stream takes part in.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn of_stream(stream: CUstream) -> Result<Option<Self>, Error> {
        const ACTIVE: c_int = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as c_int;
        /// The legacy default stream, null or 1, cannot be recorded; while another stream is, it cannot be queried.
        const LEGACY: usize = 1;
        if stream as usize <= LEGACY {
            return Ok(None);
        }
        let (mut status, mut id, mut graph) = (0, 0, std::ptr::null_mut());
        // SAFETY: the stream is alive, as the caller promises; the pointers are to values of this frame, and what may
        // be null is.
        unsafe {
            tables::driver().cuStreamGetCaptureInfo_v2(
                stream,
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        }
        .into_result()?;
        Ok((status == ACTIVE).then_some(Self { id, graph }))
    }

    /// Gives a share to the graph that is being recorded.
    pub(crate) fn keep(self, lease: &GraphLease) -> Result<(), Error> {
        const NO_SYNC: u32 = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
        const MOVE: u32 = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;
        let value = Arc::into_raw(lease.0.clone()).cast_mut().cast();
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle of this frame; `release_share` takes what `value` is, once.
        let made = unsafe { tables::driver().cuUserObjectCreate(&raw mut object, value, release_share, 1, NO_SYNC) };
        if let Err(error) = made.into_result() {
            release_share(value);
            return Err(error);
        }
        // SAFETY: the graph is being recorded; the object has one reference, which moves to the graph.
        unsafe { tables::driver().cuGraphRetainUserObject(self.graph, object, 1, MOVE) }.into_result().inspect_err(
            |_| {
                // SAFETY: the reference did not move; nobody else has one.
                let _ = unsafe { tables::driver().cuUserObjectRelease(object, 1) };
            },
        )
    }
}

/// Ends a graph's share. The driver calls it in a thread of its own, in which no call of CUDA is allowed.
extern "C" fn release_share(value: *mut c_void) {
    // SAFETY: made by `Arc::into_raw` in `OpenCapture::keep`, whose share is ended once.
    drop(unsafe { Arc::from_raw(value.cast::<()>().cast_const()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_shared_as_long_as_a_graph_holds_it() {
        let lease = GraphLease::default();
        assert!(!lease.is_shared());
        let value = Arc::into_raw(lease.0.clone()).cast_mut().cast();
        assert!(lease.is_shared());
        release_share(value);
        assert!(!lease.is_shared());
    }
}
