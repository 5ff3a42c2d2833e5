//! Weighs a program against others that repair the same text.

use super::simulation::simulate_run;
use super::{RunResult, cpu};
use crate::data::HostTensor;
use crate::diag::{Diag, codes};
use crate::lower::{IoTensor, PreparedProgram, assemble_output, shard_input};
use crate::plan::cost::CostModel;
use crate::plan_checks::find_lost_writes;
use crate::repair::TextWeight;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The memory of the largest programs that are run for their outputs, in bytes.
const MOST_BYTES: u64 = 1 << 18;

/// The maximum number of instructions of such programs.
const MOST_INSTRUCTIONS: usize = 2_000;

/// Weighs a program on the machine of a model; `None` if its ranks deadlock, or if it is too large.
pub fn weigh_program(prepared: &PreparedProgram, model: &CostModel) -> Option<TextWeight> {
    let lost_writes = find_lost_writes(prepared)?;
    let time_ns = simulate_run(prepared, model).ok()?.end_ns();
    Some(TextWeight { time_ns, lost_writes, outputs: digest_outputs(prepared) })
}

/// The errors about outputs of which the ranks return different replicas, if a small program computes them of inputs that
/// are whole numbers.
pub(crate) fn find_differing_replicas(prepared: &PreparedProgram) -> Vec<Diag> {
    let is_replicated = |output: &IoTensor| {
        let holders = (0..prepared.ranks).filter(|&rank| output.is_on_rank(rank)).count();
        output.axes.iter().map(|axis| axis.shards).product::<usize>() < holders
    };
    let outputs = prepared.outputs.iter().take(prepared.results).enumerate();
    let replicated: Vec<usize> =
        outputs.filter(|(_, output)| is_replicated(output)).map(|(number, _)| number).collect();
    if replicated.is_empty() {
        return Vec::new();
    }
    let Some(run) = run_small(prepared) else { return Vec::new() };
    let differing = replicated.into_iter().filter_map(|output| {
        let ranks = run.outputs.iter().zip(0u32..);
        let parts = ranks.filter_map(|(outputs, rank)| Some((rank, outputs.get(output)?.clone()?)));
        assemble_output(prepared, output, parts.collect()).err()
    });
    differing.filter(|diag| diag.code == codes::REPLICAS).collect()
}

/// A digest of what a small program computes of inputs that are whole numbers, whose sums do not depend on their order.
fn digest_outputs(prepared: &PreparedProgram) -> Option<u64> {
    let result = run_small(prepared)?;
    let mut digest = FxHasher::default();
    for outputs in &result.outputs {
        outputs.iter().for_each(|output| output.as_ref().map(HostTensor::bytes).hash(&mut digest));
    }
    Some(digest.finish())
}

/// Runs a small program on whole numbers; `None` if it is too large, or fails.
fn run_small(prepared: &PreparedProgram) -> Option<RunResult> {
    let instructions: usize = prepared.plans.iter().map(|plan| plan.inst_count()).sum();
    if instructions > MOST_INSTRUCTIONS || prepared.estimated_bytes() > MOST_BYTES {
        return None;
    }
    let inputs = prepared.inputs.iter().enumerate();
    let whole: Vec<HostTensor> = inputs.map(|(number, input)| numbered_tensor(number, input)).collect();
    let parts = (0..prepared.ranks).map(|rank| rank_parts(prepared, &whole, rank)).collect();
    cpu::run_plans(prepared, parts).ok()
}

/// The inputs of a rank.
fn rank_parts(prepared: &PreparedProgram, whole: &[HostTensor], rank: u32) -> Vec<HostTensor> {
    whole.iter().enumerate().map(|(input, whole)| shard_input(prepared, input, rank, whole)).collect()
}

/// Small whole numbers of both signs, different in each input.
fn numbered_tensor(number: usize, input: &IoTensor) -> HostTensor {
    let mut tensor = HostTensor::zeros(input.dtype, &input.whole_shape());
    for k in 0..tensor.len() {
        tensor.set_f64(k, ((k * 7 + number * 3) % 13) as f64 - 6.0);
    }
    tensor
}
