//! Loops on streams whose iterations wait for each other in a communicator's queue.
//!
//! A loop is reported if a skewed one ([`crate::skew`]) is proved for the same sizes, ranks and streams, and takes less
//! time by the cost model.

use crate::backend::simulation::simulate_run;
use crate::diag::message;
use crate::diag::{Cause, Diag, Diags, Fix, SkewPlaces, codes};
use crate::ir::edit::Edit;
use crate::ir::{OpId, Program};
use crate::lower::{PreparedProgram, prepare_with_streams};
use crate::plan::cost::{CostModel, time_text};
use crate::plan::{LoopIteration, PlanMatching, RankInst};
use crate::plan_checks::prove_program;
use crate::skew::{LoopSkew, SkewCandidate, list_skews, skew_loop, stages_of_ops};
use crate::verify::verify;
use rustc_hash::FxHashMap;

/// The largest number of instructions of all ranks for which changed programs are tried.
pub(super) const MOST_SIMULATED: usize = 1 << 16;

/// The share of the time that a changed program must save: one part in so many.
pub(super) const LEAST_GAIN: u64 = 50;

/// A loop that takes less time if it is skewed.
#[derive(Clone, Debug)]
pub struct FoundSkew {
    /// The loop with its stages, and two communications of one queue.
    pub candidate: SkewCandidate,
    /// The time of a run by the cost model, in nanoseconds.
    pub before_ns: u64,
    /// That of a run with the skewed loop.
    pub after_ns: u64,
}

/// The loops of a right program that take less time if they are skewed, each with its fastest stages. Each skewed
/// program is proved.
pub fn find_skews(program: &Program, prepared: &PreparedProgram, model: &CostModel) -> Vec<FoundSkew> {
    let instructions: usize = prepared.plans.iter().map(|plan| plan.inst_count()).sum();
    let candidates = list_skews(program);
    if candidates.is_empty() || instructions > MOST_SIMULATED || prepared.unlowered {
        return Vec::new();
    }
    let Some(before_ns) = model_time(prepared, model) else { return Vec::new() };
    let matched = MatchedOps::new(prepared);
    let mut found: Vec<FoundSkew> = Vec::new();
    for candidate in candidates {
        let kept = matched.keeps_partners(program, &candidate.skew);
        let after_ns = kept.then(|| skewed_time(program, prepared, &candidate.skew, model)).flatten();
        let Some(after_ns) = after_ns.filter(|&after| after <= before_ns - before_ns / LEAST_GAIN) else {
            continue;
        };
        let skew = FoundSkew { candidate, before_ns, after_ns };
        match found.iter_mut().find(|other| other.candidate.skew.looped == skew.candidate.skew.looped) {
            Some(other) if skew.after_ns < other.after_ns => *other = skew,
            Some(_) => {}
            None => found.push(skew),
        }
    }
    found
}

/// The warnings for loops that take less time if they are skewed.
pub(super) fn check_queue_waste(program: &Program, prepared: &PreparedProgram, model: &CostModel) -> Vec<Diag> {
    find_skews(program, prepared, model).iter().map(|skew| describe_skew(program, prepared, skew, model)).collect()
}

/// The time of a run by a cost model, in nanoseconds; `None` if the ranks deadlock.
pub fn model_time(prepared: &PreparedProgram, model: &CostModel) -> Option<u64> {
    Some(simulate_run(prepared, model).ok()?.end_ns())
}

/// The time of the program with a skewed loop; `None` if that is not right.
fn skewed_time(program: &Program, prepared: &PreparedProgram, skew: &LoopSkew, model: &CostModel) -> Option<u64> {
    let mut skewed = program.clone();
    let mut edit = Edit::new(&mut skewed);
    if !skew_loop(&mut edit, skew) {
        return None;
    }
    edit.commit();
    let mut diags = Diags::default();
    verify(&skewed, &mut diags);
    if diags.has_errors() {
        return None;
    }
    let again = prepare_with_streams(&skewed, prepared, prepared.env.streams).ok()?;
    if prove_program(&again).errors.is_empty() { model_time(&again, model) } else { None }
}

/// An op of a rank in an iteration of the loops around it.
#[derive(Clone, PartialEq, Eq)]
struct OpIteration {
    op: OpId,
    iteration: LoopIteration,
}

/// The ops that meet on different ranks: the two sides of each message, and the members of each collective.
struct MatchedOps {
    matched: Vec<Vec<OpIteration>>,
}

impl MatchedOps {
    fn new(prepared: &PreparedProgram) -> Self {
        let matching = PlanMatching::new(&prepared.plans);
        let messages = matching.messages.iter();
        let messages = messages.map(|message| [message.send, message.receive].map(|at| side_of(prepared, at)).to_vec());
        let collectives = matching.communicators.iter().flat_map(|of_all| {
            let members =
                (0..of_all.collectives.len()).map(|number| of_all.collective_members(number, &prepared.plans));
            members.map(|members| {
                members
                    .iter()
                    .map(|member| side_of(prepared, RankInst { rank: member.rank, inst: member.inst }))
                    .collect()
            })
        });
        let collectives: Vec<Vec<OpIteration>> = collectives.collect();
        Self { matched: messages.chain(collectives).collect() }
    }

    /// Returns true if the skewed loop leaves all communications with the partners that they have: ops of the loop
    /// only meet ops of the same stage in the same iteration, so each rank starts those of a queue in the same order.
    fn keeps_partners(&self, program: &Program, skew: &LoopSkew) -> bool {
        let stages: FxHashMap<OpId, usize> = stages_of_ops(program, skew).into_iter().collect();
        self.matched.iter().all(|sides| {
            let mut sides = sides.iter();
            let Some(first) = sides.next() else { return true };
            let stage = stages.get(&first.op);
            sides.all(|side| {
                let is_same = stages.get(&side.op) == stage;
                is_same && (stage.is_none() || side.iteration == first.iteration)
            })
        })
    }
}

fn side_of(prepared: &PreparedProgram, at: RankInst) -> OpIteration {
    let plan = &prepared.plans[at.rank as usize];
    let origin = plan.inst(at.inst).origin;
    OpIteration { op: origin.op, iteration: plan.iteration_of(origin).clone() }
}

fn describe_skew(program: &Program, prepared: &PreparedProgram, found: &FoundSkew, model: &CostModel) -> Diag {
    let labels = &prepared.labels;
    let SkewCandidate { skew, first, second } = &found.candidate;
    let [before, after] = [found.before_ns, found.after_ns].map(time_text);
    let message = message!(
        "communications of one queue keep the iterations of this loop from overlapping: {} by the model of {}, and {} suffice",
        before,
        model.machine.name,
        after
    );
    let stages = skew.stages.iter().map(|&op| program.op_span(op)).collect();
    let places = SkewPlaces { looped: program.op_span(skew.looped), stages };
    Diag::error(codes::EXCHANGE_ROUNDS, labels.op_span(*first), message)
        .into_warning()
        .with_primary_text("this communication of an iteration waits in the queue of its communicator ...")
        .with_label(
            labels.op_span(*second),
            "... for this one of the iteration before, which waits for that iteration's work",
        )
        .with_note("a communicator of its own for one of the two, `comm=NAME`, lets them overlap as well")
        .with_cause(Cause::Skew(places))
        .with_fix(Fix::in_words("start the first of the two for the next iteration before the second one"))
}
