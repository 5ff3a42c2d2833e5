//! The statements that write a tensor, by its name in messages.

use crate::hir2::defaults::is_host_select;
use crate::ir::{OpId, Program};

/// The name of a tensor without the indices of a slice.
pub(super) fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

/// The statements that write a tensor or a slice of it.
pub(super) fn writers_of(program: &Program, base: &str) -> Vec<OpId> {
    let mut found = Vec::new();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let is_work = !is_host_select(op.kind) && !op.kind.is_allocation() && !op.kind.is_deallocation();
        if is_work && op.output_tensors().any(|tensor| base_name(&program.tensor_name(tensor)) == base) {
            found.push(id);
        }
    });
    found
}
