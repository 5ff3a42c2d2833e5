//! The GEMMs that a library of GPUs computes as they are: their element types, and the strides of their matrices.
//!
//! The CUDA backend hands such GEMMs to cuBLASLt (`hostir_gpu::gemm_lowering`), and the cost model counts what follows
//! from that: copies that the GEMM makes unnecessary, and direct stores. [`LibraryGemm`] has the rules for both.
//!
//! The library's matrices are column-major. A row-major GEMM `out[m, n] = a[m, k] * b[k, n]` is the column-major GEMM of
//! the transposed matrices in the other order, `out'[n, m] = b'[n, k] * a'[k, m]`, and a row-major matrix read as
//! column-major is its own transpose: no data is moved.

use super::inst::GemmInst;
use super::view::{BufferView, ViewDim};
use crate::ir::DType;

/// A row-major matrix as the library stores its transpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixOrder {
    /// True if the library has to transpose it back.
    pub is_turned: bool,
    /// Its rows there.
    pub rows: u64,
    /// Its columns there.
    pub columns: u64,
    /// Elements from one column to the next.
    pub leading: i64,
}

impl MatrixOrder {
    /// The order of the matrix in the last two axes of a view; `None` if neither of them is contiguous.
    pub fn of_view(view: &BufferView) -> Option<Self> {
        let [.., outer, inner] = &view.dims[..] else { return None };
        let plain = (inner.stride == 1 || inner.extent == 1) && (outer.stride >= inner.extent || outer.extent == 1);
        if plain {
            let leading = if outer.extent == 1 { inner.extent } else { outer.stride } as i64;
            return Some(Self { is_turned: false, rows: inner.extent as u64, columns: outer.extent as u64, leading });
        }
        let turned = (outer.stride == 1 || outer.extent == 1) && (inner.stride >= outer.extent || inner.extent == 1);
        let leading = if inner.extent == 1 { outer.extent } else { inner.stride } as i64;
        turned.then_some(Self { is_turned: true, rows: outer.extent as u64, columns: inner.extent as u64, leading })
    }
}

/// Returns true if the library computes with a GEMM's types: all the same; `float` from a 16-bit type; and from 8-bit
/// floats, unless both are `__e5m2`, any type between.
fn has_library_types(gemm: &GemmInst) -> bool {
    use DType as D;
    let out = gemm.out.dtype;
    let known = match ([gemm.b.dtype, gemm.a.dtype], out) {
        ([D::Float8E5M2, D::Float8E5M2], _) | (_, D::Float8E4M3 | D::Float8E5M2) => false,
        ([D::Float8E4M3 | D::Float8E5M2, D::Float8E4M3 | D::Float8E5M2], D::Float | D::Half | D::BFloat16) => true,
        ([D::Half, D::Half] | [D::BFloat16, D::BFloat16], D::Float) => true,
        (factors, D::Double | D::Float | D::Half | D::BFloat16) => factors == [out; 2],
        _ => false,
    };
    known && gemm.bias.as_ref().is_none_or(|bias| bias.dtype == out)
}

/// A value for each operand of a call: the library's `a`, `b`, bias and `d` (ours `b`, `a`, bias and `out`), the scales
/// of its `a` and of its `b`.
pub type PerOperand<T> = [T; 6];

/// A batch axis.
#[derive(Clone, Copy, Debug)]
pub struct BatchAxis {
    /// The number of matrices.
    pub extent: usize,
    /// Elements from one matrix of each operand to the next.
    pub strides: PerOperand<usize>,
}

impl BatchAxis {
    /// Returns true if each index of this axis continues where the last one of the `inner` axis ends.
    fn is_multiple_of(&self, inner: &BatchAxis) -> bool {
        self.strides.iter().zip(inner.strides).all(|(outer, stride)| *outer == stride * inner.extent)
    }
}

/// The bias of a library's GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryBias {
    /// None.
    Absent,
    /// One row for the whole result.
    Row,
    /// A matrix like the result.
    Matrix(MatrixOrder),
}

/// A GEMM in the library's form: a call for each index of the outer batch axes, each for all matrices of one batch axis.
#[derive(Clone, Debug)]
pub struct LibraryGemm {
    /// The operands, with batch axes folded into rows where that is possible.
    pub operands: PerOperand<Option<BufferView>>,
    /// The factors, in the library's order.
    pub factors: [MatrixOrder; 2],
    /// The result, which is stored straight.
    pub result: MatrixOrder,
    /// Bias.
    pub bias: LibraryBias,
    /// The batch axes that need a call for each index.
    pub outer: Vec<BatchAxis>,
    /// The batch axis of each call.
    pub batch: BatchAxis,
}

impl LibraryGemm {
    /// The form of a GEMM; `None` if the library does not compute it, whatever its scales are.
    pub fn of_gemm(gemm: &GemmInst) -> Option<Self> {
        let [row_scale, column_scale] = [0, 1].map(|at| gemm.scale_views().get(at));
        let views = [Some(&gemm.b), Some(&gemm.a), gemm.bias.as_ref(), Some(&gemm.out), column_scale, row_scale];
        if !has_library_types(gemm) || views.iter().flatten().any(|view| view.is_empty() || view.dims.len() < 2) {
            return None;
        }
        let operands = fold_rows(views.map(|view| view.cloned()));
        let (outer, batch) = batch_axes(&operands);
        let [Some(b), Some(a), bias, Some(out), ..] = &operands else { return None };
        let factors = [MatrixOrder::of_view(b)?, MatrixOrder::of_view(a)?];
        let result = MatrixOrder::of_view(out).filter(|order| !order.is_turned)?;
        let bias = bias.as_ref().map_or(Some(LibraryBias::Absent), |bias| library_bias(bias, &batch))?;
        i32::try_from(batch.extent).ok()?;
        Some(Self { factors, result, bias, outer, batch, operands })
    }

    /// Offsets of the operands at each index of the outer batch axes.
    pub fn call_offsets(&self) -> Vec<PerOperand<usize>> {
        let mut all = vec![PerOperand::default()];
        for BatchAxis { extent, strides } in &self.outer {
            all = all
                .iter()
                .flat_map(|base| (0..*extent).map(move |index| (base, index)))
                .map(|(base, index)| std::array::from_fn(|at| base[at] + index * strides[at]))
                .collect();
        }
        all
    }
}

/// The form of a bias; `None` if the library cannot add it. Its vector is the same for the whole batch, and it has none
/// for `double`.
fn library_bias(bias: &BufferView, batch: &BatchAxis) -> Option<LibraryBias> {
    let [.., rows, columns] = &bias.dims[..] else { return None };
    let is_row = (rows.stride == 0 || rows.extent == 1) && columns.stride == 1;
    match is_row && (batch.extent == 1 || batch.strides[2] == 0) && bias.dtype != DType::Double {
        true => Some(LibraryBias::Row),
        false => MatrixOrder::of_view(bias).filter(|order| !order.is_turned).map(LibraryBias::Matrix),
    }
}

/// Folds the innermost batch axis into the rows, if `b` is the same for the whole axis and the rows of `a` and `out`
/// (and the bias and the scales) continue from one matrix of it to the next.
fn fold_rows(mut views: PerOperand<Option<BufferView>>) -> PerOperand<Option<BufferView>> {
    while let [Some(b), Some(a), bias, Some(out), column_scale, row_scale] = &views {
        let n = out.dims.len();
        if n < 3 || b.dims[n - 3].stride != 0 && b.dims[n - 3].extent != 1 {
            break;
        }
        let others = bias.iter().chain(column_scale).chain(row_scale);
        if ![a, out].into_iter().chain(others).all(|view| has_joinable_rows(view, n)) {
            break;
        }
        for (at, view) in views.iter_mut().enumerate() {
            let Some(view) = view else { continue };
            let batch = view.dims.remove(n - 3);
            if at != 0 {
                view.dims[n - 3].extent *= batch.extent;
            }
        }
    }
    views
}

/// Returns true if the rows of a matrix of rank `n` follow those of the matrix before it in the innermost batch axis.
fn has_joinable_rows(view: &BufferView, n: usize) -> bool {
    let (batch, rows): (ViewDim, ViewDim) = (view.dims[n - 3], view.dims[n - 2]);
    batch.extent == 1 || batch.stride == rows.stride * rows.extent
}

/// The outer batch axes, and the innermost one.
fn batch_axes(views: &PerOperand<Option<BufferView>>) -> (Vec<BatchAxis>, BatchAxis) {
    let rank = views[3].as_ref().map_or(2, |out| out.dims.len());
    let mut merged: Vec<BatchAxis> = Vec::new();
    for next in (0..rank - 2).map(|at| batch_axis(views, at)).filter(|axis| axis.extent != 1) {
        match merged.last_mut() {
            Some(last) if last.is_multiple_of(&next) => {
                *last = BatchAxis { extent: last.extent * next.extent, strides: next.strides };
            }
            _ => merged.push(next),
        }
    }
    let inner = merged.pop().unwrap_or(BatchAxis { extent: 1, strides: PerOperand::default() });
    (merged, inner)
}

fn batch_axis(views: &PerOperand<Option<BufferView>>, at: usize) -> BatchAxis {
    let strides = views.each_ref().map(|view| view.as_ref().map_or(0, |view| view.dims[at].stride));
    BatchAxis { extent: views[3].as_ref().map_or(1, |out| out.dims[at].extent), strides }
}

/// Returns true if the library computes a GEMM without scales whose factors have 16 bits or more, wherever its result
/// is. What it takes of other GEMMs depends on the device.
pub fn is_library_gemm(gemm: &GemmInst) -> bool {
    let has_wide_factors = [&gemm.a, &gemm.b].iter().all(|view| view.dtype.byte_size() > 1);
    has_wide_factors && gemm.scales.is_none() && LibraryGemm::of_gemm(gemm).is_some()
}

#[cfg(test)]
mod tests;
