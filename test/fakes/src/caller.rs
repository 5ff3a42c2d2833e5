//! Another CUDA user of the process: it owns memory and a stream of a device, through the driver that the process finds.
#![allow(unsafe_code, reason = "functions are found by their names")]

use std::ffi::c_void;

/// A device's memory and a stream of it.
#[derive(Debug)]
pub struct DeviceCaller {
    library: libloading::Library,
    /// The stream.
    pub stream: *mut c_void,
    /// The number of the device.
    pub device: usize,
    context: *mut c_void,
}

/// `CUipcMemHandle`.
#[repr(C)]
struct IpcHandle([u8; 64]);

/// A status as a result.
fn done(call: &str, status: i32) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} returns {status}")) }
}

impl DeviceCaller {
    /// A caller on a device.
    ///
    /// # Errors
    /// Fails where the process finds no driver, or that one has no such device.
    pub fn new(device: i32) -> Result<Self, String> {
        // SAFETY: the process finds the driver's stand-in under this name, or a driver.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.map_err(|error| error.to_string())?;
        let null = std::ptr::null_mut();
        let mut caller = Self { library, stream: null, device: device as usize, context: null };
        let (mut context, mut stream) = (null, null);
        // SAFETY: the function of `cuda.h`; the place is of this frame.
        done("cuDevicePrimaryCtxRetain", unsafe {
            caller.function::<extern "C" fn(*mut *mut c_void, i32) -> i32>(b"cuDevicePrimaryCtxRetain\0")?(
                &raw mut context,
                device,
            )
        })?;
        caller.context = context;
        caller.make_current()?;
        // SAFETY: as above.
        done("cuStreamCreateWithPriority", unsafe {
            caller.function::<extern "C" fn(*mut *mut c_void, u32, i32) -> i32>(b"cuStreamCreateWithPriority\0")?(
                &raw mut stream,
                1,
                0,
            )
        })?;
        caller.stream = stream;
        Ok(caller)
    }

    /// A function of the driver.
    ///
    /// # Safety
    /// The type is that of `cuda.h`.
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F, String> {
        // SAFETY: as the caller promises.
        let found = unsafe { self.library.get::<F>(name) };
        found.map(|found| *found).map_err(|error| error.to_string())
    }

    /// Makes the device current in this thread.
    fn make_current(&self) -> Result<(), String> {
        // SAFETY: the function of `cuda.h`.
        let set = unsafe { self.function::<extern "C" fn(*mut c_void) -> i32>(b"cuCtxSetCurrent\0") }?;
        done("cuCtxSetCurrent", set(self.context))
    }

    /// New memory with these numbers.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn upload(&self, data: &[f32]) -> Result<u64, String> {
        self.make_current()?;
        let (mut address, bytes) = (0u64, size_of_val(data));
        // SAFETY: the function of `cuda.h`.
        let allocate = unsafe { self.function::<extern "C" fn(*mut u64, usize) -> i32>(b"cuMemAlloc_v2\0") }?;
        done("cuMemAlloc", allocate(&raw mut address, bytes))?;
        // SAFETY: as above.
        let copy = unsafe { self.function::<extern "C" fn(u64, *const f32, usize) -> i32>(b"cuMemcpyHtoD_v2\0") }?;
        done("cuMemcpyHtoD", copy(address, data.as_ptr(), bytes))?;
        Ok(address)
    }

    /// Frees memory.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn free(&self, address: u64) -> Result<(), String> {
        self.make_current()?;
        // SAFETY: the function of `cuda.h`.
        let free = unsafe { self.function::<extern "C" fn(u64) -> i32>(b"cuMemFree_v2\0") }?;
        done("cuMemFree", free(address))
    }

    /// A handle by which other processes open memory.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn share(&self, address: u64) -> Result<[u8; 64], String> {
        self.make_current()?;
        let mut handle = [0u8; 64];
        // SAFETY: the function of `cuda.h`.
        let share = unsafe { self.function::<extern "C" fn(*mut [u8; 64], u64) -> i32>(b"cuIpcGetMemHandle\0") }?;
        done("cuIpcGetMemHandle", share(&raw mut handle, address))?;
        Ok(handle)
    }

    /// The address of memory that another process has shared.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn open(&self, handle: [u8; 64]) -> Result<u64, String> {
        self.make_current()?;
        let mut address = 0u64;
        type Open = extern "C" fn(*mut u64, IpcHandle, u32) -> i32;
        // SAFETY: the function of `cuda.h`.
        let open = unsafe { self.function::<Open>(b"cuIpcOpenMemHandle_v2\0") }?;
        done("cuIpcOpenMemHandle", open(&raw mut address, IpcHandle(handle), 1))?;
        Ok(address)
    }

    /// Puts these numbers into memory, after all that the stream has to do.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn write(&self, address: u64, data: &[f32]) -> Result<(), String> {
        self.wait()?;
        // SAFETY: the function of `cuda.h`.
        let copy = unsafe { self.function::<extern "C" fn(u64, *const f32, usize) -> i32>(b"cuMemcpyHtoD_v2\0") }?;
        done("cuMemcpyHtoD", copy(address, data.as_ptr(), size_of_val(data)))
    }

    fn wait(&self) -> Result<(), String> {
        self.make_current()?;
        // SAFETY: the function of `cuda.h`.
        let wait = unsafe { self.function::<extern "C" fn(*mut c_void) -> i32>(b"cuStreamSynchronize\0") }?;
        done("cuStreamSynchronize", wait(self.stream))
    }

    /// Records what is issued on the stream from here on, in the mode in which PyTorch does: other calls of the process
    /// that wait or allocate make it void, unless their threads have said that they may.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn begin_capture(&self) -> Result<(), String> {
        self.make_current()?;
        // SAFETY: the function of `cuda.h`.
        let begin = unsafe { self.function::<extern "C" fn(*mut c_void, i32) -> i32>(b"cuStreamBeginCapture_v2\0") }?;
        done("cuStreamBeginCapture", begin(self.stream, 0))
    }

    /// Ends the recording and returns it, ready to be launched.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn end_capture(&self) -> Result<*mut c_void, String> {
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        type Instantiate = extern "C" fn(*mut *mut c_void, *mut c_void, u64) -> i32;
        // SAFETY: the function of `cuda.h`.
        let end =
            unsafe { self.function::<extern "C" fn(*mut c_void, *mut *mut c_void) -> i32>(b"cuStreamEndCapture\0") }?;
        done("cuStreamEndCapture", end(self.stream, &raw mut graph))?;
        // SAFETY: as above.
        let instantiate = unsafe { self.function::<Instantiate>(b"cuGraphInstantiateWithFlags\0") }?;
        done("cuGraphInstantiate", instantiate(&raw mut executable, graph, 0))?;
        // SAFETY: as above.
        let destroy = unsafe { self.function::<extern "C" fn(*mut c_void) -> i32>(b"cuGraphDestroy\0") }?;
        done("cuGraphDestroy", destroy(graph))?;
        Ok(executable)
    }

    /// Replays a recording on the stream.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn launch(&self, executable: *mut c_void) -> Result<(), String> {
        self.make_current()?;
        // SAFETY: the function of `cuda.h`.
        let launch = unsafe { self.function::<extern "C" fn(*mut c_void, *mut c_void) -> i32>(b"cuGraphLaunch\0") }?;
        done("cuGraphLaunch", launch(executable, self.stream))
    }

    /// Ends a recording, which does not run.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn destroy(&self, executable: *mut c_void) -> Result<(), String> {
        // SAFETY: the function of `cuda.h`.
        let destroy = unsafe { self.function::<extern "C" fn(*mut c_void) -> i32>(b"cuGraphExecDestroy\0") }?;
        done("cuGraphExecDestroy", destroy(executable))
    }

    /// So many numbers after all that the stream has to do.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn download(&self, address: u64, count: usize) -> Result<Vec<f32>, String> {
        self.wait()?;
        let mut data = vec![0.0f32; count];
        // SAFETY: as above.
        let copy = unsafe { self.function::<extern "C" fn(*mut f32, u64, usize) -> i32>(b"cuMemcpyDtoH_v2\0") }?;
        done("cuMemcpyDtoH", copy(data.as_mut_ptr(), address, size_of_val(&data[..])))?;
        Ok(data)
    }
}
