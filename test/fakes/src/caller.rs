//! Another CUDA user of the process: it owns memory and a stream of a device, through the driver that the process finds.
#![allow(unsafe_code, reason = "functions are found by their names")]

use std::ffi::c_void;

/// A device's memory and a stream of it.
#[derive(Debug)]
pub struct DeviceCaller {
    library: libloading::Library,
    /// The stream.
    pub stream: *mut c_void,
    context: *mut c_void,
}

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
        let mut caller = Self { library, stream: null, context: null };
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

    /// So many numbers behind all that the stream has to do.
    ///
    /// # Errors
    /// Fails if the driver does.
    pub fn download(&self, address: u64, count: usize) -> Result<Vec<f32>, String> {
        self.make_current()?;
        // SAFETY: the function of `cuda.h`.
        let wait = unsafe { self.function::<extern "C" fn(*mut c_void) -> i32>(b"cuStreamSynchronize\0") }?;
        done("cuStreamSynchronize", wait(self.stream))?;
        let mut data = vec![0.0f32; count];
        // SAFETY: as above.
        let copy = unsafe { self.function::<extern "C" fn(*mut f32, u64, usize) -> i32>(b"cuMemcpyDtoH_v2\0") }?;
        done("cuMemcpyDtoH", copy(data.as_mut_ptr(), address, size_of_val(&data[..])))?;
        Ok(data)
    }
}
