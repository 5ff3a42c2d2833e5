//! Matrix products through the `gemm` crate, whose kernels use AVX-512 where the processor has it.

use super::fault::Fault;
use super::lanes::{Class, Lanes, class};
use super::storage::Memory;
use crate::ir::DType;
use crate::plan::{Dim, Gemm, Plan, View, row_major};
use bytemuck::Pod;
use gemm::Parallelism;
use num_traits::{One, Zero};
use std::borrow::Cow;

/// A factor in memory: values, the first matrix's place, and dims.
struct Factor<'a, T: Clone> {
    values: Cow<'a, [T]>,
    start: usize,
    dims: Vec<Dim>,
}

/// `out = a @ b + bias` for every batch. Floats narrower than `float` compute in floats and round once.
pub(super) fn run(memory: &mut Memory, plan: &Plan, gemm: &Gemm) -> Result<(), Fault> {
    let shape = gemm.out.shape();
    let bias = match &gemm.bias {
        Some(view) => Some(Lanes::load(memory, plan, view)?),
        None => None,
    };
    let result = match class(gemm.a.dtype)? {
        Class::F64 => {
            let a = factor(memory, plan, &gemm.a, DType::Double, f64s)?;
            let b = factor(memory, plan, &gemm.b, DType::Double, f64s)?;
            let product = multiply(&a, &b, &shape, matrix)?;
            Lanes::F64(plus(product, bias.map(f64s), |x, y| x + y))
        }
        Class::F32 => {
            let a = factor(memory, plan, &gemm.a, DType::Float, f32s)?;
            let b = factor(memory, plan, &gemm.b, DType::Float, f32s)?;
            let product = multiply(&a, &b, &shape, matrix)?;
            Lanes::F32(plus(product, bias.map(f32s), |x, y| x + y))
        }
        Class::I64 => {
            let a = factor(memory, plan, &gemm.a, DType::Int, i64s)?;
            let b = factor(memory, plan, &gemm.b, DType::Int, i64s)?;
            let product = multiply(&a, &b, &shape, integer_matrix)?;
            Lanes::I64(plus(product, bias.map(i64s), i64::wrapping_add))
        }
    };
    result.store(memory, plan, &gemm.out)
}

fn plus<T: Copy>(mut product: Vec<T>, bias: Option<Vec<T>>, add: fn(T, T) -> T) -> Vec<T> {
    for (x, y) in product.iter_mut().zip(bias.into_iter().flatten()) {
        *x = add(*x, y);
    }
    product
}

/// The lanes as one type.
macro_rules! lanes_as {
    ($name:ident, $class:ident, $value:ty) => {
        fn $name(lanes: Lanes) -> Vec<$value> {
            match lanes.into_class(Class::$class) {
                Lanes::$class(values) => values,
                _ => Vec::new(),
            }
        }
    };
}
lanes_as!(f64s, F64, f64);
lanes_as!(f32s, F32, f32);
lanes_as!(i64s, I64, i64);

/// A factor of a product: the buffer itself where it has the type to compute in, else a copy.
fn factor<'m, T: Pod>(
    memory: &'m Memory,
    plan: &Plan,
    view: &View,
    native: DType,
    pick: fn(Lanes) -> Vec<T>,
) -> Result<Factor<'m, T>, Fault> {
    let last = &view.dims[view.dims.len() - 2..];
    let repeats = last.iter().any(|dim| dim.stride == 0 && dim.extent > 1);
    if view.dtype == native
        && !repeats
        && let Some(values) = memory.borrow(view)?
    {
        let dims = view.dims.to_vec();
        return Ok(Factor { values: Cow::Borrowed(values), start: view.offset, dims });
    }
    let (lanes, dims) = dense(memory, plan, view)?;
    Ok(Factor { values: Cow::Owned(pick(lanes)), start: 0, dims })
}

/// The view's elements without repetition, and dims into them. A transposed matrix stays transposed.
fn dense(memory: &Memory, plan: &Plan, view: &View) -> Result<(Lanes, Vec<Dim>), Fault> {
    let mut once = view.clone();
    for dim in once.dims.iter_mut().filter(|dim| dim.stride == 0) {
        dim.extent = 1;
    }
    let rank = once.dims.len();
    let transposed = once.dims[rank - 2].stride < once.dims[rank - 1].stride;
    if transposed {
        once.dims.swap(rank - 2, rank - 1);
    }
    let lanes = Lanes::load(memory, plan, &once)?;
    let mut dims = row_major(&once.shape());
    if transposed {
        dims.swap(rank - 2, rank - 1);
    }
    for (dim, full) in dims.iter_mut().zip(&view.dims) {
        let stride = if full.stride == 0 { 0 } else { dim.stride };
        *dim = Dim { extent: full.extent, stride };
    }
    Ok((lanes, dims.to_vec()))
}

type Matrix<T> =
    fn(&Factor<'_, T>, usize, &Factor<'_, T>, usize, [usize; 3], &mut [T]) -> Result<(), Fault>;

/// All batches, one after the other; batches that share the right factor are one product.
fn multiply<T: Copy + Default>(
    a: &Factor<'_, T>,
    b: &Factor<'_, T>,
    shape: &[usize],
    matrix: Matrix<T>,
) -> Result<Vec<T>, Fault> {
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
        let tall = Factor {
            values: Cow::Borrowed(&*a.values),
            start: a.start,
            dims: vec![Dim { extent: batches * m, stride: k }, Dim { extent: k, stride: 1 }],
        };
        let wide = Factor {
            values: Cow::Borrowed(&*b.values),
            start: b.start,
            dims: b.dims[rank - 2..].to_vec(),
        };
        matrix(&tall, a.start, &wide, b.start, [batches * m, n, k], &mut out)?;
        return Ok(out);
    }
    for (batch, part) in out.chunks_exact_mut(m * n).enumerate() {
        let (from_a, from_b) = (a.start + offset(&a.dims, batch), b.start + offset(&b.dims, batch));
        matrix(a, from_a, b, from_b, [m, n, k], part)?;
    }
    Ok(out)
}

/// Where a batch's matrix starts.
fn offset(dims: &[Dim], mut batch: usize) -> usize {
    let mut offset = 0;
    for dim in dims[..dims.len() - 2].iter().rev() {
        offset += batch % dim.extent * dim.stride;
        batch /= dim.extent;
    }
    offset
}

/// Products of fewer multiplications than this run on the calling thread alone.
const ALONE: usize = 1 << 18;

#[allow(unsafe_code, reason = "the crate takes raw pointers; what they reach is checked here")]
fn matrix<T: Pod + Zero + One>(
    a: &Factor<'_, T>,
    from_a: usize,
    b: &Factor<'_, T>,
    from_b: usize,
    [m, n, k]: [usize; 3],
    out: &mut [T],
) -> Result<(), Fault> {
    let (a_row, a_column) = strides(a);
    let (b_row, b_column) = strides(b);
    let fits = reaches(a, from_a, [m, k])
        && reaches(b, from_b, [k, n])
        && m.checked_mul(n) == Some(out.len());
    if !fits {
        return Err(Fault::Invalid("the strides of a factor do not fit its memory".into()));
    }
    let parallelism = match m.saturating_mul(n).saturating_mul(k) {
        0..ALONE => Parallelism::None,
        _ => Parallelism::Rayon(0),
    };
    let (left, right) = (a.values[from_a..].as_ptr(), b.values[from_b..].as_ptr());
    // SAFETY: `reaches` says that the last element of either factor, which has the largest offset as no
    // stride is negative, lies in its slice; `out` holds m * n elements and is borrowed mutably. The
    // type is f32 or f64, which the crate supports.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            left,
            a_column,
            a_row,
            right,
            b_column,
            b_row,
            T::zero(),
            T::one(),
            false,
            false,
            false,
            parallelism,
        );
    }
    Ok(())
}

/// Strides of a factor's rows and columns.
fn strides<T: Clone>(factor: &Factor<'_, T>) -> (isize, isize) {
    let rank = factor.dims.len();
    (factor.dims[rank - 2].stride as isize, factor.dims[rank - 1].stride as isize)
}

/// Whether all elements of a matrix of a factor lie in its memory.
fn reaches<T: Clone>(factor: &Factor<'_, T>, from: usize, shape: [usize; 2]) -> bool {
    let rank = factor.dims.len();
    let last = shape.iter().zip(&factor.dims[rank - 2..]).try_fold(from, |last, (extent, dim)| {
        last.checked_add(extent.checked_sub(1)?.checked_mul(dim.stride)?)
    });
    last.is_some_and(|last| last < factor.values.len())
}

fn integer_matrix(
    a: &Factor<'_, i64>,
    from_a: usize,
    b: &Factor<'_, i64>,
    from_b: usize,
    [m, n, k]: [usize; 3],
    out: &mut [i64],
) -> Result<(), Fault> {
    let rank = a.dims.len();
    let (am, ak) = (a.dims[rank - 2].stride, a.dims[rank - 1].stride);
    let (bk, bn) = (b.dims[b.dims.len() - 2].stride, b.dims[b.dims.len() - 1].stride);
    for (i, row) in out.chunks_exact_mut(n).take(m).enumerate() {
        for l in 0..k {
            let x = a.values[from_a + i * am + l * ak];
            for (j, sum) in row.iter_mut().enumerate() {
                let y = b.values[from_b + l * bk + j * bn];
                *sum = sum.wrapping_add(x.wrapping_mul(y));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(values: &[f32], strides: [usize; 2]) -> Factor<'_, f32> {
        let dims = strides.map(|stride| Dim { extent: 0, stride });
        Factor { values: values.into(), start: 0, dims: dims.into() }
    }

    /// `a[i, l] = i + l`, by columns; `b[l, j] = l - j`, every row twice as long as needed.
    #[test]
    fn factors_may_have_strides() {
        let (m, n, k) = (3, 4, 5);
        let a: Vec<f32> = (0..m * k).map(|at| (at % m + at / m) as f32).collect();
        let b: Vec<f32> =
            (0..k * 2 * n - n).map(|at| (at / (2 * n)) as f32 - (at % (2 * n)) as f32).collect();
        let mut out = vec![0.0; m * n];
        matrix(&factor(&a, [1, m]), 0, &factor(&b, [2 * n, 1]), 0, [m, n, k], &mut out).unwrap();
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
        let mut of = |a: &Factor<'_, f32>, from, shape: [usize; 3], size: usize| {
            matrix(a, from, &factor(&values, [1, 3]), 0, shape, &mut out[..size]).is_ok()
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
