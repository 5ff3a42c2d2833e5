//! `--calibrate FILE`: measures a machine, and writes its file.
//!
//! Small programs, each of which shows one rate (`probes`), are timed as calls and as graphs, after a warm-up; the
//! rules of the cost model are then solved for their constants (`solve`). On the null backend the cost model of
//! `--machine` takes the place of the GPUs: the file then has that machine's rates, which tests the solver.

mod probes;
mod solve;

use super::backend_choice::RunEngine;
use super::bench::TimedPrograms;
use super::bench::measurement::BenchEntry;
use super::cli::{BackendChoice, BenchOptions, Options};
use super::failure::RunFailure;
use super::inputs::{self, InputData};
use super::preparation::plan_ranks;
use super::program::SourceProgram;
use super::tensor_options;
use hostir::backend::simulation::simulate_run;
use hostir::data::HostTensor;
use hostir::data::generate::{TensorGenerator, generate_tensor};
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir::machine::{Count, Machine};
use hostir::plan::cost::{CostModel, IssueMode};
use hostir_gpu::user_kernel::KernelFiles;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::staged::write_whole;
use probes::{Probe, list_probes};
use solve::{ProbeTime, ProbeTimes, solve_machine};
use std::fmt::Write as _;

/// The timed runs of each probe, and those before.
const ITERATIONS: u32 = 15;
const WARMUP: u32 = 3;

/// Measures the machine and writes its file.
///
/// # Errors
/// If there is nothing to measure, a probe does not run, or the file cannot be written.
pub(super) fn calibrate_machine(path: &str, options: &Options, io: &mut ToolIo<'_>) -> Result<String, RunFailure> {
    let devices = options.devices.unwrap_or(1);
    let probes = list_probes(devices as usize, true);
    let times = match options.backend {
        BackendChoice::Null | BackendChoice::Sim => modelled_times(&probes, options)?,
        BackendChoice::Cpu => return Err(no_gpu_error().into()),
        BackendChoice::Auto | BackendChoice::Cuda => measured_times(&probes, options, io)?,
    };
    let base = &options.model.machine;
    let mut machine = solve_machine(base, &times, devices as usize);
    machine.name = file_stem(path).to_owned();
    if let Ok(count) = Count::try_from(devices) {
        machine.devices = count;
    }
    let text = machine_text(&machine, base, &times, devices);
    write_whole(path, io.resolve_path(path), text.as_bytes())?;
    Ok(format!("{path}: {} ({}) by {} probes\n", machine.name, machine.short_hash(), times.len()))
}

fn no_gpu_error() -> Diag {
    Diag::global_error(errors::CONFLICT, "`--calibrate` measures GPUs, but the CPU backend is chosen")
        .with_note("leave out `--backend=cpu`; `--backend=null` asks the cost model instead, to test the calibration")
}

/// The error for several processes, of which none has all GPUs.
pub(super) fn one_process_error() -> Diag {
    Diag::global_error(
        errors::CONFLICT,
        "`--calibrate` measures all GPUs from one process, but a launcher started several",
    )
    .with_note("run hir-run without the launcher, with as many GPUs as `-n` says")
}

/// `mine` of `machines/mine.toml`.
fn file_stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".toml").unwrap_or(file)
}

/// The times by the cost model.
fn modelled_times(probes: &[Probe], options: &Options) -> Result<ProbeTimes, RunFailure> {
    let mut times = ProbeTimes::new();
    for probe in probes {
        let entry = load_probe(probe, options)?;
        let [calls, graph] = [IssueMode::Calls, IssueMode::Graph].map(|issue| options.model.clone().with_issue(issue));
        let issue_us = entry.prepared.plans.first().map(|plan| {
            let issued = plan.iter().map(|inst| calls.issue_ns(&inst.kind));
            issued.sum::<u64>() as f64 / 1e3
        });
        let (calls_us, graph_us) = (modelled_us(&entry, &calls)?, modelled_us(&entry, &graph)?);
        times.insert(probe.name, ProbeTime { calls_us, graph_us, issue_us });
    }
    Ok(times)
}

fn modelled_us(entry: &BenchEntry, model: &CostModel) -> Result<f64, RunFailure> {
    let trace = simulate_run(&entry.prepared, model).map_err(|diags| entry.loaded.to_failure(diags))?;
    Ok(trace.end_ns() as f64 / 1e3)
}

/// The times of GPUs: all probes in turn, as calls and then as graphs. A probe that the GPU cannot run is left out.
fn measured_times(probes: &[Probe], options: &Options, io: &mut ToolIo<'_>) -> Result<ProbeTimes, RunFailure> {
    let mut times = ProbeTimes::new();
    for is_graph in [false, true] {
        let mut options = Options { quiet: true, ..options.clone() };
        options.gpu.graph = is_graph;
        let engine = RunEngine::choose_backend(&options, None, io)?;
        if !matches!(engine, RunEngine::Cuda(_)) {
            return Err(no_gpu_error().into());
        }
        for probe in probes {
            time_probe(probe, &options, &engine, &mut times, io)?;
        }
    }
    Ok(times)
}

/// Times a probe on GPUs.
fn time_probe(
    probe: &Probe,
    options: &Options,
    engine: &RunEngine,
    times: &mut ProbeTimes,
    io: &mut ToolIo<'_>,
) -> Result<(), RunFailure> {
    let entries = [load_probe(probe, options)?];
    let bench = BenchOptions { iterations: ITERATIONS, warmup: WARMUP, turns: false, json: None };
    let timed = TimedPrograms { entries: &entries, bench: &bench, options, profiler: None, here: None };
    let measured = match timed.time_all(engine, &mut String::new(), io) {
        Ok(measured) => measured,
        // Not every GPU has products of 8-bit floats.
        Err(_) if probe.name == "gemm8" => return Ok(()),
        Err(failure) => return Err(failure),
    };
    let Some(measurement) = measured.first() else { return Ok(()) };
    let median_us = measurement.times.percentile(50) * 1e3;
    let entry = times.entry(probe.name).or_insert(ProbeTime {
        calls_us: median_us,
        graph_us: median_us,
        issue_us: measurement.issue,
    });
    entry.graph_us = median_us;
    Ok(())
}

/// Reads and plans a probe; its inputs are generated.
fn load_probe(probe: &Probe, options: &Options) -> Result<BenchEntry, RunFailure> {
    let source = NamedText::new(format!("<{}>", probe.name), probe.text.as_str());
    let loaded = SourceProgram::from_text(source, options.program_choice())?;
    let bound = tensor_options::bind_options(&loaded.program, options)?;
    let mut sizes = bound.fixed_sizes(options, &loaded.program);
    sizes.memory_limit = u64::MAX;
    let prepared = plan_ranks(&loaded.program, &sizes, &bound.kept).map_err(|diags| loaded.to_failure(diags))?;
    let inputs = match options.backend {
        BackendChoice::Null => Vec::new(),
        _ => probe_inputs(probe, &prepared, options.seed),
    };
    let file = probe.name.to_owned();
    Ok(BenchEntry { file, loaded, prepared, kernels: KernelFiles::default(), inputs })
}

/// The inputs of a probe: factors of products are numbers like those of models, since a GPU multiplies zeros faster.
fn probe_inputs(probe: &Probe, prepared: &PreparedProgram, seed: u64) -> Vec<Vec<HostTensor>> {
    let is_product = probe.name.starts_with("gemm") || probe.name.starts_with("beside");
    let generator = if is_product { TensorGenerator::Uniform } else { TensorGenerator::Zeros };
    let inputs = prepared.inputs.iter().enumerate().map(|(position, input)| {
        InputData::Whole(generate_tensor(generator, input.dtype, &input.whole_shape(), seed, position))
    });
    inputs::rank_inputs(prepared, &inputs.collect::<Vec<_>>(), None)
}

/// The file: what was measured as comments, and the machine.
fn machine_text(machine: &Machine, base: &Machine, times: &ProbeTimes, devices: u32) -> String {
    let mut text =
        format!("# By `hir-run --calibrate`, on {devices} GPUs; medians of {ITERATIONS} runs in microseconds.\n");
    if devices < 2 {
        let _ = writeln!(text, "# One GPU shows nothing of communications: their rates are those of {}.", base.name);
    }
    for (name, time) in times {
        let _ = writeln!(text, "#   {name:16} {:10.1} as calls, {:10.1} as a graph", time.calls_us, time.graph_us);
    }
    text.push('\n');
    text + &machine.to_toml()
}
