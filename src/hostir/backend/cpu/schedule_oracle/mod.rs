//! The schedule oracle: runs of a program under many orders of its queues.
//!
//! The oracle takes the steps of all ranks' queues (`steps`, `rank_steps`, `transfers`) one at a time, in an order that
//! a rule chooses among all that the semantics allow (`schedules`). It computes no values: each write leaves a tag, and
//! the oracle compares the tags that each step finds with those of a first order (`records`). They are the same for a
//! program without races.
//!
//! One order for each step that accesses memory delays that step as long as anything else can run. Together these
//! orders show every unordered pair of accesses both ways round. Two runs follow each other, and after each the caller
//! reads and writes inputs and outputs on its stream.
//!
//! [`run_seeded_schedule`] computes values in such an order (`values`).
//!
//! The oracle judges programs by what runs do, independently of the checks that prove properties of plans.

mod memory;
mod rank_steps;
mod records;
mod report;
mod schedules;
mod steps;
mod transfers;
mod values;
mod verdict;

pub use values::run_seeded_schedule;
pub use verdict::{AccessPlace, AccessRace, DeadlockedStep, MemoryMisuse, OracleLimits, ScheduleName, ScheduleVerdict};

use crate::ir::OpId;
use crate::lower::PreparedProgram;
use crate::plan::{BufferId, Plan, RankInst};
use memory::{AccessTable, MemoryUses};
use rank_steps::{RankSteps, StepsInProgress};
use records::{ScheduleRecords, record_schedule};
use rustc_hash::FxHashMap;
use schedules::{ChoiceRule, mix_bits, walk_schedule};
use steps::{StepGraph, StepId, StepRole, StepWaits, TransferModel};
use transfers::{SideMismatch, join_sides};
use verdict::RaceSearch;

/// The number of runs that follow each other.
const RUNS: u32 = 2;

/// A program's steps and what they touch.
struct OracleModel<'p> {
    plans: &'p [Plan],
    graph: StepGraph,
    table: AccessTable,
}

/// The first order, in which communications meet before they move data, and the records of its steps.
struct ReferenceSchedule {
    order: Vec<StepId>,
    records: ScheduleRecords,
}

/// Runs a program under a first order, under orders that delay each step that accesses memory, and under some that
/// seeds choose.
pub fn judge_all_schedules(prepared: &PreparedProgram, limits: &OracleLimits) -> ScheduleVerdict {
    let (model, reference) = match start_oracle(prepared, limits) {
        Ok(started) => started,
        Err(verdict) => return verdict,
    };
    let waits = model.graph.waits_of(TransferModel::Windows);
    let delayed = delayed_steps(&model, limits.most_taken).into_iter().map(ChoiceRule::Delayed);
    let seeded = (0..limits.seeded).map(|number| ChoiceRule::Seeded(mix_bits(number)));
    compare_schedules(&model, &waits, &reference, delayed.chain(seeded))
}

/// Runs a program under a first order and under one that a seed chooses.
pub fn judge_seeded_schedule(prepared: &PreparedProgram, seed: u64, limits: &OracleLimits) -> ScheduleVerdict {
    let (model, reference) = match start_oracle(prepared, limits) {
        Ok(started) => started,
        Err(verdict) => return verdict,
    };
    let waits = model.graph.waits_of(TransferModel::Windows);
    compare_schedules(&model, &waits, &reference, [ChoiceRule::Seeded(seed)].into_iter())
}

/// Creates the steps and takes them in the first order.
fn start_oracle<'p>(
    prepared: &'p PreparedProgram,
    limits: &OracleLimits,
) -> Result<(OracleModel<'p>, ReferenceSchedule), ScheduleVerdict> {
    let model = model_program(&prepared.plans, RUNS, limits)?;
    let waits = model.graph.waits_of(TransferModel::Rendezvous);
    let order = walk_schedule(&waits, ChoiceRule::InOrder);
    if order.len() < model.graph.steps.len() {
        return Err(ScheduleVerdict::Deadlock(blocked_steps(&model.graph, &order)));
    }
    let records = record_schedule(&model.table, &order);
    Ok((model, ReferenceSchedule { order, records }))
}

/// Makes the steps of all ranks in some runs.
fn model_program<'p>(plans: &'p [Plan], runs: u32, limits: &OracleLimits) -> Result<OracleModel<'p>, ScheduleVerdict> {
    let mut all = StepsInProgress { ends: vec![Vec::new(); plans.len()], ..StepsInProgress::default() };
    all.held = plans.iter().map(|plan| held_memory(plan, &mut all.uses)).collect();
    for run in 0..runs {
        for plan in plans {
            RankSteps::add_plan(plan, run, &mut all);
            if all.graph.edge_count() > limits.most_waits {
                return Err(ScheduleVerdict::TooLarge);
            }
        }
        join_sides(plans, run, &mut all).map_err(disagreement)?;
    }
    if !all.dead_uses.is_empty() {
        let place = |dead: &rank_steps::DeadUse| MemoryMisuse::AfterFree {
            place: AccessPlace { rank: dead.rank, run: 0, inst: Some(dead.inst), writes: false },
            buffer: dead.buffer,
        };
        return Err(ScheduleVerdict::Misuse(all.dead_uses.iter().map(place).collect()));
    }
    if all.uses.visited_elements() > limits.most_elements || all.graph.edge_count() > limits.most_waits {
        return Err(ScheduleVerdict::TooLarge);
    }
    let table = all.uses.into_access_table(all.graph.steps.len());
    Ok(OracleModel { plans, graph: all.graph, table })
}

/// The memory of inputs and outputs, which lasts from run to run.
fn held_memory(plan: &Plan, uses: &mut MemoryUses) -> FxHashMap<BufferId, u32> {
    let mut held = FxHashMap::default();
    for (views, filled) in [(&plan.inputs, true), (&plan.outputs, false)] {
        for view in views.iter().flatten() {
            let elements = plan.buffers[view.buffer].elements;
            held.entry(view.buffer).or_insert_with(|| uses.add_object(plan.rank, view.buffer, elements, filled));
        }
    }
    held
}

fn disagreement(mismatch: SideMismatch) -> ScheduleVerdict {
    let place = |at: RankInst| AccessPlace { rank: at.rank, run: 0, inst: Some(at.inst), writes: false };
    let (first, second) = (place(mismatch.first), place(mismatch.second));
    ScheduleVerdict::Misuse(vec![MemoryMisuse::Disagreement { first, second }])
}

/// The first steps that wait forever, one for each rank.
fn blocked_steps(graph: &StepGraph, order: &[StepId]) -> Vec<DeadlockedStep> {
    let mut taken = vec![false; graph.steps.len()];
    order.iter().for_each(|step| taken[step.0 as usize] = true);
    let mut found: Vec<DeadlockedStep> = Vec::new();
    for (step, _) in graph.steps.iter().zip(&taken).filter(|(_, taken)| !**taken) {
        let Some(inst) = step.inst else { continue };
        if found.iter().all(|known| known.rank != step.rank) {
            found.push(DeadlockedStep { rank: step.rank, run: step.run, inst });
        }
    }
    found.sort_by_key(|step| step.rank);
    found
}

/// Steps that iterations have in common.
#[derive(PartialEq, Eq, Hash)]
struct RepeatedStep {
    run: u32,
    rank: u32,
    op: Option<OpId>,
    writes: bool,
}

/// The steps to delay: all that access memory; if these are too many, those of the first and last iteration of each op
/// on each rank.
fn delayed_steps(model: &OracleModel<'_>, most_taken: usize) -> Vec<StepId> {
    let steps = (0..model.graph.steps.len() as u32).map(StepId);
    let all: Vec<StepId> = steps.filter(|step| !model.table.accesses_of(*step).is_empty()).collect();
    if all.len().saturating_mul(model.graph.steps.len()) <= most_taken {
        return all;
    }
    let mut ends: FxHashMap<RepeatedStep, [StepId; 2]> = FxHashMap::default();
    for &id in &all {
        let step = model.graph.steps[id.0 as usize];
        let op = step.inst.map(|inst| model.plans[step.rank as usize].inst(inst).origin.op);
        let key = RepeatedStep { run: step.run, rank: step.rank, op, writes: step.role == StepRole::Write };
        ends.entry(key).and_modify(|[_, last]| *last = id).or_insert([id, id]);
    }
    let mut chosen: Vec<StepId> = ends.into_values().flatten().collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Compares the records of the steps under these rules with those of the first order.
fn compare_schedules(
    model: &OracleModel<'_>,
    waits: &StepWaits,
    reference: &ReferenceSchedule,
    rules: impl Iterator<Item = ChoiceRule>,
) -> ScheduleVerdict {
    let mut search = RaceSearch::new(model, &reference.order);
    for rule in rules {
        let order = walk_schedule(waits, rule);
        let records = record_schedule(&model.table, &order);
        if records.found != reference.records.found && !search.add_difference(rule, &order, &records, reference) {
            break;
        }
    }
    if !search.races.is_empty() {
        // The caller's accesses are often a consequence of others.
        search.races.sort_by_key(|race| race.first.inst.is_none() || race.second.inst.is_none());
        return ScheduleVerdict::Race(search.races);
    }
    let misuses = verdict::unwritten_reads(model, &reference.records.unwritten);
    if misuses.is_empty() { ScheduleVerdict::Equal } else { ScheduleVerdict::Misuse(misuses) }
}
