//! Programs with all unknowns gone: sequences of resolved instructions.

use crate::diag::Diag;
use crate::ir::{OpId, Program};

/// What an op's `lower` function works on.
pub struct Lowering<'a> {
    /// The program.
    pub program: &'a Program,
}

/// `lower` of ops that cannot run yet: an error that names the op.
pub fn unsupported(cx: &mut Lowering<'_>, op: OpId) -> Result<(), Diag> {
    let name = cx.program.op(op).kind.spec().name;
    Err(Diag::error("H0401", cx.program.op_span(op), format!("`{name}` cannot run yet")))
}
