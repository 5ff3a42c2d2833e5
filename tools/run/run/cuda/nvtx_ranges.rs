//! `--nvtx`: the host's calls of each instruction as named ranges of a profiler.

use crate::run::program::SourceProgram;
use crate::run::timeline::span_names::SpanNames;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir_cuda::nvtx::NvtxProfiler;
use hostir_tool_support::io::ToolIo;
use std::path::PathBuf;
use std::sync::Arc;

/// A profiler that takes ranges.
pub(in crate::run) type Profiler = Arc<NvtxProfiler>;

/// Opens the profiler that started this process.
///
/// # Errors
/// No profiler.
pub(in crate::run) fn open_profiler(io: &ToolIo<'_>) -> Result<Profiler, Diag> {
    let injection = (io.env)("NVTX_INJECTION64_PATH").filter(|path| !path.is_empty());
    // SAFETY: a profiler sets this variable, for libraries that it made to be opened by any process.
    #[allow(unsafe_code, reason = "opens the profiler's library")]
    let nvtx = unsafe { NvtxProfiler::open(injection.map(PathBuf::from).as_deref()) };
    let nvtx = nvtx.map_err(|error| {
        let note = "run under a profiler, for example `nsys profile hir-run ... --nvtx`";
        Diag::global_error(codes::DEVICE, error.to_string()).with_note(note)
    })?;
    Ok(Arc::new(nvtx))
}

/// Names the ranges of a program that is ready to run.
pub(super) fn name_ranges(
    program: &mut hostir_cuda::LoadedProgram<'_>,
    nvtx: Option<&Profiler>,
    loaded: &SourceProgram,
    prepared: &PreparedProgram,
) {
    let Some(nvtx) = nvtx else { return };
    let ops = prepared.plans.iter().flat_map(|plan| plan.iter().map(|inst| inst.origin.op));
    let names = SpanNames::new(ops, loaded, prepared);
    program.name_ranges(nvtx, &|rank, origin| names.span_name(rank, origin));
}
