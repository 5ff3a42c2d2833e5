//! `--bench`: times programs in turn, so that all of them see the same machine.

pub(super) mod measurement;
pub(super) mod turns;

use super::backend_choice::RunEngine;
use super::cli::{BenchOptions, Options};
use super::cuda::{GpuTiming, Profiler, WatchedRun};
use super::failure::RunFailure;
use super::inputs::{self, InputData, WholeTensors};
use super::preparation::{announce_program, poison_memory, prepare_program, report_cache_warnings};
use super::program::SourceProgram;
use super::progress::{self, RoundCounter};
use super::simulated::SimulatedRun;
use super::{gather, proof, tensor_options, user_kernels};
use crate::launch::LaunchedProcess;
use hostir::backend::cpu;
use hostir::backend::null::NullBackend;
use hostir::data::HostTensor;
use hostir::diag::{Diag, visible};
use hostir::ir::MessageDirection;
use hostir::lower::PreparedProgram;
use hostir::plan::InstKind;
use hostir::plan::cost::CostModel;
use hostir_gpu::user_kernel::KernelFiles;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::write_whole;
use measurement::{BenchEntry, Measurement, Times, check_agreement};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;

/// Runs every program once, compares their outputs, and times them in turn.
///
/// # Errors
/// If programs do not run or differ, or figures cannot be written.
pub(super) fn run_benchmark(
    options: &Options,
    bench: &BenchOptions,
    engine: &RunEngine,
    profiler: Option<&Profiler>,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    if bench.turns && here.is_some() {
        let message = "`--turns` needs all ranks in one process: several would read one standard input";
        return Err(Diag::global_error(errors::CONFLICT, message).into());
    }
    let files = std::iter::once(&options.file).chain(&options.others);
    let entries: Vec<BenchEntry> =
        files.map(|file| load_entry(file, options, engine, here, io)).collect::<Result<_, _>>()?;
    let programs: Vec<&SourceProgram> = entries.iter().map(|entry| &entry.loaded).collect();
    let prepared: Vec<&PreparedProgram> = entries.iter().map(|entry| &entry.prepared).collect();
    for (place, entry) in entries.iter().enumerate() {
        // The first line is for the first program, warnings are for all.
        let options = Options { quiet: options.quiet || place > 0, ..options.clone() };
        announce_program(&options, &entry.prepared, &entry.loaded, engine, io);
    }
    let kernels: Vec<&KernelFiles> = entries.iter().map(|entry| &entry.kernels).collect();
    gather::compare_processes(here, &programs, &prepared, &kernels, options)?;
    let mut text = String::new();
    let times = TimedPrograms { entries: &entries, bench, options, profiler, here }.time_all(engine, &mut text, io);
    report_cache_warnings(engine, options, &entries[0].loaded.source, io);
    let times = times?;
    if here.is_some_and(|here| !here.is_first()) {
        return Ok(text);
    }
    let figures: Vec<Value> =
        entries.iter().zip(&times).map(|(entry, measured)| program_figure(entry, measured)).collect();
    text += &figure_lines(&entries, &figures);
    // The model has one time.
    let iterations = if matches!(engine, RunEngine::Sim) { 1 } else { bench.iterations };
    let all = json!({ "backend": engine.backend_name(), "iterations": iterations, "programs": figures });
    write_figures(bench.json.as_deref(), &format!("{all:#}\n"), text, options, io)
}

/// Programs that are timed in turn.
pub(super) struct TimedPrograms<'a> {
    pub(super) entries: &'a [BenchEntry],
    pub(super) bench: &'a BenchOptions,
    pub(super) options: &'a Options,
    pub(super) profiler: Option<&'a Profiler>,
    /// This process among several.
    pub(super) here: Option<&'a LaunchedProcess>,
}

impl TimedPrograms<'_> {
    /// Times the programs. Adds a line about the devices to `text`.
    ///
    /// # Errors
    /// Those of loading and of running, or if outputs differ.
    pub(super) fn time_all(
        &self,
        engine: &RunEngine,
        text: &mut String,
        io: &mut ToolIo<'_>,
    ) -> Result<Vec<Measurement>, RunFailure> {
        let TimedPrograms { entries, bench, options, profiler, here } = *self;
        let rounds = RoundCounter::default();
        let (wanted, all) = (progress::is_wanted(options, io), bench.round_count());
        progress::show_progress(
            wanted,
            || rounds.progress_text(all),
            |line| match engine {
                RunEngine::Cpu => time_on_cpu(entries, bench, options, &rounds, io),
                RunEngine::Null { null, .. } => time_on_null(entries, bench, null, &rounds, io),
                RunEngine::Sim => entries.iter().map(|entry| time_by_model(entry, &options.run_model())).collect(),
                RunEngine::Cuda(cuda) => {
                    let programs = entries.iter().map(|entry| (&entry.loaded.source, &entry.prepared)).collect();
                    let watched = WatchedRun { programs, format: options.format, here };
                    let timing = GpuTiming { entries, bench, options, profiler, here, line, rounds: &rounds };
                    cuda.run_watched(watched, io, |io| cuda.time_programs(&timing, text, io))
                }
            },
        )
    }
}

/// A line for each program.
fn figure_lines(entries: &[BenchEntry], figures: &[Value]) -> String {
    let mut text = String::new();
    for (place, (entry, figure)) in entries.iter().zip(figures).enumerate() {
        let first = figures.first().filter(|_| place > 0);
        let _ = writeln!(text, "{}", figure_line(&entry.file, figure, first));
    }
    text
}

/// Writes the figures to a file, or returns them instead of the lines for users, which then go to standard error.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn write_figures(
    path: Option<&str>,
    figures: &str,
    text: String,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    // A name in it may be anybody's.
    let text = visible::escape_block(&text).into_owned();
    match path {
        None => return Ok(text),
        Some("-") => {
            if !options.quiet {
                io.print_message(&text);
            }
            return Ok(visible::escape_json(figures).into_owned());
        }
        Some(path) => {
            if let Err(diag) = write_whole(path, io.resolve_path(path), figures.as_bytes()) {
                // The figures are not lost if the file cannot be written.
                let _ = io.stdout.write_all(text.as_bytes());
                return Err(diag.into());
            }
        }
    }
    Ok(text)
}

fn load_entry(
    file: &str,
    options: &Options,
    engine: &RunEngine,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<BenchEntry, RunFailure> {
    let (mut entry, whole) = prepare_entry(file, options, engine, io)?;
    if !matches!(engine, RunEngine::Null { .. } | RunEngine::Sim) {
        entry.inputs = bind_entry_inputs(&entry, whole, options, here, io)?;
    }
    Ok(entry)
}

/// A program that is planned and proved, without inputs; and the tensors of its files.
///
/// # Errors
/// Those of reading, of planning and of the proof.
pub(super) fn prepare_entry(
    file: &str,
    options: &Options,
    engine: &RunEngine,
    io: &mut ToolIo<'_>,
) -> Result<(BenchEntry, WholeTensors), RunFailure> {
    let options = Options { file: file.to_owned(), ..options.clone() };
    let loaded = SourceProgram::read_program(file, options.program_choice(), io)?;
    let bound = tensor_options::bind_options(&loaded.program, &options)?;
    let whole = inputs::read_whole(&loaded.program, &bound, io)?;
    let prepared = prepare_program(&loaded, &options, engine, &bound, &whole)?;
    let kernels = user_kernels::read_kernels(&loaded, &prepared, &options, engine, io)?;
    if !options.no_check {
        proof::prove_loaded(&prepared, &loaded, &options)?;
    }
    let prepared = poison_memory(prepared, &options, engine);
    Ok((BenchEntry { file: file.to_owned(), loaded, prepared, kernels, inputs: Vec::new() }, whole))
}

/// The inputs of a program, by rank and position.
///
/// # Errors
/// Inputs of another type or shape.
pub(super) fn bind_entry_inputs(
    entry: &BenchEntry,
    whole: WholeTensors,
    options: &Options,
    here: Option<&LaunchedProcess>,
    io: &ToolIo<'_>,
) -> Result<Vec<Vec<HostTensor>>, RunFailure> {
    let bound = tensor_options::bind_options(&entry.loaded.program, options)?;
    let inputs: Vec<InputData> = inputs::bind_inputs(&entry.prepared, &bound, whole, options.seed, io)?;
    Ok(inputs::rank_inputs(&entry.prepared, &inputs, here.map(|here| here.place.rank)))
}

fn time_on_cpu(
    entries: &[BenchEntry],
    bench: &BenchOptions,
    options: &Options,
    rounds: &RoundCounter,
    io: &mut ToolIo<'_>,
) -> Result<Vec<Measurement>, RunFailure> {
    let mut first = None;
    time_rounds(entries, bench, rounds, io, |entry, round| {
        let start = Instant::now();
        let run = cpu::run_plans(&entry.prepared, entry.inputs.clone());
        let spent = start.elapsed().as_secs_f64() * 1e3;
        let run = run.map_err(|diags| entry.loaded.to_failure(diags))?;
        if round == 0 {
            check_agreement(entry, run, &mut first, options)?;
        }
        Ok(spent)
    })
}

/// Times the common steps of processes, which do no work.
fn time_on_null(
    entries: &[BenchEntry],
    bench: &BenchOptions,
    null: &NullBackend,
    rounds: &RoundCounter,
    io: &mut ToolIo<'_>,
) -> Result<Vec<Measurement>, RunFailure> {
    time_rounds(entries, bench, rounds, io, |entry, _| {
        let start = Instant::now();
        let run = null.run_plans(&entry.prepared);
        run.map_err(|diags| entry.loaded.to_failure(diags))?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    })
}

/// The time of a program by the cost model.
fn time_by_model(entry: &BenchEntry, model: &CostModel) -> Result<Measurement, RunFailure> {
    let run = SimulatedRun::of_program(&entry.prepared, &entry.loaded, model)?;
    let modelled = run.modelled_figures(&entry.loaded, &entry.prepared);
    let times = Times::from_unsorted(vec![run.end_ns() as f64 / 1e6]);
    Ok(Measurement { times, issue: None, modelled: Some(modelled) })
}

/// Runs every program once in each round, warm-up rounds first. `run` takes the number of the round, and returns
/// milliseconds.
fn time_rounds(
    entries: &[BenchEntry],
    bench: &BenchOptions,
    rounds: &RoundCounter,
    io: &mut ToolIo<'_>,
    mut run: impl FnMut(&BenchEntry, u32) -> Result<f64, RunFailure>,
) -> Result<Vec<Measurement>, RunFailure> {
    let mut round = 0;
    for _ in 0..bench.warmup {
        rounds.next(1);
        for entry in entries {
            run(entry, round)?;
        }
        round += 1;
    }
    let times = turns::time_turns(bench, entries.len(), io, |count, times| {
        for _ in 0..count {
            rounds.next(1);
            for (entry, times) in entries.iter().zip(&mut *times) {
                times.push(run(entry, round)?);
            }
            round += 1;
        }
        Ok(())
    })?;
    let measured = times.into_iter().map(|times| {
        let times = Times::from_unsorted(times);
        Measurement { times, issue: None, modelled: None }
    });
    Ok(measured.collect())
}

/// Floating-point operations of all GEMMs, and the bytes that the busiest rank receives.
fn count_work(prepared: &PreparedProgram) -> (f64, f64) {
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
                    received += output.map_or(0.0, |view| (view.len() * view.dtype.byte_size()) as f64);
                }
                InstKind::Message { header, view } if header.direction == MessageDirection::Recv => {
                    received += (view.len() * view.dtype.byte_size()) as f64
                }
                _ => {}
            }
        }
        most = most.max(received);
    }
    (flop, most)
}

fn program_figure(entry: &BenchEntry, Measurement { times, issue, modelled }: &Measurement) -> Value {
    // Without inputs and a model nothing was computed: the null backend.
    let followed = entry.inputs.is_empty() && modelled.is_none();
    let (flop, received) = if followed { (0.0, 0.0) } else { count_work(&entry.prepared) };
    let median = times.percentile(50);
    let mut figure = json!({
        "file": entry.file,
        "ranks": entry.prepared.ranks,
        "median_ms": median,
        "p10_ms": times.percentile(10),
        "p90_ms": times.percentile(90),
        "samples_ms": times.in_order(),
    });
    if followed {
        figure["followed"] = json!(true);
    }
    if let Some(modelled) = modelled {
        figure["modelled"] = modelled.clone();
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
fn figure_line(file: &str, figure: &Value, first: Option<&Value>) -> String {
    let mut text = format!("{}: {} ms", visible::escape_line(file), show_number(figure, "median_ms"));
    if let Some(modelled) = figure.get("modelled") {
        let machine = modelled["machine"].as_str().unwrap_or_default();
        let _ = write!(text, " by the model of {machine}");
    } else {
        let _ = write!(text, " (p10 {}, p90 {})", show_number(figure, "p10_ms"), show_number(figure, "p90_ms"));
    }
    if figure.get("followed").is_some() {
        text.push_str(", followed only: nothing was computed");
    }
    if figure_number(figure, "tflops").is_some() {
        let _ = write!(text, ", {} TFLOP/s", show_number(figure, "tflops"));
    }
    if figure_number(figure, "received_gbps").is_some() {
        let _ = write!(text, ", {} GB/s received a rank", show_number(figure, "received_gbps"));
    }
    if figure_number(figure, "issue_us").is_some() {
        let _ = write!(text, ", issued in {} us", show_number(figure, "issue_us"));
    }
    if let Some(base) = first.and_then(|first| first["median_ms"].as_f64())
        && let Some(own) = figure_number(figure, "median_ms")
    {
        let _ = write!(text, ", {:.3}x the time of the first", own / base);
    }
    text
}

fn figure_number(figure: &Value, key: &str) -> Option<f64> {
    figure.get(key).and_then(Value::as_f64)
}

fn show_number(figure: &Value, key: &str) -> String {
    figure_number(figure, key).map_or_else(String::new, four_digits)
}

/// Four digits.
fn four_digits(value: f64) -> String {
    let digits = (3 - value.abs().log10().floor().clamp(-6.0, 3.0) as i32).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}
