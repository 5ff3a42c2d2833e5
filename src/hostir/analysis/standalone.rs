//! Standalone ops: those that a host program may hold outside of HostUnits.

use crate::ir::StandaloneRule;
use crate::ir::{OpId, Program};

/// Returns true if an op runs as an op of the host program; others need a HostUnit. nvFuser's
/// `isLowerableAsStandaloneHostOp`.
pub fn is_standalone(program: &Program, op: OpId) -> bool {
    let op = program.op(op);
    match op.kind.standalone() {
        StandaloneRule::No => false,
        StandaloneRule::Yes => true,
        StandaloneRule::Binary => op.operands.len() == 2,
    }
}
