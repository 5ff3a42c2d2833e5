//! Matrix products through `matrixmultiply` (by way of ndarray's checked views).

use super::Fault;
use super::lanes::Lanes;
use super::storage::Memory;
use crate::plan::{Dim, Gemm, Plan, View, row_major};
use ndarray::{ArrayView2, ArrayViewMut2, LinalgScalar, ShapeBuilder, linalg::general_mat_mul};

/// A factor in dense memory: its values, and where each batch's matrix lies.
struct Factor<'a, T> {
    values: &'a [T],
    dims: Vec<Dim>,
}

/// `out = a @ b + bias` for every batch. `half` and `bfloat16` compute in floats and round once.
pub(super) fn run(memory: &mut Memory, plan: &Plan, gemm: &Gemm) -> Result<(), Fault> {
    let (a, a_dims) = dense(memory, plan, &gemm.a)?;
    let (b, b_dims) = dense(memory, plan, &gemm.b)?;
    let shape = gemm.out.shape();
    let product = match (&a, &b) {
        (Lanes::F64(a), Lanes::F64(b)) => Lanes::F64(multiply(
            &Factor { values: a, dims: a_dims },
            &Factor { values: b, dims: b_dims },
            &shape,
            matrix,
        )?),
        (Lanes::F32(a), Lanes::F32(b)) => Lanes::F32(multiply(
            &Factor { values: a, dims: a_dims },
            &Factor { values: b, dims: b_dims },
            &shape,
            matrix,
        )?),
        (Lanes::I64(a), Lanes::I64(b)) => Lanes::I64(multiply(
            &Factor { values: a, dims: a_dims },
            &Factor { values: b, dims: b_dims },
            &shape,
            integer_matrix,
        )?),
        _ => return Err(Fault::Invalid("the factors have different types".into())),
    };
    let sum = match &gemm.bias {
        None => product,
        Some(bias) => match (product, Lanes::load(memory, plan, bias)?) {
            (Lanes::F64(p), Lanes::F64(b)) => {
                Lanes::F64(p.iter().zip(&b).map(|(p, b)| p + b).collect())
            }
            (Lanes::F32(p), Lanes::F32(b)) => {
                Lanes::F32(p.iter().zip(&b).map(|(p, b)| p + b).collect())
            }
            (Lanes::I64(p), Lanes::I64(b)) => {
                Lanes::I64(p.iter().zip(&b).map(|(p, b)| p.wrapping_add(*b)).collect())
            }
            _ => return Err(Fault::Invalid("the bias has another type than the factors".into())),
        },
    };
    sum.store(memory, plan, &gemm.out)
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
    let place = |(dim, full): (&Dim, &Dim)| {
        let stride = if full.stride == 0 { 0 } else { dim.stride };
        Dim { extent: full.extent, stride }
    };
    Ok((lanes, dims.iter().zip(&view.dims).map(place).collect()))
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
            values: a.values,
            dims: vec![Dim { extent: batches * m, stride: k }, Dim { extent: k, stride: 1 }],
        };
        let wide = Factor { values: b.values, dims: b.dims[rank - 2..].to_vec() };
        matrix(&tall, 0, &wide, 0, [batches * m, n, k], &mut out)?;
        return Ok(out);
    }
    for (batch, part) in out.chunks_exact_mut(m * n).enumerate() {
        let (from_a, from_b) = (offset(&a.dims, batch), offset(&b.dims, batch));
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

fn matrix<T: LinalgScalar>(
    a: &Factor<'_, T>,
    from_a: usize,
    b: &Factor<'_, T>,
    from_b: usize,
    [m, n, k]: [usize; 3],
    out: &mut [T],
) -> Result<(), Fault> {
    let strides = |factor: &Factor<'_, T>| {
        let rank = factor.dims.len();
        (factor.dims[rank - 2].stride, factor.dims[rank - 1].stride)
    };
    let left = ArrayView2::from_shape((m, k).strides(strides(a)), &a.values[from_a..]);
    let right = ArrayView2::from_shape((k, n).strides(strides(b)), &b.values[from_b..]);
    let result = ArrayViewMut2::from_shape((m, n), out);
    let (Ok(left), Ok(right), Ok(mut result)) = (left, right, result) else {
        return Err(Fault::Invalid("the strides of a factor do not fit its memory".into()));
    };
    general_mat_mul(T::one(), &left, &right, T::zero(), &mut result);
    Ok(())
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
    for i in 0..m {
        for j in 0..n {
            out[i * n + j] = (0..k).fold(0i64, |sum, l| {
                let (x, y) =
                    (a.values[from_a + i * am + l * ak], b.values[from_b + l * bk + j * bn]);
                sum.wrapping_add(x.wrapping_mul(y))
            });
        }
    }
    Ok(())
}
