//! Buffers that callers of a session provide.

use crate::p2p::MessagePlan;
use hostir::plan::Plan;

/// Buffers that lie outside of the rank's memory while a caller owns inputs and outputs: those of ports,
/// but for what other ranks copy from or to on their own, which they have to find where it always is.
pub fn externally_bound(plan: &Plan, messages: &MessagePlan) -> Vec<bool> {
    let mut outside = vec![false; plan.buffers.len()];
    for view in plan.inputs.iter().chain(&plan.outputs).flatten() {
        outside[view.buffer.0 as usize] = true;
    }
    for buffer in messages.message_buffers(plan.rank) {
        outside[buffer.0 as usize] = false;
    }
    outside
}
