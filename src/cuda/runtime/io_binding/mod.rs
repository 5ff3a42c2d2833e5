//! I/O bindings: a caller's tensors as the inputs and outputs of a program.
//!
//! This module decides, without a device, whether a tensor fits ([`tensor_check`]), whether the program can use it in
//! place or has to copy it ([`binding_routes`]), and which calls hold the address of which buffer ([`relocation`]);
//! [`staging_copies`] makes the copies.

pub(crate) mod binding_routes;
pub(crate) mod bound_program;
pub(crate) mod rank_bindings;
pub(crate) mod relocation;
pub(crate) mod shared_bindings;
pub(crate) mod staging_copies;
pub(crate) mod tensor_check;

#[cfg(test)]
mod tests;

use hostir::ir::DType;

/// The location of a tensor in the memory of a device. It is a description without ownership, made of any numbers. The
/// caller guarantees the properties of the memory when it binds the tensor
/// ([`Input::bind`](crate::session::InputHandle::bind)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTensor {
    /// Address of the element whose indices are all 0.
    pub pointer: u64,
    /// Extents of one rank's shard, outermost first: 1 along an axis that is sharded over devices.
    pub shape: Vec<usize>,
    /// Elements (not bytes) between neighbours along each axis; 0 repeats one element.
    pub strides: Vec<i64>,
    /// Element type.
    pub dtype: DType,
}

impl DeviceTensor {
    /// A row-major tensor without gaps.
    pub fn contiguous(pointer: u64, dtype: DType, shape: &[usize]) -> Self {
        let dims = hostir::plan::row_major(shape);
        let strides = dims.iter().map(|dim| i64::try_from(dim.stride).unwrap_or(i64::MAX));
        Self { pointer, shape: shape.to_vec(), strides: strides.collect(), dtype }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |count, &extent| count.saturating_mul(extent))
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns true if both differ at most in their address.
    pub(crate) fn has_layout_of(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.strides == other.strides
    }
}

/// A tensor that every run of a caller binds at a new address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotTensor {
    /// Its side: input or output.
    pub side: IoSide,
    /// Its position among those.
    pub position: usize,
    /// All about it but its address.
    pub tensor: DeviceTensor,
}

/// Inputs and outputs are numbered separately.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IoSide {
    /// An input.
    Input,
    /// An output.
    Output,
}

impl std::fmt::Display for IoSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IoSide::Input => "input",
            IoSide::Output => "output",
        })
    }
}
