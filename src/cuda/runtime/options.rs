//! Options of the CUDA backend.

use crate::runtime::kernel_files::UserKernels;
use crate::runtime::resource_cache::ResourceCache;
use crate::runtime::symmetric_buffers::SymmetricTensor;
use crate::runtime::watchdog::RunWatchdog;
use hostir::backend::control_plane::ControlPlane;
use hostir_gpu::gemm_shape::GemmNumerics;
use hostir_gpu::transport::BackendTransports;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file of NCCL's library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NcclFile(pub(crate) PathBuf);

#[allow(unsafe_code, reason = "a path is a promise of what the file is")]
impl NcclFile {
    /// A file by its path, or by a name that the loader finds.
    ///
    /// # Safety
    /// The file is NCCL: a library may do anything when it is opened, and the types of its functions cannot be checked.
    pub unsafe fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// A communicator of the caller (`ncclComm_t`), with all ranks of the program in their order. The program splits its
/// own off it, which is faster than connecting again, and never issues work on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParentCommunicator(pub(crate) usize);

#[allow(unsafe_code, reason = "a handle is a promise of what it is")]
impl ParentCommunicator {
    /// A communicator by its handle.
    ///
    /// # Safety
    /// It is a communicator of the library that [`Options::nccl`] names, loaded once in the process. While all ranks
    /// build a session, it stays alive, has no work in flight, and nobody else makes a call with it except to query its
    /// errors.
    pub unsafe fn from_raw(handle: *mut std::ffi::c_void) -> Self {
        Self(handle as usize)
    }
}

/// Keeps compiled kernels, and choices of [`GemmTuning::Sustained`], from one process to the next.
///
/// # Safety
/// [`ImageStore::get`] returns under a key the bytes that [`ImageStore::put`] got under it from this process or one
/// that runs the same library: they are code that runs on the device. Truncated images are refused; other damage cannot
/// be detected.
#[allow(unsafe_code, reason = "what a store returns is run")]
pub unsafe trait ImageStore: Send + Sync {
    /// Returns the image that was kept under a key, byte for byte, or `None`. A key is 64 hexadecimal digits and stands
    /// for everything that determines a kernel or a choice. Access to the store is access to the code that runs.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Keeps an image. A failure is not reported: the kernel is compiled again.
    fn put(&self, key: &str, image: &[u8]);
}

/// The effort with which an algorithm of cuBLASLt is chosen for each GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub enum GemmTuning {
    /// Single runs of the library's proposals, at the highest clock: less than 0.1 s a GEMM.
    #[default]
    Quick,
    /// Also variants of these, in runs of 0.1 s, the time in which a GPU lowers its clock to its power limit: some 4 s
    /// for each GEMM of 0.1 ms or more, unless the store has the choice of an earlier process. Programs that keep a GPU
    /// at that limit run up to 4% faster.
    Sustained,
}

/// Options for running programs.
#[derive(Clone)]
pub struct Options {
    /// The losses of precision that GEMMs are permitted.
    pub numerics: GemmNumerics,
    /// The effort with which algorithms of GEMMs are chosen.
    pub tuning: GemmTuning,
    /// True if sustained trials include [kernels of ours](hostir_gpu::codegen::wgmma_gemm), also for GEMMs that store in
    /// the memory of several ranks, which then start together.
    pub gemm_kernels: bool,
    /// The transport of each backend's communications.
    pub routes: BackendTransports,
    /// True if a run is captured as a CUDA graph and replayed.
    pub graph: bool,
    /// The time limit for connecting and for each run.
    pub timeout: Duration,
    /// NCCL's library; found by its usual names if `None`.
    pub nccl: Option<NcclFile>,
    /// With a control plane: the caller's communicator of these ranks, off which the program splits its own. Unless all
    /// processes have one, the program creates a new one.
    pub parent: Option<ParentCommunicator>,
    /// The store of compiled kernels and of choices of GEMM algorithms.
    pub store: Option<Arc<dyn ImageStore>>,
    /// Without a control plane: the device of each rank, by its number. Empty: rank 0 takes device 0, rank 1
    /// device 1, and so on.
    pub devices: Vec<usize>,
    /// The other processes of the run, one for each rank; without it this process has all ranks.
    pub control_plane: Option<Arc<dyn ControlPlane>>,
    /// With a control plane: the device of this process, by its number. `None`: the n-th process of a host
    /// takes its n-th device.
    pub device: Option<usize>,
    /// The number of hardware queues of each device: the value of `CUDA_DEVICE_MAX_CONNECTIONS` when the driver was
    /// initialised. Streams that share a queue wait for each other; programs with more streams than queues are issued
    /// in an order in which no rank waits for work after its own in a queue.
    pub hardware_queues: usize,
    /// The cache of resources that programs leave for later ones: communicators, memory, modules, handles, tuned
    /// algorithms, primary contexts. Clones of these options share it, so a program that is loaded with them after
    /// another one was dropped starts sooner; programs that live at the same time share no exclusive resources. The
    /// cache is freed with the last clone, and the last program, that refers to it.
    pub cache: Arc<ResourceCache>,
    /// The files of the kernels that programs launch.
    pub user_kernels: UserKernels,
    /// Inputs and outputs of a session in the caller's symmetric memory: peers address them in place.
    pub symmetric: Vec<SymmetricTensor>,
    /// The watchdog state, from which other threads learn whether runs end.
    pub watchdog: Arc<RunWatchdog>,
}

/// The driver's number of hardware queues where the environment says nothing.
pub(crate) const DEFAULT_HARDWARE_QUEUES: usize = 8;

/// Returns the number of hardware queues for a value of `CUDA_DEVICE_MAX_CONNECTIONS`, `None` if it is not set. The
/// driver ignores a value outside of 1 to 32.
pub fn hardware_queue_count(value: Option<&str>) -> usize {
    let count = value.and_then(|value| value.trim().parse().ok());
    count.filter(|count| (1..=32).contains(count)).unwrap_or(DEFAULT_HARDWARE_QUEUES)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            numerics: GemmNumerics::default(),
            tuning: GemmTuning::default(),
            gemm_kernels: false,
            routes: BackendTransports::default(),
            graph: false,
            timeout: Duration::from_secs(60),
            nccl: None,
            parent: None,
            store: None,
            devices: Vec::new(),
            control_plane: None,
            device: None,
            hardware_queues: DEFAULT_HARDWARE_QUEUES,
            cache: Arc::default(),
            user_kernels: UserKernels::default(),
            symmetric: Vec::new(),
            watchdog: Arc::default(),
        }
    }
}
