//! The GEMMs that a library of GPUs computes as they are: their element types, and the strides of their matrices.
//!
//! The CUDA backend hands such GEMMs to cuBLASLt (`hostir_gpu::gemm_lowering`), which takes transposed factors, and
//! the cost model counts what follows from that: copies that the GEMM makes unnecessary, and direct stores.

use super::inst::GemmInst;
use super::view::BufferView;
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
pub fn has_library_types(gemm: &GemmInst) -> bool {
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

/// Returns true if the library computes a GEMM without scales whose factors have 16 bits or more. What it takes of
/// other GEMMs depends on the device.
pub fn is_library_gemm(gemm: &GemmInst) -> bool {
    let has_wide_factors = [&gemm.a, &gemm.b].iter().all(|view| view.dtype.byte_size() > 1);
    let is_straight = |view: &BufferView| MatrixOrder::of_view(view).is_some_and(|order| !order.is_turned);
    has_wide_factors
        && gemm.scales.is_none()
        && has_library_types(gemm)
        && gemm.read_views().chain([&gemm.out]).all(|view| !view.is_empty())
        && [&gemm.a, &gemm.b].into_iter().all(|view| MatrixOrder::of_view(view).is_some())
        && is_straight(&gemm.out)
        && gemm.bias.as_ref().is_none_or(|bias| is_repeated_row(bias) || is_straight(bias))
}

/// Returns true if a bias is one row for the whole result.
fn is_repeated_row(bias: &BufferView) -> bool {
    let [batch @ .., rows, columns] = &bias.dims[..] else { return false };
    let is_one = (rows.stride == 0 || rows.extent == 1) && columns.stride == 1;
    is_one && batch.iter().all(|dim| dim.stride == 0 || dim.extent == 1)
}
