//! `libcuda`: the functions of `cuda.h` that the runtime calls, with the contracts that are described there.
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, get_values, put_value, text_at};
use crate::capture::{UserObject, exchange_capture_mode};
use crate::exit::free_slowly;
use crate::module::{LoadedKernel, unwrapped};
use crate::task::{DeviceWork, StreamTask};
use crate::tiled_gemm::{MAP_BYTES, MAP_WORDS, map_words};
use crate::world::{self, INVALID_HANDLE, INVALID_VALUE, NOT_READY, world};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// Compute capability, major and minor, and multiprocessors, with their attributes.
const ATTRIBUTES: [(c_int, c_int); 3] = [(75, 9), (76, 0), (16, 132)];
const MEMORY: usize = 1 << 36;
/// `CUDA_ERROR_INVALID_IMAGE` and `CUDA_ERROR_NOT_FOUND`.
const INVALID_IMAGE: c_int = 200;
const NOT_FOUND: c_int = 500;
/// Bytes of dynamic shared memory that need no permission.
const USUAL_SHARED: c_uint = 48 << 10;
/// `CUDA_ERROR_CAPTURED_EVENT`.
const CAPTURED_EVENT: c_int = 907;

thread_local! {
    /// The device whose context is current, counted from 1; 0 is none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The device whose context is current.
pub(crate) fn current_device() -> usize {
    CURRENT.get().saturating_sub(1)
}

/// `CUlaunchConfig`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    sizes: [c_uint; 7],
    stream: Handle,
}

fn status_of(result: Result<(), String>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(text) => world().report_failure(&text),
    }
}

// ---- devices ----

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuInit(_: c_uint) -> c_int {
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    put_value(version, 13_000);
    0
}

fn status_name(status: c_int) -> &'static CStr {
    match status {
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        NOT_READY => c"CUDA_ERROR_NOT_READY",
        INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        900..=910 => c"CUDA_ERROR_STREAM_CAPTURE",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGetErrorName(status: c_int, text: *mut *const c_char) -> c_int {
    put_value(text, status_name(status).as_ptr());
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGetErrorString(_: c_int, text: *mut *const c_char) -> c_int {
    put_value(text, c"of a stand-in for a device".as_ptr());
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    put_value(count, world().devices as c_int);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    put_value(device, ordinal);
    if (0..world().devices as c_int).contains(&ordinal) { 0 } else { 101 }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, _: c_int) -> c_int {
    for (at, byte) in c"Fake".to_bytes_with_nul().iter().enumerate().take(bytes.max(0) as usize) {
        put_value(name.wrapping_add(at), *byte as c_char);
    }
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> c_int {
    put_value(uuid, [device as u8 + 1; 16]);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    let known = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
    put_value(value, known.map_or(1, |(_, value)| *value));
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDeviceCanAccessPeer(able: *mut c_int, _: c_int, _: c_int) -> c_int {
    put_value(able, 1);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> c_int {
    put_value(context, (device as usize + 1) as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> c_int {
    put_value(context, CURRENT.get() as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuCtxSetCurrent(context: Handle) -> c_int {
    CURRENT.set(context as usize);
    if context as usize <= world().devices { 0 } else { INVALID_HANDLE }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuCtxSynchronize() -> c_int {
    let device = current_device();
    world::wait_for_devices(|world| {
        world.make_unrecordable_call()?;
        Ok(world.streams.values().all(|stream| stream.device != device || stream.tasks.is_empty()))
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    put_value(least, 0);
    put_value(greatest, -5);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuCtxEnablePeerAccess(peer: Handle, _: c_uint) -> c_int {
    let new = world().peers.insert((current_device(), (peer as usize).saturating_sub(1)));
    if new { 0 } else { 704 }
}

// ---- memory ----

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    put_value(free, MEMORY);
    put_value(total, MEMORY);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    if bytes > MEMORY {
        return 2;
    }
    let mut world = world();
    if let Err(status) = world.make_unrecordable_call() {
        return status;
    }
    put_value(address, world.memory.allocate_memory(current_device(), bytes as u64));
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    free_slowly(|| free_memory(address))
}

fn free_memory(address: u64) -> c_int {
    let mut world = world();
    if let Err(status) = world.make_unrecordable_call() {
        return status;
    }
    let freed = world.memory.free_memory(address);
    drop(world);
    status_of(freed)
}

fn copy_now(to: u64, from: u64, bytes: usize) -> c_int {
    let copied = world().copy(to, from, bytes);
    status_of(copied)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    copy_now(to, from as u64, bytes)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    copy_now(to as u64, from, bytes)
}

fn enqueue(stream: Handle, work: DeviceWork) -> c_int {
    world().enqueue_task(stream as u64, current_device(), StreamTask::in_order([work]))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, DeviceWork::Copy { to: to as u64, from, bytes })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, DeviceWork::Copy { to, from, bytes })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, DeviceWork::Copy { to, from, bytes })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: Handle) -> c_int {
    enqueue(stream, DeviceWork::Fill { to, byte, bytes })
}

/// The attributes that the runtime asks for: context, kind, managed, device, start and size.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *mut c_int,
    values: *mut *mut c_void,
    address: u64,
) -> c_int {
    let found = world().memory.find_memory(address);
    let device = found.map_or(0, |found| found.device);
    for at in 0..count as usize {
        let place = get_value(values.wrapping_add(at));
        match get_value(attributes.wrapping_add(at)) {
            1 => put_value(place.cast(), found.map_or(0, |_| device + 1)),
            2 => put_value(place.cast(), if found.is_some() { 2u32 } else { 0 }),
            8 => put_value(place.cast(), 0u32),
            9 => put_value(place.cast(), if found.is_some() { device as c_int } else { -2 }),
            11 => put_value(place.cast(), found.map_or(0, |found| found.start)),
            12 => put_value(place.cast(), found.map_or(0, |found| found.bytes)),
            _ => return INVALID_VALUE,
        }
    }
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuIpcGetMemHandle(handle: *mut [u8; 64], address: u64) -> c_int {
    let shared = world().memory.share_memory(address);
    shared.map_or(INVALID_VALUE, |bytes| {
        put_value(handle, bytes);
        0
    })
}

/// `CUipcMemHandle`.
#[repr(C)]
struct IpcHandle([u8; 64]);

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, _: c_uint) -> c_int {
    let opened = world().memory.open_shared(handle.0);
    opened.map_or(INVALID_HANDLE, |start| {
        put_value(address, start);
        0
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuIpcCloseMemHandle(address: u64) -> c_int {
    cuMemFree_v2(address)
}

// ---- streams and events ----

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, _: c_uint, _: c_int) -> c_int {
    let mut world = world();
    let handle = world.handle();
    let new = world::StreamQueue { device: current_device(), ..world::StreamQueue::default() };
    world.streams.insert(handle, new);
    put_value(stream, handle as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> c_int {
    world().destroy_stream(stream as u64)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> c_int {
    match world().stream(stream as u64, current_device()) {
        Ok(stream) => {
            put_value(context, (stream.device + 1) as Handle);
            0
        }
        Err(status) => status,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamQuery(stream: Handle) -> c_int {
    let device = current_device();
    world::ask_devices(|world| {
        world.make_unrecordable_call()?;
        Ok(world.stream(stream as u64, device)?.tasks.is_empty())
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamSynchronize(stream: Handle) -> c_int {
    let device = current_device();
    world::wait_for_devices(|world| Ok(world.stream(stream as u64, device)?.tasks.is_empty()))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _: c_uint) -> c_int {
    world().wait_event(stream as u64, event as u64, current_device())
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamBatchMemOp_v2(stream: Handle, count: c_uint, ops: *mut [u64; 6], _: c_uint) -> c_int {
    let mut works = Vec::new();
    for [kind, at, value, flags, ..] in get_values(ops.cast_const(), count as usize) {
        let value = value as u32;
        works.push(match (kind as u32, flags as u32) {
            (1, 1) => DeviceWork::WaitWord { at, value, other: false },
            (2, 0) => DeviceWork::WriteWord { at, value },
            _ => return INVALID_VALUE,
        });
    }
    world().enqueue_task(stream as u64, current_device(), StreamTask::in_order(works))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventCreate(event: *mut Handle, _: c_uint) -> c_int {
    let mut world = world();
    let handle = world.handle();
    world.events.insert(handle, world::EventState::default());
    put_value(event, handle as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventDestroy_v2(event: Handle) -> c_int {
    world().destroy_event(event as u64)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventQuery(event: Handle) -> c_int {
    world::ask_devices(|world| {
        world.make_unrecordable_call()?;
        let event = world.event(event as u64)?;
        if event.captured.is_some() { Err(CAPTURED_EVENT) } else { Ok(event.reached >= event.recorded) }
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> c_int {
    world().record(event as u64, stream as u64, current_device(), false)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) -> c_int {
    world().record(event as u64, stream as u64, current_device(), flags == 1)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> c_int {
    let mut world = world();
    let mut time = |event: Handle| world.event(event as u64).map(|event| event.time);
    match (time(start), time(end)) {
        (Ok(Some(start)), Ok(Some(end))) => {
            put_value(milliseconds, (end - start).as_secs_f32() * 1e3);
            0
        }
        (Err(status), _) | (_, Err(status)) => status,
        _ => NOT_READY,
    }
}

// ---- graphs ----

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) -> c_int {
    world().begin_capture(stream as u64, current_device(), mode)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> c_int {
    match world().end_capture(stream as u64) {
        Ok(handle) => {
            put_value(graph, handle as Handle);
            0
        }
        Err(status) => status,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: Handle,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut Handle,
    _: *mut *const Handle,
    _: *mut usize,
) -> c_int {
    match world().open_capture(stream as u64, current_device()) {
        Ok(open) => {
            put_value(status, c_int::from(open.is_some()));
            put_value(id, open.unwrap_or(0));
            put_value(graph, open.unwrap_or(0) as Handle);
            0
        }
        Err(status) => status,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int {
    put_value(mode, exchange_capture_mode(get_value(mode.cast_const())));
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuUserObjectCreate(
    object: *mut Handle,
    value: *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    _: c_uint,
    _: c_uint,
) -> c_int {
    let mut world = world();
    let handle = world.handle();
    world.objects.insert(handle, Arc::new(UserObject { value, destroy }));
    put_value(object, handle as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuUserObjectRelease(object: Handle, _: c_uint) -> c_int {
    let released = world().objects.remove(&(object as u64));
    if released.is_some() { 0 } else { INVALID_HANDLE }
}

/// The caller's reference moves to the graph.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphRetainUserObject(graph: Handle, object: Handle, _: c_uint, _: c_uint) -> c_int {
    let mut world = world();
    let Some(object) = world.objects.remove(&(object as u64)) else { return INVALID_HANDLE };
    match world.graphs.get_mut(&(graph as u64)) {
        Some(graph) => {
            graph.kept.push(object);
            0
        }
        None => INVALID_HANDLE,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _: u64) -> c_int {
    let mut world = world();
    let Some(graph) = world.graphs.get(&(graph as u64)).cloned() else { return INVALID_HANDLE };
    let handle = world.handle();
    world.graphs.insert(handle, graph);
    put_value(executable, handle as Handle);
    0
}

fn remove_graph(graph: Handle) -> c_int {
    let removed = world().graphs.remove(&(graph as u64));
    if removed.is_some() { 0 } else { INVALID_HANDLE }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphDestroy(graph: Handle) -> c_int {
    remove_graph(graph)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphExecDestroy(executable: Handle) -> c_int {
    remove_graph(executable)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphUpload(executable: Handle, _: Handle) -> c_int {
    let known = world().graphs.contains_key(&(executable as u64));
    if known { 0 } else { INVALID_HANDLE }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> c_int {
    world().launch_graph(executable as u64, stream as u64, current_device())
}

// ---- kernels ----

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> c_int {
    // Neither PTX nor a fatbin is run here.
    if get_values(image.cast::<u8>(), 4) != b"\x7fELF" {
        return INVALID_IMAGE;
    }
    match LoadedKernel::new(&unwrapped(image.cast())) {
        Ok(kernel) => {
            let mut world = world();
            let handle = world.handle();
            world.kernels.insert(handle, Arc::new(kernel));
            put_value(module, handle as Handle);
            0
        }
        Err(text) => world().report_failure(&text),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuModuleUnload(module: Handle) -> c_int {
    let removed = world().kernels.remove(&(module as u64));
    if removed.is_some() { 0 } else { INVALID_HANDLE }
}

#[allow(clippy::print_stderr, reason = "misuse has to be seen")]
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> c_int {
    let loaded = world().kernels.get(&(module as u64)).cloned();
    match loaded.and_then(|loaded| loaded.user_kernel(&text_at(name))) {
        None => {
            put_value(function, module);
            0
        }
        Some(Ok(kernel)) => {
            let mut world = world();
            let handle = world.handle();
            world.kernels.insert(handle, Arc::new(kernel));
            put_value(function, handle as Handle);
            0
        }
        Some(Err(text)) => {
            eprintln!("fake CUDA: {text}");
            NOT_FOUND
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, bytes: *mut usize) -> c_int {
    match world().kernels.get(&(function as u64)) {
        Some(kernel) if index < kernel.params.len() => {
            // Tensor maps are aligned to 64 bytes, parameters start 48 bytes in front of such a place.
            let first = if kernel.params[0] == MAP_BYTES { 48 } else { 0 };
            put_value(offset, first + kernel.params[..index].iter().sum::<usize>());
            put_value(bytes, kernel.params[index]);
            0
        }
        Some(_) => INVALID_VALUE,
        None => INVALID_HANDLE,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuTensorMapEncodeTiled(
    map: *mut [u64; MAP_WORDS],
    element: c_int,
    rank: c_uint,
    address: u64,
    extents: *const [u64; 2],
    row_bytes: *const u64,
    box_extents: *const [u32; 2],
    steps: *const [u32; 2],
    interleave: c_int,
    swizzle: c_int,
    _promotion: c_int,
    fill: c_int,
) -> c_int {
    // Two axes, swizzled by 128 bytes.
    let is_known = [interleave, swizzle, fill] == [0, 3, 0] && rank == 2 && get_value(steps) == [1, 1];
    let words = map_words(element, address, get_value(extents), get_value(row_bytes), get_value(box_extents));
    match words.filter(|_| is_known && (map as u64).is_multiple_of(64)) {
        Some(words) => {
            put_value(map, words);
            0
        }
        None => INVALID_VALUE,
    }
}

/// The one attribute that is set is the permission for dynamic shared memory.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuFuncSetAttribute(function: Handle, _: c_int, bytes: c_int) -> c_int {
    let mut world = world();
    if !world.kernels.contains_key(&(function as u64)) {
        return INVALID_HANDLE;
    }
    world.permitted.insert(function as u64, bytes as c_uint);
    0
}

/// The words of a parameter of so many bytes, the last one filled up with zeros.
fn parameter_words((place, bytes): (*mut c_void, usize)) -> Vec<u64> {
    let mut bytes = get_values::<u8>(place.cast_const().cast(), bytes);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cuLaunchKernelEx(
    config: *const c_void,
    function: Handle,
    parameters: *mut *mut c_void,
    _: *mut *mut c_void,
) -> c_int {
    let config: LaunchConfig = get_value(config.cast());
    let mut world = world();
    let Some(sizes) = world.kernels.get(&(function as u64)).map(|kernel| kernel.params.clone()) else {
        return INVALID_HANDLE;
    };
    if config.sizes[..6].contains(&0) {
        return INVALID_VALUE;
    }
    let places = get_values(parameters.cast_const(), sizes.len());
    let params: Vec<u64> = places.into_iter().zip(sizes).flat_map(parameter_words).collect();
    let [x, y, z, block_x, block_y, block_z, shared] = config.sizes;
    if shared > USUAL_SHARED && world.permitted.get(&(function as u64)).is_none_or(|most| shared > *most) {
        return INVALID_VALUE;
    }
    let shape = [x, y, z, block_x, block_y, block_z];
    world.launch(function as u64, config.stream as u64, current_device(), &params, shape)
}
