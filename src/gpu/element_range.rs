//! Runs of consecutive elements of a contiguous view: the unit that communications move.

use hostir::plan::{BufferView, EqualShare, row_major};

/// A run of a view's elements: start and length. `None` for whole views.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewRange {
    /// The (contiguous) view.
    pub view: BufferView,
    /// First element, counted from the view's first.
    pub start: usize,
    /// Number of elements.
    pub count: usize,
}

impl ViewRange {
    /// All elements of a contiguous view.
    pub fn whole_view(view: &BufferView) -> Self {
        ViewRange { start: 0, count: view.len(), view: view.clone() }
    }
    /// Part `index` of `count` equal ones.
    pub fn equal_part(view: &BufferView, index: usize, count: usize) -> Self {
        let length = view.len() / count.max(1);
        ViewRange { view: view.clone(), start: index * length, count: length }
    }
    /// An equal share of a view.
    pub fn share(view: &BufferView, share: EqualShare) -> Self {
        Self::equal_part(view, share.index, share.count)
    }
    /// Its size.
    pub fn byte_count(&self) -> usize {
        self.count * self.view.dtype.byte_size()
    }
}

/// A view of the elements of a range.
pub fn range_view(part: &ViewRange) -> BufferView {
    BufferView { offset: part.view.offset + part.start, dims: row_major(&[part.count]), ..part.view.clone() }
}
