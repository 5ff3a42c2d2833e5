//! Instructions that read or write where an index says.

use super::View;

/// `output[i] = input[i with i[axis] replaced by index[i]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Take {
    /// What is read, with the output's extents along all axes but `axis` (broadcast axes have stride 0).
    pub input: View,
    /// Which elements of `axis`, with the output's extents (broadcast axes have stride 0).
    pub index: View,
    /// The axis that the index chooses from.
    pub axis: usize,
    /// Result.
    pub output: View,
}

impl Take {
    /// Bytes it has to read and write: of the input, what the index names.
    pub fn bytes(&self) -> u64 {
        let moved = 2 * self.output.len() * self.output.dtype.size();
        (moved + self.index.len() * self.index.dtype.size()) as u64
    }
}

/// `output[r, ..] = base[r, ..] + sum of value[j, ..] over all j with index[j] = r`, in the order of `j`.
#[derive(Clone, PartialEq, Debug)]
pub struct Accumulate {
    /// What is added to, with the output's extents.
    pub base: View,
    /// The row that each row of the value is added to; one axis.
    pub index: View,
    /// What is added: as many rows as the index has elements, then the output's other extents.
    pub value: View,
    /// Result; it may be the base.
    pub output: View,
}
