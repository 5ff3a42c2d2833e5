//! The functions of the CUDA driver, of NVRTC and of cuBLASLt that are used, each library opened once.
//!
//! Signatures and numbers are those of `cuda.h`, `nvrtc.h` and `cublasLt.h` of CUDA 12 and 13, which agree in
//! them.

use crate::sys::library::{DynamicLibrary, RawHandle, c_text, library_names, own_status_text, table};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Major versions of CUDA whose libraries are looked for, newest first.
const MAJORS: [i32; 2] = [13, 12];

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IpcHandle(pub(super) [u8; 64]);

/// `CUlaunchAttribute`; its value is a union of 64 bytes.
#[repr(C)]
pub(super) struct LaunchAttribute {
    pub(super) id: c_int,
    pub(super) pad: [u8; 4],
    pub(super) value: [u64; 8],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: RawHandle,
    pub(super) attributes: *mut LaunchAttribute,
    pub(super) attribute_count: c_uint,
}

/// `CUstreamBatchMemOpParams`: the kind of operation, the address, the value, flags, and what stays zero. A
/// field of 32 bits has eight bytes, of which the first four count.
pub(super) type StreamWord = [u64; 6];

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MatmulAlgorithm([u64; 8]);

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HeuristicResult {
    pub(super) algorithm: MatmulAlgorithm,
    pub(super) workspace: usize,
    pub(super) state: c_int,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

table! {
    /// `cuda.h`.
    Driver {
        cuInit(flags: c_uint);
        cuDriverGetVersion(version: *mut c_int);
        cuGetErrorName(status: c_int, text: *mut *const c_char);
        cuGetErrorString(status: c_int, text: *mut *const c_char);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut c_int, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
        cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
        cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
        cuDeviceCanAccessPeer(able: *mut c_int, device: c_int, peer: c_int);
        cuDevicePrimaryCtxRetain(context: *mut RawHandle, device: c_int);
        cuDevicePrimaryCtxRelease_v2(device: c_int);
        cuCtxGetCurrent(context: *mut RawHandle);
        cuCtxSetCurrent(context: RawHandle);
        cuCtxSynchronize();
        cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        cuCtxEnablePeerAccess(peer: RawHandle, flags: c_uint);
        cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        cuMemAlloc_v2(address: *mut u64, bytes: usize);
        cuMemFree_v2(address: u64);
        cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
        cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: RawHandle);
        cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: RawHandle);
        cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: RawHandle);
        cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: RawHandle);
        cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64);
        cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint);
        cuIpcCloseMemHandle(address: u64);
        cuPointerGetAttributes(count: c_uint, attributes: *mut c_int, values: *mut *mut c_void, address: u64);
        cuStreamCreateWithPriority(stream: *mut RawHandle, flags: c_uint, priority: c_int);
        cuStreamDestroy_v2(stream: RawHandle);
        cuStreamGetCtx(stream: RawHandle, context: *mut RawHandle);
        cuStreamQuery(stream: RawHandle);
        cuStreamSynchronize(stream: RawHandle);
        cuStreamWaitEvent(stream: RawHandle, event: RawHandle, flags: c_uint);
        cuStreamBatchMemOp_v2(stream: RawHandle, count: c_uint, ops: *mut StreamWord, flags: c_uint);
        cuStreamBeginCapture_v2(stream: RawHandle, mode: c_int);
        cuStreamEndCapture(stream: RawHandle, graph: *mut RawHandle);
        cuStreamGetCaptureInfo_v2(
            stream: RawHandle,
            status: *mut c_int,
            id: *mut u64,
            graph: *mut RawHandle,
            dependencies: *mut *const RawHandle,
            count: *mut usize,
        );
        cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
        cuUserObjectCreate(
            object: *mut RawHandle,
            value: *mut c_void,
            destroy: extern "C" fn(*mut c_void),
            references: c_uint,
            flags: c_uint,
        );
        cuUserObjectRelease(object: RawHandle, count: c_uint);
        cuGraphRetainUserObject(graph: RawHandle, object: RawHandle, count: c_uint, flags: c_uint);
        cuGraphInstantiateWithFlags(executable: *mut RawHandle, graph: RawHandle, flags: u64);
        cuGraphDestroy(graph: RawHandle);
        cuGraphExecDestroy(executable: RawHandle);
        cuGraphUpload(executable: RawHandle, stream: RawHandle);
        cuGraphLaunch(executable: RawHandle, stream: RawHandle);
        cuEventCreate(event: *mut RawHandle, flags: c_uint);
        cuEventDestroy_v2(event: RawHandle);
        cuEventQuery(event: RawHandle);
        cuEventRecord(event: RawHandle, stream: RawHandle);
        cuEventRecordWithFlags(event: RawHandle, stream: RawHandle, flags: u32);
        cuEventElapsedTime(milliseconds: *mut f32, start: RawHandle, end: RawHandle);
        cuModuleLoadData(module: *mut RawHandle, image: *const c_void);
        cuModuleUnload(module: RawHandle);
        cuModuleGetFunction(function: *mut RawHandle, module: RawHandle, name: *const c_char);
        cuFuncGetParamInfo(function: RawHandle, index: usize, offset: *mut usize, bytes: *mut usize);
        cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: RawHandle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        );
    }
}

table! {
    /// `nvrtc.h`.
    Nvrtc {
        nvrtcVersion(major: *mut c_int, minor: *mut c_int);
        nvrtcCreateProgram(
            program: *mut RawHandle,
            source: *const c_char,
            name: *const c_char,
            count: c_int,
            headers: *const *const c_char,
            include_names: *const *const c_char,
        );
        nvrtcDestroyProgram(program: *mut RawHandle);
        nvrtcCompileProgram(program: RawHandle, count: c_int, options: *const *const c_char);
        nvrtcGetProgramLogSize(program: RawHandle, bytes: *mut usize);
        nvrtcGetProgramLog(program: RawHandle, log: *mut c_char);
        nvrtcGetCUBINSize(program: RawHandle, bytes: *mut usize);
        nvrtcGetCUBIN(program: RawHandle, image: *mut c_char);
        // Of stand-ins alone: whether kernels are to say what they compute.
        hostirTakesNotes();
    }
}

table! {
    /// `cublasLt.h`.
    BlasLt {
        cublasLtCreate(handle: *mut RawHandle);
        cublasLtDestroy(handle: RawHandle);
        cublasLtMatrixLayoutCreate(layout: *mut RawHandle, element: c_int, rows: u64, columns: u64, leading: i64);
        cublasLtMatrixLayoutDestroy(layout: RawHandle);
        cublasLtMatrixLayoutSetAttribute(layout: RawHandle, attribute: c_int, value: *const c_void, bytes: usize);
        cublasLtMatmulDescCreate(operation: *mut RawHandle, compute: c_int, scale: c_int);
        cublasLtMatmulDescDestroy(operation: RawHandle);
        cublasLtMatmulDescSetAttribute(operation: RawHandle, attribute: c_int, value: *const c_void, bytes: usize);
        cublasLtMatmulPreferenceCreate(preference: *mut RawHandle);
        cublasLtMatmulPreferenceDestroy(preference: RawHandle);
        cublasLtMatmulPreferenceSetAttribute(
            preference: RawHandle,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        );
        cublasLtMatmulAlgoGetHeuristic(
            handle: RawHandle,
            operation: RawHandle,
            a: RawHandle,
            b: RawHandle,
            c: RawHandle,
            d: RawHandle,
            preference: RawHandle,
            requested: c_int,
            proposals: *mut HeuristicResult,
            returned: *mut c_int,
        );
        cublasLtMatmulAlgoCapGetAttribute(
            algorithm: *const MatmulAlgorithm,
            attribute: c_int,
            value: *mut c_void,
            bytes: usize,
            written: *mut usize,
        );
        cublasLtMatmulAlgoConfigSetAttribute(
            algorithm: *mut MatmulAlgorithm,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        );
        cublasLtMatmulAlgoCheck(
            handle: RawHandle,
            operation: RawHandle,
            a: RawHandle,
            b: RawHandle,
            c: RawHandle,
            d: RawHandle,
            algorithm: *const MatmulAlgorithm,
            result: *mut HeuristicResult,
        );
        cublasLtMatmul(
            handle: RawHandle,
            operation: RawHandle,
            alpha: *const c_void,
            a: *const c_void,
            a_layout: RawHandle,
            b: *const c_void,
            b_layout: RawHandle,
            beta: *const c_void,
            c: *const c_void,
            c_layout: RawHandle,
            d: *mut c_void,
            d_layout: RawHandle,
            algorithm: *const MatmulAlgorithm,
            workspace: *mut c_void,
            workspace_bytes: usize,
            stream: RawHandle,
        );
    }
}

/// The driver; all its functions are missing where there is none. It is named by the version of its interface,
/// which has been 1 ever since.
pub(super) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: NVIDIA's driver has these names, and can be opened in any process.
        let opened = unsafe { DynamicLibrary::open_first(&library_names("libcuda.so", &[1]), |_| None) };
        // SAFETY: the table is that of `cuda.h`.
        unsafe { Driver::of(opened) }
    })
}

/// NVRTC: of the driver's major version, or else of the newest one that the driver can load kernels of.
pub(super) fn nvrtc() -> &'static Nvrtc {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    NVRTC.get_or_init(|| {
        let most = driver_major();
        // SAFETY: NVIDIA's compiler has these names, and can be opened in any process.
        let opened = unsafe {
            DynamicLibrary::open_first(&library_names("libnvrtc.so", &candidate_majors(most)), |library| {
                version_mismatch(nvrtc_of(library).map(|of| of.0), most)
            })
        };
        // SAFETY: the table is that of `nvrtc.h`.
        unsafe { Nvrtc::of(opened) }
    })
}

/// The version of an NVRTC.
fn nvrtc_of(library: &DynamicLibrary) -> Option<(i32, i32)> {
    // SAFETY: the type is that of `nvrtc.h`.
    let version = unsafe { library.symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(c"nvrtcVersion") };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to integers of this frame.
    (unsafe { version?(&raw mut major, &raw mut minor) } == 0).then_some((major, minor))
}

/// cuBLASLt: as [`nvrtc`].
pub(super) fn blas() -> &'static BlasLt {
    static BLAS: OnceLock<BlasLt> = OnceLock::new();
    BLAS.get_or_init(|| {
        let most = driver_major();
        // SAFETY: NVIDIA's library has these names, and can be opened in any process.
        let opened = unsafe {
            DynamicLibrary::open_first(&library_names("libcublasLt.so", &candidate_majors(most)), |library| {
                version_mismatch(blas_of(library).map(|version| (version / 10_000) as i32), most)
            })
        };
        // SAFETY: the table is that of `cublasLt.h`.
        unsafe { BlasLt::of(opened) }
    })
}

/// The version of a cuBLASLt, `130002`.
pub(super) fn blas_of(library: &DynamicLibrary) -> Option<usize> {
    // SAFETY: the type is that of `cublasLt.h`.
    let version = unsafe { library.symbol::<unsafe extern "C" fn() -> usize>(c"cublasLtGetVersion") }?;
    // SAFETY: takes nothing.
    Some(unsafe { version() })
}

/// The major version of CUDA that the driver is of, if there is one.
fn driver_major() -> Option<i32> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer of this frame.
    let status = unsafe { driver().cuDriverGetVersion(&raw mut version) };
    (status == 0 && version > 0).then_some(version / 1000)
}

/// Versions in the order in which they are tried: none that is newer than the driver.
fn candidate_majors(driver: Option<i32>) -> Vec<i32> {
    let most = driver.unwrap_or(i32::MAX);
    let known = MAJORS.into_iter().filter(|major| *major <= most);
    let own = driver.filter(|major| *major > MAJORS[0]);
    own.into_iter().chain(known).collect()
}

/// Why a library of a major version of CUDA cannot be used beside a driver, if it cannot: it is newer than that,
/// or too old for the functions above.
fn version_mismatch(major: Option<i32>, driver: Option<i32>) -> Option<String> {
    let oldest = MAJORS[MAJORS.len() - 1];
    let most = driver.unwrap_or(i32::MAX);
    match major {
        None => Some("does not report its version".to_owned()),
        Some(major) if major < oldest => {
            Some(format!("has version {major} of CUDA, but {oldest} or newer is required"))
        }
        Some(major) if major > most => {
            Some(format!("has version {major} of CUDA, but the driver supports at most {most}"))
        }
        Some(_) => None,
    }
}

/// A status of the driver for people: its name and what it means.
pub(super) fn describe_status(status: c_int) -> String {
    if let Some(text) = own_status_text(status) {
        return text.to_owned();
    }
    let (mut name, mut meaning) = (std::ptr::null(), std::ptr::null());
    // SAFETY: the pointer is to one of this frame; of a status that it does not know the driver writes null.
    let _ = unsafe { driver().cuGetErrorName(status, &raw mut name) };
    // SAFETY: as above.
    let _ = unsafe { driver().cuGetErrorString(status, &raw mut meaning) };
    if name.is_null() {
        return format!("status {status}, for which this driver has no description");
    }
    // SAFETY: a constant of the driver, which is never closed.
    let name = unsafe { c_text(name) };
    // SAFETY: as above, or null.
    let meaning = unsafe { c_text(meaning) };
    format!("{name} ({meaning})")
}

/// A status of a library that has names for them, for people.
///
/// # Safety
/// `symbol` names a function of the library that takes a status and returns a text of its own.
pub(super) unsafe fn status_name(library: &DynamicLibrary, symbol: &std::ffi::CStr, status: c_int) -> String {
    if let Some(text) = own_status_text(status) {
        return text.to_owned();
    }
    // SAFETY: as the caller promises.
    let name = unsafe { library.symbol::<unsafe extern "C" fn(c_int) -> *const c_char>(symbol) };
    let Some(name) = name else { return format!("status {status}") };
    // SAFETY: takes any number.
    let found = unsafe { name(status) };
    // SAFETY: a constant of the library, or null.
    format!("{} ({status})", unsafe { c_text(found) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Sizes and offsets as the C headers have them on 64-bit machines.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<IpcHandle>(), 64);
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(offset_of!(LaunchAttribute, value), 8);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(offset_of!(LaunchConfig, stream), 32);
        assert_eq!(offset_of!(LaunchConfig, attribute_count), 48);
        assert_eq!(size_of::<StreamWord>(), 48);
        assert_eq!(size_of::<MatmulAlgorithm>(), 64);
        assert_eq!(size_of::<HeuristicResult>(), 96);
        assert_eq!(offset_of!(HeuristicResult, state), 72);
    }

    #[test]
    fn libraries_are_not_newer_than_the_driver() {
        assert_eq!(candidate_majors(None), [13, 12]);
        assert_eq!(candidate_majors(Some(13)), [13, 12]);
        assert_eq!(candidate_majors(Some(12)), [12]);
        assert_eq!(candidate_majors(Some(14)), [14, 13, 12]);
        for (major, driver) in [(13, None), (12, Some(13)), (14, Some(14)), (14, None)] {
            assert_eq!(version_mismatch(Some(major), driver), None);
        }
        let newer = "has version 13 of CUDA, but the driver supports at most 12";
        assert_eq!(version_mismatch(Some(13), Some(12)).as_deref(), Some(newer));
        let older = "has version 11 of CUDA, but 12 or newer is required";
        assert_eq!(version_mismatch(Some(11), Some(13)).as_deref(), Some(older));
        assert_eq!(version_mismatch(None, None).as_deref(), Some("does not report its version"));
    }
}
