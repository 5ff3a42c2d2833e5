//! What hir-run asks of plans and backends, in one place.

use crate::cuda;
use hostir::backend::trace::Trace;
use hostir::backend::{Backend as _, RunResult, cpu, null};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::{Program, TensorId};
use hostir::plan::{self, Sizes};
use hostir_gpu::listing::ListingOptions;
use std::fmt::Write as _;

pub(super) use hostir::backend::cpu::Steps;
pub(super) use hostir::plan::{Port, Prepared, needed_ranks};

/// Binds sizes and plans all ranks; `kept` tensors come out behind the outputs.
pub(super) fn prepare(
    program: &Program,
    sizes: &Sizes,
    kept: &[TensorId],
) -> Result<Prepared, Vec<Diag>> {
    plan::prepare_keeping(program, sizes, kept).map_err(|mut diags| {
        diags.sort();
        diags.items
    })
}

/// All ranks' plans.
pub(super) fn plan_text(prepared: &Prepared) -> String {
    let mut text = String::new();
    for rank in 0..prepared.plans.len() {
        if let Some(plan) = prepared.plan_text(rank) {
            let _ = write!(text, "{plan}");
        }
    }
    text
}

/// Lists what all ranks would do on GPUs: on one that they share, or on one each.
pub(super) fn list_calls(
    prepared: &Prepared,
    options: ListingOptions,
) -> Result<String, Vec<Diag>> {
    hostir_gpu::listing::list_calls(prepared, options)
}

/// Instructions of all ranks.
pub(super) fn instructions(prepared: &Prepared) -> usize {
    prepared.plans.iter().map(|plan| plan.insts.len()).sum()
}

/// A rank's part of a whole input.
pub(super) fn shard(
    prepared: &Prepared,
    input: usize,
    rank: u32,
    whole: &HostTensor,
) -> HostTensor {
    plan::shard(prepared, input, rank, whole)
}

/// Refuses a run that there is no memory for.
pub(super) fn check_memory(prepared: &Prepared) -> Result<(), Diag> {
    cpu::check_memory(prepared)
}

/// Runs all ranks on GPUs, after `ready`.
pub(super) fn run_on_gpus(
    prepared: &Prepared,
    inputs: &[Vec<HostTensor>],
    cuda: &cuda::Cuda,
    ready: &mut dyn FnMut(&mut cuda::Loaded<'_>),
) -> Result<RunResult, Vec<Diag>> {
    let mut program = cuda.load(prepared)?;
    ready(&mut program);
    let result = program.run(inputs);
    kept(program, result)
}

/// Plans and follows, without data.
pub(super) fn run_on_null(prepared: &Prepared, null: &null::Null) -> Result<RunResult, Vec<Diag>> {
    null.run(prepared, Vec::new())
}

/// [`run_on_null`] with this process's part of the model's timeline.
pub(super) fn trace_on_null(
    prepared: &Prepared,
    null: &null::Null,
) -> Result<(RunResult, Trace), Vec<Diag>> {
    null.run_traced(prepared, Vec::new())
}

/// Runs all ranks; inputs are by rank and position. `steps` says meanwhile how far they are.
pub(super) fn run(
    prepared: &Prepared,
    inputs: Vec<Vec<HostTensor>>,
    steps: &Steps,
) -> Result<RunResult, Vec<Diag>> {
    cpu::run_counted(prepared, inputs, steps)
}

/// [`run`] with its timeline. A short run is repeated, and the second timeline is the one that counts:
/// threads that start and memory that is touched for the first time would be most of the first. Both
/// runs compute the same bits.
pub(super) fn run_traced(
    prepared: &Prepared,
    inputs: Vec<Vec<HostTensor>>,
) -> Result<(RunResult, Trace), Vec<Diag>> {
    // What may be repeated needs its inputs again.
    let again = (prepared.bytes() <= SMALL_BYTES).then(|| inputs.clone());
    let first = cpu::Cpu.run_traced(prepared, inputs)?;
    match again {
        Some(inputs) if first.1.end_ns() <= SHORT_NS => {
            drop(first);
            cpu::Cpu.run_traced(prepared, inputs)
        }
        _ => Ok(first),
    }
}

/// A run that is repeated for its timeline takes no longer than this ...
const SHORT_NS: u64 = 1_000_000_000;
/// ... and no more memory, of all ranks together.
const SMALL_BYTES: u64 = 1 << 30;

/// [`run_on_gpus`] with its timeline.
pub(super) fn trace_on_gpus(
    prepared: &Prepared,
    inputs: &[Vec<HostTensor>],
    cuda: &cuda::Cuda,
    ready: &mut dyn FnMut(&mut cuda::Loaded<'_>),
) -> Result<(RunResult, Trace), Vec<Diag>> {
    let mut program = cuda.load(prepared)?;
    ready(&mut program);
    let result = program.run_traced(inputs);
    kept(program, result)
}

/// Where a program runs, and how long it took until it could.
pub(super) fn about(program: &cuda::Loaded<'_>) -> String {
    format!("{}; {}", program.about(), preparation(program.phases()))
}

/// `ready in 1.34 s: compile 0.41, tune 0.32, connect 0.55 s`, without what took less than 10 ms.
fn preparation(phases: &[(&'static str, f64)]) -> String {
    let all: f64 = phases.iter().map(|(_, seconds)| seconds).sum();
    let long = phases.iter().filter(|(_, seconds)| *seconds >= 0.01);
    let long: Vec<String> = long.map(|(name, seconds)| format!("{name} {seconds:.2}")).collect();
    let parts = if long.is_empty() { String::new() } else { format!(": {} s", long.join(", ")) };
    format!("ready in {all:.2} s{parts}")
}

/// A result of a program. What a device still does after a failure is not known, and to free what it uses can
/// wait for it without end: the process's own end frees it.
fn kept<T>(program: cuda::Loaded<'_>, result: Result<T, Vec<Diag>>) -> Result<T, Vec<Diag>> {
    if result.is_err() {
        std::mem::forget(program);
    }
    result
}

/// The timeline of a run without data, on a machine that is only thought of.
pub(super) fn model(prepared: &Prepared) -> Result<Trace, Vec<Diag>> {
    cpu::model(prepared, &cpu::Rates::default())
}

/// Follows all ranks' queues without data.
pub(super) fn follow_order(prepared: &Prepared) -> Result<(), Vec<Diag>> {
    cpu::follow_order(prepared)
}

/// The whole output from its ranks' parts.
pub(super) fn assemble(
    prepared: &Prepared,
    output: usize,
    parts: Vec<(u32, HostTensor)>,
) -> Result<HostTensor, Diag> {
    plan::assemble(prepared, output, parts)
}

#[cfg(test)]
mod tests {
    use super::preparation;

    #[test]
    fn where_the_time_went() {
        let phases = [("plan", 0.001), ("compile", 0.41), ("tune", 0.009), ("connect", 0.55)];
        assert_eq!(preparation(&phases), "ready in 0.97 s: compile 0.41, connect 0.55 s");
        assert_eq!(preparation(&phases[..1]), "ready in 0.00 s");
    }
}
