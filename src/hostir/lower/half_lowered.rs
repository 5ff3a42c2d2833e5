//! The error for a program in which some ops are lowered and others move data between devices.

use crate::axes::{axis_text, list_axes, logical_axes, stored_position};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, OpId, Program, quoted_head, quoted_op};
use crate::ops::comm::half_lowered_advice;

/// The error that `op` moves data between devices, in a program in which `other` is lowered.
pub(super) fn half_lowered_error(program: &Program, op: OpId, other: OpId) -> Diag {
    let what = quoted_head(program.op(other).kind.name());
    let label = message!("`{}` occurs only in lowered programs", what);
    let diag = device_select_error(program, op).unwrap_or_else(|| {
        let name = quoted_op(program, op);
        let message = message!("this `{}` moves data between devices without a Communication, in a program that has communications or loops", name);
        Diag::error(codes::HALF_LOWERED, program.op_span(op), message)
    });
    diag.with_label(program.op_span(other), label).with_note(half_lowered_advice())
}

/// The error for a select on an axis that is sharded over devices.
fn device_select_error(program: &Program, op: OpId) -> Option<Diag> {
    let found = program.op(op);
    let (domain, tensor) = (found.domain_attr(AttrKey::Axis)?, found.input_tensors().next()?);
    let position = stored_position(program, tensor, domain)?;
    let axes = logical_axes(program, tensor).axes;
    let axis = axes.iter().filter(|axis| !axis.is_reduction()).nth(position).filter(|axis| axis.is_sharded())?;
    let name = program.quoted_tensor(tensor);
    let message = message!(
        "this `{}` moves data between devices without a Communication: axis {} of {} is `{}`, of which each \
         rank holds one part, with index 0",
        quoted_op(program, op),
        position,
        name,
        axis_text(program, tensor, axis)
    );
    let list = message!("the axes of {} are {}; reductions do not count", name, list_axes(program, tensor));
    let diag = Diag::error(codes::HALF_LOWERED, program.op_span(op), message).with_note(list);
    // The number counts reductions, perhaps.
    let meant = axes.get(position).filter(|axis| !axis.is_sharded() && !axis.is_reduction());
    Some(match meant {
        Some(_) => {
            let before = axes[..position].iter().filter(|axis| !axis.is_reduction()).count();
            diag.with_note(message!("did you mean `axis = {}`?", before))
        }
        None => diag,
    })
}
