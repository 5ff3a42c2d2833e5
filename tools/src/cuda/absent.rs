//! The names of the CUDA backend in a build without it. No GPU is ever found and no program is ever loaded.
#![allow(unsafe_code, reason = "declares the same contracts as the CUDA backend")]

use super::Routes;
use hostir::backend::RunResult;
use hostir::backend::exchange::Exchange;
use hostir::backend::trace::Trace;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes};
use hostir::plan::{Origin, Prepared};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The error of every attempt to use a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this build has no CUDA backend (it was built without the feature `cuda`)")
    }
}

impl std::error::Error for Error {}

/// Returns `false`: without the backend the driver is not looked for.
pub fn has_driver() -> bool {
    false
}

/// Counts the GPUs.
///
/// # Errors
/// Fails always: this build has no CUDA backend.
pub fn devices() -> Result<usize, Error> {
    Err(Error)
}

/// Resources that programs leave for later ones: none.
#[derive(Default, Debug)]
pub struct Pool;

/// A file of NCCL's library, which nothing opens.
#[derive(Clone, Debug)]
pub struct NcclFile;

impl NcclFile {
    /// Ignores the path.
    ///
    /// # Safety
    /// None is needed: the contract is the CUDA backend's.
    pub unsafe fn new(_path: impl Into<PathBuf>) -> Self {
        Self
    }
}

/// Keeps compiled kernels, of which there are none.
///
/// # Safety
/// None is needed: the contract is the CUDA backend's.
pub unsafe trait ImageStore: Send + Sync {
    /// Returns the image that was kept under a key.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Keeps an image.
    fn put(&self, key: &str, image: &[u8]);
}

/// Options of the backend, which nothing reads.
#[derive(Clone)]
pub struct Options {
    /// Whether `float` GEMMs may round their factors to TF32.
    pub tf32: bool,
    /// The transport of each communication backend.
    pub routes: Routes,
    /// Whether a run is recorded as a CUDA graph.
    pub graph: bool,
    /// The time limit of a run.
    pub timeout: Duration,
    /// NCCL's library.
    pub nccl: Option<NcclFile>,
    /// The store of compiled kernels.
    pub store: Option<Arc<dyn ImageStore>>,
    /// The device of each rank.
    pub devices: Vec<usize>,
    /// The control plane of a run of several processes.
    pub exchange: Option<Arc<dyn Exchange>>,
    /// The device of this process.
    pub device: Option<usize>,
    /// Resources for later programs.
    pub pool: Arc<Pool>,
    /// The watchdog's view of the runs.
    pub watch: Arc<Watch>,
}

/// The backend, which is never made: [`devices`] fails before.
#[derive(Clone)]
pub struct Cuda {
    /// Its options.
    pub options: Options,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").finish_non_exhaustive()
    }
}

impl Cuda {
    /// Loads a program.
    ///
    /// # Errors
    /// Fails always: this build has no CUDA backend.
    pub fn load<'p>(&self, _prepared: &'p Prepared) -> Result<Loaded<'p>, Vec<Diag>> {
        Err(vec![Diag::global(codes::DEVICE, Error.to_string())])
    }
}

/// A loaded program, of which there is none.
#[derive(Debug)]
pub struct Loaded<'p>(Infallible, PhantomData<&'p Prepared>);

impl Loaded<'_> {
    /// Describes the devices and libraries.
    pub fn about(&self) -> &str {
        match self.0 {}
    }

    /// Returns the seconds of each part of the prepare phase.
    pub fn phases(&self) -> &[(&'static str, f64)] {
        match self.0 {}
    }

    /// Names the profiler's ranges.
    pub fn name_ranges(&mut self, _nvtx: &Arc<nvtx::Nvtx>, _name: &dyn Fn(u32, Origin) -> String) {
        match self.0 {}
    }

    /// Returns the bytes of memory on one device.
    pub fn device_bytes(&self) -> usize {
        match self.0 {}
    }

    /// Uploads inputs.
    ///
    /// # Errors
    /// Never returns.
    pub fn upload(&mut self, _inputs: &[Vec<HostTensor>]) -> Result<(), Vec<Diag>> {
        match self.0 {}
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// Never returns.
    pub fn run(&mut self, _inputs: &[Vec<HostTensor>]) -> Result<RunResult, Vec<Diag>> {
        match self.0 {}
    }

    /// Runs the program once and records a timeline.
    ///
    /// # Errors
    /// Never returns.
    pub fn run_traced(
        &mut self,
        _inputs: &[Vec<HostTensor>],
    ) -> Result<(RunResult, Trace), Vec<Diag>> {
        match self.0 {}
    }

    /// Times runs on the devices.
    ///
    /// # Errors
    /// Never returns.
    pub fn samples(&mut self, _count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        match self.0 {}
    }

    /// Times the host's part of runs.
    ///
    /// # Errors
    /// Never returns.
    pub fn issue_times(&mut self, _count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        match self.0 {}
    }
}

/// The watchdog's view of runs, of which there are none.
#[derive(Default, Debug)]
pub struct Watch;

impl Watch {
    /// Returns `false`: nothing runs.
    pub fn is_stuck(&self, _limit: Duration) -> bool {
        false
    }

    /// Returns `false`: nothing runs.
    pub fn is_open(&self) -> bool {
        false
    }

    /// Returns no place.
    pub fn places(&self) -> Vec<Place> {
        Vec::new()
    }
}

/// The place of a rank in its program.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of the program.
    pub program: usize,
    /// The rank.
    pub rank: u32,
}

impl Place {
    /// Returns the diagnostic as it is.
    pub fn add_to(self, diag: Diag, _prepared: &Prepared) -> Diag {
        diag
    }
}

/// NVIDIA's profiling annotations.
pub mod nvtx {
    use super::Error;
    use std::ffi::CStr;
    use std::path::Path;

    /// A profiler, which is never opened.
    #[derive(Debug)]
    pub struct Nvtx;

    impl Nvtx {
        /// Opens the profiler's library.
        ///
        /// # Errors
        /// Fails always: this build has no CUDA backend.
        ///
        /// # Safety
        /// None is needed: the contract is the CUDA backend's.
        pub unsafe fn open(_injection: Option<&Path>) -> Result<Self, Error> {
            Err(Error)
        }

        /// Opens a range.
        pub fn push(&self, _name: &CStr) {}

        /// Closes a range.
        pub fn pop(&self) {}
    }
}
