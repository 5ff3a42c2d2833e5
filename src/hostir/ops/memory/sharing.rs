//! Checks of shared memory: which tensors may share it, and messages about that.

use crate::axes::logical_axes;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, Span, codes};
use crate::ir::{Program, TensorId};

/// An input has the caller's memory.
pub(crate) fn check_own_memory(program: &Program, new: TensorId, span: Span, diags: &mut Diags) {
    if program.inputs().iter().any(|input| input.as_tensor() == Some(new)) {
        let name = program.tensor_name(new);
        let message = format!("`{name}` is an input, which has its own memory");
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .with_note("swap the two tensors of the alias, or remove the tensor from the inputs"),
        );
    }
}

/// The number of elements that a tensor stores, if the text determines it.
pub(crate) fn element_count(program: &Program, tensor: TensorId) -> Option<i64> {
    let axes = logical_axes(program, tensor);
    if axes.split {
        return None;
    }
    let stored = axes.axes.iter().filter(|axis| !axis.is_reduction());
    stored.into_iter().try_fold(1i64, |all, axis| {
        let exprs = program.exprs();
        let local = match axis.parts {
            Some(parts) => exprs.as_int(axis.extent)?.checked_div(exprs.as_int(parts)?)?,
            None if axis.is_sharded() => 1,
            None => exprs.as_int(axis.extent)?,
        };
        all.checked_mul(local)
    })
}

pub(crate) fn mesh_difference(program: &Program, a: TensorId, b: TensorId) -> Message {
    let [first, second] = [a, b].map(|tensor| program.quoted_mesh(program.tensor(tensor).mesh));
    message!("their meshes are `{}` and `{}`", first, second)
}
