//! The error for a program in which some ops are lowered and others move data between devices.

use crate::axes::{axis_text, list_axes, logical_axes, stored_position};
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, OpId, Program, op_display_name};

/// The error that `op` moves data between devices, in a program in which `other` is lowered.
pub(super) fn half_lowered_error(program: &Program, op: OpId, other: OpId) -> Diag {
    let what = program.op(other).kind.name();
    let label = format!("`{what}` occurs only in lowered programs");
    let diag = device_select_error(program, op).unwrap_or_else(|| {
        let name = op_display_name(program, op);
        let message = format!(
            "this `{name}` moves data between devices without a Communication, in a program that has communications or loops"
        );
        Diag::error(codes::HALF_LOWERED, program.op_span(op), message)
    });
    diag.with_label(program.op_span(other), label).with_note("lower either the whole program or no part of it")
}

/// The error for a select on an axis that is sharded over devices.
fn device_select_error(program: &Program, op: OpId) -> Option<Diag> {
    let found = program.op(op);
    let (domain, tensor) = (found.domain_attr(AttrKey::Axis)?, found.input_tensors().next()?);
    let position = stored_position(program, tensor, domain)?;
    let axes = logical_axes(program, tensor).axes;
    let axis = axes.iter().filter(|axis| !axis.is_reduction()).nth(position).filter(|axis| axis.is_sharded())?;
    let name = program.tensor_name(tensor);
    let message = format!(
        "this `{}` moves data between devices without a Communication: axis {position} of {name} is `{}`, of which each \
         rank holds one part, with index 0",
        op_display_name(program, op),
        axis_text(program, tensor, axis)
    );
    let list = format!("the axes of {name} are {}; reductions do not count", list_axes(program, tensor));
    let diag = Diag::error(codes::HALF_LOWERED, program.op_span(op), message).with_note(list);
    // The number counts reductions, perhaps.
    let meant = axes.get(position).filter(|axis| !axis.is_sharded() && !axis.is_reduction());
    Some(match meant {
        Some(_) => {
            let before = axes[..position].iter().filter(|axis| !axis.is_reduction()).count();
            diag.with_note(format!("did you mean `axis = {before}`?"))
        }
        None => diag,
    })
}
