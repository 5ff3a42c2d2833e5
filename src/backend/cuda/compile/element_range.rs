//! Runs of consecutive elements of a contiguous view: the unit that communications move.

use hostir::plan::{EqualShare, View, row_major};

/// A run of a view's elements: from where, how many. `None` for whole views.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The (contiguous) view.
    pub view: View,
    /// First element behind the view's first.
    pub start: usize,
    /// Number of elements.
    pub count: usize,
}

impl Part {
    /// All elements of a contiguous view.
    pub fn whole(view: &View) -> Self {
        Part { start: 0, count: view.len(), view: view.clone() }
    }
    /// Part `index` of `count` equal ones.
    pub fn of(view: &View, index: usize, count: usize) -> Self {
        let length = view.len() / count.max(1);
        Part { view: view.clone(), start: index * length, count: length }
    }
    /// An equal share of a view.
    pub fn share(view: &View, share: EqualShare) -> Self {
        Self::of(view, share.index, share.count)
    }
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.count * self.view.dtype.size()
    }
}

/// The elements of a part as a view of their own.
pub fn range(part: &Part) -> View {
    View {
        offset: part.view.offset + part.start,
        dims: row_major(&[part.count]),
        ..part.view.clone()
    }
}
