//! Runs of all ranks of a program with exact elements.

use super::executor::ExactRank;
use super::extremes::ExtremeSets;
use super::hash::HashKeys;
use super::inputs::{InputChange, input_elements, shard_places};
use super::memory::ExactMemory;
use super::value::ExactColumn;
use super::work::ExactNotes;
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::Plan;
use crate::plan_checks::walk::{NoClock, PlanWalk};

/// A program, and the values of its integer inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactProgram<'p> {
    /// The program.
    pub(super) prepared: &'p PreparedProgram,
    /// A number that distinguishes its memory from that of other programs.
    pub(super) number: u64,
    /// By input: the values of integers.
    pub(super) given: &'p [Option<HostTensor>],
}

/// The start of a run: its keys and a change of its inputs.
#[derive(Clone, Debug)]
pub(super) struct ExactSetting {
    /// The keys of all hashes.
    pub(super) keys: HashKeys,
    /// A change of the inputs.
    pub(super) change: Option<InputChange>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct ExactRun {
    /// `[rank][output]`: shards; `None` if nothing is bound to the output.
    pub(super) outputs: Vec<Vec<Option<ExactColumn>>>,
    /// The notes of all ranks.
    pub(super) notes: ExactNotes,
}

/// Runs all ranks.
pub(super) fn run_exactly(program: ExactProgram<'_>, setting: &ExactSetting) -> Result<ExactRun, Vec<Diag>> {
    let prepared = program.prepared;
    let whole = prepared.inputs.iter().enumerate().map(|(position, io_tensor)| {
        let given = program.given.get(position).and_then(Option::as_ref);
        input_elements(setting.keys, io_tensor, position, given, setting.change.as_ref())
    });
    let whole: Vec<_> = whole.collect();
    let extremes = ExtremeSets::default();
    let ranks = prepared.plans.iter().map(|plan| {
        let mut memory = ExactMemory::new(plan, setting.keys, program.number);
        let inputs = plan.inputs.iter().zip(&prepared.inputs).zip(&whole);
        for ((view, io_tensor), whole) in inputs {
            if let (Some(view), Some(places)) = (view, shard_places(io_tensor, plan.rank)) {
                memory.bind_input(view, places.iter().map(|&place| whole[place]).collect());
            }
        }
        let (keys, extremes) = (setting.keys, extremes.clone());
        (ExactRank { plan, memory, keys, extremes, notes: ExactNotes::default() }, NoClock)
    });
    let mut walk = PlanWalk::new(prepared, ranks.collect());
    walk.run_to_end()?;
    let mut run = ExactRun { outputs: Vec::new(), notes: ExactNotes::default() };
    for rank in walk.ranks {
        let mut rank = rank.executor;
        run.notes.add_notes(&rank.notes);
        run.outputs.push(rank_outputs(rank.plan, &mut rank.memory));
    }
    Ok(run)
}

fn rank_outputs(plan: &Plan, memory: &mut ExactMemory) -> Vec<Option<ExactColumn>> {
    plan.outputs.iter().map(|view| view.as_ref().map(|view| memory.read_view(plan, view))).collect()
}
