//! The overlap of a result with its operands.

use crate::unsupported::Unsupported;
use hostir::plan::{BufferView, are_disjoint, is_same_view};

/// Fails if a result overlaps an operand other than in place.
pub(crate) fn check_overlap<'v>(
    inputs: impl IntoIterator<Item = &'v BufferView>,
    output: &BufferView,
    in_place: bool,
) -> Result<(), Unsupported> {
    let mut inputs = inputs.into_iter();
    match inputs.all(|input| (in_place && is_same_view(input, output)) || are_disjoint(input, output)) {
        true => Ok(()),
        false => Err(Unsupported::Overlap),
    }
}
