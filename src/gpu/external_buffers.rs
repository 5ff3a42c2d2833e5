//! Buffers that callers of a session provide.

use crate::p2p::MessagePlan;
use hostir::plan::Plan;

/// Returns the buffers that are externally bound while a caller owns inputs and outputs: those of inputs and outputs,
/// except buffers that other ranks access by themselves and have to find at a fixed address.
pub fn externally_bound(plan: &Plan, messages: &MessagePlan) -> Vec<bool> {
    let mut external = vec![false; plan.buffers.len()];
    for view in plan.inputs.iter().chain(&plan.outputs).flatten() {
        external[view.buffer.0 as usize] = true;
    }
    for buffer in messages.peer_accessed_buffers(plan.rank) {
        external[buffer.0 as usize] = false;
    }
    external
}
