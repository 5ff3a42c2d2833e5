//! `--tune`: chooses the fastest of several programs that compute the same.
//!
//! All are proved, and their times by the cost model told first. Programs that the model takes for clearly slower than
//! the fastest are out; the others are timed in turn, as `--bench` does. Times are kept in a file, if one is named.

mod kept;
mod ranking;

use super::backend_choice::RunEngine;
use super::bench::measurement::{BenchEntry, Measurement};
use super::bench::{TimedPrograms, bind_entry_inputs, prepare_entry, write_figures};
use super::cli::{Options, ScalarNumber};
use super::exact::{ExactSides, integer_tensors, proof_line};
use super::failure::RunFailure;
use super::gather::kernel_bytes;
use super::inputs::{self, WholeTensors};
use super::preparation::{announce_program, report_cache_warnings};
use super::tune_options::TuneOptions;
use super::{cuda, tensor_options};
use crate::launch::LaunchedProcess;
use hostir::backend::simulation::simulate_run;
use hostir::diag::{Diag, Message, message, visible};
use hostir::ir::quoted_type;
use hostir::lower::IoTensor;
use hostir::plan::cost::{IssueMode, time_text};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use kept::{ChoiceReason, KeptChoice, MeasuredTime, TuneFile, TunePlace, TuneWork, TunedWay};
use ranking::{RankedWays, close_ways, measured_time, modelled_time, rank_ways, round_us};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The number of hexadecimal digits of a hash of plans.
const HASH_DIGITS: usize = 12;

/// A program among those of which one is chosen.
struct LoadedWay {
    entry: BenchEntry,
    /// The inputs of its files.
    whole: WholeTensors,
}

/// Chooses among the programs, and returns the text for standard output.
///
/// # Errors
/// If options do not fit, a program is wrong, programs differ, one does not run, or a file cannot be read or written.
pub(super) fn tune_programs(
    options: &Options,
    tune: &TuneOptions,
    engine: &RunEngine,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    refuse_options(options, engine, here)?;
    let kept = match &tune.file {
        Some(path) => TuneFile::read_choices(path, io)?,
        None => TuneFile::default(),
    };
    let loaded = load_ways(options, engine, io)?;
    let mut text = prove_equality(&loaded, options, io)?;
    let mut choice = describe_choice(&loaded, options, engine)?;
    let close = close_ways(&choice.ways, tune.margin);
    text += &model_lines(&choice, &close);
    let found = if close.len() > 1 { kept.find_times(&choice, &close) } else { None };
    let is_found = found.is_some();
    let times = match found {
        Some(times) => times,
        None if close.len() < 2 => Vec::new(),
        None => {
            report_miss(&kept, &choice, options, tune, io);
            let loaded = loaded.into_iter().enumerate().filter(|(at, _)| close.contains(at));
            let ways = loaded.map(|(_, way)| way).collect();
            measure_ways(ways, options, tune, engine, &mut text, io)?
        }
    };
    for (&at, time) in close.iter().zip(times) {
        choice.ways[at].measured = Some(time);
    }
    let ranked = rank_ways(&choice.ways, &close);
    choice.chosen.clone_from(&choice.ways[ranked.chosen].file);
    choice.reason = ranked.reason;
    text += &measured_lines(&choice, engine);
    text += &chosen_line(&choice, &ranked, tune, is_found, engine);
    let figures = choice_figures(&choice, tune, is_found);
    if let Some(path) = &tune.file
        && let Err(failure) = TuneFile::add_to_file(path, choice, io)
    {
        // The times are not lost if the file cannot be written.
        io.print_message(&text);
        return Err(failure);
    }
    write_figures(tune.runs.json.as_deref(), &figures, text, options, io)
}

/// Warns of times that do not answer.
fn report_miss(kept: &TuneFile, choice: &KeptChoice, options: &Options, tune: &TuneOptions, io: &mut ToolIo<'_>) {
    let Some(path) = &tune.file else { return };
    if let Some(miss) = kept.explain_miss(path, choice) {
        io.report(options.format, &NamedText::new(path.as_str(), ""), &[miss]);
    }
}

/// Refuses options that are about one program, backends that compute nothing, and several processes.
fn refuse_options(options: &Options, engine: &RunEngine, here: Option<&LaunchedProcess>) -> Result<(), Diag> {
    if here.is_some() {
        let message = "`--tune` measures all GPUs from one process, but a launcher started several";
        return Err(Diag::global_error(errors::CONFLICT, message)
            .with_note("run hir-run without the launcher; `--bench` times programs of several processes"));
    }
    if matches!(engine, RunEngine::Null { .. }) {
        let message = "`--tune` compares times of work, but `--backend=null` does none";
        return Err(Diag::global_error(errors::CONFLICT, message)
            .with_note("use `--backend=sim` to choose by the cost model alone"));
    }
    let asked = [
        ("--timeline", options.traced.is_any()),
        ("--permute-schedule", options.permuted.is_some()),
        ("--check-launches", options.kernels.are_checked),
        ("--nvtx", options.nvtx),
    ];
    let asked = asked.into_iter().find_map(|(flag, given)| given.then_some(flag));
    let Some(flag) = options.wants_results().or(asked) else { return Ok(()) };
    let message = message!(
        "`{}` cannot be combined with `--tune`, which only times programs and compares them with each other",
        flag
    );
    Err(Diag::global_error(errors::CONFLICT, message).with_note("use it in a separate run"))
}

/// Reads, plans and proves all programs, which have to have the same inputs and outputs.
fn load_ways(options: &Options, engine: &RunEngine, io: &mut ToolIo<'_>) -> Result<Vec<LoadedWay>, RunFailure> {
    let mut ways: Vec<LoadedWay> = Vec::new();
    for file in std::iter::once(&options.file).chain(&options.others) {
        let (entry, whole) = prepare_entry(file, options, engine, io)?;
        // The first line is for the first program, warnings are for all.
        let options = Options { quiet: options.quiet || !ways.is_empty(), ..options.clone() };
        announce_program(&options, &entry.prepared, &entry.loaded, engine, io);
        if let Some(first) = ways.first() {
            compare_interfaces(&entry, &first.entry)
                .map_err(|diag| RunFailure::from(diag).in_words_of(&entry.loaded))?;
        }
        ways.push(LoadedWay { entry, whole });
    }
    Ok(ways)
}

/// Refuses a program with other inputs, outputs or ranks than the first one's.
fn compare_interfaces(own: &BenchEntry, first: &BenchEntry) -> Result<(), Diag> {
    let (ranks, first_ranks) = (own.prepared.ranks as usize, first.prepared.ranks as usize);
    if ranks != first_ranks {
        let message = message!("`{}` runs on {} ranks, but `{}` on {}", own.file, ranks, first.file, first_ranks);
        return Err(misfit_diag(message));
    }
    let results = [own, first].map(|entry| &entry.prepared.outputs[..entry.prepared.results]);
    let sides = [("input", [&own.prepared.inputs[..], &first.prepared.inputs[..]]), ("output", results)];
    for (what, [tensors, first_tensors]) in sides {
        if tensors.len() != first_tensors.len() {
            let (count, first_count) = (tensors.len(), first_tensors.len());
            let message =
                message!("`{}` has {} tensor {}s, but `{}` has {}", own.file, count, what, first.file, first_count);
            return Err(misfit_diag(message));
        }
        for (tensor, first_tensor) in tensors.iter().zip(first_tensors) {
            if tensor.dtype != first_tensor.dtype || tensor.whole_shape() != first_tensor.whole_shape() {
                let message = message!(
                    "{} {} of `{}` is {} {}, but {} of `{}` is {} {}",
                    what,
                    tensor.name,
                    own.file,
                    quoted_type(tensor.dtype),
                    format!("{:?}", tensor.whole_shape()),
                    first_tensor.name,
                    first.file,
                    quoted_type(first_tensor.dtype),
                    format!("{:?}", first_tensor.whole_shape())
                );
                return Err(misfit_diag(message));
            }
        }
    }
    Ok(())
}

fn misfit_diag(message: Message) -> Diag {
    Diag::global_error(errors::WAYS, message)
        .with_note("one program can take the place of another if inputs and outputs agree by position, and the ranks")
}

/// With `--exact`, proves that each program computes what the first one does. Returns a line for each output.
fn prove_equality(ways: &[LoadedWay], options: &Options, io: &mut ToolIo<'_>) -> Result<String, RunFailure> {
    let mut text = String::new();
    let Some((first, others)) = ways.split_first().filter(|_| options.exact) else { return Ok(text) };
    let bound = tensor_options::bind_options(&first.entry.loaded.program, options)?;
    let given = inputs::bind_inputs(&first.entry.prepared, &bound, first.whole.clone(), options.seed, io)?;
    let name = format!("`{}`", visible::escape_line(&first.entry.file));
    for LoadedWay { entry, .. } in others {
        let sides = ExactSides {
            program: &entry.loaded,
            prepared: &entry.prepared,
            reference: &first.entry.loaded,
            reference_prepared: &first.entry.prepared,
            name: &name,
            given: &integer_tensors(&given)?,
        };
        let proof = sides.prove_sides(options, io)?;
        for tensor in entry.prepared.outputs.iter().take(entry.prepared.results) {
            let _ = writeln!(text, "{}: {}", entry.file, proof_line(&tensor.name, &name, proof));
        }
    }
    Ok(text)
}

/// The work, the place and the modelled times of a choice that is still to be made.
fn describe_choice(ways: &[LoadedWay], options: &Options, engine: &RunEngine) -> Result<KeptChoice, RunFailure> {
    let model = options.run_model();
    let (mut described, mut ranks, mut inputs) = (Vec::new(), 1, Vec::new());
    for LoadedWay { entry, .. } in ways {
        let trace = simulate_run(&entry.prepared, &model).map_err(|diags| entry.loaded.to_failure(diags))?;
        let model_us = round_us(trace.end_ns() as f64 / 1e3);
        described.push(TunedWay { file: entry.file.clone(), plan: plan_hash(entry), model_us, measured: None });
        ranks = entry.prepared.ranks;
        inputs = entry.prepared.inputs.iter().map(input_text).collect();
    }
    let issue = if model.issue == IssueMode::Graph { "graph" } else { "calls" };
    let work =
        TuneWork { ranks, issue: issue.to_owned(), sizes: size_texts(options), inputs, options: flag_texts(options) };
    let platform = match engine {
        RunEngine::Cuda(_) => cuda::platform_summary(ranks)?,
        RunEngine::Cpu | RunEngine::Null { .. } | RunEngine::Sim => String::new(),
    };
    let place = TunePlace {
        backend: engine.backend_name().unwrap_or_default().to_owned(),
        platform,
        machine: model.machine.name.clone(),
        machine_hash: model.machine.short_hash(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(KeptChoice { chosen: String::new(), reason: ChoiceReason::Model, work, place, ways: described })
}

/// A hash of what all ranks do, which does not depend on comments and layout.
fn plan_hash(entry: &BenchEntry) -> String {
    let mut hasher = Sha256::new();
    for rank in 0..entry.prepared.plans.len() {
        if let Some(plan) = entry.prepared.plan_text(rank) {
            hasher.update(plan.to_string());
        }
    }
    hasher.update(kernel_bytes(&entry.kernels));
    let mut text: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(HASH_DIGITS);
    text
}

/// `float [4, 1024]`
fn input_text(tensor: &IoTensor) -> String {
    format!("{} {:?}", tensor.dtype.name(), tensor.whole_shape())
}

/// The values of `--set`, sorted.
fn size_texts(options: &Options) -> Vec<String> {
    let every = options.every.map(|value| ("*".to_owned(), ScalarNumber::Int(value)));
    let given = options.set.iter().cloned().chain(every);
    let mut texts: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
    texts.sort();
    texts
}

/// Other options that change times.
fn flag_texts(options: &Options) -> Vec<String> {
    let gpu = &options.gpu;
    let streams = options.streams.map(|streams| format!("--streams={streams}"));
    let flags = [
        ("--tf32", gpu.tf32),
        ("--fp8-fast-accumulation", gpu.fp8_fast_accumulation),
        ("--tuning=sustained", gpu.tunes_sustained),
        ("--gemm-kernels", gpu.gemm_kernels),
        ("--poison", options.poison),
    ];
    let given = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
    streams
        .into_iter()
        .chain(given)
        .chain(gpu.transports.mappings().map(|map| format!("--map-backend={map}")))
        .collect()
}

/// Times programs in turn.
fn measure_ways(
    ways: Vec<LoadedWay>,
    options: &Options,
    tune: &TuneOptions,
    engine: &RunEngine,
    text: &mut String,
    io: &mut ToolIo<'_>,
) -> Result<Vec<MeasuredTime>, RunFailure> {
    let mut entries = Vec::new();
    for LoadedWay { mut entry, whole } in ways {
        if !matches!(engine, RunEngine::Sim) {
            entry.inputs = bind_entry_inputs(&entry, whole, options, None, io)?;
        }
        entries.push(entry);
    }
    // Messages name the program that the others are compared with.
    let file = entries.first().map_or_else(String::new, |entry| entry.file.clone());
    let options = &Options { file, ..options.clone() };
    let programs = TimedPrograms { entries: &entries, bench: &tune.runs, options, profiler: None, here: None };
    let measured = programs.time_all(engine, text, io);
    if let Some(first) = entries.first() {
        report_cache_warnings(engine, options, &first.loaded.source, io);
    }
    Ok(measured?
        .iter()
        .map(|Measurement { times, modelled, .. }| match modelled {
            Some(_) => modelled_time(times.percentile(50) * 1e3),
            None => measured_time(times),
        })
        .collect())
}

/// `b.hir: 30.11 us by the model of h200x4 (0.829x the time of the first): not measured`
fn model_lines(choice: &KeptChoice, close: &[usize]) -> String {
    let mut text = String::new();
    let first_us = choice.ways.first().map_or(0.0, |way| way.model_us);
    for (place, way) in choice.ways.iter().enumerate() {
        let _ = write!(text, "{}: {} by the model of {}", way.file, us_text(way.model_us), choice.place.machine);
        if place > 0 && first_us > 0.0 {
            let _ = write!(text, " ({:.3}x the time of the first)", way.model_us / first_us);
        }
        text.push_str(if close.contains(&place) || close.is_empty() { "\n" } else { ": clearly slower\n" });
    }
    text
}

/// `b.hir: 35.10 us (95% interval 34.90 us to 35.30 us, 50 runs)`
fn measured_lines(choice: &KeptChoice, engine: &RunEngine) -> String {
    let mut text = String::new();
    for way in choice.ways.iter().filter(|_| !matches!(engine, RunEngine::Sim)) {
        let Some(MeasuredTime { median_us, low_us, high_us, runs }) = way.measured else { continue };
        let [median, low, high] = [median_us, low_us, high_us].map(us_text);
        let _ = writeln!(text, "{}: {median} measured (95% interval {low} to {high}, {runs} runs)", way.file);
    }
    text
}

/// `chosen: a.hir, which cannot be told from b.hir; the times are those of tune.toml`
fn chosen_line(
    choice: &KeptChoice,
    ranked: &RankedWays,
    tune: &TuneOptions,
    is_found: bool,
    engine: &RunEngine,
) -> String {
    let timed = choice.ways.iter().filter(|way| way.measured.is_some()).count();
    let how = if matches!(engine, RunEngine::Sim) { "modelled" } else { "measured" };
    let why = match ranked.reason {
        ChoiceReason::Fastest => format!("the fastest of {timed} {how}"),
        ChoiceReason::Tie => {
            let tied: Vec<&str> = ranked.tied.iter().map(|&at| choice.ways[at].file.as_str()).collect();
            format!("the first of those too close to tell apart, beside {}", tied.join(", "))
        }
        ChoiceReason::Model => format!("by the model: all others are slower by more than {}%", tune.margin),
    };
    let source = match &tune.file {
        Some(path) if is_found => format!("; the times are those of {path}, nothing was {how}"),
        _ => String::new(),
    };
    format!("chosen: {}, {why}{source}\n", choice.chosen)
}

/// The choice as data.
fn choice_figures(choice: &KeptChoice, tune: &TuneOptions, is_found: bool) -> String {
    let mut figures = json!(choice);
    figures["margin_percent"] = json!(tune.margin);
    figures["from_file"] = json!(is_found);
    format!("{figures:#}\n")
}

fn us_text(us: f64) -> String {
    time_text((us * 1e3).round() as u64)
}
