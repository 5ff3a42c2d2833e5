//! hir-run's use of the CUDA backend. No other part of hir-run needs CUDA.

mod launch_checks;
mod nvtx_ranges;
mod timing;
mod watchdog;

pub(super) use nvtx_ranges::{Profiler, open_profiler};
pub(super) use timing::GpuTiming;
pub(super) use watchdog::WatchedRun;

use super::cli::{GpuOptions, Options};
use super::command_listing;
use super::program::SourceProgram;
use crate::data::compare::GivenTolerances;
use crate::kernel_cache::KernelCache;
use crate::launch::{LaunchedProcess, SocketControlPlane};
use hostir::backend::RunResult;
use hostir::backend::control_plane::ControlPlane;
use hostir::backend::trace::Trace;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir::plan_checks::{RankPosition, RankProgress, report_hang};
use hostir_cuda::{CudaRuntime, GemmTuning, ImageStore, LoadedProgram, NcclFile, UserKernels, hardware_queue_count};
use hostir_gpu::user_kernel::KernelFiles;
use hostir_tool_support::io::ToolIo;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// The variable with the number of the driver's hardware queues.
const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// GPUs, and the cache of their kernels.
#[derive(Debug)]
pub(super) struct CudaBackend {
    cuda: CudaRuntime,
    cache: Option<Arc<KernelCache>>,
    /// Folders of CUDA's headers, for kernels of the user.
    include_folders: Vec<String>,
    /// The other processes of the run.
    peers: Option<Arc<SocketControlPlane>>,
}

/// A program that runs on GPUs.
pub(super) struct GpuRun<'a> {
    /// The program.
    pub(super) loaded: &'a SourceProgram,
    /// Its plans.
    pub(super) prepared: &'a PreparedProgram,
    /// Inputs by rank and position.
    pub(super) inputs: &'a [Vec<HostTensor>],
    /// The files of the kernels that it launches.
    pub(super) kernels: &'a KernelFiles,
    /// The profiler that gets the ranges of instructions.
    pub(super) profiler: Option<&'a Profiler>,
    /// A timeline is wanted.
    pub(super) traced: bool,
    /// Kernels of the user are checked, with these tolerances.
    pub(super) checked: Option<GivenTolerances>,
}

impl CudaBackend {
    /// The backend with these options, for this process among several.
    pub(super) fn new(options: &Options, here: Option<&LaunchedProcess>, io: &ToolIo<'_>) -> Self {
        let cache = KernelCache::locate(io.env).map(Arc::new);
        let store = cache.clone().map(|cache| cache as Arc<dyn ImageStore>);
        let options = hostir_cuda::Options {
            timeout: options.run_timeout(),
            nccl: (io.env)("HIR_NCCL_LIB").map(nccl_file),
            store,
            devices: Vec::new(),
            control_plane: here.map(|here| here.peers.clone() as Arc<dyn ControlPlane>),
            device: here.and_then(|here| here.place.local_rank).map(|rank| rank as usize),
            hardware_queues: hardware_queue_count(
                (io.env)(QUEUES).and_then(|value| value.into_string().ok()).as_deref(),
            ),
            cache: io.gpus.get_or_default(),
            watchdog: Arc::default(),
            ..program_options(&options.gpu)
        };
        let peers = here.map(|here| here.peers.clone());
        Self { cuda: CudaRuntime { options }, cache, include_folders: include_folders(io), peers }
    }

    /// Returns the warnings about the kernel cache since the last call.
    pub(super) fn take_warnings(&self) -> Vec<Diag> {
        self.cache.as_ref().map_or_else(Vec::new, |cache| cache.take_warnings())
    }

    /// Runs all ranks, with a timeline if requested. `announce` gets a line about the program when it is ready.
    ///
    /// # Errors
    /// Those of loading and of running.
    pub(super) fn run_program(
        &self,
        run: &GpuRun<'_>,
        announce: &mut dyn FnMut(&str),
    ) -> Result<(RunResult, Option<Trace>), Vec<Diag>> {
        let mut program = self.load_program(run.prepared, run.kernels)?;
        nvtx_ranges::name_ranges(&mut program, run.profiler, run.loaded, run.prepared);
        announce(&describe_program(&program));
        let result = match (run.traced, run.checked) {
            (true, _) => program.run_traced(run.inputs).map(|(result, trace)| (result, Some(trace))),
            (false, Some(given)) => run_checked(&mut program, run, given).map(|result| (result, None)),
            (false, None) => program.run_once(run.inputs).map(|result| (result, None)),
        };
        keep_after_failure(program, result).map_err(|diags| self.merge_positions(run.prepared, diags))
    }

    /// Loads a program that may launch the kernels of these files.
    #[allow(unsafe_code, reason = "the user allows kernels to run")]
    fn load_program<'p>(
        &self,
        prepared: &'p PreparedProgram,
        kernels: &KernelFiles,
    ) -> Result<LoadedProgram<'p>, Vec<Diag>> {
        // SAFETY: with `--allow-kernels` the user says that the kernels do what their launches declare.
        let user_kernels = unsafe { UserKernels::new(kernels.clone(), self.include_folders.clone()) };
        CudaRuntime { options: hostir_cuda::Options { user_kernels, ..self.cuda.options.clone() } }.load(prepared)
    }

    /// The errors of a run of several processes whose deadline passed: on rank 0 one report with the positions of all
    /// ranks.
    fn merge_positions(&self, prepared: &PreparedProgram, diags: Vec<Diag>) -> Vec<Diag> {
        let Some(peers) = self.peers.as_ref().filter(|peers| peers.has_timed_out()) else { return diags };
        let own = self.cuda.options.watchdog.rank_locations().first().map(|place| place.rank_position());
        let rank = peers.rank();
        let own = own.unwrap_or(RankPosition { rank, progress: RankProgress::Unknown });
        peers.share_position(own.progress);
        match diags.first().filter(|_| rank == 0) {
            None => diags,
            Some(first) => {
                let mut positions = peers.collect_positions();
                positions.push(own);
                let error = Diag::global_error(first.code, first.message.clone());
                vec![report_hang(prepared, error, &positions)]
            }
        }
    }
}

/// Runs once with a check of each launch. The program stays usable if a kernel does something else than declared.
fn run_checked(
    program: &mut LoadedProgram<'_>,
    run: &GpuRun<'_>,
    given: GivenTolerances,
) -> Result<RunResult, Vec<Diag>> {
    let (result, checks) = program.run_checked(run.inputs)?;
    launch_checks::launch_errors(run.prepared, &checks, given)?;
    Ok(result)
}

/// Whether there is a driver.
pub(super) fn has_driver() -> bool {
    hostir_cuda::has_driver()
}

/// The number of devices.
///
/// # Errors
/// A driver that does not answer.
pub(super) fn count_devices() -> Result<usize, Diag> {
    match hostir_cuda::device_count() {
        Ok(count) => Ok(count),
        Err(error) => Err(device_failure(&error)),
    }
}

/// The devices of a program of so many ranks, and the versions of libraries.
///
/// # Errors
/// A driver that does not answer.
pub(super) fn platform_summary(ranks: u32) -> Result<String, Diag> {
    hostir_cuda::platform_summary(ranks as usize).map_err(|error| device_failure(&error))
}

/// The options that determine the meaning of a program.
fn program_options(gpu: &GpuOptions) -> hostir_cuda::Options {
    let routes = command_listing::gpu_routes(&gpu.transports);
    let numerics = command_listing::gemm_numerics(gpu);
    let tuning = if gpu.tunes_sustained { GemmTuning::Sustained } else { GemmTuning::Quick };
    let gemm_kernels = gpu.gemm_kernels;
    hostir_cuda::Options { routes, numerics, tuning, gemm_kernels, graph: gpu.graph, ..Default::default() }
}

/// Requests the maximum number of hardware queues from the CUDA driver. Streams that share one wait for each other, and
/// a stream that waits for a semaphore would block the stream that signals it.
///
/// Does nothing once the process has several threads: must be called first.
#[allow(unsafe_code, reason = "the driver reads this from the environment when it starts")]
pub fn request_hardware_queues() {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads == 1 && std::env::var_os(QUEUES).is_none() {
        // SAFETY: the process has one thread, this one: nobody reads the environment meanwhile.
        unsafe { std::env::set_var(QUEUES, "32") };
    }
}

/// The folder of CUDA's headers, such as `cuda_fp16.h`: that of `CUDA_HOME` or `CUDA_PATH`, or the usual one.
fn include_folders(io: &ToolIo<'_>) -> Vec<String> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(io.env).map(PathBuf::from);
    let mut folders = named.chain([PathBuf::from("/usr/local/cuda")]).map(|folder| folder.join("include"));
    let found = folders.find(|folder| folder.is_absolute() && folder.is_dir());
    found.and_then(|folder| folder.into_os_string().into_string().ok()).into_iter().collect()
}

/// NCCL's library, as the user names it.
#[allow(unsafe_code, reason = "the user says what the file is")]
fn nccl_file(path: OsString) -> NcclFile {
    // SAFETY: whoever sets the environment of this process says that it is NCCL, as of LD_LIBRARY_PATH.
    unsafe { NcclFile::new(path) }
}

fn device_failure(error: &hostir_cuda::Error) -> Diag {
    Diag::global_error(codes::DEVICE, error.to_string())
        .with_note("use `--backend=cpu` to run the same program on the CPU, with any number of ranks")
}

/// The devices of a program, and the time until it was ready.
fn describe_program(program: &LoadedProgram<'_>) -> String {
    format!("{}; {}", program.platform_summary(), preparation_text(program.phase_times()))
}

/// `ready in 1.34 s: compile 0.41, tune 0.32, connect 0.55 s`, without what took less than 10 ms.
fn preparation_text(phases: &[(&'static str, f64)]) -> String {
    let all: f64 = phases.iter().map(|(_, seconds)| seconds).sum();
    let long = phases.iter().filter(|(_, seconds)| *seconds >= 0.01);
    let long: Vec<String> = long.map(|(name, seconds)| format!("{name} {seconds:.2}")).collect();
    let parts = if long.is_empty() { String::new() } else { format!(": {} s", long.join(", ")) };
    format!("ready in {all:.2} s{parts}")
}

/// Keeps a program that failed. The state of its device is unknown, and freeing memory that it uses can wait without
/// end: the end of the process frees it.
fn keep_after_failure<T>(program: LoadedProgram<'_>, result: Result<T, Vec<Diag>>) -> Result<T, Vec<Diag>> {
    if result.is_err() {
        std::mem::forget(program);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::preparation_text;

    #[test]
    fn where_the_time_went() {
        let phases = [("plan", 0.001), ("compile", 0.41), ("tune", 0.009), ("connect", 0.55)];
        assert_eq!(preparation_text(&phases), "ready in 0.97 s: compile 0.41, connect 0.55 s");
        assert_eq!(preparation_text(&phases[..1]), "ready in 0.00 s");
    }
}
