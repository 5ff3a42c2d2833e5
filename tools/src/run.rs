//! hir-run: runs a host program and checks what it computes.
//!
//! One road: read, verify, bind sizes, plan, bind inputs, run, put outputs together, compare, write.
//! Each step either hands its result to the next or ends the run with a `Failure`; files are written
//! in the last step only, so a run that fails leaves none.

mod backends;
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
mod places;
mod progress;
mod ran;
mod ranges;
mod reference;
mod spread;
mod store;
mod stuck;
mod summary;
mod timeline;
mod trace;
mod traced;
mod typed;

use crate::cuda;
use crate::io::{Io, Status};
use crate::launch::Here;
use crate::render;
use crate::source::Source;
use crate::staged::Staged;
use cli::{Gpu, Options};
use engine::Engine;
use exec::Prepared;
use failure::Failure;
use hostir::backend::RunResult;
use hostir::backend::null::Null;
use hostir::backend::trace::Trace;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes, visible};
use hostir_gpu::listing::ListingOptions;
use load::Loaded;
use outputs::Results;
use std::ffi::OsString;
use std::time::Duration;

/// Runs the tool with these arguments (the program's name first) and returns its exit status.
pub fn main_with(args: &[OsString], io: &mut Io<'_>) -> i32 {
    let options = match cli::parse(args, io) {
        Ok(options) => options,
        Err(status) => return status.code(),
    };
    match spread::run(args, &options, io) {
        Ok(text) => print(&text, &options, io),
        Err(end) => end.report(&options, io),
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
        _ => Status::Ok.code(),
    }
}

/// Everything up to the text for standard output. `here` is this process among several.
fn execute(options: &Options, here: Option<&Here>, io: &mut Io<'_>) -> Result<String, Failure> {
    traced::check(options)?;
    places::check(options, here, io)?;
    let engine = Engine::choose(options, here, io)?;
    let profiler = ranges::open(options, &engine, io)?;
    if let Some(bench) = &options.bench {
        return bench::run(options, bench, (&engine, profiler.as_ref()), here, io);
    }
    let loaded = Loaded::read(&options.file, options.container, io)?;
    let bound = names::bind(&loaded.program, options)?;
    let whole = inputs::read_whole(&bound, io)?;
    let prepared = prepare(&loaded, options, &engine, &bound, &whole)?;
    announce(options, &prepared, &loaded, &engine, io);
    spread::compare(here, &[&loaded], &[&prepared], options)?;
    if options.print_plan {
        return Ok(visible::block(&exec::plan_text(&prepared)).into_owned());
    }
    if let Some(shared) = options.print_calls {
        let Gpu { routes, tf32, graph, .. } = options.gpu;
        let listed = exec::list_calls(&prepared, ListingOptions { tf32, routes, graph, shared });
        return listed.map_err(|diags| loaded.fail(diags));
    }
    outputs::check_types(&prepared, options, &bound, io)?;
    if options.check_only {
        return check_only(&prepared, &loaded, options, here, io);
    }
    if matches!(engine, Engine::Cpu) {
        exec::check_memory(&prepared)?;
    }
    if let Engine::Null { null, .. } = &engine {
        return follow(null, &prepared, &loaded, options, here, io);
    }
    let inputs = inputs::bind(&prepared, &bound, whole, options.seed, io)?;
    let parts = inputs::parts(&prepared, &inputs, here.map(|here| here.place.rank));
    let ready = |program: &mut cuda::Loaded<'_>| {
        ranges::name(program, profiler.as_ref(), &loaded, &prepared);
    };
    let programs = vec![(&loaded.source, &prepared)];
    let run = |io: &mut Io<'_>| compute(&engine, &prepared, parts, options, &ready, io);
    let run = stuck::watched(&engine, programs, options.format, here, io, run);
    report_cache_warnings(&engine, options, &loaded.source, io);
    let (run, trace) = run.map_err(|diags| loaded.fail(diags))?;
    // Timelines first: with the outputs rank 0 has all that it needs of the others.
    let trace =
        spread::collect_timeline(here, &prepared, trace).map_err(|diags| loaded.fail(diags))?;
    let run = spread::collect(here, &prepared, run).map_err(|diags| loaded.fail(diags))?;
    // The other processes have handed over their outputs: rank 0 does the rest.
    let Some(run) = run else { return Ok(String::new()) };
    let mut staged = Staged::default();
    let drawn = trace
        .map(|trace| traced::draw(&trace, &loaded, &prepared, options, (&mut staged, io)))
        .transpose()?;
    let ran = ran::line(&prepared, run.stats);
    let results = Results::assemble(&prepared, run, &bound.in_parts())
        .map_err(|diag| unlike(&loaded, diag, options))?;
    let mut lines = check::expected(&prepared, &results, options, &bound, io)?;
    if let Some(file) = &options.reference {
        lines.extend(reference::check(file, &inputs, &prepared, &results, options, io)?);
    }
    outputs::stage(&prepared, &results, options, &bound, (&mut staged, io))?;
    staged.commit()?;
    let chart = drawn.unwrap_or_default();
    if !options.quiet {
        io.say(&ran);
    }
    let done = summary::done(&prepared, &inputs, &bound, &results, &lines, options);
    Ok(visible::block(&done).into_owned() + &chart)
}

/// Outputs that cannot be put together. Replicas that differ are a comparison that differs, where one is asked for.
fn unlike(loaded: &Loaded, diag: Diag, options: &Options) -> Failure {
    let differs = diag.code == codes::REPLICAS && options.compares();
    let failure = loaded.fail(vec![diag]);
    if differs { Failure { status: Status::Differs, ..failure } } else { failure }
}

/// Looks for deadlocks without data; a timeline that is asked for is the model's.
fn check_only(
    prepared: &Prepared,
    loaded: &Loaded,
    options: &Options,
    here: Option<&Here>,
    io: &Io<'_>,
) -> Result<String, Failure> {
    let mut text = summary::checked(prepared, options);
    // The model is the same on all processes.
    if options.traced.any() && here.is_none_or(Here::is_first) {
        let trace = exec::model(prepared).map_err(|diags| loaded.fail(diags))?;
        text += &draw(&trace, loaded, prepared, options, io)?;
    } else {
        exec::follow_order(prepared).map_err(|diags| loaded.fail(diags))?;
    }
    Ok(text)
}

/// Goes through a run without data; a timeline that is asked for is the model's, its parts from the
/// processes that there are.
fn follow(
    null: &Null,
    prepared: &Prepared,
    loaded: &Loaded,
    options: &Options,
    here: Option<&Here>,
    io: &Io<'_>,
) -> Result<String, Failure> {
    let fail = |diags| loaded.fail(diags);
    if !options.traced.any() {
        let run = exec::run_on_null(prepared, null).map_err(fail)?;
        return Ok(summary::followed(prepared, run.stats, options));
    }
    let (run, trace) = exec::trace_on_null(prepared, null).map_err(fail)?;
    let mut text = summary::followed(prepared, run.stats, options);
    if let Some(trace) = spread::collect_timeline(here, prepared, Some(trace)).map_err(fail)? {
        text += &draw(&trace, loaded, prepared, options, io)?;
    }
    Ok(text)
}

/// Draws a timeline where there are no other files.
fn draw(
    trace: &Trace,
    loaded: &Loaded,
    prepared: &Prepared,
    options: &Options,
    io: &Io<'_>,
) -> Result<String, Failure> {
    let mut staged = Staged::default();
    let chart = traced::draw(trace, loaded, prepared, options, (&mut staged, io))?;
    staged.commit()?;
    Ok(chart)
}

/// Sizes come from flags, the program and, where those leave some open, from input files.
fn prepare(
    loaded: &Loaded,
    options: &Options,
    engine: &Engine,
    bound: &names::Bound<'_>,
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
    match exec::prepare(&loaded.program, &sizes, &bound.kept) {
        Ok(prepared) => return Ok(prepared),
        // Shapes of input files change nothing about that.
        Err(diags) if diags.iter().any(|diag| diag.code == codes::TIMEOUT) => {
            return Err(loaded.fail(diags));
        }
        Err(_) => {}
    }
    inputs::add_shapes(&mut sizes, &loaded.program, bound, whole);
    sizes.every = every;
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
        io.say(&header);
        if let Some(idle) = summary::idle(prepared, options) {
            io.say(&idle);
        }
    }
    if let Some(unused) = engine.unused(options) {
        render::report(io, options.format, &loaded.source, &[unused]);
    }
    if !loaded.warnings.is_empty() {
        render::report(io, options.format, &loaded.source, &loaded.warnings);
    }
}

/// Writes the warnings about compiled kernels on disk.
fn report_cache_warnings(engine: &Engine, options: &Options, source: &Source, io: &mut Io<'_>) {
    let warnings = engine.take_warnings();
    if !warnings.is_empty() {
        render::report(io, options.format, source, &warnings);
    }
}

/// Runs all ranks, with a timeline if one is wanted.
fn compute(
    engine: &Engine,
    prepared: &Prepared,
    parts: Vec<Vec<HostTensor>>,
    options: &Options,
    ready: &dyn Fn(&mut cuda::Loaded<'_>),
    io: &mut Io<'_>,
) -> Result<(RunResult, Option<Trace>), Vec<Diag>> {
    let (traced, steps) = (options.traced.any(), exec::Steps::default());
    let timed = |(result, trace)| (result, Some(trace));
    let plain = |result| (result, None);
    let wanted = progress::is_wanted(options, io);
    progress::shown(
        wanted,
        || progress::percent(&steps),
        |line| {
            let mut ready = |program: &mut cuda::Loaded<'_>| {
                ready(program);
                if !options.quiet {
                    line.clear();
                    io.say(&format!("hir-run: {}", exec::about(program)));
                }
            };
            match engine {
                Engine::Cpu if traced => exec::run_traced(prepared, parts).map(timed),
                Engine::Cpu => exec::run(prepared, parts, &steps).map(plain),
                Engine::Null { null, .. } => exec::run_on_null(prepared, null).map(plain),
                Engine::Cuda(cuda, _) if traced => {
                    exec::trace_on_gpus(prepared, &parts, cuda, &mut ready).map(timed)
                }
                Engine::Cuda(cuda, _) => {
                    exec::run_on_gpus(prepared, &parts, cuda, &mut ready).map(plain)
                }
            }
        },
    )
}

#[cfg(test)]
mod tests;
