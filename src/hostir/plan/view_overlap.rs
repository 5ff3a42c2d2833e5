//! The elements that two views share, as far as their strides tell.

use super::view::{BufferView, ViewDim};

/// Returns true if both views have the same elements at the same positions of the index space.
pub fn is_same_view(a: &BufferView, b: &BufferView) -> bool {
    let [dims_a, dims_b] = [a, b].map(|view| view.dims.iter().filter(|dim| dim.extent > 1));
    a.buffer == b.buffer && a.offset == b.offset && dims_a.eq(dims_b)
}

/// Returns true if no element belongs to both views; false if that is not known.
pub fn are_disjoint(a: &BufferView, b: &BufferView) -> bool {
    if a.buffer != b.buffer || a.is_empty() || b.is_empty() {
        return true;
    }
    let [end_a, end_b] = [a, b].map(|view| view.offset + view.last_offset());
    end_a < b.offset || end_b < a.offset || boxes_are_disjoint(a, b)
}

/// Returns true if the views are boxes of one row-major array that do not overlap along one of its axes, as two
/// column ranges of a matrix do.
fn boxes_are_disjoint(a: &BufferView, b: &BufferView) -> bool {
    let [dims_a, dims_b] = [a, b].map(|view| -> Vec<ViewDim> {
        let long = view.dims.iter().filter(|dim| dim.extent > 1 && dim.stride > 0);
        long.copied().collect()
    });
    let mut strides: Vec<usize> = dims_a.iter().chain(&dims_b).map(|dim| dim.stride).chain([1]).collect();
    strides.sort_unstable_by(|x, y| y.cmp(x));
    strides.dedup();
    if strides.windows(2).any(|pair| pair[0] % pair[1] != 0) {
        return false;
    }
    let (Some(box_a), Some(box_b)) =
        (stride_ranges(a.offset, &dims_a, &strides), stride_ranges(b.offset, &dims_b, &strides))
    else {
        return false;
    };
    box_a.iter().zip(&box_b).any(|(x, y)| x.1 < y.0 || y.1 < x.0)
}

/// First and last index along each stride; `None` if the view is not a box of such an array.
fn stride_ranges(offset: usize, dims: &[ViewDim], strides: &[usize]) -> Option<Vec<(usize, usize)>> {
    let mut rest = offset;
    let mut found = Vec::new();
    for (place, &stride) in strides.iter().enumerate() {
        let first = rest / stride;
        rest %= stride;
        let mut along = dims.iter().filter(|dim| dim.stride == stride);
        let extent = along.next().map_or(1, |dim| dim.extent);
        let last = first + extent - 1;
        let carries = place > 0 && (last + 1) * stride > strides[place - 1];
        if along.next().is_some() || carries {
            return None;
        }
        found.push((first, last));
    }
    Some(found)
}
