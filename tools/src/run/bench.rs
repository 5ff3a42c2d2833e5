//! `--bench`: programs timed in turn, so that all of them see the same machine.

use super::cli::{Bench, Options};
use super::engine::Engine;
use super::exec::{self, Prepared};
use super::failure::Failure;
use super::inputs::{self, Input};
use super::load::Loaded;
use super::outputs::Results;
use super::progress::{self, Line, Rounds};
use super::{check, names, ranges, spread, stuck};
use crate::cuda;
use crate::cuda::nvtx::Nvtx;
use crate::io::Io;
use crate::launch::Here;
use crate::staged::write_whole;
use hostir::backend::null::Null;
use hostir::backend::{Backend as _, cpu};
use hostir::data::HostTensor;
use hostir::diag::visible;
use hostir::plan::InstKind;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// A program with its inputs, as far as the command line goes.
struct Entry {
    file: String,
    loaded: Loaded,
    prepared: Prepared,
    inputs: Vec<Vec<HostTensor>>,
}

/// What was measured of a program.
struct Measured {
    times: Times,
    /// Microseconds that the host spends on issuing a run.
    issue: Option<f64>,
}

/// Times in milliseconds, sorted.
struct Times(Vec<f64>);

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }
    /// The smallest time that `percent` of all do not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Runs every program once, compares what they compute, and times them in turn.
pub(super) fn run(
    options: &Options,
    bench: &Bench,
    (engine, profiler): (&Engine, Option<&Arc<Nvtx>>),
    here: Option<&Here>,
    io: &mut Io<'_>,
) -> Result<String, Failure> {
    let files = std::iter::once(&options.file).chain(&options.others);
    let entries: Vec<Entry> =
        files.map(|file| entry(file, options, engine, here, io)).collect::<Result<_, _>>()?;
    let programs: Vec<&Loaded> = entries.iter().map(|entry| &entry.loaded).collect();
    let prepared: Vec<&Prepared> = entries.iter().map(|entry| &entry.prepared).collect();
    for (place, entry) in entries.iter().enumerate() {
        // The first line is of the first program, warnings are of all.
        let options = Options { quiet: options.quiet || place > 0, ..options.clone() };
        super::announce(&options, &entry.prepared, &entry.loaded, engine, io);
    }
    spread::compare(here, &programs, &prepared, options)?;
    let (mut text, rounds) = (String::new(), Rounds::default());
    let (wanted, all) = (progress::is_wanted(options, io), bench.rounds());
    let times = progress::shown(
        wanted,
        || rounds.text(all),
        |line| match engine {
            Engine::Cpu => on_cpu(&entries, bench, options, &rounds),
            Engine::Null { null, .. } => on_null(&entries, bench, null, &rounds),
            Engine::Cuda(cuda, _) => {
                let programs =
                    entries.iter().map(|entry| (&entry.loaded.source, &entry.prepared)).collect();
                let work = |io: &mut Io<'_>| {
                    let shown = (&mut text, line, &rounds);
                    on_cuda(&entries, bench, options, (cuda, profiler), here, shown, io)
                };
                stuck::watched(engine, programs, options.format, here, io, work)
            }
        },
    );
    super::report_cache_warnings(engine, options, &entries[0].loaded.source, io);
    let times = times?;
    if here.is_some_and(|here| !here.is_first()) {
        return Ok(text);
    }
    let figures: Vec<Value> =
        entries.iter().zip(&times).map(|(entry, measured)| figure(entry, measured)).collect();
    for (place, (entry, figure)) in entries.iter().zip(&figures).enumerate() {
        let _ = writeln!(text, "{}", line(&entry.file, figure, (place > 0).then(|| &figures[0])));
    }
    let all =
        json!({ "backend": engine.name(), "iterations": bench.iterations, "programs": figures });
    write_figures(bench.json.as_deref(), &format!("{all:#}\n"), text, options, io)
}

/// Writes the figures to a file, or hands them back instead of the lines for people, which then go to standard
/// error.
fn write_figures(
    path: Option<&str>,
    figures: &str,
    text: String,
    options: &Options,
    io: &mut Io<'_>,
) -> Result<String, Failure> {
    // A name in it may be anybody's.
    let text = visible::block(&text).into_owned();
    match path {
        None => return Ok(text),
        Some("-") => {
            if !options.quiet {
                io.say(&text);
            }
            return Ok(visible::json(figures).into_owned());
        }
        Some(path) => {
            if let Err(diag) = write_whole(path, io.path(path), figures.as_bytes()) {
                // What was measured is not lost with the file.
                let _ = io.stdout.write_all(text.as_bytes());
                return Err(diag.into());
            }
        }
    }
    Ok(text)
}

fn entry(
    file: &str,
    options: &Options,
    engine: &Engine,
    here: Option<&Here>,
    io: &mut Io<'_>,
) -> Result<Entry, Failure> {
    let options = Options { file: file.to_owned(), ..options.clone() };
    let loaded = Loaded::read(file, options.container, io)?;
    let bound = names::bind(&loaded.program, &options)?;
    let whole = inputs::read_whole(&bound, io)?;
    let prepared = super::prepare(&loaded, &options, engine, &bound, &whole)?;
    if matches!(engine, Engine::Null { .. }) {
        return Ok(Entry { file: file.to_owned(), loaded, prepared, inputs: Vec::new() });
    }
    let inputs: Vec<Input> = inputs::bind(&prepared, &bound, whole, options.seed, io)?;
    let inputs = inputs::parts(&prepared, &inputs, here.map(|here| here.place.rank));
    Ok(Entry { file: file.to_owned(), loaded, prepared, inputs })
}

fn on_cpu(
    entries: &[Entry],
    bench: &Bench,
    options: &Options,
    rounds: &Rounds,
) -> Result<Vec<Measured>, Failure> {
    let mut times = vec![Vec::new(); entries.len()];
    let mut first = None;
    for round in 0..bench.rounds() {
        rounds.next(1);
        for (entry, times) in entries.iter().zip(&mut times) {
            let start = Instant::now();
            let run = cpu::Cpu.run(&entry.prepared, entry.inputs.clone());
            let spent = start.elapsed().as_secs_f64() * 1e3;
            let run = run.map_err(|diags| entry.loaded.fail(diags))?;
            if round == 0 {
                agree(entry, run, &mut first, options)?;
            }
            if round >= bench.warmup {
                times.push(spent);
            }
        }
    }
    Ok(times.into_iter().map(|times| Measured { times: Times::of(times), issue: None }).collect())
}

/// Times the steps that processes take together: there is no work.
fn on_null(
    entries: &[Entry],
    bench: &Bench,
    null: &Null,
    rounds: &Rounds,
) -> Result<Vec<Measured>, Failure> {
    let mut times = vec![Vec::new(); entries.len()];
    for round in 0..bench.rounds() {
        rounds.next(1);
        for (entry, times) in entries.iter().zip(&mut times) {
            let start = Instant::now();
            let run = null.run(&entry.prepared, Vec::new());
            run.map_err(|diags| entry.loaded.fail(diags))?;
            if round >= bench.warmup {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    Ok(times.into_iter().map(|times| Measured { times: Times::of(times), issue: None }).collect())
}

/// What goes to standard output, the line on the terminal, and what it says.
type Shown<'a> = (&'a mut String, &'a Line, &'a Rounds);

fn on_cuda(
    entries: &[Entry],
    bench: &Bench,
    options: &Options,
    (cuda, profiler): (&cuda::Cuda, Option<&Arc<Nvtx>>),
    here: Option<&Here>,
    shown: Shown<'_>,
    io: &mut Io<'_>,
) -> Result<Vec<Measured>, Failure> {
    let mut programs = Vec::new();
    let result = time(entries, bench, options, (cuda, profiler), here, (shown, &mut programs), io);
    if result.is_err() {
        // As `exec::kept`: to free what a device may still use can wait without end.
        std::mem::forget(programs);
    }
    result
}

/// Loads programs, and times them in turn.
fn time<'e>(
    entries: &'e [Entry],
    bench: &Bench,
    options: &Options,
    (cuda, profiler): (&cuda::Cuda, Option<&Arc<Nvtx>>),
    here: Option<&Here>,
    ((text, line, rounds), programs): (Shown<'_>, &mut Vec<cuda::Loaded<'e>>),
    io: &mut Io<'_>,
) -> Result<Vec<Measured>, Failure> {
    let mut first = None;
    for entry in entries {
        let fail = |diags| entry.loaded.fail(diags);
        let mut program = cuda.load(&entry.prepared).map_err(fail)?;
        ranges::name(&mut program, profiler, &entry.loaded, &entry.prepared);
        let run = program.run(&entry.inputs);
        programs.push(program);
        let run = run.map_err(fail)?;
        let run = match here {
            Some(here) => here.collect(&entry.prepared, run).map_err(fail)?,
            None => Some(run),
        };
        if let Some(run) = run {
            agree(entry, run, &mut first, options)?;
        }
    }
    if let Some(program) = programs.first() {
        if !options.quiet {
            line.clear();
            io.say(&format!("hir-run: {}", exec::about(program)));
        }
        let _ = writeln!(text, "on {}", program.about());
    }
    rounds.next(bench.warmup);
    for (program, entry) in programs.iter_mut().zip(entries) {
        program.samples(bench.warmup as usize).map_err(|diags| entry.loaded.fail(diags))?;
    }
    let mut times = vec![Vec::new(); entries.len()];
    let mut left = bench.iterations as usize;
    while left > 0 {
        let count = left.min(IN_A_ROW);
        rounds.next(count as u32);
        for ((program, entry), times) in programs.iter_mut().zip(entries).zip(&mut times) {
            times.extend(program.samples(count).map_err(|diags| entry.loaded.fail(diags))?);
        }
        left -= count;
    }
    let mut all = Vec::new();
    for ((program, entry), times) in programs.iter_mut().zip(entries).zip(times) {
        let issues = program.issue_times(ISSUES).map_err(|diags| entry.loaded.fail(diags))?;
        let issue = Some(Times::of(issues).percentile(50) * 1e6);
        all.push(Measured { times: Times::of(times), issue });
    }
    Ok(all)
}

/// How many runs of one program are timed before it is another one's turn.
const IN_A_ROW: usize = 5;
/// How often the host's part of a run is timed.
const ISSUES: usize = 11;

/// All programs compute what the first one does.
fn agree(
    entry: &Entry,
    run: hostir::backend::RunResult,
    first: &mut Option<Results>,
    options: &Options,
) -> Result<(), Failure> {
    let fail = |diag| entry.loaded.fail(vec![diag]);
    let results = Results::assemble(&entry.prepared, run, &[]).map_err(fail)?;
    let Some(first) = first else {
        *first = Some(results);
        return Ok(());
    };
    let mut checks = check::Checks::new(options);
    let pairs = entry.prepared.outputs.iter().zip(&results.whole).zip(&first.whole);
    for ((port, found), expected) in pairs {
        if let (Some(found), Some(expected)) = (found, expected) {
            checks.pair(&port.name, found, &format!("`{}`", options.file), expected);
        }
    }
    checks.finish().map(|_| ())
}

/// Floating-point operations of all products, and the bytes that the busiest rank receives.
fn work(prepared: &Prepared) -> (f64, f64) {
    let (mut flop, mut most) = (0.0, 0.0f64);
    for plan in &prepared.plans {
        let mut received = 0.0;
        for inst in plan.iter() {
            match &inst.kind {
                InstKind::Gemm(gemm) => {
                    let depth = gemm.a.dims.last().map_or(1, |dim| dim.extent);
                    flop += 2.0 * gemm.out.len() as f64 * depth as f64;
                }
                InstKind::Collective(collective) => {
                    let output = collective.output.as_ref();
                    received += output.map_or(0.0, |view| (view.len() * view.dtype.size()) as f64);
                }
                InstKind::Recv { view, .. } => received += (view.len() * view.dtype.size()) as f64,
                _ => {}
            }
        }
        most = most.max(received);
    }
    (flop, most)
}

fn figure(entry: &Entry, Measured { times, issue }: &Measured) -> Value {
    // Without inputs nothing was computed: the null backend.
    let (flop, received) = if entry.inputs.is_empty() { (0.0, 0.0) } else { work(&entry.prepared) };
    let median = times.percentile(50);
    let mut figure = json!({
        "file": entry.file,
        "ranks": entry.prepared.ranks,
        "median_ms": median,
        "p10_ms": times.percentile(10),
        "p90_ms": times.percentile(90),
    });
    if entry.inputs.is_empty() {
        figure["followed"] = json!(true);
    }
    if let Some(issue) = issue {
        figure["issue_us"] = json!(issue);
    }
    if flop > 0.0 {
        figure["tflops"] = json!(flop / median / 1e9);
    }
    if received > 0.0 {
        figure["received_gbps"] = json!(received / median / 1e6);
    }
    figure
}

/// `a.hir: 1.234 ms (p10 1.2, p90 1.3), 714.3 TFLOP/s, 123.4 GB/s received a rank, 1.21x the first`
fn line(file: &str, figure: &Value, first: Option<&Value>) -> String {
    let number = |key: &str| figure.get(key).and_then(Value::as_f64);
    let show = |key: &str| number(key).map_or_else(String::new, short);
    let mut text = format!(
        "{}: {} ms (p10 {}, p90 {})",
        visible::line(file),
        show("median_ms"),
        show("p10_ms"),
        show("p90_ms")
    );
    if figure.get("followed").is_some() {
        text.push_str(", followed only: nothing was computed");
    }
    if number("tflops").is_some() {
        let _ = write!(text, ", {} TFLOP/s", show("tflops"));
    }
    if number("received_gbps").is_some() {
        let _ = write!(text, ", {} GB/s received a rank", show("received_gbps"));
    }
    if number("issue_us").is_some() {
        let _ = write!(text, ", issued in {} us", show("issue_us"));
    }
    if let Some(base) = first.and_then(|first| first["median_ms"].as_f64())
        && let Some(own) = number("median_ms")
    {
        let _ = write!(text, ", {:.3}x the time of the first", own / base);
    }
    text
}

/// Four digits.
fn short(value: f64) -> String {
    let digits = (3 - value.abs().log10().floor().clamp(-6.0, 3.0) as i32).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}
