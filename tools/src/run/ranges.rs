//! `--nvtx`: the host's calls of each instruction as named ranges of a profiler.

use super::cli::Options;
use super::engine::Engine;
use super::errors;
use super::exec::Prepared;
use super::failure::Failure;
use super::load::Loaded;
use super::traced::Names;
use crate::cuda::{self, nvtx::Nvtx};
use crate::io::Io;
use hostir::diag::{Diag, codes};
use std::path::PathBuf;
use std::sync::Arc;

/// The profiler, if ranges are asked for; an error if nobody would take them.
pub(super) fn open(
    options: &Options,
    engine: &Engine,
    io: &Io<'_>,
) -> Result<Option<Arc<Nvtx>>, Failure> {
    if !options.nvtx {
        return Ok(None);
    }
    let elsewhere = match engine {
        Engine::Cpu => Some("the program runs on the CPU"),
        _ if engine.name().is_none() => Some("nothing runs"),
        _ => None,
    };
    if let Some(elsewhere) = elsewhere {
        let message = format!("`--nvtx` names the calls of the CUDA backend, and {elsewhere}");
        let note = "`--timeline` shows where the CPU's time goes";
        return Err(Diag::global(errors::CONFLICT, message).note(note).into());
    }
    let injection = (io.env)("NVTX_INJECTION64_PATH").filter(|path| !path.is_empty());
    // SAFETY: a profiler sets this variable, for libraries that it made to be opened by any process.
    #[allow(unsafe_code, reason = "opens the profiler's library")]
    let nvtx = unsafe { Nvtx::open(injection.map(PathBuf::from).as_deref()) };
    let nvtx = nvtx.map_err(|error| {
        let note = "run under a profiler, for example `nsys profile hir-run ... --nvtx`";
        Failure::from(Diag::global(codes::DEVICE, error.to_string()).note(note))
    })?;
    Ok(Some(Arc::new(nvtx)))
}

/// Names the ranges of a program that is ready to run.
pub(super) fn name(
    program: &mut cuda::Loaded<'_>,
    nvtx: Option<&Arc<Nvtx>>,
    loaded: &Loaded,
    prepared: &Prepared,
) {
    let Some(nvtx) = nvtx else { return };
    let ops = prepared.plans.iter().flat_map(|plan| plan.iter().map(|inst| inst.origin.op));
    let names = Names::new(ops, loaded, prepared);
    program.name_ranges(nvtx, &|rank, origin| names.slice(rank, origin));
}
