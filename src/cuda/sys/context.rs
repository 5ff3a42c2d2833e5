//! Work in another user's process: a library restores the current context and the mode of captures, queries addresses
//! that it did not allocate, and orders its work after streams that it did not create.

use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaStream};
use crate::sys::tables;
use cudarc::driver::sys::{CUcontext, CUmemorytype, CUpointer_attribute, CUstream, CUstreamCaptureMode};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Restores this thread's current context and capture mode when it is dropped.
#[derive(Debug)]
pub(crate) struct SavedContext {
    /// The handle as a number: its owner may move to another thread before it saves a context.
    context: usize,
    /// `CUstreamCaptureMode`.
    capture_mode: c_int,
}

impl SavedContext {
    /// Saves the current context, and lets the thread make all calls while others record streams
    /// ([`relax_capture_mode`]). The driver's library can be opened.
    pub(crate) fn save() -> Self {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle of this frame. Before the driver is initialised the call fails,
        // and no context can be current.
        let status = unsafe { tables::driver().cuCtxGetCurrent(&raw mut context) };
        Self { context: if status.code == 0 { context as usize } else { 0 }, capture_mode: relax_capture_mode() }
    }

    /// Makes a device current, right after [`SavedContext::save`].
    pub(crate) fn switch_to(&self, device: &CudaDevice) -> Result<(), Error> {
        if device.is_context(self.context as CUcontext) { Ok(()) } else { device.make_current() }
    }
}

impl Drop for SavedContext {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle of this frame.
        let status = unsafe { tables::driver().cuCtxGetCurrent(&raw mut context) };
        if status.code != 0 || context as usize != self.context {
            // SAFETY: it was current before, and who made it current keeps it alive; setting none unbinds ours.
            // An error leaves nothing to do.
            let _ = unsafe { tables::driver().cuCtxSetCurrent(self.context as CUcontext) };
        }
        exchange_capture_mode(self.capture_mode);
    }
}

/// Lets this thread query events and allocate memory while a stream of the process is being recorded: in a thread's
/// initial mode, such calls fail and invalidate the recording. They never concern a stream that is recorded. Returns
/// the earlier mode.
pub(crate) fn relax_capture_mode() -> c_int {
    exchange_capture_mode(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int)
}

/// Sets this thread's `CUstreamCaptureMode` and returns the one before; does nothing if the driver does not support it.
fn exchange_capture_mode(mode: c_int) -> c_int {
    let mut mode = mode;
    // SAFETY: the pointer is to a number of this frame.
    let _ = unsafe { tables::driver().cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    mode
}

/// A stream of a caller: a session's work goes after its earlier work, and before its later work.
#[derive(Clone, Copy, Debug)]
pub struct CallerStream {
    handle: CUstream,
}

// SAFETY: streams may be used from any thread; this is a number that names one.
unsafe impl Send for CallerStream {}
// SAFETY: as above.
unsafe impl Sync for CallerStream {}

impl CallerStream {
    /// A stream by its `CUstream` (or `cudaStream_t`); null is the legacy default stream.
    ///
    /// # Safety
    /// The stream belongs to the primary context of the rank's device, and is not destroyed before the calls that get
    /// it have returned.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self { handle: handle.cast() }
    }

    /// One of which nothing is asked.
    #[cfg(test)]
    pub(crate) fn from_handle(handle: usize) -> Self {
        Self { handle: handle as CUstream }
    }

    pub(super) fn raw_handle(self) -> CUstream {
        self.handle
    }

    /// Returns true if it names the default stream of the thread that uses it (`CU_STREAM_PER_THREAD`).
    pub(crate) fn is_per_thread(self) -> bool {
        const PER_THREAD: usize = 2;
        self.handle as usize == PER_THREAD
    }

    /// The stream for work on a device, which is current. Refuses streams of other contexts.
    pub(crate) fn on_device(self, device: &Arc<CudaDevice>) -> Result<Option<CudaStream>, Error> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream is alive, as `from_raw` asks for.
        unsafe { tables::driver().cuStreamGetCtx(self.handle, &raw mut context) }.into_result()?;
        // SAFETY: the stream is of the device's context, as was just found, and is not destroyed before the call
        // that it is given to has returned, as `from_raw` asks for: nobody keeps it longer.
        Ok(device.is_context(context).then(|| unsafe { CudaStream::from_handle(device, self.handle) }))
    }
}

/// The attributes of an address that are queried.
const ATTRIBUTES: [CUpointer_attribute; 6] = [
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
];

/// The driver's attributes of an address.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AddressInfo {
    /// The device whose memory it is.
    pub(crate) device: Option<usize>,
    /// True if the address is in host memory that devices can access.
    pub(crate) host: bool,
    /// True if the memory was allocated in a context other than the device's primary one.
    pub(crate) elsewhere: bool,
    /// First byte of the allocation and the byte after its last, if known.
    pub(crate) allocation: Option<(u64, u64)>,
}

/// Queries the driver about an address; `device` is current.
pub(crate) fn query_address(device: &CudaDevice, address: u64) -> Result<AddressInfo, Error> {
    let (mut context, mut start): (CUcontext, u64) = (std::ptr::null_mut(), 0);
    let (mut kind, mut managed, mut ordinal, mut size) = (0u32, 0u32, -1i32, 0usize);
    let mut attributes = ATTRIBUTES.map(|attribute| attribute as c_int);
    let mut places: [*mut c_void; ATTRIBUTES.len()] = [
        (&raw mut context).cast(),
        (&raw mut kind).cast(),
        (&raw mut managed).cast(),
        (&raw mut ordinal).cast(),
        (&raw mut start).cast(),
        (&raw mut size).cast(),
    ];
    // SAFETY: both arrays have as many entries as the call is told, and each place is of its attribute's
    // type. Of addresses that the driver does not know it writes zeros.
    unsafe {
        tables::driver().cuPointerGetAttributes(
            ATTRIBUTES.len() as u32,
            attributes.as_mut_ptr(),
            places.as_mut_ptr(),
            address,
        )
    }
    .into_result()?;
    let managed = managed & 0xff != 0;
    let on_device = kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
    // Managed memory is local to the device that reads it.
    let owner = if managed { Some(device.ordinal()) } else { usize::try_from(ordinal).ok() };
    Ok(AddressInfo {
        device: owner.filter(|_| on_device || managed),
        host: kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32 && !managed,
        elsewhere: !context.is_null() && !managed && !device.is_context(context),
        allocation: (size > 0).then(|| (start, start.saturating_add(size as u64))),
    })
}
