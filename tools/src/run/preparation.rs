//! From a verified program to the plans of its ranks.

use super::backend_choice::Engine;
use super::cli::Options;
use super::failure::Failure;
use super::inputs;
use super::program::Loaded;
use super::summary;
use super::tensor_options::Bound;
use hostir::diag::{Diag, codes};
use hostir::ir::{Program, TensorId};
use hostir::lower;
use hostir::lower::{Prepared, Sizes};
use hostir_tool_support::io::Io;
use hostir_tool_support::source::Source;
use std::time::Duration;

/// Binds sizes and plans all ranks; `kept` tensors come out behind the outputs.
///
/// # Errors
/// Those of planning, in the order of their places.
pub(super) fn plan_ranks(
    program: &Program,
    sizes: &Sizes,
    kept: &[TensorId],
) -> Result<Prepared, Vec<Diag>> {
    lower::prepare_keeping(program, sizes, kept).map_err(|mut diags| {
        diags.sort();
        diags.items
    })
}

/// Plans a program. Sizes come from flags, the program and, where those leave some open, from input files.
///
/// # Errors
/// Those of planning.
pub(super) fn prepare_program(
    loaded: &Loaded,
    options: &Options,
    engine: &Engine,
    bound: &Bound<'_>,
    whole: &inputs::Whole,
) -> Result<Prepared, Failure> {
    let mut sizes = bound.sizes(options);
    if options.check_only || !matches!(engine, Engine::Cpu) {
        // Nothing is allocated here, and a device says itself what it has.
        sizes.memory_limit = u64::MAX;
    }
    if !matches!(engine, Engine::Cuda(..)) {
        sizes.limits.time = options.gpu.timeout_ms.map(Duration::from_millis);
    }
    // What flags give every extent that is left open comes behind what files give.
    let every = sizes.every.take();
    match plan_ranks(&loaded.program, &sizes, &bound.kept) {
        Ok(prepared) => return Ok(prepared),
        // Shapes of input files change nothing about that.
        Err(diags) if diags.iter().any(|diag| diag.code == codes::TIMEOUT) => {
            return Err(loaded.fail(diags));
        }
        Err(_) => {}
    }
    inputs::add_shapes(&mut sizes, &loaded.program, bound, whole);
    sizes.every = every;
    plan_ranks(&loaded.program, &sizes, &bound.kept).map_err(|diags| loaded.fail(diags))
}

/// The first line on standard error, then warnings.
pub(super) fn announce_program(
    options: &Options,
    prepared: &Prepared,
    loaded: &Loaded,
    engine: &Engine,
    io: &mut Io<'_>,
) {
    if !options.quiet {
        let header = summary::header(prepared, options.streams, engine.name());
        io.say(&header);
        if let Some(idle) = summary::idle(prepared, options) {
            io.say(&idle);
        }
    }
    if let Some(unused) = engine.unused(options) {
        io.report(options.format, &loaded.source, &[unused]);
    }
    if !loaded.warnings.is_empty() {
        io.report(options.format, &loaded.source, &loaded.warnings);
    }
}

/// Writes the warnings about compiled kernels on disk.
pub(super) fn report_cache_warnings(
    engine: &Engine,
    options: &Options,
    source: &Source,
    io: &mut Io<'_>,
) {
    let warnings = engine.take_warnings();
    if !warnings.is_empty() {
        io.report(options.format, source, &warnings);
    }
}
