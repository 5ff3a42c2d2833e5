//! Programs that sessions are built of in tests, their numbers, and what they compute.
#![allow(dead_code, reason = "each program uses a part")]

use hostir::ir::DType;
use hostir_cuda::session::DeviceTensor;

/// One rank.
pub(crate) const RELU: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iS2{i0}, iS3{i1}]) :
  T1_g_float[iS2{i0}, iS3{i1}]
     = relu(T0_g_float[iS0{i0}, iS1{i1}]);
} // %HostIrContainer
";

/// Two ranks.
pub(crate) const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i0}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}), mem_type=global, size=( 2 * i0 ), zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0_g_float[ideviceIdx.x0{2}, iS1{i0}] (DeviceMesh{0 1}), output=T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}), backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

/// `T4 = relu(T0 * T1)`, and `T5 = T0 + T0`.
pub(crate) const PRODUCT: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i1}, iS3{i2}]) -> (T4_g_float[iS7{i0}, iS8{i2}], T5_g_float[iS9{i0}, iS10{i1}]) :
  T3_g_float[iS4{i0}, iS5{i2}, rS6{i1}]
     = matmul(T0_g_float[iS0{i0}, iS1{i1}],
              T1_g_float[iS2{i1}, iS3{i2}])
  T4_g_float[iS7{i0}, iS8{i2}]
     = relu(T3_g_float[iS4{i0}, iS5{i2}, rS6{i1}]);
  T5_g_float[iS9{i0}, iS10{i1}]
     = T0_g_float[iS0{i0}, iS1{i1}]
     + T0_g_float[iS0{i0}, iS1{i1}];
} // %HostIrContainer
";

/// `T1 = T0 * T0`.
pub(crate) const SQUARE: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iS2{i0}, iS3{i1}]) :
  T1_g_float[iS2{i0}, iS3{i1}]
     = T0_g_float[iS0{i0}, iS1{i1}]
     * T0_g_float[iS0{i0}, iS1{i1}];
} // %HostIrContainer
";

/// Small numbers, of which float sums are exact.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + seed * 3 + at / 11) % 9) as f32 - 4.0).collect()
}

/// `relu(a @ b)` of `[m, k]` and `[k, n]`.
pub(crate) fn relu_of_product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let element = |at: usize| (0..k).map(|l| a[at / n * k + l] * b[l * n + at % n]).sum::<f32>();
    (0..m * n).map(|at| element(at).max(0.0)).collect()
}

/// A float matrix in device memory.
pub(crate) fn matrix(pointer: u64, shape: [usize; 2], strides: [i64; 2]) -> DeviceTensor {
    DeviceTensor { pointer, shape: shape.into(), strides: strides.into(), dtype: DType::Float }
}
