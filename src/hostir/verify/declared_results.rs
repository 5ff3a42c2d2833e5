//! Errors about the axes of a result: they point at its declaration and say the type that it has to have.

use crate::diag::{Diag, Diags, codes};
use crate::ir::{AttrKey, OpId, Program, Transfer};
use crate::ops::expected_types::result_advice;

/// Adds to the errors of an op, from number `before` on, the declaration that its result has to have.
pub(super) fn advise_results(program: &Program, id: OpId, before: usize, diags: &mut Diags) {
    for diag in diags.items.iter_mut().skip(before) {
        let is_of_axes = [codes::RANK, codes::LOCAL_PART, codes::NO_REDUCED_AXIS].contains(&diag.code);
        if is_of_axes && has_type_of_operand(program, id) {
            let found = std::mem::replace(diag, Diag::global_error(codes::RANK, ""));
            *diag = with_declared_type(program, id, found);
        }
    }
}

/// Returns true if the type of the result of an op follows from its operand alone, so that an error about axes is about it.
fn has_type_of_operand(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    let is_collective = op.attr(AttrKey::Type).is_some();
    let is_reduction = op.attr(AttrKey::ReduceOp).is_some();
    is_collective || is_reduction || op.kind.is_pointwise() || op.kind.transfer() == Some(Transfer::Copy)
}

fn with_declared_type(program: &Program, id: OpId, mut diag: Diag) -> Diag {
    let Some(advice) = result_advice(program, id) else { return diag };
    let is_reduction = program.op(id).attr(AttrKey::ReduceOp).is_some();
    // The note says what is to be written in place of a slice, or of a tensor that each rank has by itself.
    let is_own_better = match diag.code {
        codes::LOCAL_PART => !advice.is_other_call,
        _ => !advice.is_of_collective,
    };
    match is_own_better && !diag.notes.is_empty() {
        true if is_reduction => advice.without_note().add_to(diag),
        true => diag,
        false => {
            diag.notes.clear();
            advice.add_to(diag)
        }
    }
}
