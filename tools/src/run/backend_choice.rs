//! The backend of a run: its choice, and what it says about itself.

use super::cli::{Backend, Options, Transports};
use super::cuda::{self, CudaBackend, Profiler};
use super::failure::Failure;
use crate::launch::Here;
use hostir::backend::control_plane::ControlPlane;
use hostir::backend::null::Null;
use hostir::diag::Diag;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use std::sync::Arc;

/// A backend that can run.
#[derive(Debug)]
pub(super) enum Engine {
    Cpu,
    /// GPUs.
    Cuda(CudaBackend),
    /// The null backend; not `asked` for where it stands in since nothing is to run.
    Null {
        null: Null,
        asked: bool,
    },
}

impl Engine {
    /// The backend that was asked for; `auto` is CUDA where there is a GPU. Under a launcher the CPU
    /// backend, which runs all ranks in one process, is refused. Where nothing is to run, no driver is needed.
    ///
    /// # Errors
    /// A backend that does not go with the options or the launcher, and a driver that does not answer.
    pub(super) fn choose(
        options: &Options,
        here: Option<&Here>,
        io: &Io<'_>,
    ) -> Result<Self, Diag> {
        let engine = match options.backend {
            Backend::Null => {
                computes_nothing(options)?;
                Engine::null(here, true)
            }
            Backend::Cpu if here.is_some() => Engine::Cpu,
            _ if nothing_runs(options) => Engine::null(here, false),
            Backend::Cpu => Engine::Cpu,
            Backend::Auto if !cuda::has_driver() => Engine::Cpu,
            Backend::Auto if cuda::count_devices()? == 0 => Engine::Cpu,
            Backend::Auto => Engine::Cuda(CudaBackend::new(options, here, io)),
            Backend::Cuda => {
                cuda::count_devices()?;
                Engine::Cuda(CudaBackend::new(options, here, io))
            }
        };
        match (&engine, here) {
            (Engine::Cpu, Some(here)) => Err(one_process(here)),
            _ => Ok(engine),
        }
    }

    fn null(here: Option<&Here>, asked: bool) -> Self {
        Engine::Null { null: Null { control_plane: here.map(exchange) }, asked }
    }

    /// The warning about options that this backend has no use for.
    pub(super) fn unused(&self, options: &Options) -> Option<Diag> {
        let gpu = &options.gpu;
        let given = [
            (gpu.graph, "--graph"),
            (gpu.tf32, "--tf32"),
            (gpu.transports != Transports::default(), "--map-backend"),
        ];
        let unused: Vec<&str> =
            given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect();
        // Where nothing runs no option of a run has an effect, and nobody expects one.
        let name = self.name().filter(|_| !matches!(self, Engine::Cuda(_)))?;
        if unused.is_empty() {
            return None;
        }
        let (verb, they) = if unused.len() == 1 { ("has", "it is") } else { ("have", "they are") };
        let message = format!("{} {verb} no effect on the {name} backend", unused.join(", "));
        let note = format!("{they} for runs on GPUs: --backend=cuda");
        Some(Diag::global(errors::UNUSED, message).note(note).warning())
    }

    /// The profiler of `--nvtx`, if ranges are asked for.
    ///
    /// # Errors
    /// A run that does not go to GPUs, or no profiler.
    pub(super) fn open_profiler(
        &self,
        options: &Options,
        io: &Io<'_>,
    ) -> Result<Option<Profiler>, Failure> {
        if !options.nvtx {
            return Ok(None);
        }
        let elsewhere = match self {
            Engine::Cpu => Some("the program runs on the CPU"),
            _ if self.name().is_none() => Some("nothing runs"),
            _ => None,
        };
        if let Some(elsewhere) = elsewhere {
            let message = format!("`--nvtx` names the calls of the CUDA backend, and {elsewhere}");
            let note = "`--timeline` shows where the CPU's time goes";
            return Err(Diag::global(errors::CONFLICT, message).note(note).into());
        }
        Ok(Some(cuda::open_profiler(io)?))
    }

    /// Returns the warnings about the kernel cache that came up since the last call.
    pub(super) fn take_warnings(&self) -> Vec<Diag> {
        match self {
            Engine::Cuda(cuda) => cuda.take_warnings(),
            Engine::Cpu | Engine::Null { .. } => Vec::new(),
        }
    }

    /// `CPU`, `CUDA`, `null`; `None` if nothing is to run.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Engine::Cpu => Some("CPU"),
            Engine::Cuda(_) => Some("CUDA"),
            Engine::Null { asked, .. } => asked.then_some("null"),
        }
    }
}

/// True if the program is looked at and not run. (`--bench` runs it whatever else is asked for.)
fn nothing_runs(options: &Options) -> bool {
    options.bench.is_none()
        && (options.check_only || options.print_plan || options.print_calls.is_some())
}

fn exchange(here: &Here) -> Arc<dyn ControlPlane> {
    here.peers.clone()
}

/// Refuses what would look at results.
fn computes_nothing(options: &Options) -> Result<(), Diag> {
    let Some(flag) = options.wants_results() else { return Ok(()) };
    let message = format!("`{flag}` needs results, but `--backend=null` computes nothing");
    Err(Diag::global(errors::CONFLICT, message).note(format!("leave out `{flag}`")))
}

fn one_process(here: &Here) -> Diag {
    let (world, source) = (here.place.world, here.place.launcher.name());
    let message = format!(
        "the CPU backend runs all ranks in one process, but {source} says that this is one of {world}"
    );
    Diag::global(errors::ONE_PROCESS, message).note(format!(
        "`--devices {world}` in one process runs {world} ranks; `--backend=null` goes through a launch without GPUs"
    ))
}
