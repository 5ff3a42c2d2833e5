//! GEMMs through the crates `gemm-f32` and `gemm-f64`, whose kernels use AVX-512 if the processor has it. (The crate
//! `gemm` above them also compiles complex GEMMs, which takes longer than the rest of this library.)

use super::element_vector::{ElementVector, VectorClass, require_vector_class};
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::ir::DType;
use crate::ir::functions::complex::Complex64;
use crate::plan::{BufferView, GemmInst, Plan, ViewDim, row_major};
use bytemuck::Pod;
use gemm_common::Parallelism;
use num_traits::{One, Zero};
use std::borrow::Cow;

/// A factor in memory: values, the first matrix's place, and dims.
struct GemmOperand<'a, T: Clone> {
    values: Cow<'a, [T]>,
    start: usize,
    dims: Vec<ViewDim>,
}

/// `out = a @ b * row scale * column scale + bias` for every batch, in this order. Floats narrower than `float` compute
/// in floats and round once.
pub(super) fn run_gemm(memory: &mut RankMemory, plan: &Plan, gemm: &GemmInst) -> Result<(), ExecutionFault> {
    let shape = gemm.out.shape();
    let bias = match &gemm.bias {
        Some(view) => Some(ElementVector::load_view(memory, view)?),
        None => None,
    };
    let scales = gemm.scale_views().iter().map(|view| ElementVector::load_view(memory, view));
    let scales = scales.collect::<Result<Vec<ElementVector>, ExecutionFault>>()?;
    let result = match require_vector_class(gemm.a.dtype)? {
        VectorClass::F64 => {
            let a = load_operand(memory, &gemm.a, DType::Double, f64s)?;
            let b = load_operand(memory, &gemm.b, DType::Double, f64s)?;
            let sums = multiply_batches(&a, &b, &shape, multiply_matrix)?;
            let sums = scale_elements(sums, scales.into_iter().map(f64s), |x, y| x * y);
            ElementVector::F64(add_bias(sums, bias.map(f64s), |x, y| x + y))
        }
        VectorClass::F32 => {
            let a = load_operand(memory, &gemm.a, DType::Float, f32s)?;
            let b = load_operand(memory, &gemm.b, DType::Float, f32s)?;
            let sums = multiply_batches(&a, &b, &shape, multiply_matrix)?;
            let sums = scale_elements(sums, scales.into_iter().map(f32s), |x, y| x * y);
            ElementVector::F32(add_bias(sums, bias.map(f32s), |x, y| x + y))
        }
        // Sums and products of integers have the same bits with and without a sign.
        VectorClass::I64 | VectorClass::U64 => {
            let a = load_operand(memory, &gemm.a, DType::Int, i64s)?;
            let b = load_operand(memory, &gemm.b, DType::Int, i64s)?;
            let sums = multiply_batches(&a, &b, &shape, integer_matrix)?;
            let sums = scale_elements(sums, scales.into_iter().map(i64s), i64::wrapping_mul);
            ElementVector::I64(add_bias(sums, bias.map(i64s), i64::wrapping_add))
        }
        VectorClass::Complex => {
            let a = load_operand(memory, &gemm.a, DType::ComplexDouble, complexes)?;
            let b = load_operand(memory, &gemm.b, DType::ComplexDouble, complexes)?;
            let sums = multiply_batches(&a, &b, &shape, complex_matrix)?;
            ElementVector::Complex(add_bias(sums, bias.map(complexes), |x, y| x + y))
        }
    };
    result.store_view(memory, plan, &gemm.out)
}

fn scale_elements<T: Copy>(mut sums: Vec<T>, scales: impl Iterator<Item = Vec<T>>, multiply: fn(T, T) -> T) -> Vec<T> {
    for scale in scales {
        for (x, y) in sums.iter_mut().zip(scale) {
            *x = multiply(*x, y);
        }
    }
    sums
}

fn add_bias<T: Copy>(mut sums: Vec<T>, bias: Option<Vec<T>>, add: fn(T, T) -> T) -> Vec<T> {
    for (x, y) in sums.iter_mut().zip(bias.into_iter().flatten()) {
        *x = add(*x, y);
    }
    sums
}

/// The vector as one type.
macro_rules! lanes_as {
    ($name:ident, $class:ident, $value:ty) => {
        fn $name(element_vector: ElementVector) -> Vec<$value> {
            match element_vector.into_class(VectorClass::$class) {
                ElementVector::$class(values) => values,
                _ => Vec::new(),
            }
        }
    };
}
lanes_as!(f64s, F64, f64);
lanes_as!(f32s, F32, f32);
lanes_as!(i64s, I64, i64);
lanes_as!(complexes, Complex, Complex64);

/// A factor of a GEMM: the buffer itself if it has the compute type, else a copy.
fn load_operand<'m, T: Pod>(
    memory: &'m RankMemory,
    view: &BufferView,
    native: DType,
    pick: fn(ElementVector) -> Vec<T>,
) -> Result<GemmOperand<'m, T>, ExecutionFault> {
    let last = &view.dims[view.dims.len() - 2..];
    let repeats = last.iter().any(|dim| dim.stride == 0 && dim.extent > 1);
    if view.dtype == native
        && !repeats
        && let Some(values) = memory.borrow_buffer(view)?
    {
        let dims = view.dims.to_vec();
        return Ok(GemmOperand { values: Cow::Borrowed(values), start: view.offset, dims });
    }
    let (element_vector, dims) = dense_elements(memory, view)?;
    Ok(GemmOperand { values: Cow::Owned(pick(element_vector)), start: 0, dims })
}

/// The view's elements without repetition, and dims into them. A transposed matrix stays transposed.
fn dense_elements(memory: &RankMemory, view: &BufferView) -> Result<(ElementVector, Vec<ViewDim>), ExecutionFault> {
    let mut once = view.clone();
    for dim in once.dims.iter_mut().filter(|dim| dim.stride == 0) {
        dim.extent = 1;
    }
    let rank = once.dims.len();
    let transposed = once.dims[rank - 2].stride < once.dims[rank - 1].stride;
    if transposed {
        once.dims.swap(rank - 2, rank - 1);
    }
    let element_vector = ElementVector::load_view(memory, &once)?;
    let mut dims = row_major(&once.shape());
    if transposed {
        dims.swap(rank - 2, rank - 1);
    }
    for (dim, full) in dims.iter_mut().zip(&view.dims) {
        let stride = if full.stride == 0 { 0 } else { dim.stride };
        *dim = ViewDim { extent: full.extent, stride };
    }
    Ok((element_vector, dims.to_vec()))
}

type MatrixKernel<T> =
    fn(&GemmOperand<'_, T>, usize, &GemmOperand<'_, T>, usize, [usize; 3], &mut [T]) -> Result<(), ExecutionFault>;

/// Multiplies all batches, one after the other; batches that share the right factor are one GEMM.
fn multiply_batches<T: Copy + Default>(
    a: &GemmOperand<'_, T>,
    b: &GemmOperand<'_, T>,
    shape: &[usize],
    matrix: MatrixKernel<T>,
) -> Result<Vec<T>, ExecutionFault> {
    let rank = shape.len();
    let (m, n, k) = (shape[rank - 2], shape[rank - 1], a.dims[rank - 1].extent);
    let batches: usize = shape[..rank - 2].iter().product();
    let mut out = vec![T::default(); batches * m * n];
    if out.is_empty() || k == 0 {
        return Ok(out);
    }
    let shared = b.dims[..rank - 2].iter().all(|dim| dim.stride == 0);
    let stacked = a.dims == row_major(&[&shape[..rank - 2], &[m, k]].concat()).as_slice();
    if shared && stacked {
        let tall = GemmOperand {
            values: Cow::Borrowed(&*a.values),
            start: a.start,
            dims: vec![ViewDim { extent: batches * m, stride: k }, ViewDim { extent: k, stride: 1 }],
        };
        let wide = GemmOperand { values: Cow::Borrowed(&*b.values), start: b.start, dims: b.dims[rank - 2..].to_vec() };
        matrix(&tall, a.start, &wide, b.start, [batches * m, n, k], &mut out)?;
        return Ok(out);
    }
    for (batch, part) in out.chunks_exact_mut(m * n).enumerate() {
        let (from_a, from_b) = (a.start + batch_offset(&a.dims, batch), b.start + batch_offset(&b.dims, batch));
        matrix(a, from_a, b, from_b, [m, n, k], part)?;
    }
    Ok(out)
}

/// The offset of the first element of a batch's matrix.
fn batch_offset(dims: &[ViewDim], mut batch: usize) -> usize {
    let mut offset = 0;
    for dim in dims[..dims.len() - 2].iter().rev() {
        offset += batch % dim.extent * dim.stride;
        batch /= dim.extent;
    }
    offset
}

/// GEMMs of fewer multiplications than this run on the calling thread alone.
const ALONE: usize = 1 << 18;

#[allow(unsafe_code, reason = "the crate takes raw pointers; what they reach is checked here")]
fn multiply_matrix<T: GemmElement>(
    a: &GemmOperand<'_, T>,
    from_a: usize,
    b: &GemmOperand<'_, T>,
    from_b: usize,
    [m, n, k]: [usize; 3],
    out: &mut [T],
) -> Result<(), ExecutionFault> {
    let (mut a_strides, mut b_strides) = (matrix_strides(a), matrix_strides(b));
    let fits =
        is_in_bounds(a, from_a, [m, k]) && is_in_bounds(b, from_b, [k, n]) && m.checked_mul(n) == Some(out.len());
    if !fits {
        return Err(ExecutionFault::Invalid("the strides of a factor do not fit its memory".into()));
    }
    let is_small = m.saturating_mul(n).saturating_mul(k) < ALONE;
    let parallelism = if is_small { Parallelism::None } else { Parallelism::Rayon(0) };
    let (mut left, mut right) = (Cow::Borrowed(&a.values[from_a..]), Cow::Borrowed(&b.values[from_b..]));
    // Small GEMMs sum in an order that depends on the layout of the factors: the same matrices have to give the same
    // bits in any layout.
    let rows = [[k as isize, 1], [n as isize, 1]];
    if is_small && a_strides != rows[0] {
        (left, a_strides) = (packed_rows(&left, a_strides, [m, k]).into(), rows[0]);
    }
    if is_small && b_strides != rows[1] {
        (right, b_strides) = (packed_rows(&right, b_strides, [k, n]).into(), rows[1]);
    }
    let left = KernelOperand { start: left.as_ptr(), strides: a_strides };
    let right = KernelOperand { start: right.as_ptr(), strides: b_strides };
    let out = KernelOperand { start: out.as_mut_ptr(), strides: [n as isize, 1] };
    // SAFETY: `fits` says that the last element of either factor, which has the largest offset as no stride is
    // negative, lies in its slice, and packed factors are whole; `out` holds m * n elements and is borrowed mutably.
    unsafe { call_kernel([m, n, k], out, left, right, parallelism) };
    Ok(())
}

/// A matrix of a kernel: the address of its first element, and the strides of its rows and columns.
#[derive(Clone, Copy)]
struct KernelOperand<P> {
    start: P,
    strides: [isize; 2],
}

/// `dst = alpha * dst + beta * lhs * rhs` of the crates: extents `m`, `n`, `k`; `dst` with its column and row stride,
/// and whether it is read; `lhs` and `rhs` with theirs; `alpha`, `beta`; conjugates, which real numbers have none of.
type GemmKernel<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// A type that has a kernel.
trait GemmElement: Pod + Zero + One {
    /// The kernel for this processor.
    fn select_kernel() -> GemmKernel<Self>;
}

impl GemmElement for f32 {
    fn select_kernel() -> GemmKernel<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl GemmElement for f64 {
    fn select_kernel() -> GemmKernel<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// Computes `out = left @ right`. The kernels expect column-major results; a row-major result is the transpose
/// `right^T @ left^T`.
///
/// # Safety
/// The extents and strides stay inside of memory that lives during the call; nobody else uses that of `out`.
#[allow(unsafe_code, reason = "the crates take raw pointers")]
unsafe fn call_kernel<T: GemmElement>(
    [m, n, k]: [usize; 3],
    out: KernelOperand<*mut T>,
    left: KernelOperand<*const T>,
    right: KernelOperand<*const T>,
    parallelism: Parallelism,
) {
    let transposed = out.strides[1] < out.strides[0];
    let ([m, n], left, right) = if transposed { ([n, m], right, left) } else { ([m, n], left, right) };
    let [out_row, out_column] = orient_strides(out.strides, transposed);
    let [left_row, left_column] = orient_strides(left.strides, transposed);
    let [right_row, right_column] = orient_strides(right.strides, transposed);
    // SAFETY: as the caller promises.
    unsafe {
        T::select_kernel()(
            m,
            n,
            k,
            out.start,
            out_column,
            out_row,
            false,
            left.start,
            left_column,
            left_row,
            right.start,
            right_column,
            right_row,
            T::zero(),
            T::one(),
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The strides of a matrix or of its transpose.
fn orient_strides([row, column]: [isize; 2], transposed: bool) -> [isize; 2] {
    if transposed { [column, row] } else { [row, column] }
}

/// The elements of a matrix, row by row.
fn packed_rows<T: Copy>(values: &[T], strides: [isize; 2], [rows, columns]: [usize; 2]) -> Vec<T> {
    let [row, column] = strides.map(isize::cast_unsigned);
    let places = (0..rows).flat_map(|i| (0..columns).map(move |j| i * row + j * column));
    places.map(|at| values[at]).collect()
}

/// Strides of a factor's rows and columns.
fn matrix_strides<T: Clone>(factor: &GemmOperand<'_, T>) -> [isize; 2] {
    let rank = factor.dims.len();
    [factor.dims[rank - 2].stride as isize, factor.dims[rank - 1].stride as isize]
}

/// Returns true if all elements of a factor's matrix are inside of its memory.
fn is_in_bounds<T: Clone>(factor: &GemmOperand<'_, T>, from: usize, shape: [usize; 2]) -> bool {
    let rank = factor.dims.len();
    let last = shape
        .iter()
        .zip(&factor.dims[rank - 2..])
        .try_fold(from, |last, (extent, dim)| last.checked_add(extent.checked_sub(1)?.checked_mul(dim.stride)?));
    last.is_some_and(|last| last < factor.values.len())
}

fn integer_matrix(
    a: &GemmOperand<'_, i64>,
    from_a: usize,
    b: &GemmOperand<'_, i64>,
    from_b: usize,
    shape: [usize; 3],
    out: &mut [i64],
) -> Result<(), ExecutionFault> {
    multiply_plainly(a, from_a, b, from_b, shape, out, |sum, x, y| sum.wrapping_add(x.wrapping_mul(y)))
}

fn complex_matrix(
    a: &GemmOperand<'_, Complex64>,
    from_a: usize,
    b: &GemmOperand<'_, Complex64>,
    from_b: usize,
    shape: [usize; 3],
    out: &mut [Complex64],
) -> Result<(), ExecutionFault> {
    multiply_plainly(a, from_a, b, from_b, shape, out, |sum, x, y| sum + x * y)
}

/// Multiplies two matrices, whose terms are added in order.
fn multiply_plainly<T: Copy>(
    a: &GemmOperand<'_, T>,
    from_a: usize,
    b: &GemmOperand<'_, T>,
    from_b: usize,
    [m, n, k]: [usize; 3],
    out: &mut [T],
    multiply_add: fn(T, T, T) -> T,
) -> Result<(), ExecutionFault> {
    let rank = a.dims.len();
    let (am, ak) = (a.dims[rank - 2].stride, a.dims[rank - 1].stride);
    let (bk, bn) = (b.dims[b.dims.len() - 2].stride, b.dims[b.dims.len() - 1].stride);
    for (i, row) in out.chunks_exact_mut(n).take(m).enumerate() {
        for l in 0..k {
            let x = a.values[from_a + i * am + l * ak];
            for (j, sum) in row.iter_mut().enumerate() {
                let y = b.values[from_b + l * bk + j * bn];
                *sum = multiply_add(*sum, x, y);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(values: &[f32], strides: [usize; 2]) -> GemmOperand<'_, f32> {
        let dims = strides.map(|stride| ViewDim { extent: 0, stride });
        GemmOperand { values: values.into(), start: 0, dims: dims.into() }
    }

    /// `a[i, l] = i + l`, by columns; `b[l, j] = l - j`, every row twice as long as needed.
    #[test]
    fn factors_may_have_strides() {
        let (m, n, k) = (3, 4, 5);
        let a: Vec<f32> = (0..m * k).map(|at| (at % m + at / m) as f32).collect();
        let b: Vec<f32> = (0..k * 2 * n - n).map(|at| (at / (2 * n)) as f32 - (at % (2 * n)) as f32).collect();
        let mut out = vec![0.0; m * n];
        multiply_matrix(&factor(&a, [1, m]), 0, &factor(&b, [2 * n, 1]), 0, [m, n, k], &mut out).unwrap();
        let expected: Vec<f32> = (0..m * n)
            .map(|at| {
                let (i, j) = (at / n, at % n);
                (0..k).map(|l| (i + l) as f32 * (l as f32 - j as f32)).sum()
            })
            .collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_reaches_beyond_memory_is_refused() {
        let values = vec![1.0f32; 12];
        let whole = || factor(&values, [4, 1]);
        let mut out = [0.0; 9];
        let mut of = |a: &GemmOperand<'_, f32>, from, shape: [usize; 3], size: usize| {
            multiply_matrix(a, from, &factor(&values, [1, 3]), 0, shape, &mut out[..size]).is_ok()
        };
        assert!(of(&whole(), 0, [3, 3, 4], 9));
        assert!(!of(&whole(), 1, [3, 3, 4], 9));
        assert!(!of(&factor(&values, [5, 1]), 0, [3, 3, 4], 9));
        assert!(!of(&factor(&values, [usize::MAX, 1]), 0, [3, 3, 4], 9));
        assert!(!of(&whole(), usize::MAX, [3, 3, 4], 9));
        assert!(!of(&whole(), 0, [3, 3, 4], 8));
        assert!(!of(&whole(), 0, [usize::MAX / 2, 4, 4], 9));
    }
}
