//! The turns of a plan's instructions on a modelled device.
//!
//! Streams share a device equally, except that other ranks wait for communications: the work that the first
//! communication waits for comes first, then that of the second one, and so on in the order in which the host issues
//! them. With equal shares for all, the iterations of a pipeline, ready together, would end their first stages together
//! and late, and a loop that runs them one by one would seem faster.

use crate::ir::Id;
use crate::plan::{InstId, Plan, QueueAction};

/// The turns of one plan. Smaller ones go first.
#[derive(Debug)]
pub(super) struct DeviceTurns {
    /// By instruction.
    turns: Vec<u32>,
}

/// The turn of work for which no communication waits.
const LAST_TURN: u32 = u32::MAX;

impl DeviceTurns {
    /// Finds, for each instruction, the first communication in issue order that waits for it: over its stream, and over
    /// events on other streams. A walk backwards knows the successors of each stream and event.
    pub(super) fn of_plan(plan: &Plan) -> Self {
        let mut turns = vec![LAST_TURN; plan.inst_count()];
        let mut after_stream = vec![LAST_TURN; plan.streams as usize];
        let mut after_event = vec![LAST_TURN; plan.events as usize];
        for id in (0..plan.inst_count()).rev().map(InstId::new) {
            let inst = plan.stored_inst(id);
            let after = &mut after_stream[inst.template_inst().stream.0 as usize];
            match inst.queue_action() {
                QueueAction::WaitEvent(event) => {
                    let of_event = &mut after_event[event.0 as usize];
                    *of_event = (*of_event).min(*after);
                }
                QueueAction::Record(event) => *after = (*after).min(after_event[event.0 as usize]),
                QueueAction::Collective(..) | QueueAction::Message(_) | QueueAction::GroupEnd(..) => {
                    *after = id.index() as u32;
                }
                QueueAction::Local | QueueAction::WaitWork(_) | QueueAction::GroupBegin => {}
            }
            turns[id.index()] = *after;
        }
        Self { turns }
    }

    /// The turn of an instruction.
    pub(super) fn turn_of(&self, inst: InstId) -> u32 {
        self.turns.get(inst.index()).copied().unwrap_or(LAST_TURN)
    }
}
