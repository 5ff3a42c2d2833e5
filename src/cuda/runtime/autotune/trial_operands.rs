//! Operands for timing GEMMs: random numbers in memory of their own.
//!
//! The cost of an algorithm depends on the data. A GEMM of zeros, which new memory often holds, draws so little power
//! that a GPU does not lower its clock for it, and a GEMM whose factors are the same memory reads half as much. Both
//! favor algorithms that are up to a quarter slower on a program's own data.
#![allow(unsafe_code, reason = "only this file knows what lies in the memory that it allocates")]

use crate::runtime::resource_cache::ResourceCache;
use crate::sys::Error;
use crate::sys::blas::GemmOperands;
use crate::sys::driver::{self, CudaDevice, CudaStream, DeviceMemory};
use hostir_gpu::gemm_shape::{GemmBias, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use std::sync::Arc;

/// Operands start at multiples of this, the largest alignment that a shape may require.
const ALIGNMENT: usize = 256;
/// Bytes of random numbers that the host makes; the rest of an operand repeats them.
const PATTERN: usize = 1 << 20;
/// The seed of the numbers: all ranks time the same GEMM.
const SEED: u64 = 1;

/// Operands of a GEMM, and their memory.
pub(crate) struct TrialOperands {
    /// Freed with the addresses in `operands`.
    _memory: DeviceMemory,
    /// The operands.
    pub(crate) operands: GemmOperands,
    /// Of each part the addresses of the left factor and of the result; none for a single GEMM.
    pub(crate) parts: Vec<u64>,
}

/// An operand: its bytes and the type of its elements.
type Extent = (usize, MatrixElement);

impl TrialOperands {
    /// Random operands for a shape; only the workspace and a result in another rank's memory come from the program's
    /// operands `actual`, and the results of parts from its `actual_parts`. `None` if there is no memory for them.
    pub(crate) fn new(
        shape: &GemmShape,
        actual: &GemmOperands,
        actual_parts: &[u64],
        device: &Arc<CudaDevice>,
        cache: &ResourceCache,
        stream: &CudaStream,
    ) -> Result<Option<Self>, Error> {
        let extents = operand_extents(shape);
        let bytes = extents.iter().map(|(bytes, _)| bytes.next_multiple_of(ALIGNMENT)).sum();
        let memory = match cache.allocate_memory(device, bytes) {
            Err(Error::NoMemory { .. }) => return Ok(None),
            memory => memory?,
        };
        let mut end = memory.address();
        let mut addresses = [0; 6];
        for (address, extent) in addresses.iter_mut().zip(extents) {
            *address = end;
            // SAFETY: the memory was just allocated, and has room for all extents.
            unsafe { fill_extent(end, extent, stream) }?;
            end += extent.0.next_multiple_of(ALIGNMENT) as u64;
        }
        stream.synchronize()?;
        let [a, b, bias, own, left, right] = addresses;
        let d = if shape.remote { actual.d } else { own };
        // A GEMM that adds to its result keeps doing so.
        let bias = if actual.bias == actual.d { d } else { bias };
        let operands = GemmOperands { a, b, bias, d, scales: [left, right], workspace: actual.workspace };
        // Each part has a left factor of its own.
        let step = (extents[1].0 / shape.parts as usize) as u64;
        let results = actual_parts.chunks_exact(2).map(|part| part[1]);
        let parts = (0..).zip(results).flat_map(|(part, d)| [b + part * step, d]).collect();
        Ok(Some(Self { _memory: memory, operands, parts }))
    }
}

/// The extents of both factors, the bias, the result, and the scales of both factors.
fn operand_extents(shape: &GemmShape) -> [Extent; 6] {
    let [rows, columns] = [shape.d.rows, shape.d.columns];
    let bias = match &shape.bias {
        GemmBias::None => 0,
        GemmBias::Rows => rows,
        GemmBias::Matrix(layout) => matrix_elements(layout, shape.batch),
    };
    let scales = match shape.scales {
        GemmScales::None => [0, 0],
        GemmScales::Whole => [1, 1],
        GemmScales::Vectors => [rows, columns],
    };
    let result = if shape.remote { 0 } else { matrix_elements(&shape.d, shape.batch) };
    [
        (matrix_elements(&shape.a.0, shape.batch), shape.factors[0]),
        (u64::from(shape.parts) * matrix_elements(&shape.b.0, shape.batch), shape.factors[1]),
        (bias, shape.element),
        (result, shape.element),
        (scales[0], MatrixElement::F32),
        (scales[1], MatrixElement::F32),
    ]
    .map(|(count, element)| (count as usize * element.byte_size(), element))
}

/// Elements from the first one to the last of a batch of matrices.
fn matrix_elements(layout: &MatrixLayout, batch: i32) -> u64 {
    let column = (layout.leading.unsigned_abs()).max(layout.rows);
    let others = u64::try_from(batch - 1).unwrap_or(0);
    layout.columns * column + others * layout.batch_stride.unsigned_abs()
}

/// Fills an operand with numbers of the host, and copies of them.
///
/// # Safety
/// The address has as many bytes, in memory of the current device that nothing else uses.
unsafe fn fill_extent(address: u64, (bytes, element): Extent, stream: &CudaStream) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let mut filled = bytes.min(PATTERN);
    // SAFETY: no more than there is room for.
    unsafe { driver::upload_bytes(address, &random_numbers(element, filled)) }?;
    while filled < bytes {
        let more = filled.min(bytes - filled);
        // SAFETY: the target begins where the source ends, and ends within the operand.
        unsafe { stream.copy(address + filled as u64, address, more) }?;
        filled += more;
    }
    Ok(())
}

/// Random numbers of both signs with magnitudes from 1/8 to 2, as bytes.
fn random_numbers(element: MatrixElement, bytes: usize) -> Vec<u8> {
    let (exponent, mantissa) = element.float_bits();
    let one = (1u64 << (exponent - 1)) - 1;
    let mut source = fastrand::Rng::with_seed(SEED);
    let mut numbers = Vec::with_capacity(bytes);
    while numbers.len() < bytes {
        let sign = source.u64(0..2) << (exponent + mantissa);
        let scale = (one - 3 + source.u64(0..4)) << mantissa;
        let number = sign | scale | source.u64(0..1 << mantissa);
        numbers.extend_from_slice(&number.to_le_bytes()[..element.byte_size()]);
    }
    numbers.truncate(bytes);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir_gpu::gemm_shape::GemmNumerics;

    fn bytes_of(element: MatrixElement) -> Vec<u8> {
        random_numbers(element, 8 << 10)
    }

    #[test]
    fn numbers_are_of_a_usual_size() {
        let single = bytes_of(MatrixElement::F32);
        let singles = single.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let double = bytes_of(MatrixElement::F64);
        let doubles = double.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
        // The upper half of a `float` is a bfloat16.
        let brain = bytes_of(MatrixElement::Bf16);
        let brains = brain.chunks_exact(2).map(|bytes| f32::from_le_bytes([0, 0, bytes[0], bytes[1]]));
        let all: Vec<f64> = singles.chain(brains).map(f64::from).chain(doubles).collect();
        assert_eq!(all.len(), (2 + 4 + 1) << 10);
        assert!(all.iter().all(|number| (0.125..2.0).contains(&number.abs())));
        assert!(all.iter().any(|number| *number < -1.0) && all.iter().any(|number| *number > 1.0));
    }

    #[test]
    fn small_formats_have_no_infinities() {
        // Sign, exponent from one - 3 to one, any mantissa.
        assert!(bytes_of(MatrixElement::E4m3).iter().all(|byte| (4..8).contains(&(byte >> 3 & 15))));
        assert!(bytes_of(MatrixElement::E5m2).iter().all(|byte| (12..16).contains(&(byte >> 2 & 31))));
        let half = bytes_of(MatrixElement::F16);
        assert!(half.chunks_exact(2).all(|bytes| (12..16).contains(&(bytes[1] >> 2 & 31))));
    }

    #[test]
    fn extents_hold_strides_batches_biases_and_scales() {
        let layout = |rows, columns, leading| MatrixLayout { rows, columns, leading, batch_stride: 100 };
        let shape = GemmShape {
            element: MatrixElement::Bf16,
            factors: [MatrixElement::E4m3, MatrixElement::E5m2],
            numerics: GemmNumerics::default(),
            a: (layout(3, 5, 8), true),
            b: (layout(3, 7, 3), false),
            d: layout(5, 7, 5),
            bias: GemmBias::Rows,
            scales: GemmScales::Vectors,
            batch: 3,
            parts: 1,
            remote: false,
            alignments: [256; 4],
        };
        let bytes = |shape: &GemmShape| operand_extents(shape).map(|(bytes, _)| bytes);
        assert_eq!(bytes(&shape), [240, 221, 10, 470, 20, 28]);
        let remote =
            GemmShape { bias: GemmBias::Matrix(layout(5, 7, 6)), scales: GemmScales::Whole, remote: true, ..shape };
        assert_eq!(bytes(&remote), [240, 221, 484, 0, 4, 4]);
    }
}
