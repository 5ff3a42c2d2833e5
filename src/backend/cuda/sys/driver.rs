//! The CUDA driver: devices, memory, streams, events, modules and graphs.
//!
//! Device addresses are plain numbers: what lies behind them is not memory of this process. The
//! driver's handles are, and live as long as the types here.

use super::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

/// Whether the driver's library can be opened.
pub fn is_present() -> bool {
    // SAFETY: opens a library by its usual names and asks nothing of it.
    unsafe { sys::is_culib_present() }
}

/// Initialises the driver and counts the devices.
pub fn devices() -> Result<usize, Error> {
    if !is_present() {
        let searched = "libcuda.so, libcuda.so.1";
        return Err(Error::Missing { library: "CUDA driver", searched });
    }
    done("cuInit", result::init())?;
    done("cuDeviceGetCount", result::device::get_count()).map(|count| count.max(0) as usize)
}

/// The driver's CUDA version, `(13, 0)`.
pub fn version() -> Result<(i32, i32), Error> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer of this frame.
    done("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) }.result())?;
    Ok((version / 1000, version % 1000 / 10))
}

pub(crate) fn done<T>(call: &'static str, result: Result<T, DriverError>) -> Result<T, Error> {
    result.map_err(|error| Error::Call { call, status: describe(error) })
}

fn describe(error: DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, DriverError>| {
        found.map_or_else(|_| "?".to_owned(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_name()), text(error.error_string()))
}

/// A device with its primary context, which other CUDA users of the process share.
#[derive(Debug)]
pub struct Device {
    ordinal: usize,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Whether its kernels wait for the ones in front of them themselves.
    overlaps: bool,
}

// SAFETY: contexts may be used from any thread once they are made current there.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Opens a device and makes it current in this thread.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, Error> {
        let device = done("cuDeviceGet", result::device::get(ordinal as c_int))?;
        // SAFETY: the device exists; the context is released when this value is dropped.
        let context =
            done("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        let mut device = Self { ordinal, device, context, overlaps: false };
        device.make_current()?;
        device.overlaps = device.architecture()? >= 90;
        Ok(Arc::new(device))
    }

    /// Makes the device current in this thread.
    pub fn make_current(&self) -> Result<(), Error> {
        // SAFETY: the context is retained.
        done("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })
    }

    /// Whether this is its context.
    pub(crate) fn is_context(&self, context: sys::CUcontext) -> bool {
        self.context == context
    }

    /// Its number among the process's devices.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The driver's handle.
    pub(super) fn raw(&self) -> sys::CUdevice {
        self.device
    }

    /// The primary context.
    pub(super) fn context(&self) -> sys::CUcontext {
        self.context
    }

    /// Its product name.
    pub fn name(&self) -> Result<String, Error> {
        done("cuDeviceGetName", result::device::get_name(self.device))
    }

    /// What tells it from all other devices.
    pub fn uuid(&self) -> Result<[u8; 16], Error> {
        let uuid = done("cuDeviceGetUuid", result::device::get_uuid(self.device))?;
        Ok(uuid.bytes.map(|byte| byte.cast_unsigned()))
    }

    /// `90` for `sm_90`.
    pub fn architecture(&self) -> Result<u32, Error> {
        use sys::CUdevice_attribute as A;
        let major = self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(major * 10 + minor)
    }

    /// Whether it multiplies 8-bit floats: from compute capability 8.9 on.
    pub fn multiplies_fp8(&self) -> Result<bool, Error> {
        Ok(self.architecture()? >= 89)
    }
    /// Number of multiprocessors.
    pub fn multiprocessors(&self) -> Result<u32, Error> {
        self.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<u32, Error> {
        // SAFETY: the device exists.
        let value = unsafe { result::device::get_attribute(self.device, attribute) };
        done("cuDeviceGetAttribute", value).map(|value| value.max(0) as u32)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained in `open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// One allocation of device memory.
#[derive(Debug)]
pub struct Memory {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Uninitialised memory of the device, which must be current. Its address is a multiple of 256.
    pub fn new(device: &Arc<Device>, bytes: usize) -> Result<Self, Error> {
        // SAFETY: the device's context is current.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Ok(address) => Ok(Self { device: device.clone(), address, bytes }),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let free = result::mem_get_info().map_or(0, |(free, _)| free as u64);
                Err(Error::NoMemory { bytes: bytes as u64, free })
            }
            Err(error) => done("cuMemAlloc", Err(error)),
        }
    }

    /// Where it starts.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: allocated in `new`, freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Copies to the device and waits for it. From ordinary memory the call itself only waits until the bytes
/// are staged, and streams that do not wait for the default stream would not wait for the rest.
pub fn upload(to: u64, bytes: &[u8]) -> Result<(), Error> {
    // SAFETY: the driver refuses addresses that are not of the device.
    done("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(to, bytes) })?;
    // SAFETY: the default stream always exists.
    done("cuStreamSynchronize", unsafe { result::stream::synchronize(std::ptr::null_mut()) })
}

/// Copies from the device and waits for it.
pub fn download(bytes: &mut [u8], from: u64) -> Result<(), Error> {
    // SAFETY: as in `upload`.
    done("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(bytes, from) })
}

/// A stream that does not wait for the default stream.
#[derive(Debug)]
pub struct Stream {
    device: Arc<Device>,
    handle: sys::CUstream,
    owned: bool,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}

/// How urgent a stream's work is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// Products and kernels.
    Normal,
    /// Communications, which others wait for.
    High,
}

impl Stream {
    /// A new stream of the current device.
    pub fn new(device: &Arc<Device>, priority: Priority) -> Result<Self, Error> {
        let (_, most) = done("cuCtxGetStreamPriorityRange", result::stream::get_priority_range())?;
        let kind = result::stream::StreamKind::NonBlocking;
        let number = if priority == Priority::High { most } else { 0 };
        let handle = result::stream::create_with_priority(kind, number);
        let handle = done("cuStreamCreateWithPriority", handle)?;
        Ok(Self { device: device.clone(), handle, owned: true })
    }

    /// Somebody else's stream of the device's context, which outlives this.
    pub(crate) fn borrowed(device: &Arc<Device>, handle: sys::CUstream) -> Self {
        Self { device: device.clone(), handle, owned: false }
    }

    /// The same stream, which is destroyed by the other one: that has to live as long.
    pub(crate) fn lent(&self) -> Self {
        Self::borrowed(&self.device, self.handle)
    }

    /// The driver's handle.
    pub fn raw(&self) -> *mut c_void {
        self.handle.cast()
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// The stream for NCCL, for as long as this one lives.
    pub fn nccl(&self) -> nccl_rs::Stream {
        // SAFETY: alive now; communications are made by the rank that owns both.
        unsafe { nccl_rs::Stream::from_raw(self.raw()) }
    }

    /// Marks this point of the stream.
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        // SAFETY: both are alive and of this device.
        done("cuEventRecord", unsafe { result::event::record(event.handle, self.handle) })
    }

    /// In a run that is being recorded: marks this point for who asks the event from outside while the run is
    /// replayed. An event within the run ([`Stream::record`]) only orders its streams.
    pub fn record_outside(&self, event: &Event) -> Result<(), Error> {
        let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: both are alive and of this device.
        let recorded = unsafe { sys::cuEventRecordWithFlags(event.handle, self.handle, flags) };
        done("cuEventRecordWithFlags", recorded.result())
    }

    /// Goes on when the mark is reached.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        done("cuStreamWaitEvent", unsafe {
            result::stream::wait_event(self.handle, event.handle, flags)
        })
    }

    /// Whether everything issued so far is done.
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.handle) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => done("cuStreamQuery", status.result()).map(|()| true),
        }
    }

    /// Waits for everything issued so far.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream is alive.
        done("cuStreamSynchronize", unsafe { result::stream::synchronize(self.handle) })
    }

    /// Copies within the device.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the driver refuses addresses that are not of the device.
        done("cuMemcpyDtoDAsync", unsafe {
            result::memcpy_dtod_async(to, from, bytes, self.handle)
        })
    }

    /// Copies between devices, or within one.
    pub fn transfer(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: as in `copy`; the driver tells from the addresses whose memory they are.
        done("cuMemcpyAsync", unsafe { sys::cuMemcpyAsync(to, from, bytes, self.handle) }.result())
    }

    /// Copies from the device behind what the stream has to do, and waits for it.
    pub fn download(&self, bytes: &mut [u8], from: u64) -> Result<(), Error> {
        // SAFETY: as in `copy`; the bytes are borrowed until the copy has ended.
        let copied = unsafe { result::memcpy_dtoh_async(bytes, from, self.handle) };
        done("cuMemcpyDtoHAsync", copied)?;
        self.synchronize()
    }

    /// Sets every byte.
    pub fn set_bytes(&self, to: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: as in `copy`.
        done("cuMemsetD8Async", unsafe { result::memset_d8_async(to, byte, bytes, self.handle) })
    }

    /// Launches a generated kernel, whose parameters are all 64-bit numbers. Where the device can, the launch
    /// overlaps with the end of a kernel in front of it: generated kernels wait for that themselves.
    pub fn launch(
        &self,
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        words: &[u64],
    ) -> Result<(), Error> {
        let mut pointers: smallvec::SmallVec<[*mut c_void; 16]> =
            words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
        let serial = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
        let mut overlap = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: serial,
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: 0,
            hStream: self.handle,
            attrs: &raw mut overlap,
            numAttrs: u32::from(self.device.overlaps),
        };
        // SAFETY: the function is of a loaded module and has as many parameters, each of 64 bits, as its
        // generator says; the driver copies them before it returns.
        let launched = unsafe {
            let parameters = pointers.as_mut_ptr();
            sys::cuLaunchKernelEx(
                &raw const config,
                function.handle,
                parameters,
                std::ptr::null_mut(),
            )
        };
        done("cuLaunchKernelEx", launched.result())
    }

    /// Everything issued from here on is recorded instead of done, on streams that wait for this one
    /// too, until [`Stream::end_capture`].
    pub fn begin_capture(&self) -> Result<(), Error> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        done("cuStreamBeginCapture", unsafe { result::stream::begin_capture(self.handle, mode) })
    }

    /// What was recorded, ready to be launched.
    pub fn end_capture(&self) -> Result<Graph, Error> {
        // SAFETY: the stream is alive; the graph is destroyed here, its executable form later.
        unsafe {
            let graph = done("cuStreamEndCapture", result::stream::end_capture(self.handle))?;
            let flags = sys::CUgraphInstantiate_flags(0);
            let executable = done("cuGraphInstantiate", result::graph::instantiate(graph, flags));
            let _ = result::graph::destroy(graph);
            Ok(Graph { device: self.device.clone(), handle: executable? })
        }
    }

    /// Brings a recorded graph to the device, which its first launch would do otherwise.
    pub fn upload(&self, graph: &Graph) -> Result<(), Error> {
        // SAFETY: both are alive.
        let uploaded = unsafe { sys::cuGraphUpload(graph.handle, self.handle) };
        done("cuGraphUpload", uploaded.result())
    }

    /// Launches a recorded graph.
    pub fn replay(&self, graph: &Graph) -> Result<(), Error> {
        // SAFETY: both are alive.
        done("cuGraphLaunch", unsafe { result::graph::launch(graph.handle, self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned && self.device.make_current().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::stream::destroy(self.handle) };
        }
    }
}

/// A recorded run.
#[derive(Debug)]
pub struct Graph {
    device: Arc<Device>,
    handle: sys::CUgraphExec,
}

// SAFETY: graphs may be used from any thread, one at a time.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: instantiated in `end_capture`, destroyed once.
            let _ = unsafe { result::graph::exec_destroy(self.handle) };
        }
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Arc<Device>,
    handle: sys::CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// An event of the current device; only those that are `timed` can be asked for times.
    pub fn new(device: &Arc<Device>, timed: bool) -> Result<Self, Error> {
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        let handle = done("cuEventCreate", result::event::create(flags))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Whether the stream has reached it.
    pub fn is_reached(&self) -> Result<bool, Error> {
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(self.handle) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => done("cuEventQuery", status.result()).map(|()| true),
        }
    }

    /// Milliseconds from `start` to this event, both reached.
    pub fn since(&self, start: &Event) -> Result<f64, Error> {
        // SAFETY: both are alive.
        let elapsed = unsafe { result::event::elapsed(start.handle, self.handle) };
        done("cuEventElapsedTime", elapsed).map(f64::from)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::event::destroy(self.handle) };
        }
    }
}

/// A loaded module; its functions live as long.
#[derive(Debug)]
pub struct Module {
    device: Arc<Device>,
    handle: sys::CUmodule,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: and from several at once.
unsafe impl Sync for Module {}

/// A kernel of a module.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    handle: sys::CUfunction,
}

// SAFETY: functions may be used from any thread.
unsafe impl Send for Function {}

impl Module {
    /// Loads a cubin to the current device.
    pub fn load(device: &Arc<Device>, image: &[u8]) -> Result<Self, Error> {
        // SAFETY: the image is a cubin that NVRTC made; the driver copies it.
        let handle = unsafe { result::module::load_data(image.as_ptr().cast()) };
        Ok(Self { device: device.clone(), handle: done("cuModuleLoadData", handle)? })
    }

    /// Its kernel `name`, loaded at once rather than at its first launch.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is loaded.
        let handle = unsafe { result::module::get_function(self.handle, name) };
        Ok(Function { handle: done("cuModuleGetFunction", handle)? })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: loaded in `load`, unloaded once.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}
