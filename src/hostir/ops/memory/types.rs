//! The types of slices.

use crate::axes::{stored_axis_number, stored_axis_place};
use crate::ir::{AttrKey, Op, Program, TensorId};
use crate::ops::result_types::{TensorType, is_plain};

/// HirAliasSelect and select: the operand's type without the selected axis.
pub(super) fn infer_select(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    select_type(program, *operands.first()?, selected_stored_axis(program, op)?)
}

/// The type of a slice: the operand's without the stored axis number `axis` (reductions are not counted, and stay).
/// `None` if there is no such axis.
pub fn select_type(program: &Program, operand: TensorId, axis: usize) -> Option<TensorType> {
    if !is_plain(program, operand) {
        return None;
    }
    let printed = stored_axis_place(program, operand, axis)? as usize;
    Some(TensorType::of_tensor(program, operand).without(|at, _| at == printed))
}

/// The number of the stored axis that a select takes; `None` if its domain is none of the operand's.
pub fn selected_stored_axis(program: &Program, op: &Op) -> Option<usize> {
    let operand = op.input_tensors().next()?;
    let tensor = program.tensor(operand);
    let domain = op.domain_attr(AttrKey::Axis)?;
    let printed = domain.0.checked_sub(tensor.domains_start).filter(|_| domain.0 < tensor.domains_end)?;
    stored_axis_number(program, operand, printed)
}
