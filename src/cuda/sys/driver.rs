//! The CUDA driver: devices, memory, streams, events, modules and graphs.
//!
//! Device addresses are plain numbers: they may or may not be addresses of this process's memory. A function that reads
//! or writes at an address is therefore `unsafe`, and states what the address has to be. The types here own the
//! driver's handles.

use crate::sys::Error;
use crate::sys::library::CallStatus;
use crate::sys::module::{KernelFunction, LaunchShape};
use crate::sys::tables;
use crate::sys::tensor_map::TensorMap;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUevent_record_flags, CUgraphExec,
    CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUresult, CUstream, CUstream_flags,
    CUstreamCaptureMode, CUuuid,
};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Whether the driver's library can be opened.
pub(crate) fn is_present() -> bool {
    tables::driver().opened.is_open()
}

/// Initialises the driver and counts the devices.
pub(crate) fn device_count() -> Result<usize, Error> {
    if !is_present() {
        let searched = tables::driver().opened.searched.clone();
        return Err(Error::Missing { library: "CUDA driver", searched });
    }
    // SAFETY: takes no flags.
    unsafe { tables::driver().cuInit(0) }.into_result()?;
    let mut count = 0;
    // SAFETY: the pointer is to an integer of this frame.
    unsafe { tables::driver().cuDeviceGetCount(&raw mut count) }.into_result()?;
    Ok(count.max(0) as usize)
}

/// The product name of a device, which need not be open.
pub(crate) fn device_name(ordinal: usize) -> Result<String, Error> {
    let mut device = 0;
    // SAFETY: the pointer is to an integer of this frame.
    unsafe { tables::driver().cuDeviceGet(&raw mut device, ordinal as c_int) }.into_result()?;
    read_device_name(device)
}

fn read_device_name(device: CUdevice) -> Result<String, Error> {
    let mut name = [0u8; 256];
    let (place, bytes) = (name.as_mut_ptr().cast(), name.len() as c_int);
    // SAFETY: the place has as many bytes as the call is told.
    unsafe { tables::driver().cuDeviceGetName(place, bytes, device) }.into_result()?;
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The driver's CUDA version, `(13, 0)`.
pub(crate) fn version() -> Result<(i32, i32), Error> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer of this frame.
    unsafe { tables::driver().cuDriverGetVersion(&raw mut version) }.into_result()?;
    Ok((version / 1000, version % 1000 / 10))
}

/// A device with its primary context, which other CUDA users of the process share.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    ordinal: usize,
    device: CUdevice,
    context: CUcontext,
    /// True if a launch may overlap with the end of the preceding kernel (programmatic dependent launch).
    overlaps: bool,
}

// SAFETY: contexts may be used from any thread once they are made current there.
unsafe impl Send for CudaDevice {}
// SAFETY: as above.
unsafe impl Sync for CudaDevice {}

impl CudaDevice {
    /// Opens a device and makes it current in this thread.
    pub(crate) fn open(ordinal: usize) -> Result<Arc<Self>, Error> {
        let mut device = 0;
        // SAFETY: the pointer is to an integer of this frame.
        unsafe { tables::driver().cuDeviceGet(&raw mut device, ordinal as c_int) }.into_result()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the device exists; the context is released when this value is dropped.
        unsafe { tables::driver().cuDevicePrimaryCtxRetain(&raw mut context, device) }.into_result()?;
        let mut device = Self { ordinal, device, context, overlaps: false };
        device.make_current()?;
        device.overlaps = device.architecture()? >= 90;
        Ok(Arc::new(device))
    }

    /// Makes the device current in this thread.
    pub(crate) fn make_current(&self) -> Result<(), Error> {
        // SAFETY: the context is retained.
        unsafe { tables::driver().cuCtxSetCurrent(self.context) }.into_result()
    }

    /// Whether this is its context.
    pub(super) fn is_context(&self, context: CUcontext) -> bool {
        self.context == context
    }

    /// Its number among the process's devices.
    pub(crate) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The driver's handle.
    pub(super) fn raw_handle(&self) -> CUdevice {
        self.device
    }

    /// The primary context.
    pub(super) fn primary_context(&self) -> CUcontext {
        self.context
    }

    /// Returns true if launches may overlap with the end of the preceding kernel (programmatic dependent launch).
    pub(super) fn overlaps_launches(&self) -> bool {
        self.overlaps
    }

    /// Its product name.
    pub(crate) fn name(&self) -> Result<String, Error> {
        read_device_name(self.device)
    }

    /// Returns the identifier that is unique to this device.
    pub(crate) fn uuid(&self) -> Result<[u8; 16], Error> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the pointer is to an identifier of this frame.
        unsafe { tables::driver().cuDeviceGetUuid_v2(&raw mut uuid, self.device) }
            .into_result()
            .map(|()| uuid.bytes.map(|byte| byte as u8))
    }

    /// `90` for `sm_90`.
    pub(crate) fn architecture(&self) -> Result<u32, Error> {
        let major = self.query_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.query_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(major * 10 + minor)
    }

    /// Number of SMs.
    pub(crate) fn sm_count(&self) -> Result<u32, Error> {
        self.query_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    fn query_attribute(&self, attribute: CUdevice_attribute) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: the device exists; the pointer is to an integer of this frame.
        unsafe { tables::driver().cuDeviceGetAttribute(&raw mut value, attribute as c_int, self.device) }
            .into_result()
            .map(|()| value.max(0) as u32)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // SAFETY: retained in `open`.
        let _ = unsafe { tables::driver().cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// One allocation of device memory.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    device: Arc<CudaDevice>,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Allocates uninitialised memory of the device, which must be current. Its address is a multiple of 256.
    pub(crate) fn new(device: &Arc<CudaDevice>, bytes: usize) -> Result<Self, Error> {
        let mut address = 0;
        // SAFETY: the pointer is to an integer of this frame.
        let status = unsafe { tables::driver().cuMemAlloc_v2(&raw mut address, bytes.max(1)) };
        if status.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int {
            return Err(Error::NoMemory { bytes: bytes as u64, free: free_bytes() });
        }
        status.into_result().map(|()| Self { device: device.clone(), address, bytes })
    }

    /// The start address.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes
    }
}

/// Free bytes of the current device; 0 if unknown.
fn free_bytes() -> u64 {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both pointers are to integers of this frame.
    let _ = unsafe { tables::driver().cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    free as u64
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: allocated in `new`, freed once. The work on it has ended: that is what whoever enqueued it
            // promised ([`CudaStream`]).
            let _ = unsafe { tables::driver().cuMemFree_v2(self.address) };
        }
    }
}

/// Copies to the device and waits for the copy. From ordinary memory the call itself only waits until the bytes are
/// staged, and streams that do not wait for the default stream would not wait for the rest.
///
/// # Safety
/// `to` is the address of as many bytes, in memory that the current device can write, and no work in flight uses them.
pub(crate) unsafe fn upload_bytes(to: u64, bytes: &[u8]) -> Result<(), Error> {
    let from = bytes.as_ptr().cast();
    // SAFETY: as the caller promises; the source is a slice of as many bytes.
    unsafe { tables::driver().cuMemcpyHtoD_v2(to, from, bytes.len()) }.into_result()?;
    let default = std::ptr::null_mut();
    // SAFETY: the default stream always exists.
    unsafe { tables::driver().cuStreamSynchronize(default) }.into_result()
}

/// Waits for all work on the current device.
pub(crate) fn synchronize_device() -> Result<(), Error> {
    // SAFETY: a context is current.
    unsafe { tables::driver().cuCtxSynchronize() }.into_result()
}

/// Copies from the device and waits for it.
///
/// # Safety
/// `from` is the address of as many bytes, in memory that the current device can read, and no work in flight writes
/// them.
pub(crate) unsafe fn download_bytes(bytes: &mut [u8], from: u64) -> Result<(), Error> {
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: as the caller promises; the target is a slice of as many bytes.
    unsafe { tables::driver().cuMemcpyDtoH_v2(to, from, bytes.len()) }.into_result()
}

/// A stream that does not wait for the default stream.
///
/// Functions that enqueue work on addresses are `unsafe`. The contract of each such call: **the bytes that it reads or
/// writes are in memory that this stream's device can access, stay allocated until the stream has passed the call, and
/// are used meanwhile only by work that is ordered with the stream.** In a stream that captures, this holds for each
/// replay of the graph.
#[derive(Debug)]
pub(crate) struct CudaStream {
    device: Arc<CudaDevice>,
    handle: CUstream,
    owned: bool,
    /// True if a generated kernel may be launched before the work in front of it has ended. Before the first kernel on
    /// another owner's stream, nobody knows what the kernel in front waited for.
    overlaps_next: Cell<bool>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for CudaStream {}

/// The scheduling priority of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamPriority {
    /// Products and kernels.
    Normal,
    /// Communications, which others wait for.
    High,
}

impl CudaStream {
    /// A new stream of the current device.
    pub(crate) fn new(device: &Arc<CudaDevice>, priority: StreamPriority) -> Result<Self, Error> {
        let (mut least, mut most) = (0, 0);
        // SAFETY: both pointers are to integers of this frame.
        unsafe { tables::driver().cuCtxGetStreamPriorityRange(&raw mut least, &raw mut most) }.into_result()?;
        let number = if priority == StreamPriority::High { most } else { 0 };
        let (mut handle, flags) = (std::ptr::null_mut(), CUstream_flags::CU_STREAM_NON_BLOCKING as u32);
        // SAFETY: the pointer is to a handle of this frame.
        unsafe { tables::driver().cuStreamCreateWithPriority(&raw mut handle, flags, number) }.into_result()?;
        Ok(Self { device: device.clone(), handle, owned: true, overlaps_next: Cell::new(true) })
    }

    /// Somebody else's stream.
    ///
    /// # Safety
    /// It belongs to the device's primary context, and is not destroyed before this value is dropped.
    pub(super) unsafe fn from_handle(device: &Arc<CudaDevice>, handle: CUstream) -> Self {
        Self { device: device.clone(), handle, owned: false, overlaps_next: Cell::new(false) }
    }

    /// The same stream; the original destroys it.
    ///
    /// # Safety
    /// The other one has to live as long.
    pub(crate) unsafe fn unowned_clone(&self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::from_handle(&self.device, self.handle) }
    }

    pub(super) fn raw_handle(&self) -> CUstream {
        self.handle
    }

    /// The stream for NCCL, for as long as this one lives.
    pub(crate) fn as_nccl(&self) -> nccl_rs::StreamRef<'_> {
        // SAFETY: alive while `self` is borrowed.
        unsafe { nccl_rs::StreamRef::from_raw(self.handle.cast()) }
    }

    /// Records an event on the stream.
    pub(crate) fn record(&self, event: &CudaEvent) -> Result<(), Error> {
        // SAFETY: both are alive.
        unsafe { tables::driver().cuEventRecord(event.handle, self.handle) }.into_result()
    }

    /// Records an event in a run that is being recorded, for queries from outside while the run is replayed. An event
    /// within the run ([`CudaStream::record`]) only orders its streams.
    pub(crate) fn record_external(&self, event: &CudaEvent) -> Result<(), Error> {
        const EXTERNAL: u32 = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        let driver = tables::driver();
        // SAFETY: both are alive.
        unsafe { driver.cuEventRecordWithFlags(event.handle, self.handle, EXTERNAL) }.into_result()
    }

    /// Makes the stream wait for an event.
    pub(crate) fn wait(&self, event: &CudaEvent) -> Result<(), Error> {
        // SAFETY: both are alive; there are no flags.
        unsafe { tables::driver().cuStreamWaitEvent(self.handle, event.handle, 0) }.into_result()
    }

    /// Whether everything issued so far is done.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the stream is alive.
        is_query_ready(unsafe { tables::driver().cuStreamQuery(self.handle) })
    }

    /// Waits for everything issued so far.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream is alive.
        unsafe { tables::driver().cuStreamSynchronize(self.handle) }.into_result()
    }

    /// Copies within the device.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for `bytes` bytes at `to` and at `from`, which do not overlap.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { tables::driver().cuMemcpyDtoDAsync_v2(to, from, bytes, self.handle) }.into_result()
    }

    /// Copies between devices, or within one. The driver takes an address that it does not know for memory of this
    /// process.
    ///
    /// # Safety
    /// As of [`CudaStream::copy`].
    pub(crate) unsafe fn copy_between_devices(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { tables::driver().cuMemcpyAsync(to, from, bytes, self.handle) }.into_result()
    }

    /// Copies from the device after the stream's earlier work, and waits for the copy.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for as many bytes at `from`.
    pub(crate) unsafe fn download(&self, bytes: &mut [u8], from: u64) -> Result<(), Error> {
        let (to, count) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: as the caller promises; the bytes are borrowed until the copy has ended.
        unsafe { tables::driver().cuMemcpyDtoHAsync_v2(to, from, count, self.handle) }.into_result()?;
        self.synchronize()
    }

    /// Sets every byte.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for `bytes` bytes at `to`.
    pub(crate) unsafe fn fill_bytes(&self, to: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { tables::driver().cuMemsetD8Async(to, byte, bytes, self.handle) }.into_result()
    }

    /// Launches a generated kernel, whose parameters are all 64-bit numbers. If the device supports it, the launch
    /// overlaps with the end of the kernel in front of it: generated kernels wait for that end themselves. The first
    /// launch on another owner's stream does not overlap. Fails if the number of words differs from that of the
    /// kernel's parameters.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for all memory that the kernel reads and writes with these words.
    pub(crate) unsafe fn launch(
        &self,
        function: &KernelFunction,
        grid: [u32; 3],
        block: [u32; 3],
        words: &[u64],
    ) -> Result<(), Error> {
        function.check_arguments(0, words.len())?;
        let pointers = words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
        let overlaps = self.device.overlaps_launches() && self.overlaps_next.get();
        // SAFETY: as the caller promises; the function has as many parameters, each of 64 bits, as there are pointers.
        unsafe { self.launch_with(function, [grid, block], 0, pointers, overlaps) }
    }

    /// Launches a kernel of the user after all earlier work has ended: it does not wait for that itself. A parameter gets
    /// the first bytes of its word, as many as it has.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for all memory that the kernel reads and writes with these words; its parameters have
    /// the sizes that the function was made with, 8 bytes at most.
    pub(crate) unsafe fn launch_user(
        &self,
        function: &KernelFunction,
        LaunchShape { grid, block, shared }: LaunchShape,
        words: &[u64],
    ) -> Result<(), Error> {
        function.check_arguments(0, words.len())?;
        let pointers = words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
        // SAFETY: as the caller promises.
        unsafe { self.launch_with(function, [grid, block], shared, pointers, false) }
    }

    /// Launches a kernel that takes tensor maps, then words, after all earlier work has ended: the kernel does not wait
    /// for that itself.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for all memory of the matrices of the maps, and for all that the kernel reads and
    /// writes with these words.
    pub(crate) unsafe fn launch_tiled(
        &self,
        function: &KernelFunction,
        [blocks, threads]: [u32; 2],
        shared_bytes: u32,
        maps: &[Vec<TensorMap>],
        words: &[u64],
    ) -> Result<(), Error> {
        function.check_arguments(maps.iter().map(Vec::len).sum(), words.len())?;
        let maps = maps.iter().map(|maps| TensorMap::as_parameter(maps));
        let words = words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast());
        let pointers = maps.chain(words).collect();
        // SAFETY: as the caller promises; the function has as many parameters of these sizes as there are pointers.
        unsafe { self.launch_with(function, [[blocks, 1, 1], [threads, 1, 1]], shared_bytes, pointers, false) }
    }

    /// Launches a kernel with the parameters at these host addresses.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for the memory that the kernel reads and writes with these parameters, whose number
    /// and sizes are those of the function.
    #[allow(non_snake_case, reason = "the names of the driver's structure")]
    unsafe fn launch_with(
        &self,
        function: &KernelFunction,
        [grid, block]: [[u32; 3]; 2],
        sharedMemBytes: u32,
        mut pointers: smallvec::SmallVec<[*mut c_void; 16]>,
        overlaps: bool,
    ) -> Result<(), Error> {
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        value.programmaticStreamSerializationAllowed = 1;
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let mut overlap = CUlaunchAttribute { id, pad: [0; 4], value };
        let ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]) = (grid, block);
        let config = CUlaunchConfig {
            gridDimX,
            gridDimY,
            gridDimZ,
            blockDimX,
            blockDimY,
            blockDimZ,
            sharedMemBytes,
            hStream: self.handle,
            attrs: &raw mut overlap,
            numAttrs: u32::from(overlaps),
        };
        let (parameters, extra) = (pointers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the function's module is loaded, and the parameters are its own, as the caller promises; the driver
        // copies them, and the configuration, before it returns. What the kernel does with them is the caller's
        // promise.
        let status =
            unsafe { tables::driver().cuLaunchKernelEx(&raw const config, function.raw_handle(), parameters, extra) };
        self.overlaps_next.set(!self.is_default());
        status.into_result()
    }

    /// Returns true if it is the default stream of the context or of a thread: null, `CU_STREAM_LEGACY` or
    /// `CU_STREAM_PER_THREAD`.
    fn is_default(&self) -> bool {
        const PER_THREAD: usize = 2;
        self.handle as usize <= PER_THREAD
    }

    /// Records everything that is issued from here on instead of doing it, also on streams that wait for this one,
    /// until [`CudaStream::end_capture`].
    pub(crate) fn begin_capture(&self) -> Result<(), Error> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_int;
        // SAFETY: the stream is alive.
        unsafe { tables::driver().cuStreamBeginCapture_v2(self.handle, mode) }.into_result()
    }

    /// Ends the capture and returns an executable graph.
    pub(crate) fn end_capture(&self) -> Result<CudaGraph, Error> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive; the pointer is to a handle of this frame.
        unsafe { tables::driver().cuStreamEndCapture(self.handle, &raw mut graph) }.into_result()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the graph was made above; the executable form is destroyed when it is dropped.
        let status = unsafe { tables::driver().cuGraphInstantiateWithFlags(&raw mut handle, graph, 0) };
        // SAFETY: made above, destroyed once; the executable form does not refer to it.
        let _ = unsafe { tables::driver().cuGraphDestroy(graph) };
        status.into_result()?;
        Ok(CudaGraph { device: self.device.clone(), handle })
    }

    /// Uploads a recorded graph to the device, which its first launch would do otherwise.
    pub(crate) fn upload_graph(&self, graph: &CudaGraph) -> Result<(), Error> {
        // SAFETY: both are alive.
        unsafe { tables::driver().cuGraphUpload(graph.handle, self.handle) }.into_result()
    }

    /// Launches a recorded graph.
    ///
    /// # Safety
    /// The preconditions of the recorded calls still hold for their memory, functions, communicators and streams, until
    /// this stream has passed the launch.
    pub(crate) unsafe fn launch_graph(&self, graph: &CudaGraph) -> Result<(), Error> {
        // SAFETY: both are alive; the rest is the caller's promise.
        unsafe { tables::driver().cuGraphLaunch(graph.handle, self.handle) }.into_result()
    }
}

/// Converts the status of a query: true if done, false if not ready.
fn is_query_ready(status: CallStatus) -> Result<bool, Error> {
    let is_ready = status.code != CUresult::CUDA_ERROR_NOT_READY as c_int;
    if is_ready { status.into_result().map(|()| true) } else { Ok(false) }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.owned && self.device.make_current().is_ok() {
            // SAFETY: created in `new`, destroyed once. The driver lets it end what was issued.
            let _ = unsafe { tables::driver().cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// A recorded run.
#[derive(Debug)]
pub(crate) struct CudaGraph {
    device: Arc<CudaDevice>,
    handle: CUgraphExec,
}

// SAFETY: graphs may be used from any thread, one at a time.
unsafe impl Send for CudaGraph {}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: instantiated in `end_capture`, destroyed once. The driver lets a launch of it end.
            let _ = unsafe { tables::driver().cuGraphExecDestroy(self.handle) };
        }
    }
}

/// An event: a point of a stream.
#[derive(Debug)]
pub(crate) struct CudaEvent {
    device: Arc<CudaDevice>,
    handle: CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for CudaEvent {}

impl CudaEvent {
    /// Creates an event of the current device; only `timed` events have times.
    pub(crate) fn new(device: &Arc<CudaDevice>, timed: bool) -> Result<Self, Error> {
        let mut handle = std::ptr::null_mut();
        let flags = if timed { 0 } else { CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 };
        // SAFETY: the pointer is to a handle of this frame.
        unsafe { tables::driver().cuEventCreate(&raw mut handle, flags) }.into_result()?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Whether the stream has reached it.
    pub(crate) fn is_reached(&self) -> Result<bool, Error> {
        // SAFETY: the event is alive.
        is_query_ready(unsafe { tables::driver().cuEventQuery(self.handle) })
    }

    /// Milliseconds from `start` to this event, both reached.
    pub(crate) fn elapsed_since(&self, start: &CudaEvent) -> Result<f64, Error> {
        let mut elapsed = 0.0f32;
        // SAFETY: both are alive; the pointer is to a number of this frame.
        unsafe { tables::driver().cuEventElapsedTime(&raw mut elapsed, start.handle, self.handle) }
            .into_result()
            .map(|()| f64::from(elapsed))
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: created in `new`, destroyed once. Streams that wait for it keep what they need.
            let _ = unsafe { tables::driver().cuEventDestroy_v2(self.handle) };
        }
    }
}
