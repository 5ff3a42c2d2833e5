//! Inputs of runs that are compared with each other.

use hostir::data::HostTensor;
use hostir::lower::PreparedProgram;

/// Whole numbers from -2 to 2, of integers 0 and 1, that depend on the input and the place only.
pub fn values(prepared: &PreparedProgram, input: usize) -> HostTensor {
    let port = &prepared.inputs[input];
    let mut tensor = HostTensor::zeros(port.dtype, &port.whole_shape());
    for index in 0..tensor.len() {
        let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(input as u32 + 7);
        let value = if port.dtype.is_float() { (mixed >> 33) as f64 % 5.0 - 2.0 } else { (mixed >> 33) as f64 % 2.0 };
        tensor.set_f64(index, value);
    }
    tensor
}
