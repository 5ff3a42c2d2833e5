//! The path of a run: from options to the text for standard output.

use super::all_programs::check_all_programs;
use super::backend_choice::RunEngine;
use super::cli::{ContainerChoice, Options, PermutedSchedules, PlanForm};
use super::command_listing;
use super::cuda::{GpuRun, Profiler, WatchedRun};
use super::failure::RunFailure;
use super::inputs::InputData;
use super::outputs::OutputTensors;
use super::preparation::{announce_program, poison_memory, prepare_program, report_cache_warnings};
use super::program::SourceProgram;
use super::tensor_options::BoundOptions;
use super::{
    bench, calibrate, comparison, exact, fix, gather, inputs, models, outputs, permuted, plan_json, preconditions,
    prints, progress, proof, reference, simulated, summary, tensor_options, timeline, tune, user_kernels, work_summary,
};
use crate::launch::LaunchedProcess;
use hostir::backend::RunResult;
use hostir::backend::cpu::schedule_oracle::run_seeded_schedule;
use hostir::backend::cpu::{self, StepCounter};
use hostir::backend::null::NullBackend;
use hostir::backend::simulation::simulate_run;
use hostir::backend::trace::Trace;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes, visible};
use hostir::lower::PreparedProgram;
use hostir_gpu::user_kernel::KernelFiles;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::StagedFiles;
use hostir_tool_support::status::ToolStatus;
use std::fmt::Write as _;

/// Runs a program and returns the text for standard output. `here` is this process among several.
///
/// # Errors
/// The first failure of any step, with fixes if some are found.
pub(super) fn execute_program(
    options: &Options,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    if let Some(path) = &options.calibrate {
        return match here {
            Some(_) => Err(calibrate::one_process_error().into()),
            None => calibrate::calibrate_machine(path, options, io),
        };
    }
    if options.container == Some(ContainerChoice::All) {
        return check_all_programs(options, here, io);
    }
    if here.is_some() {
        return match options.fix {
            true => Err(fix::one_process_error().into()),
            false => execute_steps(options, here, io),
        };
    }
    let result = match options.fix {
        true => fix::check_repaired(options, io, |options, io| execute_steps(options, None, io)),
        false => execute_steps(options, None, io),
    };
    result.map_err(|mut failure| {
        fix::complete_errors(&failure.source, &mut failure.diags, options, io);
        failure
    })
}

/// Runs a program as its options say.
fn execute_steps(options: &Options, here: Option<&LaunchedProcess>, io: &mut ToolIo<'_>) -> Result<String, RunFailure> {
    timeline::check_options(options)?;
    preconditions::check_run(options, here, io)?;
    let engine = RunEngine::choose_backend(options, here, io)?;
    let profiler = engine.open_profiler(options, io)?;
    if let Some(bench) = &options.bench {
        return bench::run_benchmark(options, bench, &engine, profiler.as_ref(), here, io);
    }
    if let Some(tune) = &options.tune {
        return tune::tune_programs(options, tune, &engine, here, io);
    }
    if !options.others.is_empty() {
        return models::compare_models(options, &engine, io);
    }
    let loaded = SourceProgram::read_program(&options.file, options.program_choice(), io)?;
    let result = execute_loaded(&loaded, options, &engine, profiler.as_ref(), here, io);
    result.map_err(|failure| failure.in_words_of(&loaded))
}

/// Runs a program that was read as its options say.
fn execute_loaded(
    loaded: &SourceProgram,
    options: &Options,
    engine: &RunEngine,
    profiler: Option<&Profiler>,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    let bound = tensor_options::bind_options(&loaded.program, options)?;
    let whole = inputs::read_whole(&loaded.program, &bound, io)?;
    let prepared = prepare_program(loaded, options, engine, &bound, &whole)?;
    announce_program(options, &prepared, loaded, engine, io);
    let kernels = user_kernels::read_kernels(loaded, &prepared, options, engine, io)?;
    gather::compare_processes(here, &[loaded], &[&prepared], &[&kernels], options)?;
    if let Some(form) = options.print_plan {
        return print_plans(&poison_memory(prepared, options, engine), form);
    }
    if let Some(shared) = options.print_calls {
        let prepared = poison_memory(prepared, options, engine);
        let refused = prepared.print_error().map_or(Ok(()), |error| Err(vec![error]));
        let listed = refused.and_then(|()| command_listing::list_calls(&prepared, &options.gpu, shared));
        return listed.map_err(|diags| loaded.to_failure(diags));
    }
    outputs::check_files(&prepared, options, &bound, io)?;
    permuted::compare_schedules(&prepared, loaded, options, io)?;
    if options.check_only {
        let text = check_program(&prepared, loaded, options, here, io)?;
        let proved = exact::prove_meaning(&prepared, loaded, &bound, &whole, options, io)?;
        return Ok(text + &summary::comparison_lines(&proved, options));
    }
    // Other orders of the queues are tried to judge a program independently of the proof.
    if !options.no_check && options.permuted.is_none() {
        proof::prove_loaded(&prepared, loaded, options)?;
    }
    let proved = exact::prove_meaning(&prepared, loaded, &bound, &whole, options, io)?;
    let prepared = poison_memory(prepared, options, engine);
    if matches!(engine, RunEngine::Cpu) {
        cpu::check_memory(&prepared)?;
    }
    if matches!(engine, RunEngine::Sim) {
        return simulated::simulate_program(&prepared, loaded, options, io);
    }
    if let RunEngine::Null { null, .. } = engine {
        return follow_program(null, &prepared, loaded, options, here, io);
    }
    let inputs = inputs::bind_inputs(&prepared, &bound, whole, options.seed, io)?;
    let work = RunWork { loaded, prepared: &prepared, kernels: &kernels, options, profiler };
    let run = work.run_watched(engine, &inputs, here, io);
    let (run, trace) = run.map_err(|mut failure| {
        inputs::explain_default_integers(&mut failure.diags, &prepared, &bound);
        failure
    })?;
    finish_run(Computed { work, bound, inputs, run, trace, proved }, here, io)
}

/// A run that went well on this process.
struct Computed<'a> {
    work: RunWork<'a>,
    bound: BoundOptions<'a>,
    inputs: Vec<InputData>,
    run: RunResult,
    trace: Option<Trace>,
    /// Lines about what was proved.
    proved: Vec<String>,
}

/// Gathers the outputs of all processes, compares and writes them.
fn finish_run(
    computed: Computed<'_>,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    let Computed { work, bound, inputs, run, trace, proved } = computed;
    let RunWork { loaded, prepared, options, .. } = work;
    // Timelines first: with the outputs rank 0 has everything that it needs from the others.
    let trace = gather::gather_timeline(here, prepared, trace).map_err(|diags| loaded.to_failure(diags))?;
    let run = gather::gather_outputs(here, prepared, run).map_err(|diags| loaded.to_failure(diags))?;
    // The other processes have sent their outputs: rank 0 does the rest.
    let Some(run) = run else { return Ok(String::new()) };
    let mut staged = StagedFiles::default();
    let drawn =
        trace.map(|trace| timeline::draw_timelines(&trace, loaded, prepared, options, &mut staged, io)).transpose()?;
    let ran = work_summary::summarize_work(prepared, run.stats);
    prints::show_prints(prepared, &run, io);
    let results = OutputTensors::assemble_outputs(prepared, run, &bound.outputs_in_parts())
        .map_err(|diag| assembly_failure(loaded, diag, options))?;
    let mut lines = comparison::compare_expected(prepared, &results, options, &bound, io)?;
    if let Some(file) = &options.reference {
        lines.extend(reference::compare_reference(file, loaded, &inputs, prepared, &results, options, io)?);
    }
    lines.extend(proved);
    outputs::stage_files(prepared, &results, options, &bound, &mut staged, io)?;
    staged.commit()?;
    let chart = drawn.unwrap_or_default();
    if !options.quiet {
        io.print_message(&ran);
    }
    let done = summary::run_summary(prepared, &inputs, &bound, &results, &lines, options);
    Ok(visible::escape_block(&done).into_owned() + &chart)
}

/// The failure for outputs that cannot be assembled. Replicas that differ count as a failed comparison, if one is
/// requested.
fn assembly_failure(loaded: &SourceProgram, diag: Diag, options: &Options) -> RunFailure {
    let differs = diag.code == codes::REPLICAS && options.compares_outputs();
    let failure = loaded.to_failure(vec![diag]);
    if differs { RunFailure { status: ToolStatus::Differs, ..failure } } else { failure }
}

/// Proves a program without data; a requested timeline is the model's.
fn check_program(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    let mut text = match options.quiet {
        true => String::new(),
        false => summary::proof_line(prepared, &loaded.program, loaded.place.as_ref()),
    };
    if options.permuted.is_none() {
        proof::judge_loaded(prepared, loaded, options, io)?;
    }
    // The model is the same on all processes.
    if options.traced.is_any() && here.is_none_or(LaunchedProcess::is_first) {
        let trace = simulate_run(prepared, &options.run_model()).map_err(|diags| loaded.to_failure(diags))?;
        text += &draw_alone(&trace, loaded, prepared, options, io)?;
    }
    Ok(text)
}

/// Follows a run without data; a requested timeline is the model's, with the parts of all processes.
fn follow_program(
    null: &NullBackend,
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    here: Option<&LaunchedProcess>,
    io: &ToolIo<'_>,
) -> Result<String, RunFailure> {
    if !options.traced.is_any() {
        let run = null.run_plans(prepared).map_err(|diags| loaded.to_failure(diags))?;
        return Ok(summary::null_run_summary(prepared, run.stats, options));
    }
    let (run, trace) = null.run_traced(prepared, &options.run_model()).map_err(|diags| loaded.to_failure(diags))?;
    let mut text = summary::null_run_summary(prepared, run.stats, options);
    if let Some(trace) =
        gather::gather_timeline(here, prepared, Some(trace)).map_err(|diags| loaded.to_failure(diags))?
    {
        text += &draw_alone(&trace, loaded, prepared, options, io)?;
    }
    Ok(text)
}

/// Draws a timeline if there are no other files.
fn draw_alone(
    trace: &Trace,
    loaded: &SourceProgram,
    prepared: &PreparedProgram,
    options: &Options,
    io: &ToolIo<'_>,
) -> Result<String, RunFailure> {
    let mut staged = StagedFiles::default();
    let chart = timeline::draw_timelines(trace, loaded, prepared, options, &mut staged, io)?;
    staged.commit()?;
    Ok(chart)
}

/// A program that is ready to run.
#[derive(Clone, Copy)]
struct RunWork<'a> {
    loaded: &'a SourceProgram,
    prepared: &'a PreparedProgram,
    kernels: &'a KernelFiles,
    options: &'a Options,
    profiler: Option<&'a Profiler>,
}

impl RunWork<'_> {
    /// Runs all ranks; on GPUs a watchdog ends the process if the run does not end.
    fn run_watched(
        &self,
        engine: &RunEngine,
        inputs: &[InputData],
        here: Option<&LaunchedProcess>,
        io: &mut ToolIo<'_>,
    ) -> Result<(RunResult, Option<Trace>), RunFailure> {
        let RunWork { loaded, prepared, options, .. } = *self;
        let parts = inputs::rank_inputs(prepared, inputs, here.map(|here| here.place.rank));
        let run = match engine {
            RunEngine::Cuda(cuda) => {
                let programs = vec![(&loaded.source, prepared)];
                let watched = WatchedRun { programs, format: options.format, here };
                cuda.run_watched(watched, io, |io| self.compute(engine, parts, io))
            }
            RunEngine::Cpu | RunEngine::Null { .. } | RunEngine::Sim => self.compute(engine, parts, io),
        };
        report_cache_warnings(engine, options, &loaded.source, io);
        run.map_err(|diags| loaded.to_failure(diags))
    }

    /// Runs all ranks, with a timeline if requested.
    fn compute(
        &self,
        engine: &RunEngine,
        parts: Vec<Vec<HostTensor>>,
        io: &mut ToolIo<'_>,
    ) -> Result<(RunResult, Option<Trace>), Vec<Diag>> {
        let RunWork { loaded, prepared, kernels, options, profiler } = *self;
        let (traced, steps) = (options.traced.is_any(), StepCounter::default());
        let wanted = progress::is_wanted(options, io);
        progress::show_progress(
            wanted,
            || progress::percent_done(&steps),
            |line| match engine {
                RunEngine::Cpu if traced => trace_on_cpu(prepared, parts).map(|(result, trace)| (result, Some(trace))),
                RunEngine::Cpu => match options.permuted {
                    Some(PermutedSchedules::Seeded(seed)) => {
                        run_seeded_schedule(prepared, parts, seed).map(|result| (result, None))
                    }
                    _ => cpu::run_with_progress(prepared, parts, &steps).map(|result| (result, None)),
                },
                RunEngine::Null { null, .. } => null.run_plans(prepared).map(|result| (result, None)),
                RunEngine::Sim => NullBackend::default().run_plans(prepared).map(|result| (result, None)),
                RunEngine::Cuda(cuda) => {
                    let checked = options.kernels.are_checked.then_some(options.given);
                    let run = GpuRun { loaded, prepared, inputs: &parts, kernels, profiler, traced, checked };
                    cuda.run_program(&run, &mut |about| {
                        if !options.quiet {
                            line.clear();
                            io.print_message(&format!("hir-run: {about}"));
                        }
                    })
                }
            },
        )
    }
}

/// Runs all ranks on the CPU with a timeline. A short run is repeated, and the second timeline counts: most of the
/// first would be threads that start and memory that is touched for the first time. Both runs compute the same bits.
fn trace_on_cpu(prepared: &PreparedProgram, inputs: Vec<Vec<HostTensor>>) -> Result<(RunResult, Trace), Vec<Diag>> {
    // A run that may be repeated needs its inputs again.
    let again = (prepared.estimated_bytes() <= SMALL_BYTES).then(|| inputs.clone());
    let first = cpu::run_traced(prepared, inputs)?;
    match again {
        Some(inputs) if first.1.end_ns() <= SHORT_NS => {
            drop(first);
            cpu::run_traced(prepared, inputs)
        }
        _ => Ok(first),
    }
}

/// A run that is repeated for its timeline takes no longer than this ...
const SHORT_NS: u64 = 1_000_000_000;
/// ... and no more memory, of all ranks together.
const SMALL_BYTES: u64 = 1 << 30;

/// All ranks' plans.
fn print_plans(prepared: &PreparedProgram, form: PlanForm) -> Result<String, RunFailure> {
    if form == PlanForm::Json {
        return plan_json::plans_json(prepared).map_err(|error| {
            let error = std::io::Error::from(error);
            errors::cannot_write("standard output", &error).into()
        });
    }
    let mut text = String::new();
    for rank in 0..prepared.plans.len() {
        if let Some(plan) = prepared.plan_text(rank) {
            let _ = write!(text, "{plan}");
        }
    }
    Ok(visible::escape_block(&text).into_owned())
}
