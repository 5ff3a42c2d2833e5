//! Places that messages point at.

use crate::diag::{Diag, Span};
use crate::ir::{OpId, Program, TensorId};

/// Adds a label at the first full text of a tensor, unless that is in the op's own statement.
pub(crate) fn with_declaration(diag: Diag, program: &Program, tensor: TensorId, op: OpId) -> Diag {
    let (place, statement) = (tensor_span(program, tensor), program.op_span(op));
    if place.start >= statement.start && place.end <= statement.end {
        return diag;
    }
    diag.with_label(place, format!("`{}` is declared here", program.tensor_name(tensor)))
}

/// Returns the span at which a tensor is first written in full.
pub(crate) fn tensor_span(program: &Program, tensor: TensorId) -> Span {
    program.source().tensors.get(tensor).copied().unwrap_or_default()
}

/// The smallest number that occurs twice in a list.
pub(crate) fn smallest_duplicate<T: Copy + Ord>(items: &[T]) -> Option<T> {
    if items.is_sorted() && items.windows(2).all(|pair| pair[0] < pair[1]) {
        return None;
    }
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
