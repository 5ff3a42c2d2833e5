//! Instructions that read or write where an index says.

use super::BufferView;

/// `output[i] = input[i with i[axis] replaced by index[i]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct TakeInst {
    /// What is read, with the output's extents along all axes but `axis` (broadcast axes have stride 0).
    pub input: BufferView,
    /// Which elements of `axis`, with the output's extents (broadcast axes have stride 0).
    pub index: BufferView,
    /// The axis that the index chooses from.
    pub axis: usize,
    /// Result.
    pub output: BufferView,
}

impl TakeInst {
    /// Bytes it has to read and write: of the input, what the index names.
    pub fn traffic_bytes(&self) -> u64 {
        let moved = 2 * self.output.len() * self.output.dtype.byte_size();
        (moved + self.index.len() * self.index.dtype.byte_size()) as u64
    }
}

/// `output[r, ..] = base[r, ..] + sum of value[j, ..] over all j with index[j] = r`, in the order of `j`.
#[derive(Clone, PartialEq, Debug)]
pub struct AccumulateInst {
    /// What is added to, with the output's extents.
    pub base: BufferView,
    /// The row that each row of the value is added to; one axis.
    pub index: BufferView,
    /// What is added: as many rows as the index has elements, then the output's other extents.
    pub value: BufferView,
    /// Result; it may be the base.
    pub output: BufferView,
}
