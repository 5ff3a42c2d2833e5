//! From a verified program to the plans of its ranks.

use super::backend_choice::RunEngine;
use super::cli::Options;
use super::failure::RunFailure;
use super::inputs;
use super::program::SourceProgram;
use super::summary;
use super::tensor_options::BoundOptions;
use hostir::diag::{Diag, codes};
use hostir::ir::{Program, TensorId};
use hostir::lower;
use hostir::lower::{PreparedProgram, SizeSettings, stream_count};
use hostir::plan::Plan;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::machines::devices_warning;
use hostir_tool_support::source::NamedText;

/// Binds sizes and plans all ranks; `kept` tensors follow the outputs.
///
/// # Errors
/// Those of planning, in the order of their places.
pub(super) fn plan_ranks(
    program: &Program,
    sizes: &SizeSettings,
    kept: &[TensorId],
) -> Result<PreparedProgram, Vec<Diag>> {
    lower::prepare_with_kept(program, sizes, kept).map_err(|mut diags| {
        diags.sort_by_place();
        diags.items
    })
}

/// Plans a program. Sizes come from flags, the program and, if these leave some open, from input files.
///
/// # Errors
/// Those of planning.
pub(super) fn prepare_program(
    loaded: &SourceProgram,
    options: &Options,
    engine: &RunEngine,
    bound: &BoundOptions<'_>,
    whole: &inputs::WholeTensors,
) -> Result<PreparedProgram, RunFailure> {
    let mut sizes = bound.fixed_sizes(options, &loaded.program);
    if options.check_only || !matches!(engine, RunEngine::Cpu) {
        // Nothing is allocated here, and a device reports its own memory.
        sizes.memory_limit = u64::MAX;
    }
    if !matches!(engine, RunEngine::Cuda(..)) {
        sizes.limits.time = options.cpu_timeout();
    }
    // The flag for all open extents comes after the sizes of files.
    let every = sizes.every.take();
    match plan_ranks(&loaded.program, &sizes, &bound.kept) {
        Ok(prepared) => return Ok(prepared),
        // Shapes of input files do not change that.
        Err(diags) if diags.iter().any(|diag| diag.code == codes::TIMEOUT) => {
            return Err(loaded.to_failure(diags));
        }
        Err(_) => {}
    }
    inputs::add_shapes(&mut sizes, &loaded.program, bound, whole);
    sizes.every = every;
    plan_ranks(&loaded.program, &sizes, &bound.kept).map_err(|diags| loaded.to_failure(diags))
}

/// Fills new memory with patterns, if requested. It comes after the proof, which would take the patterns for written
/// values. The CPU backend has them without instructions, since it tracks initialised memory.
pub(super) fn poison_memory(prepared: PreparedProgram, options: &Options, engine: &RunEngine) -> PreparedProgram {
    let poison = options.poison && !options.check_only;
    if !poison || matches!(engine, RunEngine::Cpu) {
        return PreparedProgram { poison, ..prepared };
    }
    let plans = prepared.plans.into_iter().map(Plan::poisoned).collect();
    PreparedProgram { plans, ..prepared }
}

/// The first line on standard error, then warnings.
pub(super) fn announce_program(
    options: &Options,
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    engine: &RunEngine,
    io: &mut ToolIo<'_>,
) {
    if !options.quiet {
        let header =
            summary::header_line(prepared, stream_count(&loaded.program, options.streams), engine.backend_name());
        io.print_message(&header);
        if let Some(idle) = summary::idle_ranks_line(prepared, options) {
            io.print_message(&idle);
        }
    }
    if let Some(unused) = engine.unused_options(options) {
        io.report(options.format, &loaded.source, &[unused]);
    }
    if options.check_only && options.names_machine {
        let warning = devices_warning(&options.model.machine, prepared.ranks);
        warning.into_iter().for_each(|warning| io.report(options.format, &loaded.source, &[warning]));
    }
    if !loaded.warnings.is_empty() {
        io.report(options.format, &loaded.source, &loaded.warnings);
    }
}

/// Writes the warnings about compiled kernels on disk.
pub(super) fn report_cache_warnings(engine: &RunEngine, options: &Options, source: &NamedText, io: &mut ToolIo<'_>) {
    let warnings = engine.take_warnings();
    if !warnings.is_empty() {
        io.report(options.format, source, &warnings);
    }
}
