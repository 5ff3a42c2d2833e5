//! Errors for tensors that only kernels have: their elements are pointers, arrays or structs, or an axis is ragged.
//!
//! Such a program reads, verifies and prints, since nvFuser prints it; a run needs numbers, and one extent for each axis.

use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::tensor_span;
use crate::ir::{DType, Expr, Program, TensorId, domain_text};

/// Reports every tensor of the program that no run can have.
pub(super) fn check_kernel_tensors(program: &Program, diags: &mut Diags) {
    for tensor in program.tensors().ids() {
        if let DType::Kernel(text) = program.tensor(tensor).dtype {
            let name = program.quoted_tensor(tensor);
            let message = message!(
                "the elements of `{}` are `{}`, a type of values in kernels, which a run does not have",
                name,
                program.name(text)
            );
            diags.push(kernel_tensor_error(program, tensor, message).with_note("a run needs tensors of numbers"));
        }
        let is_ragged = |extent| matches!(program.expr(extent), Expr::RaggedExtents(_));
        if let Some(axis) = program.domains(tensor).iter().find(|axis| is_ragged(axis.extent)) {
            let name = program.quoted_tensor(tensor);
            let message =
                message!("axis `{}` of `{}` is ragged, which a run does not support", domain_text(program, axis), name);
            let note = "a run needs one extent for each axis: pad the rows to the longest one";
            diags.push(kernel_tensor_error(program, tensor, message).with_note(note));
        }
    }
}

fn kernel_tensor_error(program: &Program, tensor: TensorId, message: crate::diag::Message) -> Diag {
    Diag::error(codes::KERNEL_TENSOR, tensor_span(program, tensor), message)
}
