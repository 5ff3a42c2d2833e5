//! hir-run: runs a host program and checks what it computes.
//!
//! One road: read, verify, bind sizes, plan, bind inputs, run, put outputs together, compare, write.
//! Each step either hands its result to the next or ends the run with a `Failure`; files are written
//! in the last step only, so a run that fails leaves none.

mod bench;
mod check;
mod cli;
mod engine;
pub mod errors;
mod exec;
mod failure;
mod files;
mod inputs;
mod load;
mod names;
mod outputs;
mod ran;
mod reference;
mod store;
mod summary;

use crate::io::Io;
use crate::render;
use cli::Options;
use engine::Engine;
use exec::Prepared;
use failure::Failure;
use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use load::Loaded;
use outputs::Results;
use std::ffi::OsString;

/// Runs the tool with these arguments (the program's name first) and returns its exit status.
pub fn main_with(args: &[OsString], io: &mut Io<'_>) -> i32 {
    let options = match cli::parse(args, io) {
        Ok(options) => options,
        Err(status) => return status.code(),
    };
    match execute(&options, io) {
        Ok(text) => print(&text, &options, io),
        Err(failure) => {
            render::report(io, options.format, &failure.source, &failure.diags);
            failure.status.code()
        }
    }
}

/// Writes the results. A reader that went away is no error.
fn print(text: &str, options: &Options, io: &mut Io<'_>) -> i32 {
    let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let diag = errors::cannot_write("standard output", &error);
            let failure = Failure::from(diag);
            render::report(io, options.format, &failure.source, &failure.diags);
            failure.status.code()
        }
        _ => crate::Status::Ok.code(),
    }
}

/// Everything up to the text for standard output.
fn execute(options: &Options, io: &mut Io<'_>) -> Result<String, Failure> {
    let engine = Engine::choose(options, io)?;
    if let Some(bench) = &options.bench {
        return bench::run(options, bench, &engine, io);
    }
    let loaded = Loaded::read(&options.file, options.container, io)?;
    let bound = names::bind(&loaded.program, options)?;
    let whole = inputs::read_whole(&bound, io)?;
    let prepared = prepare(&loaded, options, &bound, &whole)?;
    announce(options, &prepared, &loaded, &engine, io);
    if options.print_plan {
        return Ok(exec::plan_text(&prepared));
    }
    outputs::check_types(&prepared, options, &bound)?;
    if options.check_only {
        exec::follow_order(&prepared).map_err(|diags| loaded.fail(diags))?;
        return Ok(summary::checked(&prepared, options));
    }
    if matches!(engine, Engine::Cpu) {
        exec::check_memory(&prepared)?;
    }
    let inputs = inputs::bind(&prepared, &bound, whole, options.seed, io)?;
    let parts = inputs::parts(&prepared, &inputs);
    let run =
        compute(&engine, &prepared, parts, options, io).map_err(|diags| loaded.fail(diags))?;
    let ran = ran::line(&prepared, run.stats);
    let results = Results::assemble(&prepared, run, &bound.in_parts())
        .map_err(|diag| loaded.fail(vec![diag]))?;
    let mut lines = check::expected(&prepared, &results, options, &bound, io)?;
    if let Some(file) = &options.reference {
        lines.extend(reference::check(file, &inputs, &prepared, &results, options, io)?);
    }
    outputs::write(&prepared, &results, options, &bound, io)?;
    if !options.quiet {
        let _ = writeln!(io.stderr, "{ran}");
    }
    Ok(summary::done(&prepared, &inputs, &bound, &results, &lines, options))
}

/// Sizes come from flags, the program and, where those leave some open, from input files.
fn prepare(
    loaded: &Loaded,
    options: &Options,
    bound: &names::Bound<'_>,
    whole: &inputs::Whole,
) -> Result<Prepared, Failure> {
    let mut sizes = bound.sizes(options);
    if let Ok(prepared) = exec::prepare(&loaded.program, &sizes, &bound.kept) {
        return Ok(prepared);
    }
    inputs::add_shapes(&mut sizes, &loaded.program, whole);
    exec::prepare(&loaded.program, &sizes, &bound.kept).map_err(|diags| loaded.fail(diags))
}

/// The first line on standard error, then warnings.
fn announce(
    options: &Options,
    prepared: &Prepared,
    loaded: &Loaded,
    engine: &Engine,
    io: &mut Io<'_>,
) {
    if !options.quiet {
        let header = summary::header(prepared, options.streams, engine.name());
        let _ = writeln!(io.stderr, "{header}");
    }
    if let Some(unused) = engine.unused(options) {
        render::report(io, options.format, &loaded.source, &[unused]);
    }
    if !loaded.warnings.is_empty() {
        render::report(io, options.format, &loaded.source, &loaded.warnings);
    }
}

/// Runs all ranks.
fn compute(
    engine: &Engine,
    prepared: &Prepared,
    parts: Vec<Vec<HostTensor>>,
    options: &Options,
    io: &mut Io<'_>,
) -> Result<RunResult, Vec<Diag>> {
    match engine {
        Engine::Cpu => exec::run(prepared, parts),
        Engine::Cuda(cuda) => {
            let (result, about) = exec::run_on_gpus(prepared, &parts, cuda)?;
            if !options.quiet {
                let _ = writeln!(io.stderr, "hir-run: {about}");
            }
            Ok(result)
        }
    }
}

#[cfg(test)]
mod tests;
