//! Instructions of index tensors and of rows.

use super::row_function::RowFunction;
use super::{BufferView, RedOp};
use crate::ir::functions::ScalarValue;
use smallvec::SmallVec;

/// `output[i] = input[i with i[axis] replaced by index[i]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TakeInst {
    /// The tensor to read, with the output's extents along all axes but `axis` (broadcast axes have stride 0).
    pub input: BufferView,
    /// The indices along `axis`, with the output's extents (broadcast axes have stride 0).
    pub index: BufferView,
    /// The axis that the index chooses from.
    pub axis: usize,
    /// Result.
    pub output: BufferView,
}

impl TakeInst {
    /// The bytes read and written; of the input, only the selected elements count.
    pub fn traffic_bytes(&self) -> u64 {
        let moved = 2 * self.output.len() * self.output.dtype.byte_size();
        (moved + self.index.len() * self.index.dtype.byte_size()) as u64
    }
}

/// `output = base`, then `output[i with i[axis] replaced by index[i]] = combine(that element, value[i])` for all `i` in
/// row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct AccumulateInst {
    /// The tensor whose elements are combined, with the output's extents.
    pub base: BufferView,
    /// The index along `axis` that each element of the value goes to, with the value's extents (stride 0 along axes whose
    /// elements share an index).
    pub index: BufferView,
    /// The elements to combine, nowhere longer than the output except along `axis`.
    pub value: BufferView,
    /// The axis that the index chooses from.
    pub axis: usize,
    /// The operation that combines two elements; `None` if the value's replaces the other, so that the last one remains.
    pub combine: Option<RedOp>,
    /// Result; it may be the base.
    pub output: BufferView,
}

impl AccumulateInst {
    /// Returns true if the views have equal ranks, and extents that fit.
    pub fn has_fitting_shapes(&self) -> bool {
        let (shape, value) = (self.output.shape(), self.value.shape());
        self.base.shape() == shape
            && value.len() == shape.len()
            && self.axis < shape.len()
            && self.index.shape() == value
            && (0..shape.len()).all(|axis| axis == self.axis || value[axis] <= shape[axis])
    }
}

/// `output[b, ..] = function(input0[b, ..], input1[b, ..], ..)` for each index `b` of the batch axes.
#[derive(Clone, PartialEq, Debug)]
pub struct RowsInst {
    /// The function.
    pub function: &'static RowFunction,
    /// The number of the op's result that is computed; an op with several results has an instruction for each.
    pub result: usize,
    /// The number of leading axes, equal in all views, along which the function is applied to each index.
    pub batch_axes: usize,
    /// The operands (stride 0 along the batch axes that one lacks).
    pub inputs: SmallVec<[BufferView; 3]>,
    /// The op's scalars.
    pub arguments: SmallVec<[ScalarValue; 4]>,
    /// Result.
    pub output: BufferView,
}

impl RowsInst {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.output.dims[..self.batch_axes].iter().map(|dim| dim.extent).product()
    }
    /// The extents of a view's row.
    pub fn row_shape(&self, view: &BufferView) -> Vec<usize> {
        view.dims[self.batch_axes..].iter().map(|dim| dim.extent).collect()
    }
    /// Returns true if the views have the batch axes of the output.
    pub fn has_equal_batch(&self) -> bool {
        let batch = |view: &BufferView| -> Option<Vec<usize>> {
            view.dims.get(..self.batch_axes).map(|dims| dims.iter().map(|dim| dim.extent).collect())
        };
        let expected = batch(&self.output);
        expected.is_some() && self.inputs.iter().all(|view| batch(view) == expected)
    }
}
