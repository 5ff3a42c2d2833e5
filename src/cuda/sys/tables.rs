//! The functions of the CUDA driver, NVRTC and cuBLASLt that this crate uses. Each library is opened once.
//!
//! Types, structures and constants are those of the crate cudarc, which are generated from the headers of CUDA 13;
//! those of CUDA 12 agree with them as far as this crate uses them. The signatures are ours: a status, and an attribute
//! that is passed on, is an integer, since a newer library may return a number that no enumeration of today has, and
//! such a value would be undefined behaviour. The loader is ours, too: cudarc's panics if a library or a function is
//! missing.

use crate::sys::library::{DynamicLibrary, c_text, library_names, table};
use cudarc::cublaslt::sys::{
    cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t, cublasLtMatmulPreference_t, cublasLtMatrixLayout_t,
};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUipcMemHandle,
    CUlaunchConfig, CUmodule, CUstream, CUstreamBatchMemOpParams, CUtensorMap, CUuserObject, CUuuid,
};
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Major versions of CUDA whose libraries are looked for, newest first.
const MAJORS: [i32; 2] = [13, 12];

/// `cublasLtMatmulHeuristicResult_t`. Its field `state` is an enumeration in cudarc; here it is any number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HeuristicResult {
    pub(super) algorithm: cublasLtMatmulAlgo_t,
    pub(super) workspace: usize,
    pub(super) state: c_int,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

table! {
    /// `cuda.h`.
    Driver, describe_driver_status {
        cuInit(flags: c_uint);
        cuDriverGetVersion(version: *mut c_int);
        cuGetErrorName(status: c_int, text: *mut *const c_char);
        cuGetErrorString(status: c_int, text: *mut *const c_char);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
        cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
        cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice);
        cuDeviceCanAccessPeer(able: *mut c_int, device: CUdevice, peer: CUdevice);
        cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        cuCtxGetCurrent(context: *mut CUcontext);
        cuCtxSetCurrent(context: CUcontext);
        cuCtxSynchronize();
        cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
        cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
        cuMemFree_v2(address: CUdeviceptr);
        cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
        cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemsetD8Async(to: CUdeviceptr, byte: u8, bytes: usize, stream: CUstream);
        cuIpcGetMemHandle(handle: *mut CUipcMemHandle, address: CUdeviceptr);
        cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
        cuIpcCloseMemHandle(address: CUdeviceptr);
        cuPointerGetAttributes(count: c_uint, attributes: *mut c_int, values: *mut *mut c_void, address: CUdeviceptr);
        cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
        cuStreamDestroy_v2(stream: CUstream);
        cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
        cuStreamQuery(stream: CUstream);
        cuStreamSynchronize(stream: CUstream);
        cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
        cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, ops: *mut CUstreamBatchMemOpParams, flags: c_uint);
        cuStreamBeginCapture_v2(stream: CUstream, mode: c_int);
        cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
        cuStreamGetCaptureInfo_v2(
            stream: CUstream, status: *mut c_int, id: *mut u64, graph: *mut CUgraph,
            dependencies: *mut *const CUgraphNode, count: *mut usize,
        );
        cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
        cuUserObjectCreate(
            object: *mut CUuserObject, value: *mut c_void, destroy: extern "C" fn(*mut c_void), references: c_uint,
            flags: c_uint,
        );
        cuUserObjectRelease(object: CUuserObject, count: c_uint);
        cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint);
        cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64);
        cuGraphDestroy(graph: CUgraph);
        cuGraphExecDestroy(executable: CUgraphExec);
        cuGraphUpload(executable: CUgraphExec, stream: CUstream);
        cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
        cuEventCreate(event: *mut CUevent, flags: c_uint);
        cuEventDestroy_v2(event: CUevent);
        cuEventQuery(event: CUevent);
        cuEventRecord(event: CUevent, stream: CUstream);
        cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32);
        cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
        cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
        cuModuleUnload(module: CUmodule);
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize);
        cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int);
        cuTensorMapEncodeTiled(
            map: *mut CUtensorMap, element: c_int, rank: c_uint, address: *mut c_void, extents: *const u64, strides: *const u64,
            box_extents: *const u32, steps: *const u32, interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int,
        );
        cuLaunchKernelEx(
            config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void,
        );
    }
}

table! {
    /// `nvrtc.h`.
    Nvrtc, describe_nvrtc_status {
        nvrtcVersion(major: *mut c_int, minor: *mut c_int);
        nvrtcCreateProgram(
            program: *mut nvrtcProgram, source: *const c_char, name: *const c_char, count: c_int,
            headers: *const *const c_char, include_names: *const *const c_char,
        );
        nvrtcDestroyProgram(program: *mut nvrtcProgram);
        nvrtcCompileProgram(program: nvrtcProgram, count: c_int, options: *const *const c_char);
        nvrtcGetProgramLogSize(program: nvrtcProgram, bytes: *mut usize);
        nvrtcGetProgramLog(program: nvrtcProgram, log: *mut c_char);
        nvrtcGetCUBINSize(program: nvrtcProgram, bytes: *mut usize);
        nvrtcGetCUBIN(program: nvrtcProgram, image: *mut c_char);
        // In stand-ins alone: whether kernels are to contain notes of what they compute.
        hostirTakesNotes();
    }
}

table! {
    /// `cublasLt.h`.
    BlasLt, describe_blas_status {
        cublasLtCreate(handle: *mut cublasLtHandle_t);
        cublasLtDestroy(handle: cublasLtHandle_t);
        cublasLtMatrixLayoutCreate(layout: *mut cublasLtMatrixLayout_t, element: c_int, rows: u64, columns: u64, leading: i64);
        cublasLtMatrixLayoutDestroy(layout: cublasLtMatrixLayout_t);
        cublasLtMatrixLayoutSetAttribute(layout: cublasLtMatrixLayout_t, attribute: c_int, value: *const c_void, bytes: usize);
        cublasLtMatmulDescCreate(operation: *mut cublasLtMatmulDesc_t, compute: c_int, scale: c_int);
        cublasLtMatmulDescDestroy(operation: cublasLtMatmulDesc_t);
        cublasLtMatmulDescSetAttribute(operation: cublasLtMatmulDesc_t, attribute: c_int, value: *const c_void, bytes: usize);
        cublasLtMatmulPreferenceCreate(preference: *mut cublasLtMatmulPreference_t);
        cublasLtMatmulPreferenceDestroy(preference: cublasLtMatmulPreference_t);
        cublasLtMatmulPreferenceSetAttribute(
            preference: cublasLtMatmulPreference_t, attribute: c_int, value: *const c_void, bytes: usize,
        );
        cublasLtMatmulAlgoGetHeuristic(
            handle: cublasLtHandle_t, operation: cublasLtMatmulDesc_t, a: cublasLtMatrixLayout_t,
            b: cublasLtMatrixLayout_t, c: cublasLtMatrixLayout_t, d: cublasLtMatrixLayout_t,
            preference: cublasLtMatmulPreference_t, requested: c_int, proposals: *mut HeuristicResult,
            returned: *mut c_int,
        );
        cublasLtMatmulAlgoCapGetAttribute(
            algorithm: *const cublasLtMatmulAlgo_t, attribute: c_int, value: *mut c_void, bytes: usize,
            written: *mut usize,
        );
        cublasLtMatmulAlgoConfigSetAttribute(
            algorithm: *mut cublasLtMatmulAlgo_t, attribute: c_int, value: *const c_void, bytes: usize,
        );
        cublasLtMatmulAlgoCheck(
            handle: cublasLtHandle_t, operation: cublasLtMatmulDesc_t, a: cublasLtMatrixLayout_t,
            b: cublasLtMatrixLayout_t, c: cublasLtMatrixLayout_t, d: cublasLtMatrixLayout_t,
            algorithm: *const cublasLtMatmulAlgo_t, result: *mut HeuristicResult,
        );
        cublasLtMatmul(
            handle: cublasLtHandle_t, operation: cublasLtMatmulDesc_t, alpha: *const c_void, a: *const c_void,
            a_layout: cublasLtMatrixLayout_t, b: *const c_void, b_layout: cublasLtMatrixLayout_t, beta: *const c_void,
            c: *const c_void, c_layout: cublasLtMatrixLayout_t, d: *mut c_void, d_layout: cublasLtMatrixLayout_t,
            algorithm: *const cublasLtMatmulAlgo_t, workspace: *mut c_void, workspace_bytes: usize, stream: CUstream,
        );
    }
}

/// The driver; without one, all its functions are missing. Its file name has the version of its interface, which has
/// always been 1.
pub(super) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: NVIDIA's driver has these names, and can be opened in any process.
        let opened = unsafe { DynamicLibrary::open_first(&library_names("libcuda.so", &[1]), |_| None) };
        // SAFETY: the table is that of `cuda.h`.
        unsafe { Driver::of(opened) }
    })
}

/// NVRTC of the driver's major version, or else of the newest one whose kernels the driver can load.
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

/// The driver's major version of CUDA, if there is a driver.
fn driver_major() -> Option<i32> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer of this frame.
    let status = unsafe { driver().cuDriverGetVersion(&raw mut version) };
    (status.code == 0 && version > 0).then_some(version / 1000)
}

/// The versions in the order in which they are tried: none is newer than the driver.
fn candidate_majors(driver: Option<i32>) -> Vec<i32> {
    let most = driver.unwrap_or(i32::MAX);
    let known = MAJORS.into_iter().filter(|major| *major <= most);
    let own = driver.filter(|major| *major > MAJORS[0]);
    own.into_iter().chain(known).collect()
}

/// The reason why a library of a major version of CUDA cannot be used with a driver, if there is one: it is newer than
/// the driver, or too old for the functions above.
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

/// A status of the driver as text for users: its name and meaning.
fn describe_driver_status(status: c_int) -> String {
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

/// A status of NVRTC for people.
fn describe_nvrtc_status(status: c_int) -> String {
    // SAFETY: a function of NVRTC's of this type.
    unsafe { status_name(&nvrtc().opened, c"nvrtcGetErrorString", status) }
}

/// A status of cuBLASLt for people.
fn describe_blas_status(status: c_int) -> String {
    // SAFETY: a function of cuBLASLt's of this type.
    unsafe { status_name(&blas().opened, c"cublasLtGetStatusName", status) }
}

/// A status of a library that has names for them, as text for users.
///
/// # Safety
/// `symbol` names a function of the library that takes a status and returns a text of its own.
unsafe fn status_name(library: &DynamicLibrary, symbol: &std::ffi::CStr, status: c_int) -> String {
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
    use cudarc::cublaslt::sys::cublasLtMatmulHeuristicResult_t;
    use cudarc::driver::sys::CUlaunchAttribute;
    use std::mem::{offset_of, size_of};

    /// Sizes and offsets as the C headers have them on 64-bit machines.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<CUipcMemHandle>(), size_of::<CUuuid>()), (64, 16));
        assert_eq!((size_of::<CUlaunchAttribute>(), offset_of!(CUlaunchAttribute, value)), (72, 8));
        assert_eq!((size_of::<CUlaunchConfig>(), offset_of!(CUlaunchConfig, hStream)), (56, 32));
        assert_eq!(offset_of!(CUlaunchConfig, numAttrs), 48);
        assert_eq!(size_of::<CUstreamBatchMemOpParams>(), 48);
        assert_eq!(size_of::<cublasLtMatmulAlgo_t>(), 64);
        assert_eq!((size_of::<HeuristicResult>(), offset_of!(HeuristicResult, state)), (96, 72));
        assert_eq!(size_of::<HeuristicResult>(), size_of::<cublasLtMatmulHeuristicResult_t>());
        assert_eq!(offset_of!(HeuristicResult, workspace), offset_of!(cublasLtMatmulHeuristicResult_t, workspaceSize));
        assert_eq!(offset_of!(HeuristicResult, state), offset_of!(cublasLtMatmulHeuristicResult_t, state));
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
