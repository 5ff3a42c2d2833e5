//! Runs all ranks of a prepared program in one process.

use super::executor::CpuRank;
use super::steps::StepCounter;
use crate::backend::fault::ExecutionFault;
use crate::backend::recorder::{RankRecorder, TimeSource, recorded_parts};
use crate::backend::trace::{Trace, TraceClock};
use crate::backend::{RunResult, RunStats};
use crate::data::{HostTensor, has_room};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::lower::PreparedProgram;
use crate::plan::size_text;
use crate::plan_checks::walk::{NoClock, PlanWalk};
use std::time::Instant;

/// Checks that there is memory for a run: allocates all of it at once and frees it. A failed allocation in the middle
/// of a run would end the process.
///
/// # Errors
/// If there is not.
pub fn check_memory(prepared: &PreparedProgram) -> Result<(), Diag> {
    check_room(prepared.estimated_bytes())
}

/// Checks that there is memory for this many bytes.
///
/// # Errors
/// If there is not.
pub(in crate::backend) fn check_room(bytes: u64) -> Result<(), Diag> {
    if usize::try_from(bytes).is_ok_and(has_room) {
        return Ok(());
    }
    Err(Diag::global_error(codes::NO_MEMORY, message!("out of memory: the run needs {}", size_text(u128::from(bytes))))
        .with_note("reduce the sizes; `--check-only` and `--print-plan` show the memory that the plan needs"))
}

/// Runs all ranks of a prepared program. `inputs` are indexed by `[rank][tensor input]` and hold each rank's shard
/// ([`mod@crate::lower::shard`]); a rank outside of the input's mesh may have any tensor. Outputs are indexed by
/// `[rank][output]`.
///
/// # Errors
/// If the inputs do not fit, an instruction fails, or the plans do not pass [`crate::plan_checks::check_plans`]; errors
/// have their place in the text, rank and iteration.
///
/// ```
/// use hostir::data::HostTensor;
/// use hostir::ir::DType;
/// use hostir::lower::{SizeSettings, prepare_program};
///
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{2}]) -> (T1_g_float[iS1{2}]) :
///   T1_g_float[iS1{2}] = relu(T0_g_float[iS0{2}]);
/// } // %HostIrContainer
/// ";
/// let (programs, _) = hostir::load(text);
/// let prepared = prepare_program(&programs[0], &SizeSettings::default()).expect("all extents are constant");
/// let mut input = HostTensor::zeros(DType::Float, &[2]);
/// input.set_f64(0, -1.0);
/// input.set_f64(1, 3.0);
///
/// // One rank, one input.
/// let result = hostir::backend::cpu::run_plans(&prepared, vec![vec![input]]).expect("a pointwise op on matching shapes");
/// let output = result.outputs[0][0].as_ref().expect("the program writes T1");
/// assert_eq!(output.as_slice::<f32>(), [0.0, 3.0]);
/// ```
pub fn run_plans(prepared: &PreparedProgram, inputs: Vec<Vec<HostTensor>>) -> Result<RunResult, Vec<Diag>> {
    run_with_progress(prepared, inputs, &StepCounter::default())
}

/// Runs as [`run_plans`] does; `steps` reports the progress.
///
/// # Errors
/// Those of [`run_plans`].
pub fn run_with_progress(
    prepared: &PreparedProgram,
    inputs: Vec<Vec<HostTensor>>,
    steps: &StepCounter,
) -> Result<RunResult, Vec<Diag>> {
    let ranks = start_ranks(prepared, inputs, Some(steps))?;
    let ranks = ranks.into_iter().map(|rank| (rank, NoClock)).collect();
    let mut walk = PlanWalk::new(prepared, ranks);
    steps.add_insts(walk.ranks.iter().map(|rank| rank.queues.stream_insts()).sum());
    walk.run_to_end()?;
    finish_run(prepared, walk.ranks.into_iter().map(|rank| rank.executor).collect())
}

/// Runs as [`run_plans`] does, with a timeline. Streams of one rank take turns in one thread, and one thread carries
/// out the communications of all ranks, so a rank's work does not overlap: the timeline shows where the CPU's time
/// went.
///
/// # Errors
/// Those of [`run_plans`].
pub fn run_traced(prepared: &PreparedProgram, inputs: Vec<Vec<HostTensor>>) -> Result<(RunResult, Trace), Vec<Diag>> {
    let ranks = start_ranks(prepared, inputs, None)?;
    let time = TimeSource::Host(Instant::now());
    let mut recorded = Vec::new();
    for rank in ranks {
        let recorder = RankRecorder::new(rank.plan, time.clone());
        recorded.push((rank, recorder));
    }
    let mut walk = PlanWalk::new(prepared, recorded);
    walk.run_to_end()?;
    let mut executors = Vec::new();
    let mut recorders = Vec::new();
    for rank in walk.ranks {
        executors.push(rank.executor);
        recorders.push(rank.clock);
    }
    let trace = Trace::join_parts(TraceClock::Host, recorded_parts(recorders.into_iter()));
    Ok((finish_run(prepared, executors)?, trace))
}

/// The ranks of a run with their inputs.
///
/// # Errors
/// If the inputs do not fit.
pub(super) fn start_ranks<'p>(
    prepared: &'p PreparedProgram,
    inputs: Vec<Vec<HostTensor>>,
    steps: Option<&'p StepCounter>,
) -> Result<Vec<CpuRank<'p>>, Vec<Diag>> {
    if inputs.len() != prepared.plans.len() {
        let message = message!(
            "inputs for {} ranks were given, but the program needs inputs for {}",
            inputs.len(),
            prepared.plans.len()
        );
        return Err(vec![Diag::global_error(codes::PORTS, message)]);
    }
    let mut ranks = Vec::new();
    for (plan, inputs) in prepared.plans.iter().zip(inputs) {
        if inputs.len() < plan.inputs.len() {
            let message = message!("rank {} was given {} of {} inputs", plan.rank, inputs.len(), plan.inputs.len());
            return Err(vec![Diag::global_error(codes::PORTS, message)]);
        }
        match CpuRank::new(plan, inputs, prepared.poison, steps.map(StepCounter::done_counter)) {
            Ok(rank) => ranks.push(rank),
            Err(ExecutionFault::Input(text)) => {
                return Err(vec![Diag::global_error(codes::PORTS, message!("rank {}: {}", plan.rank, text))]);
            }
            Err(_) => {
                return Err(vec![Diag::global_error(codes::NO_MEMORY, "out of memory: cannot allocate the inputs")]);
            }
        }
    }
    Ok(ranks)
}

/// The outputs and figures of all ranks.
///
/// # Errors
/// If elements of an output were not written.
pub(super) fn finish_run(prepared: &PreparedProgram, ranks: Vec<CpuRank<'_>>) -> Result<RunResult, Vec<Diag>> {
    let mut stats = RunStats::default();
    let mut outputs = Vec::new();
    for mut rank in ranks {
        stats.instructions += rank.plan.inst_count() as u64;
        stats.communications += rank.stats.communications;
        stats.bytes += rank.stats.bytes;
        stats.local_bytes += rank.stats.local_bytes;
        outputs.push(take_outputs(prepared, &mut rank)?);
    }
    Ok(RunResult { outputs, stats })
}

/// A rank's outputs; `None` where nothing was bound.
fn take_outputs(prepared: &PreparedProgram, rank: &mut CpuRank<'_>) -> Result<Vec<Option<HostTensor>>, Vec<Diag>> {
    let mut local = Vec::new();
    for (index, view) in rank.plan.outputs.iter().enumerate() {
        let Some(view) = view else {
            local.push(None);
            continue;
        };
        match rank.memory.take_output(rank.plan, view) {
            Ok(tensor) => local.push(tensor),
            Err(_) => {
                let Some(io_tensor) = prepared.outputs.get(index) else { continue };
                let message =
                    message!("{} has elements that were never written on rank {}", io_tensor.name, rank.plan.rank);
                let span = prepared.labels.tensor_span(io_tensor.tensor);
                return Err(vec![Diag::error(codes::UNWRITTEN_OUTPUT, span, message)]);
            }
        }
    }
    Ok(local)
}
