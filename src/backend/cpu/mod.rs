//! The CPU backend: the oracle. Runs all ranks in one process, deterministically.
//!
//! Each rank's instructions are in the order its host issues them ([`crate::plan::Plan`]). They are
//! cut into queues (`rank`): one a stream, and one a communicator, whose units start once the posting
//! stream's earlier work is done. Ranks run their own queues in parallel until everything left is a
//! communication; `exchange` then matches and carries out communications, and so on. If nothing can go
//! on and work is left, `deadlock` says who waits for whom.
//!
//! Kernels (`pointwise`, `reduce`, `gemm`) read their operands into dense vectors, compute, and
//! write the result: simple, safe when views overlap, and checked for elements that nothing wrote.

mod deadlock;
mod exchange;
mod gemm;
mod lanes;
mod model;
mod pointwise;
mod rank;
mod record;
mod reduce;
mod steps;
mod storage;
mod take;
mod traced;

pub use model::Rates;
pub use steps::Steps;
pub use traced::{model, run_traced};

use super::trace::Trace;
use super::{Backend, RunResult, Stats};
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{DType, TensorId};
use crate::plan::{Deadline, Origin, Plan, Prepared};
use rank::Rank;
use rayon::prelude::*;

/// Why an instruction failed.
#[derive(Clone, PartialEq, Debug)]
enum Fault {
    /// An element that nothing wrote.
    Uninitialised { tensor: TensorId, element: usize },
    /// No memory for this many bytes.
    NoMemory(usize),
    /// A type without kernels.
    Type(DType),
    /// An index of a tensor that is outside of its axis.
    Index { tensor: TensorId, element: usize, value: i64, extent: usize },
    /// An input that does not fit.
    Input(String),
    /// Anything else.
    Invalid(String),
}

impl Fault {
    /// As a diagnostic at the instruction's op.
    fn at(self, prepared: &Prepared, plan: &Plan, origin: Origin) -> Diag {
        let labels = &prepared.labels;
        let (code, message) = match self {
            Fault::Uninitialised { tensor, element } => (
                codes::UNINITIALISED,
                format!(
                    "{} is read before it is written (element {element})",
                    labels.tensor(tensor)
                ),
            ),
            Fault::NoMemory(bytes) => (codes::NO_MEMORY, format!("no memory for {bytes} bytes")),
            Fault::Type(dtype) => (
                codes::BACKEND_TYPE,
                format!("the CPU backend cannot compute with `{}`", dtype.name()),
            ),
            Fault::Index { tensor, element, value, extent } => (
                codes::INDEX,
                format!(
                    "element {element} of {} is {value}, but the axis that it chooses from has {extent} \
                     elements: an index is 0 to {}",
                    labels.tensor(tensor),
                    extent.saturating_sub(1)
                ),
            ),
            Fault::Input(text) => (codes::PORTS, text),
            Fault::Invalid(text) => (codes::ARITHMETIC, text),
        };
        let iteration = labels.iteration(plan.iteration(origin));
        let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
        let place = format!("in `{}` on rank {}{at}", labels.op(origin.op), plan.rank);
        Diag::error(code, labels.span(origin.op), message).note(place)
    }
}

/// The CPU backend.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cpu;

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }
    fn run(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<RunResult, Vec<Diag>> {
        run(prepared, inputs)
    }
    fn run_traced(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<(RunResult, Trace), Vec<Diag>> {
        run_traced(prepared, inputs)
    }
}

/// Whether there is memory for a run. Deep in a run a tensor without memory ends the process, so it is
/// asked for all at once before, and given back.
pub fn check_memory(prepared: &Prepared) -> Result<(), Diag> {
    let bytes = prepared.bytes();
    let mut room = Vec::<u8>::new();
    let asked = room.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
    // An allocation that nobody looks at is optimised away.
    std::hint::black_box(&mut room);
    asked.map_err(|_| {
        Diag::global(
            codes::NO_MEMORY,
            format!("no memory for the {bytes} bytes that the run needs"),
        )
        .note("set smaller sizes, or look at the plan with `--check-only` or `--print-plan`")
    })
}

/// Runs all ranks of a prepared program. `inputs` are `[rank][tensor input]`, local parts; off an
/// input's mesh any tensor stands in. Outputs are `[rank][output]`.
pub fn run(prepared: &Prepared, inputs: Vec<Vec<HostTensor>>) -> Result<RunResult, Vec<Diag>> {
    run_counted(prepared, inputs, &Steps::default())
}

/// [`run`], and `steps` says meanwhile how far it is.
///
/// # Errors
/// Those of [`run`].
pub fn run_counted(
    prepared: &Prepared,
    inputs: Vec<Vec<HostTensor>>,
    steps: &Steps,
) -> Result<RunResult, Vec<Diag>> {
    let mut ranks = start(prepared, inputs)?;
    steps.begin(&mut ranks);
    let stats = follow(prepared, &mut ranks)?;
    finish(prepared, ranks, stats)
}

/// Follows the queues of all ranks without data, memory and arithmetic: finds deadlocks and members of
/// a communication that do not agree.
pub fn follow_order(prepared: &Prepared) -> Result<(), Vec<Diag>> {
    let ranks: Result<Vec<Rank<'_>>, Fault> = prepared.plans.iter().map(Rank::dry).collect();
    let mut ranks = ranks.map_err(|_| vec![Diag::global(codes::NO_MEMORY, "no memory left")])?;
    follow(prepared, &mut ranks).map(|_| ())
}

/// Runs all queues to their ends.
fn follow(prepared: &Prepared, ranks: &mut [Rank<'_>]) -> Result<Stats, Vec<Diag>> {
    let mut exchange = exchange::Exchange::new(prepared);
    let mut stats = Stats::default();
    let deadline = Deadline::after(prepared.time);
    ranks.iter_mut().for_each(|rank| rank.deadline = deadline);
    loop {
        let faults: Vec<Diag> =
            ranks.par_iter_mut().filter_map(|rank| rank.run_local(prepared).err()).collect();
        if !faults.is_empty() {
            return Err(distinct(faults));
        }
        if ranks.iter().all(Rank::is_done) {
            return Ok(stats);
        }
        if !exchange.step(prepared, ranks, &mut stats).map_err(|diag| vec![diag])? {
            return Err(vec![deadlock::report(prepared, &exchange, ranks)]);
        }
    }
}

fn start<'p>(
    prepared: &'p Prepared,
    inputs: Vec<Vec<HostTensor>>,
) -> Result<Vec<Rank<'p>>, Vec<Diag>> {
    if inputs.len() != prepared.plans.len() {
        let message = format!(
            "inputs for {} ranks were given, {} are needed",
            inputs.len(),
            prepared.plans.len()
        );
        return Err(vec![Diag::global(codes::PORTS, message)]);
    }
    let mut ranks = Vec::new();
    for (plan, inputs) in prepared.plans.iter().zip(inputs) {
        if inputs.len() < plan.inputs.len() {
            let message =
                format!("rank {} has {} of {} inputs", plan.rank, inputs.len(), plan.inputs.len());
            return Err(vec![Diag::global(codes::PORTS, message)]);
        }
        check_types(prepared, plan)?;
        match Rank::new(plan, inputs) {
            Ok(rank) => ranks.push(rank),
            Err(Fault::Input(text)) => {
                return Err(vec![Diag::global(
                    codes::PORTS,
                    format!("rank {}: {text}", plan.rank),
                )]);
            }
            Err(_) => return Err(vec![Diag::global(codes::NO_MEMORY, "no memory for the inputs")]),
        }
    }
    Ok(ranks)
}

/// Refuses buffers of types without kernels, by name.
fn check_types(prepared: &Prepared, plan: &Plan) -> Result<(), Vec<Diag>> {
    for (_, buffer) in plan.buffers.iter() {
        if lanes::class(buffer.dtype).is_err() {
            let message = format!(
                "{} is `{}`, which the CPU backend cannot compute with",
                prepared.labels.tensor(buffer.tensor),
                buffer.dtype.name()
            );
            let span = prepared.labels.tensor_span(buffer.tensor);
            return Err(vec![Diag::error(codes::BACKEND_TYPE, span, message)]);
        }
    }
    Ok(())
}

/// Drops errors that differ from an earlier one only in the rank.
fn distinct(faults: Vec<Diag>) -> Vec<Diag> {
    let mut kept: Vec<Diag> = Vec::new();
    for fault in faults {
        if !kept.iter().any(|old| old.code == fault.code && old.primary == fault.primary) {
            kept.push(fault);
        }
    }
    kept
}

fn finish(
    prepared: &Prepared,
    mut ranks: Vec<Rank<'_>>,
    mut stats: Stats,
) -> Result<RunResult, Vec<Diag>> {
    let mut outputs = Vec::new();
    for rank in &mut ranks {
        stats.instructions += rank.plan.insts.len() as u64;
        stats.local_bytes += rank.local_bytes;
        let mut local = Vec::new();
        for (index, view) in rank.plan.outputs.iter().enumerate() {
            let Some(view) = view else {
                local.push(None);
                continue;
            };
            match rank.memory.take(rank.plan, view) {
                Ok(tensor) => local.push(tensor),
                Err(_) => {
                    let Some(port) = prepared.outputs.get(index) else { continue };
                    let message = format!(
                        "{} has elements that nothing wrote on rank {}",
                        port.name, rank.plan.rank
                    );
                    let span = prepared.labels.tensor_span(port.tensor);
                    return Err(vec![Diag::error(codes::UNWRITTEN_OUTPUT, span, message)]);
                }
            }
        }
        outputs.push(local);
    }
    Ok(RunResult { outputs, stats })
}
