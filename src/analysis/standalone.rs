//! Which ops stand in a host program by themselves.

use crate::ir::Standalone;
use crate::ir::{OpId, Program};

/// Whether an op runs as an op of the host program; others need a HostUnit. nvFuser's
/// `isLowerableAsStandaloneHostOp`.
pub fn is_standalone(program: &Program, op: OpId) -> bool {
    let op = program.op(op);
    match op.kind.standalone() {
        Standalone::No => false,
        Standalone::Yes => true,
        Standalone::Binary => op.operands.len() == 2,
    }
}
