//! Places that messages point at.

use crate::diag::{Diag, Span};
use crate::ir::{OpId, Program, TensorId};

/// `1 axis`, `2 axes`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Points at where a tensor was first written in full, unless that is in the op's own statement.
pub(super) fn declared(diag: Diag, program: &Program, tensor: TensorId, op: OpId) -> Diag {
    let (place, statement) = (tensor_span(program, tensor), program.op_span(op));
    if place.start >= statement.start && place.end <= statement.end {
        return diag;
    }
    diag.label(place, format!("`{}` is declared here", program.tensor_name(tensor)))
}

/// Where a tensor was first written in full.
pub(super) fn tensor_span(program: &Program, tensor: TensorId) -> Span {
    program.source().tensors.get(tensor).copied().unwrap_or_default()
}
