//! Which backend a run uses, and what it tells about itself.

use super::cli::{Backend, Options};
use super::errors;
use super::store::KernelCache;
use crate::cuda::{self, Cuda, NcclFile, Routes};
use crate::io::Io;
use crate::launch::Here;
use hostir::backend::exchange::Exchange;
use hostir::backend::null::Null;
use hostir::diag::{Diag, codes};
use std::ffi::OsString;
use std::sync::Arc;

/// A backend that can run.
#[derive(Debug)]
pub(super) enum Engine {
    Cpu,
    /// GPUs, and where their kernels are kept.
    Cuda(Cuda, Option<Arc<KernelCache>>),
    /// The null backend; not `asked` for where it stands in since nothing is to run.
    Null {
        null: Null,
        asked: bool,
    },
}

impl Engine {
    /// The backend that was asked for; `auto` is CUDA where there is a GPU. Under a launcher the CPU
    /// backend, which runs all ranks in one process, is refused. Where nothing is to run, no driver is needed.
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
            Backend::Auto => match cuda::devices() {
                Ok(0) => Engine::Cpu,
                Ok(_) => Engine::cuda(options, here, io),
                Err(error) => return Err(no_device(&error)),
            },
            Backend::Cuda => match cuda::devices() {
                Ok(_) => Engine::cuda(options, here, io),
                Err(error) => return Err(no_device(&error)),
            },
        };
        match (&engine, here) {
            (Engine::Cpu, Some(here)) => Err(one_process(here)),
            _ => Ok(engine),
        }
    }

    fn null(here: Option<&Here>, asked: bool) -> Self {
        Engine::Null { null: Null { exchange: here.map(exchange) }, asked }
    }

    fn cuda(options: &Options, here: Option<&Here>, io: &Io<'_>) -> Self {
        let cache = KernelCache::locate(io.env).map(Arc::new);
        let store = cache.clone().map(|cache| cache as Arc<dyn cuda::ImageStore>);
        let options = cuda::Options {
            tf32: options.gpu.tf32,
            routes: options.gpu.routes,
            graph: options.gpu.graph,
            timeout: options.timeout(),
            nccl: (io.env)("HIR_NCCL_LIB").map(nccl),
            store,
            devices: Vec::new(),
            exchange: here.map(exchange),
            device: here.and_then(|here| here.place.local_rank).map(|rank| rank as usize),
            pool: io.gpus.clone(),
            watch: Arc::default(),
        };
        Engine::Cuda(Cuda { options }, cache)
    }

    /// The warning about options that this backend has no use for.
    pub(super) fn unused(&self, options: &Options) -> Option<Diag> {
        let gpu = &options.gpu;
        let given = [
            (gpu.graph, "--graph"),
            (gpu.tf32, "--tf32"),
            (gpu.routes != Routes::default(), "--map-backend"),
        ];
        let unused: Vec<&str> =
            given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect();
        // Where nothing runs no option of a run has an effect, and nobody expects one.
        let name = self.name().filter(|_| !matches!(self, Engine::Cuda(..)))?;
        if unused.is_empty() {
            return None;
        }
        let (verb, they) = if unused.len() == 1 { ("has", "it is") } else { ("have", "they are") };
        let message = format!("{} {verb} no effect on the {name} backend", unused.join(", "));
        let note = format!("{they} for runs on GPUs: --backend=cuda");
        Some(Diag::global(errors::UNUSED, message).note(note).warning())
    }

    /// Returns the warnings about the kernel cache that came up since the last call.
    pub(super) fn take_warnings(&self) -> Vec<Diag> {
        match self {
            Engine::Cuda(_, Some(cache)) => cache.take_warnings(),
            Engine::Cuda(_, None) | Engine::Cpu | Engine::Null { .. } => Vec::new(),
        }
    }

    /// `CPU`, `CUDA`, `null`; `None` if nothing is to run.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Engine::Cpu => Some("CPU"),
            Engine::Cuda(..) => Some("CUDA"),
            Engine::Null { asked, .. } => asked.then_some("null"),
        }
    }
}

/// Whether the program is looked at and not run. (`--bench` runs it whatever else is asked for.)
fn nothing_runs(options: &Options) -> bool {
    options.bench.is_none()
        && (options.check_only || options.print_plan || options.print_calls.is_some())
}

/// NCCL's library, as the user names it.
#[allow(unsafe_code, reason = "the user says what the file is")]
fn nccl(path: OsString) -> NcclFile {
    // SAFETY: whoever sets the environment of this process says that it is NCCL, as of LD_LIBRARY_PATH.
    unsafe { NcclFile::new(path) }
}

fn no_device(error: &cuda::Error) -> Diag {
    Diag::global(codes::DEVICE, error.to_string())
        .note("`--backend=cpu` runs the same program on the CPU, on as many ranks as it needs")
}

fn exchange(here: &Here) -> Arc<dyn Exchange> {
    here.peers.clone()
}

/// Refuses what would look at results.
fn computes_nothing(options: &Options) -> Result<(), Diag> {
    let Some(flag) = options.wants_results() else { return Ok(()) };
    let message = format!("`{flag}` needs results, but `--backend=null` computes nothing");
    Err(Diag::global(errors::CONFLICT, message).note(format!("leave out `{flag}`")))
}

fn one_process(here: &Here) -> Diag {
    let (world, source) = (here.place.world, here.place.source.name());
    let message = format!(
        "the CPU backend runs all ranks in one process, but {source} says that this is one of {world}"
    );
    Diag::global(errors::ONE_PROCESS, message).note(format!(
        "`--devices {world}` in one process runs {world} ranks; `--backend=null` goes through a launch without GPUs"
    ))
}
