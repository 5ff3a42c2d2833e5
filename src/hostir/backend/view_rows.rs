//! The elements of a view in row-major order, for backends that compute on the host.

use crate::plan::{AccumulateInst, BufferView, TakeInst, ViewDim, ViewDims, row_major};

/// A view as rows: the innermost run of elements with one stride, and the axes around it.
pub(super) struct ViewRows {
    outer: ViewDims,
    /// The axis of a row.
    pub(super) inner: ViewDim,
    offset: usize,
    empty: bool,
}

impl ViewRows {
    /// The rows of a view.
    pub(super) fn new(view: &BufferView) -> Self {
        let mut outer = ViewDims::new();
        // Neighbouring axes that are contiguous in memory are one axis.
        for &dim in view.dims.iter().filter(|dim| dim.extent != 1) {
            match outer.last_mut() {
                Some(last) if last.stride == dim.stride * dim.extent => {
                    *last = ViewDim { extent: last.extent * dim.extent, stride: dim.stride };
                }
                _ => outer.push(dim),
            }
        }
        let inner = outer.pop().unwrap_or(ViewDim { extent: 1, stride: 1 });
        Self { outer, inner, offset: view.offset, empty: view.is_empty() }
    }

    /// Calls `row` with the offset of each row, in row-major order.
    pub(super) fn for_each_row(&self, mut row: impl FnMut(usize)) {
        if self.empty {
            return;
        }
        let mut index = vec![0usize; self.outer.len()];
        let mut offset = self.offset;
        loop {
            row(offset);
            let mut axis = self.outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                let dim = self.outer[axis];
                index[axis] += 1;
                offset += dim.stride;
                if index[axis] < dim.extent {
                    break;
                }
                offset -= dim.stride * dim.extent;
                index[axis] = 0;
            }
        }
    }
}

/// The place in the input of each element that a take reads, in row-major order; `index` is along its axis.
pub(super) fn taken_offsets(take: &TakeInst, index: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let along = take.input.dims[take.axis].stride;
    // The place from which each element of the output would be read with the index 0.
    let mut first = take.input.clone();
    first.dims[take.axis] = ViewDim { stride: 0, ..take.output.dims[take.axis] };
    element_offsets(&first).into_iter().zip(index).map(|(place, at)| place + at * along).collect()
}

/// The place, among the output's elements in row-major order, that each element of a scatter's value goes to, in
/// row-major order; `index` is along its axis.
pub(super) fn scattered_places(put: &AccumulateInst, index: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let packed = row_major(&put.output.shape());
    let along = packed[put.axis].stride;
    let strides = put.value.dims.iter().zip(&packed).map(|(own, to)| ViewDim { stride: to.stride, ..*own });
    let mut first = BufferView { offset: 0, dims: strides.collect(), ..put.value.clone() };
    first.dims[put.axis].stride = 0;
    element_offsets(&first).into_iter().zip(index).map(|(place, at)| place + at * along).collect()
}

/// The place in its buffer of each element of a view, in row-major order.
pub(super) fn element_offsets(view: &BufferView) -> Vec<usize> {
    let mut all = vec![view.offset];
    for dim in &view.dims {
        let starts = all.into_iter();
        all = starts.flat_map(|from| (0..dim.extent).map(move |index| from + index * dim.stride)).collect();
    }
    all
}

/// A view with the axes to reduce after the others, and the number of elements in one result.
pub(super) fn reduced_axes_last(view: &BufferView, axes: &[usize]) -> (BufferView, usize) {
    let kept = (0..view.dims.len()).filter(|axis| !axes.contains(axis));
    let dims = kept.chain(axes.iter().copied()).map(|axis| view.dims[axis]).collect();
    let count = axes.iter().map(|&axis| view.dims[axis].extent).product();
    (BufferView { dims, ..view.clone() }, count)
}

/// One of so many rows of elements that follow each other; rows have equal lengths.
pub(super) fn row_of<T>(elements: &[T], row: usize, rows: usize) -> &[T] {
    let length = elements.len().checked_div(rows).unwrap_or(0);
    elements.get(row * length..(row + 1) * length).unwrap_or(&[])
}

/// The value as an index, if it is valid for an axis of this extent.
pub(super) fn index_within(value: i64, extent: usize) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value < extent)
}
