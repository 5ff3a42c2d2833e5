//! Instructions that read or write elements selected by an index tensor.

use super::BufferView;

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

/// `output[r, ..] = base[r, ..] + sum of value[j, ..] over all j with index[j] = r`, in the order of `j`.
#[derive(Clone, PartialEq, Debug)]
pub struct AccumulateInst {
    /// The tensor to which rows are added, with the output's extents.
    pub base: BufferView,
    /// The row that each row of the value is added to; one axis.
    pub index: BufferView,
    /// The rows to add: as many as the index has elements, then the output's other extents.
    pub value: BufferView,
    /// Result; it may be the base.
    pub output: BufferView,
}
