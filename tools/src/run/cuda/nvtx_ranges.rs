//! `--nvtx`: the host's calls of each instruction as named ranges of a profiler.

use crate::run::program::Loaded;
use crate::run::timeline::span_names::Names;
use hostir::diag::{Diag, codes};
use hostir::lower::Prepared;
use hostir_cuda::nvtx::Nvtx;
use hostir_tool_support::io::Io;
use std::path::PathBuf;
use std::sync::Arc;

/// A profiler that takes ranges.
pub(in crate::run) type Profiler = Arc<Nvtx>;

/// Opens the profiler that started this process.
///
/// # Errors
/// No profiler.
pub(in crate::run) fn open_profiler(io: &Io<'_>) -> Result<Profiler, Diag> {
    let injection = (io.env)("NVTX_INJECTION64_PATH").filter(|path| !path.is_empty());
    // SAFETY: a profiler sets this variable, for libraries that it made to be opened by any process.
    #[allow(unsafe_code, reason = "opens the profiler's library")]
    let nvtx = unsafe { Nvtx::open(injection.map(PathBuf::from).as_deref()) };
    let nvtx = nvtx.map_err(|error| {
        let note = "run under a profiler, for example `nsys profile hir-run ... --nvtx`";
        Diag::global(codes::DEVICE, error.to_string()).note(note)
    })?;
    Ok(Arc::new(nvtx))
}

/// Names the ranges of a program that is ready to run.
pub(super) fn name_ranges(
    program: &mut hostir_cuda::Loaded<'_>,
    nvtx: Option<&Profiler>,
    loaded: &Loaded,
    prepared: &Prepared,
) {
    let Some(nvtx) = nvtx else { return };
    let ops = prepared.plans.iter().flat_map(|plan| plan.iter().map(|inst| inst.origin.op));
    let names = Names::new(ops, loaded, prepared);
    program.name_ranges(nvtx, &|rank, origin| names.slice(rank, origin));
}
