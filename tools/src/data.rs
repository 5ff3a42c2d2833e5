//! Tensors of files and generators, and how two tensors are compared.

pub mod compare;
pub mod generate;
pub mod npy;
pub mod safetensors;

use hostir::ir::DType;

/// What is wrong with data: one sentence, and how to repair it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataError {
    /// Lower case, without a full stop.
    pub message: String,
    /// How to repair it.
    pub note: Option<String>,
}

impl DataError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), note: None }
    }
    fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Number of elements of a shape, and their bytes; `None` if that overflows.
fn byte_len(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.size(), |product, extent| product.checked_mul(*extent))
}

/// `[4, 8]` of an index or shape.
pub fn brackets(items: &[usize]) -> String {
    let items: Vec<String> = items.iter().map(usize::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// The coordinates of a row-major element.
pub fn coordinates(shape: &[usize], mut index: usize) -> Vec<usize> {
    let mut coordinates = vec![0; shape.len()];
    for (coordinate, extent) in coordinates.iter_mut().zip(shape).rev() {
        *coordinate = index % extent;
        index /= extent;
    }
    coordinates
}
