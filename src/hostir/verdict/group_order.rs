//! Groups of messages that all ranks start in one order, so that they make a chain over the ranks.
//!
//! A group ends when all its messages have. If each rank first exchanges with the rank before it and then with the one
//! after it, its second group waits for the first group of the next rank, and so on to the end of the row. A row of
//! pairs needs two rounds: ranks of odd number start the groups in the other order. The warning needs plans with that
//! order that are proved and take less time by the cost model.

use super::queue_waste::{LEAST_GAIN, MOST_SIMULATED, model_time};
use crate::diag::message;
use crate::diag::{Diag, Fix, codes};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use crate::plan::cost::{CostModel, time_text};
use crate::plan::{CommSlot, Inst, InstKind, Plan};
use crate::plan_checks::prove_program;
use std::ops::Range;

/// The warning for groups whose order makes a chain over the ranks.
pub(super) fn check_group_order(prepared: &PreparedProgram, model: &CostModel) -> Option<Diag> {
    let instructions: usize = prepared.plans.iter().map(Plan::inst_count).sum();
    if prepared.plans.len() < 3 || instructions > MOST_SIMULATED || prepared.unlowered {
        return None;
    }
    let mut pair = None;
    let plans = prepared.plans.iter().map(|plan| match plan.rank % 2 {
        0 => plan.clone(),
        _ => reorder_groups(plan, &mut pair),
    });
    let plans: Vec<Plan> = plans.collect();
    let (first, second) = pair?;
    let before_ns = model_time(prepared, model)?;
    let reordered = PreparedProgram { plans, ..prepared.clone() };
    let after_ns = prove_program(&reordered).errors.is_empty().then(|| model_time(&reordered, model)).flatten()?;
    let is_faster = after_ns <= before_ns - before_ns / LEAST_GAIN;
    is_faster.then(|| describe_chain(prepared, [first, second], [before_ns, after_ns], model))
}

/// A group of messages of a plan.
struct MessageGroup {
    /// Its instructions.
    insts: Range<usize>,
    comm: CommSlot,
    op: OpId,
}

/// The plan with each two groups of one communicator that follow each other directly in the other order, and the ops of
/// the first two.
fn reorder_groups(plan: &Plan, pair: &mut Option<(OpId, OpId)>) -> Plan {
    let mut insts: Vec<Inst> = plan.iter().map(|inst| inst.into_owned()).collect();
    let groups = message_groups(&insts);
    let mut at = 0;
    while let Some([first, second]) = groups.get(at..at + 2) {
        let are_beside = first.insts.end == second.insts.start && first.comm == second.comm && first.op != second.op;
        if !are_beside {
            at += 1;
            continue;
        }
        pair.get_or_insert((first.op, second.op));
        insts[first.insts.start..second.insts.end].rotate_left(first.insts.len());
        at += 2;
    }
    plan.clone().with_insts(insts)
}

/// The groups of a plan in order.
fn message_groups(insts: &[Inst]) -> Vec<MessageGroup> {
    let mut groups = Vec::new();
    let mut begin = None;
    for (at, inst) in insts.iter().enumerate() {
        match (&inst.kind, begin) {
            (InstKind::GroupBegin, _) => begin = Some(at),
            (InstKind::GroupEnd { comm, .. }, Some(start)) => {
                groups.push(MessageGroup { insts: start..at + 1, comm: *comm, op: inst.origin.op });
                begin = None;
            }
            _ => {}
        }
    }
    groups
}

fn describe_chain(prepared: &PreparedProgram, [first, second]: [OpId; 2], times: [u64; 2], model: &CostModel) -> Diag {
    let labels = &prepared.labels;
    let [before, after] = times.map(time_text);
    let message = message!(
        "groups of one communicator make a chain over the ranks: {} by the model of {}, and {} suffice",
        before,
        model.machine.name,
        after
    );
    Diag::error(codes::EXCHANGE_ROUNDS, labels.op_span(second), message)
        .into_warning()
        .with_primary_text("... before this one, in which the next rank takes part with its first")
        .with_label(labels.op_span(first), "each rank starts this group ...")
        .with_fix(Fix::in_words(
            "start them in the other order on ranks of odd number: one order where `rank % 2 == 0`, the other one else",
        ))
}
