//! Sessions: programs on a GPU of this process, with the caller's memory and streams.

use crate::control_plane::{GroupControlPlane, PythonControlPlane, deferring_reports};
use crate::failure::{Failure, diags_as_text};
use crate::judge::Judged;
use crate::program::{NativeProgram, SourcedProgram};
use crate::ranks::{check_lowered, local_sizes, shard_axes};
use crate::run::{is_same_type, type_error};
use crate::settings::Settings;
use crate::shard_shape::match_shard;
use crate::tensor::dtype_named;
use crate::worker::{run_detached, run_here};
use hostir::backend::control_plane::ControlPlane;
use hostir::diag::Diag;
use hostir::ir::{DType, GivenSizes};
use hostir::lower::{IoTensor, PreparedProgram};
use hostir::plan_checks::prove_program;
use hostir_cuda::session::{
    CallerStream, DeviceTensor, GemmTuning, ImageStore, IoSide, NcclFile, Options, ParentCommunicator, Session,
    SlotTensor, SymmetricTensor,
};
use hostir_cuda::{BackendTransports, CommTransport};
use hostir_run::kernel_cache::KernelCache;
use hostir_tool_support::errors;
use hostir_tool_support::source::NamedText;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// A tensor of the caller without its address: element type, shape, strides in elements.
#[derive(FromPyObject)]
pub(crate) struct TensorLayout(String, Vec<usize>, Vec<i64>);

/// The device and limits that a session is built for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SessionSettings {
    /// The number of the device.
    device: usize,
    /// True if communication uses copies instead of NCCL, because ranks share a device.
    copies: bool,
    /// Seconds for connecting and for a run that is waited for.
    timeout: f64,
    /// True if GEMMs are tuned at the device's power limit.
    tunes_sustained: bool,
    /// True if kernels of ours are tried, too, as with `hir-run --gemm-kernels`.
    gemm_kernels: bool,
    /// Tensors in symmetric memory.
    symmetric: Vec<SymmetricSlot>,
    /// The caller's NCCL communicator of the group, with the file of the library that it is of.
    parent: Option<(usize, PathBuf)>,
}

/// An input or output in symmetric memory.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SymmetricSlot {
    /// True for an output.
    output: bool,
    /// Its position among the inputs or outputs.
    position: usize,
    /// The address of each rank's part.
    addresses: Vec<u64>,
}

/// A program that is ready to run on tensors of one layout.
///
/// The interpreter is let go before the lock is taken: who has the lock may wait for the device, and for the
/// interpreter. In a fork of the process that prepared it nothing of it is touched, neither locks nor handles of the
/// driver.
#[pyclass(frozen, name = "Session", module = "hostir._native", weakref)]
pub(crate) struct DeviceSession {
    program: SourcedProgram,
    tensors: Vec<SlotTensor>,
    facts: SessionFacts,
    control_plane: Option<Arc<PythonControlPlane>>,
    /// The runs that were enqueued.
    runs: AtomicU64,
    /// The answer of the last query about graphs that hold a run.
    recorded: AtomicBool,
    /// True if its resources stay until the process ends.
    abandoned: AtomicBool,
    process: u32,
    session: Mutex<Option<Session>>,
}

/// The facts that are fixed once the session is prepared.
struct SessionFacts {
    symmetric: Vec<(bool, usize)>,
    platform: String,
    phases: Vec<(&'static str, f64)>,
}

impl SessionFacts {
    fn of(session: &Session) -> Self {
        let symmetric = session.symmetric_slots().iter();
        Self {
            symmetric: symmetric.map(|(side, position)| (*side == IoSide::Output, *position)).collect(),
            platform: session.describe_platform().to_owned(),
            phases: session.phases().to_vec(),
        }
    }
}

/// The options that all sessions of the process share, with their resource cache.
fn shared_options() -> &'static Options {
    static OPTIONS: OnceLock<Options> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let store = kernel_cache().map(|cache| cache as Arc<dyn ImageStore>);
        let queues = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
        let hardware_queues = hostir_cuda::hardware_queue_count(queues.as_deref());
        Options { store, hardware_queues, ..Options::default() }
    })
}

/// The folder in which the kernels of earlier processes are, if the environment at the first use does not turn it off.
fn kernel_cache() -> Option<Arc<KernelCache>> {
    static CACHE: OnceLock<Option<Arc<KernelCache>>> = OnceLock::new();
    CACHE.get_or_init(|| KernelCache::locate(|name| std::env::var_os(name)).map(Arc::new)).clone()
}

/// Hands the cache's warnings to Python's.
fn pass_warnings_on(py: Python<'_>) -> PyResult<()> {
    let Some(cache) = kernel_cache() else { return Ok(()) };
    for warning in cache.take_warnings() {
        let text = diags_as_text(&NamedText::default(), &[warning]);
        py.import("warnings")?.call_method1("warn", (text.trim_end(), py.get_type::<PyRuntimeWarning>()))?;
    }
    Ok(())
}

/// The number of GPUs that this process sees; 0 without a driver.
#[pyfunction]
pub(crate) fn count_devices() -> usize {
    hostir_cuda::device_count().unwrap_or(0)
}

#[pymethods]
impl DeviceSession {
    /// Prepares the device for a program on tensors of these layouts: `inputs` has one for each input, `outputs` names
    /// outputs by position.
    #[new]
    fn new(
        py: Python<'_>,
        program: &NativeProgram,
        inputs: Vec<TensorLayout>,
        outputs: Vec<(usize, TensorLayout)>,
        control_plane: Option<&GroupControlPlane>,
        settings: Settings,
        session: SessionSettings,
    ) -> PyResult<Self> {
        let inner = program.inner.clone();
        let given_inputs = inputs.iter().map(TensorLayout::to_tensor).collect::<PyResult<Vec<_>>>()?;
        let given_outputs: PyResult<Vec<_>> =
            outputs.iter().map(|(position, layout)| Ok((*position, layout.to_tensor()?))).collect();
        let given_outputs = given_outputs?;
        let control_plane = control_plane.map(|plane| plane.shared.clone());
        let result = run_detached(py, move || {
            let recipe = inner.recipe.clone();
            let built = build(inner, &given_inputs, &given_outputs, control_plane.clone(), settings, &session);
            if let (Err(failure), Some(plane)) = (&built, &control_plane) {
                failure.report_to(plane.as_ref(), &recipe.source);
            }
            built
        })?;
        let made = result.map_err(|failure| failure.into_exception(py))?;
        pass_warnings_on(py)?;
        Ok(made)
    }

    /// Enqueues a run on a stream: the addresses of the inputs, then those of the outputs.
    fn run(&self, py: Python<'_>, stream: usize, addresses: Vec<u64>) -> PyResult<()> {
        self.run_on(py, stream, &addresses)
    }

    /// True if nothing that was enqueued is in flight; None if another thread has the session.
    fn is_complete(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        run_here(py, || self.look())?.map_err(|failure| failure.into_exception(py))
    }

    /// Waits until everything that was enqueued is done.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let waited =
            run_here(py, || self.with_session(|session| session.wait().map_err(|error| self.failure(error.diags()))));
        waited?.map_err(|failure| failure.into_exception(py))
    }

    /// The number of runs that were enqueued, those of recorded graphs not counted.
    fn runs(&self) -> u64 {
        self.runs.load(Ordering::Acquire)
    }

    /// The tensors that peers address in symmetric memory: whether it is an output, and its position.
    fn symmetric(&self) -> Vec<(bool, usize)> {
        self.facts.symmetric.clone()
    }

    /// True if a graph of the caller's holds a run; while another thread has the session, the answer before that.
    fn is_recorded(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            if let Some(held) = self.try_lock() {
                let recorded = held.as_ref().is_some_and(Session::is_recorded);
                self.recorded.store(recorded, Ordering::Release);
            }
        });
        self.recorded.load(Ordering::Acquire)
    }

    /// Devices and versions of libraries.
    fn platform(&self) -> &str {
        &self.facts.platform
    }

    /// The phases of the device's preparation and their seconds.
    fn phases(&self) -> Vec<(&'static str, f64)> {
        self.facts.phases.clone()
    }

    /// Frees what the session has, after its runs; nothing if it was abandoned.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run_here(py, || {
            if self.is_forked() {
                return;
            }
            let taken = self.lock().take();
            self.dispose(taken);
            self.send_reports();
        })
    }

    /// Leaves what the session has where it is until the process ends: others may still use it.
    fn abandon(&self, py: Python<'_>) {
        self.abandoned.store(true, Ordering::Release);
        py.detach(|| {
            // If another thread has it, nothing is freed either: the thread that drops it sees the flag.
            if let Some(mut held) = self.try_lock() {
                std::mem::forget(held.take());
            }
        });
    }
}

impl DeviceSession {
    /// `is_complete` without the interpreter.
    fn look(&self) -> Result<Option<bool>, Failure> {
        if self.is_forked() {
            return Ok(Some(true));
        }
        let Some(mut held) = self.try_lock() else { return Ok(None) };
        let Some(session) = held.as_mut() else { return Ok(Some(true)) };
        let found = deferring_reports(|| session.is_complete());
        drop(held);
        self.send_reports();
        found.map(Some).map_err(|error| self.failure(error.diags()))
    }

    /// Returns true in a fork of the process that prepared it.
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock; `None` if another thread has it, and in a fork, which another thread of the parent's may have left
    /// locked.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Session>>> {
        match self.session.try_lock() {
            _ if self.is_forked() => None,
            Ok(held) => Some(held),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
        }
    }

    /// Frees a session, unless it is the parent's, or others may still use it.
    fn dispose(&self, session: Option<Session>) {
        if self.is_forked() || self.abandoned.load(Ordering::Acquire) {
            std::mem::forget(session);
        } else {
            deferring_reports(|| drop(session));
        }
    }

    /// Sends the other ranks the reports that were made while the lock was held.
    fn send_reports(&self) {
        if let Some(plane) = &self.control_plane {
            plane.send_deferred_reports();
        }
    }

    fn failure(&self, diags: &[Diag]) -> Failure {
        Failure::new(&self.program.recipe.source, diags.to_vec())
    }

    fn with_session<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, Failure>) -> Result<T, Failure> {
        if self.is_forked() {
            let diag =
                Diag::global_error(errors::CONFLICT, "the session belongs to the process that this one is a fork of");
            let note = "CUDA does not work in a forked process: start it with `multiprocessing`'s method `spawn`";
            return Err(diag.with_note(note).into());
        }
        let mut held = self.lock();
        let Some(session) = held.as_mut() else {
            return Err(Diag::global_error(errors::CONFLICT, "the session is closed").into());
        };
        let done = deferring_reports(|| work(session));
        drop(held);
        self.send_reports();
        done
    }

    /// [`DeviceSession::run`] for callers in this module.
    pub(crate) fn run_on(&self, py: Python<'_>, stream: usize, addresses: &[u64]) -> PyResult<()> {
        run_here(py, || self.enqueue(stream, addresses))?.map_err(|failure| failure.into_exception(py))
    }

    #[allow(unsafe_code, reason = "addresses of tensors and streams of the caller's")]
    fn enqueue(&self, stream: usize, addresses: &[u64]) -> Result<(), Failure> {
        self.with_session(|session| {
            // SAFETY: torch's streams are those of the device's primary context, and are never destroyed.
            let stream = unsafe { CallerStream::from_raw(stream as *mut c_void) };
            // SAFETY: Python's side passes tensors that live at least until the work on the stream that was
            // enqueued at the call has ended: memory of torch's is freed in the order of its stream, and the run
            // comes after what that stream has to do and before what it gets later.
            let done = unsafe { session.run_at(stream, &self.tensors, addresses) };
            self.runs.fetch_add(1, Ordering::AcqRel);
            self.recorded.store(session.is_recorded(), Ordering::Release);
            done.map_err(|error| self.failure(error.diags()))
        })
    }
}

/// Frees the session without the interpreter: a run in flight ends first, and other threads continue meanwhile.
impl Drop for DeviceSession {
    fn drop(&mut self) {
        let held = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if held.is_none() {
            return;
        }
        let this = &*self;
        let mut left = Some(held);
        // An interpreter that has ended cannot be let go.
        Python::try_attach(|py| {
            let held = left.take();
            py.detach(|| {
                this.dispose(held.flatten());
                this.send_reports();
            });
        });
        this.dispose(left.flatten());
    }
}

impl TensorLayout {
    fn to_tensor(&self) -> PyResult<DeviceTensor> {
        let TensorLayout(dtype, shape, strides) = self;
        Ok(DeviceTensor { pointer: 0, shape: shape.clone(), strides: strides.clone(), dtype: dtype_named(dtype)? })
    }
}

/// Plans and proves the program, and prepares the device.
fn build(
    program: SourcedProgram,
    inputs: &[DeviceTensor],
    outputs: &[(usize, DeviceTensor)],
    control_plane: Option<Arc<PythonControlPlane>>,
    settings: Settings,
    session: &SessionSettings,
) -> Result<DeviceSession, Failure> {
    // Arguments may join axes of constant extents.
    let given = GivenSizes { as_numbers: true, ..settings.given_sizes() };
    let settings = settings.without_mesh_sizes(&program.program);
    let program = program.for_sizes(given)?;
    program.verify().map_err(|diags| program.to_failure(diags, Judged::Text))?;
    let shapes: Vec<&[usize]> = inputs.iter().map(|tensor| &tensor.shape[..]).collect();
    let settings = settings.with_sizes(local_sizes(&program.program, &shapes)?);
    let prepared = settings.prepare(&program.program);
    let wrong = |diags| program.to_failure(diags, Judged::Proof(Arc::new(settings.clone())));
    let prepared = prepared.map_err(wrong)?;
    check_lowered(&program, &prepared)?;
    let others = control_plane.clone().map(|plane| plane as Arc<dyn ControlPlane>);
    check_ranks(&prepared, others.as_deref())?;
    prove_program(&prepared).into_result().map_err(wrong)?;
    let tensors = slot_tensors(&prepared, inputs, outputs)?;
    let options = options_for(session, others);
    let loaded = Session::of_prepared(prepared, options);
    let loaded = loaded.map_err(|error| Failure::new(&program.recipe.source, error.diags().to_vec()))?;
    Ok(DeviceSession {
        program,
        tensors,
        facts: SessionFacts::of(&loaded),
        control_plane,
        runs: AtomicU64::new(0),
        recorded: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
        process: std::process::id(),
        session: Mutex::new(Some(loaded)),
    })
}

/// Refuses a program for another number of ranks than the group has.
fn check_ranks(prepared: &PreparedProgram, control_plane: Option<&dyn ControlPlane>) -> Result<(), Diag> {
    let (world, ranks) = (control_plane.map_or(1, |plane| plane.world_size()), prepared.ranks);
    if world == ranks {
        return Ok(());
    }
    let message = format!("the program runs on {ranks} ranks, but the group has {world}");
    let note = format!("change its meshes: passes=\"resize-mesh{{devices={world}}}\"");
    Err(Diag::global_error(errors::CONFLICT, message).with_note(note))
}

#[allow(unsafe_code, reason = "a communicator of torch's and the library that it is of")]
fn options_for(session: &SessionSettings, control_plane: Option<Arc<dyn ControlPlane>>) -> Options {
    let mut options = shared_options().clone();
    if session.copies {
        options.routes = BackendTransports { nccl: CommTransport::Copies, ..BackendTransports::default() };
    }
    if let Some((handle, file)) = &session.parent {
        // SAFETY: Python's side found this file among those that the process has mapped, and torch made the
        // communicator with it.
        options.nccl = Some(unsafe { NcclFile::new(file) });
        // SAFETY: as above; all ranks prepare together, after all work on their devices.
        options.parent = Some(unsafe { ParentCommunicator::from_raw(*handle as *mut c_void) });
    }
    options.tuning = if session.tunes_sustained { GemmTuning::Sustained } else { GemmTuning::Quick };
    options.gemm_kernels = session.gemm_kernels;
    options.symmetric = session.symmetric.iter().map(symmetric_tensor).collect();
    options.timeout = Duration::try_from_secs_f64(session.timeout).unwrap_or(options.timeout);
    options.device = control_plane.as_ref().map(|_| session.device);
    options.devices = vec![session.device];
    options.control_plane = control_plane;
    options
}

#[allow(unsafe_code, reason = "addresses of torch's symmetric memory")]
fn symmetric_tensor(slot: &SymmetricSlot) -> SymmetricTensor {
    let side = if slot.output { IoSide::Output } else { IoSide::Input };
    // SAFETY: Python's side passes addresses that torch has mapped, of a tensor as large as the program's, and keeps
    // the memory as long as the session.
    unsafe { SymmetricTensor::new(side, slot.position, slot.addresses.clone()) }
}

/// The tensors of a call in the shapes of the program's shards.
fn slot_tensors(
    prepared: &PreparedProgram,
    inputs: &[DeviceTensor],
    outputs: &[(usize, DeviceTensor)],
) -> Result<Vec<SlotTensor>, Diag> {
    let inputs = prepared.inputs.iter().zip(inputs).enumerate().map(|(position, (io_tensor, given))| {
        Ok(SlotTensor { side: IoSide::Input, position, tensor: shard_layout(io_tensor, given)? })
    });
    let outputs = outputs.iter().map(|(position, given)| {
        let io_tensor = &prepared.outputs[*position];
        Ok(SlotTensor { side: IoSide::Output, position: *position, tensor: result_layout(io_tensor, given)? })
    });
    inputs.chain(outputs).collect()
}

/// The shard of an input in a caller's tensor.
fn shard_layout(io_tensor: &IoTensor, given: &DeviceTensor) -> Result<DeviceTensor, Diag> {
    let dtype = checked_dtype(io_tensor, given.dtype)?;
    let extents: Vec<_> = given.shape.iter().copied().zip(given.strides.iter().copied()).collect();
    match match_shard(&shard_axes(io_tensor), &extents) {
        Some(found) => {
            let (shape, strides) = found.into_iter().unzip();
            Ok(DeviceTensor { pointer: 0, shape, strides, dtype })
        }
        None => Err(shape_error(io_tensor, "a part", given)),
    }
}

/// A result, which is row-major, in the shape of the program's shard: both have as many elements.
fn result_layout(io_tensor: &IoTensor, given: &DeviceTensor) -> Result<DeviceTensor, Diag> {
    let dtype = checked_dtype(io_tensor, given.dtype)?;
    let shape = io_tensor.local_shape();
    if element_count(&shape).is_none_or(|count| element_count(&given.shape) != Some(count)) {
        return Err(shape_error(io_tensor, "the result", given));
    }
    Ok(DeviceTensor::contiguous(0, dtype, &shape))
}

/// The product of extents; `None` if it is no number.
fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))
}

fn checked_dtype(io_tensor: &IoTensor, found: DType) -> Result<DType, Diag> {
    if is_same_type(found, io_tensor.dtype) { Ok(io_tensor.dtype) } else { Err(type_error(io_tensor, found)) }
}

fn shape_error(io_tensor: &IoTensor, what: &str, given: &DeviceTensor) -> Diag {
    let (name, found, needed) = (&io_tensor.name, &given.shape, io_tensor.local_shape());
    Diag::global_error(errors::SHAPE, format!("{what} of {name} has shape {found:?}, but the program's {needed:?}"))
        .with_note("axes that are sharded over devices may be left out")
}
