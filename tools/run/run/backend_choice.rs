//! The backend of a run: its choice, and messages about it.

use super::cli::{BackendChoice, Options, Transports};
use super::cuda::{self, CudaBackend, Profiler};
use super::failure::RunFailure;
use crate::launch::LaunchedProcess;
use hostir::backend::control_plane::ControlPlane;
use hostir::backend::null::NullBackend;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use std::sync::Arc;

/// A backend that can run.
#[derive(Debug)]
pub(super) enum RunEngine {
    Cpu,
    /// GPUs.
    Cuda(Box<CudaBackend>),
    /// The null backend; not `asked` for if it replaces another because nothing is to run.
    Null {
        null: NullBackend,
        asked: bool,
    },
    /// The cost model, which has times and no results.
    Sim,
}

impl RunEngine {
    /// The requested backend; `auto` is CUDA if there is a GPU. Under a launcher the CPU backend, which runs all ranks
    /// in one process, is refused. If nothing is to run, no driver is needed.
    ///
    /// # Errors
    /// If the backend does not fit the options or the launcher, or the driver does not answer.
    pub(super) fn choose_backend(
        options: &Options,
        here: Option<&LaunchedProcess>,
        io: &ToolIo<'_>,
    ) -> Result<Self, Diag> {
        refuse_unpermuted(options)?;
        refuse_hosts(options)?;
        let engine = match options.backend {
            BackendChoice::Null => {
                refuse_result_flags(options, "null")?;
                RunEngine::null_engine(here, true)
            }
            BackendChoice::Sim => {
                refuse_result_flags(options, "sim")?;
                refuse_turns(options)?;
                if is_dry_run(options) && here.is_none() { RunEngine::null_engine(None, false) } else { RunEngine::Sim }
            }
            BackendChoice::Cpu if here.is_some() => RunEngine::Cpu,
            _ if is_dry_run(options) => RunEngine::null_engine(here, false),
            BackendChoice::Cpu => RunEngine::Cpu,
            BackendChoice::Auto if options.permuted.is_some() => RunEngine::Cpu,
            BackendChoice::Auto if !cuda::has_driver() => RunEngine::Cpu,
            BackendChoice::Auto if cuda::count_devices()? == 0 => RunEngine::Cpu,
            BackendChoice::Auto => RunEngine::Cuda(Box::new(CudaBackend::new(options, here, io))),
            BackendChoice::Cuda => {
                cuda::count_devices()?;
                RunEngine::Cuda(Box::new(CudaBackend::new(options, here, io)))
            }
        };
        match (&engine, here) {
            (RunEngine::Cpu | RunEngine::Sim, Some(here)) => Err(single_process_error(&engine, here)),
            _ => Ok(engine),
        }
    }

    fn null_engine(here: Option<&LaunchedProcess>, asked: bool) -> Self {
        RunEngine::Null { null: NullBackend { control_plane: here.map(process_control_plane) }, asked }
    }

    /// The warning about options without effect on this backend.
    pub(super) fn unused_options(&self, options: &Options) -> Option<Diag> {
        let gpu = &options.gpu;
        let given = [
            // The model counts the host's time for calls, and none for a graph.
            (gpu.graph && !matches!(self, RunEngine::Sim), "--graph"),
            (options.kernels.are_checked, "--check-launches"),
            (gpu.tf32, "--tf32"),
            (gpu.fp8_fast_accumulation, "--fp8-fast-accumulation"),
            (gpu.tunes_sustained, "--tuning=sustained"),
            (gpu.gemm_kernels, "--gemm-kernels"),
            (gpu.transports != Transports::default(), "--map-backend"),
        ];
        let unused: Vec<&str> = given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect();
        // If nothing runs, no option of a run has an effect, and nobody expects one.
        let name = self.backend_name().filter(|_| !matches!(self, RunEngine::Cuda(_)))?;
        if unused.is_empty() {
            return None;
        }
        let (verb, they) = if unused.len() == 1 { ("has", "it applies") } else { ("have", "they apply") };
        let message = message!("{} {} no effect on the {} backend", unused.join(", "), verb, name);
        let note = message!("{} only to runs on GPUs: --backend=cuda", they);
        Some(Diag::global_error(errors::UNUSED, message).with_note(note).into_warning())
    }

    /// The profiler of `--nvtx`, if ranges are requested.
    ///
    /// # Errors
    /// If the run does not use GPUs, or there is no profiler.
    pub(super) fn open_profiler(&self, options: &Options, io: &ToolIo<'_>) -> Result<Option<Profiler>, RunFailure> {
        if !options.nvtx {
            return Ok(None);
        }
        let elsewhere = match self {
            RunEngine::Cpu => Some("the program runs on the CPU"),
            RunEngine::Sim => Some("nothing runs"),
            _ if self.backend_name().is_none() => Some("nothing runs"),
            _ => None,
        };
        if let Some(elsewhere) = elsewhere {
            let message = message!("`--nvtx` names the calls of the CUDA backend, but {}", elsewhere);
            let note = "use `--timeline` to see the time on the CPU";
            return Err(Diag::global_error(errors::CONFLICT, message).with_note(note).into());
        }
        Ok(Some(cuda::open_profiler(io)?))
    }

    /// Returns the warnings about the kernel cache since the last call.
    pub(super) fn take_warnings(&self) -> Vec<Diag> {
        match self {
            RunEngine::Cuda(cuda) => cuda.take_warnings(),
            RunEngine::Cpu | RunEngine::Null { .. } | RunEngine::Sim => Vec::new(),
        }
    }

    /// `CPU`, `CUDA`, `null`, `sim`; `None` if nothing is to run.
    pub(super) fn backend_name(&self) -> Option<&'static str> {
        match self {
            RunEngine::Cpu => Some("CPU"),
            RunEngine::Cuda(_) => Some("CUDA"),
            RunEngine::Null { asked, .. } => asked.then_some("null"),
            RunEngine::Sim => Some("sim"),
        }
    }
}

/// True if the program is examined and not run. (`--bench` always runs it.)
fn is_dry_run(options: &Options) -> bool {
    options.bench.is_none() && (options.check_only || options.print_plan.is_some() || options.print_calls.is_some())
}

fn process_control_plane(here: &LaunchedProcess) -> Arc<dyn ControlPlane> {
    here.peers.clone()
}

/// Refuses other orders of the queues for backends whose queues are not executed one after the other.
fn refuse_unpermuted(options: &Options) -> Result<(), Diag> {
    let elsewhere = matches!(options.backend, BackendChoice::Cuda | BackendChoice::Null | BackendChoice::Sim);
    let timed = options.bench.is_some() || options.traced.is_any();
    if options.permuted.is_none() || !(elsewhere || timed) {
        return Ok(());
    }
    let message = "`--permute-schedule` is for runs on the CPU that nobody times";
    let note = "leave out `--backend`, `--bench` and timelines";
    Err(Diag::global_error(errors::CONFLICT, message).with_note(note))
}

/// Refuses what would look at results.
fn refuse_result_flags(options: &Options, backend: &str) -> Result<(), Diag> {
    let Some(flag) = options.wants_results() else { return Ok(()) };
    let message = message!("`{}` needs results, but `--backend={}` computes nothing", flag, backend);
    Err(Diag::global_error(errors::CONFLICT, message).with_note(message!("remove `{}`", flag)))
}

/// Refuses hosts of the cost model where it has no part.
fn refuse_hosts(options: &Options) -> Result<(), Diag> {
    let is_modelled = options.backend == BackendChoice::Sim || options.check_only;
    if options.hosts.is_none() || is_modelled {
        return Ok(());
    }
    let message = "`--hosts` describes hosts to the cost model, but the program runs";
    Err(Diag::global_error(errors::CONFLICT, message).with_note("add `--backend=sim`, or remove `--hosts`"))
}

/// Refuses turns of timed runs where nothing is timed.
fn refuse_turns(options: &Options) -> Result<(), Diag> {
    if !options.bench.as_ref().is_some_and(|bench| bench.turns) {
        return Ok(());
    }
    let message = "`--turns` times runs in turn with those of another process, but `--backend=sim` times nothing";
    Err(Diag::global_error(errors::CONFLICT, message)
        .with_note("remove `--turns`: the model's time is always the same"))
}

fn single_process_error(engine: &RunEngine, here: &LaunchedProcess) -> Diag {
    let (world, source) = (here.place.world, here.place.launcher.name());
    let name = engine.backend_name().unwrap_or("CPU");
    let message = message!(
        "the {} backend runs all ranks in one process, but {} sets this process as one of {}",
        name,
        source,
        world
    );
    Diag::global_error(errors::ONE_PROCESS, message).with_note(message!(
        "use `--devices {}` in one process to run {} ranks; `--backend=null` tests a launch without GPUs",
        world,
        world
    ))
}
