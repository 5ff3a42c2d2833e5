//! Lowers GEMMs to cuBLASLt: layouts of strided views, without copies.
//!
//! cuBLASLt's matrices are column-major. A row-major GEMM `out[m, n] = a[m, k] * b[k, n]` is the column-major GEMM of
//! the transposed matrices in the other order, `out'[n, m] = b'[n, k] * a'[k, m]`, and a row-major matrix read as
//! column-major is its own transpose: no data is moved.

pub mod fp8;

use crate::gemm_shape::{GemmBias, GemmNumerics, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use crate::memory_layout::ALIGNMENT;
use hostir::ir::DType;
use hostir::plan::{BufferView, GemmInst, MatrixOrder, ViewDim, has_library_types};

/// A value for each operand of a call: the library's `a`, `b`, bias and `d` (ours `b`, `a`, bias and `out`), the scales
/// of its `a` and of its `b`.
pub type PerOperand<T> = [T; 6];

/// One call of the library: a shape, and the addresses of its operands.
#[derive(Clone, PartialEq, Debug)]
pub struct GemmCall {
    /// Shape.
    pub shape: GemmShape,
    /// First elements of the operands.
    pub operands: PerOperand<Option<BufferView>>,
}

/// The element type of a GEMM that the library computes.
pub fn matrix_element(dtype: DType) -> Option<MatrixElement> {
    match dtype {
        DType::Double => Some(MatrixElement::F64),
        DType::Float => Some(MatrixElement::F32),
        DType::Half => Some(MatrixElement::F16),
        DType::BFloat16 => Some(MatrixElement::Bf16),
        DType::Float8E4M3 => Some(MatrixElement::E4m3),
        DType::Float8E5M2 => Some(MatrixElement::E5m2),
        _ => None,
    }
}

/// The element types of a GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct GemmTypes {
    /// Of the result and the bias.
    element: MatrixElement,
    /// The types of the library's left and right factor: ours `b` and `a`.
    factors: [MatrixElement; 2],
}

impl GemmTypes {
    /// The types, if the library computes with them.
    fn for_gemm(gemm: &GemmInst) -> Option<Self> {
        let factors = [matrix_element(gemm.b.dtype)?, matrix_element(gemm.a.dtype)?];
        let element = matrix_element(gemm.out.dtype)?;
        has_library_types(gemm).then_some(Self { element, factors })
    }
}

/// The calls that compute a GEMM, without loss of precision; `None` if a kernel of our own has to.
pub fn gemm_calls(gemm: &GemmInst) -> Option<Vec<GemmCall>> {
    let [row_scale, column_scale] = [0, 1].map(|at| gemm.scale_views().get(at));
    let views = [Some(&gemm.b), Some(&gemm.a), gemm.bias.as_ref(), Some(&gemm.out), column_scale, row_scale];
    let views = views.map(|view| view.cloned());
    if views.iter().flatten().any(|view| view.is_empty() || view.dims.len() < 2) {
        return None;
    }
    let types = GemmTypes::for_gemm(gemm)?;
    let views = fold_rows(views);
    let (outer, inner) = batch_axes(&views);
    each_offset(&outer).iter().map(|offsets| gemm_call(&views, offsets, inner, types)).collect()
}

/// Rank-2 tails of the views: matrices.
fn matrix_tail(view: &BufferView) -> (ViewDim, ViewDim) {
    let n = view.dims.len();
    (view.dims[n - 2], view.dims[n - 1])
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
    let (batch, rows) = (view.dims[n - 3], view.dims[n - 2]);
    batch.extent == 1 || batch.stride == rows.stride * rows.extent
}

/// A batch axis: its extent and the operands' strides.
type BatchAxis = (usize, PerOperand<usize>);

fn batch_axes(views: &PerOperand<Option<BufferView>>) -> (Vec<BatchAxis>, BatchAxis) {
    let rank = views[3].as_ref().map_or(2, |out| out.dims.len());
    let mut merged: Vec<BatchAxis> = Vec::new();
    for next in (0..rank - 2).map(|at| batch_axis(views, at)).filter(|(extent, _)| *extent != 1) {
        match merged.last_mut() {
            Some((extent, strides)) if strides.iter().zip(next.1).all(|(outer, inner)| *outer == inner * next.0) => {
                (*extent, *strides) = (*extent * next.0, next.1);
            }
            _ => merged.push(next),
        }
    }
    let inner = merged.pop().unwrap_or((1, PerOperand::default()));
    (merged, inner)
}

fn batch_axis(views: &PerOperand<Option<BufferView>>, at: usize) -> BatchAxis {
    let strides = views.each_ref().map(|view| view.as_ref().map_or(0, |view| view.dims[at].stride));
    (views[3].as_ref().map_or(1, |out| out.dims[at].extent), strides)
}

/// Offsets of the views at each index of the outer batch axes.
fn each_offset(outer: &[BatchAxis]) -> Vec<PerOperand<usize>> {
    let mut all = vec![PerOperand::default()];
    for (extent, strides) in outer {
        all = all
            .iter()
            .flat_map(|base| (0..*extent).map(move |index| (base, index)))
            .map(|(base, index)| std::array::from_fn(|at| base[at] + index * strides[at]))
            .collect();
    }
    all
}

fn gemm_call(
    views: &PerOperand<Option<BufferView>>,
    offsets: &PerOperand<usize>,
    (batch, strides): BatchAxis,
    GemmTypes { element, factors }: GemmTypes,
) -> Option<GemmCall> {
    let (d, turned) = batched_layout(views[3].as_ref()?, strides[3])?;
    if turned {
        return None;
    }
    let bias = match &views[2] {
        None => GemmBias::None,
        Some(view) => {
            let (rows, columns) = matrix_tail(view);
            // The epilogue's vector is the same for the whole batch.
            let vector = (rows.stride == 0 || rows.extent == 1) && columns.stride == 1;
            match vector && (batch == 1 || strides[2] == 0) && element != MatrixElement::F64 {
                true => GemmBias::Rows,
                false => GemmBias::Matrix(batched_layout(view, strides[2]).filter(|(_, turned)| !turned)?.0),
            }
        }
    };
    let operands: PerOperand<Option<BufferView>> = std::array::from_fn(|at| {
        let view = views[at].as_ref()?;
        Some(BufferView { offset: view.offset + offsets[at], ..view.clone() })
    });
    let alignments = [0, 1, 2, 3].map(|at| view_alignment(operands[at].as_ref()));
    let shape = GemmShape {
        element,
        factors,
        numerics: GemmNumerics::default(),
        a: batched_layout(views[0].as_ref()?, strides[0])?,
        b: batched_layout(views[1].as_ref()?, strides[1])?,
        d,
        bias,
        scales: scale_form(&operands, batch, [strides[4], strides[5]])?,
        batch: i32::try_from(batch).ok()?,
        remote: false,
        alignments,
    };
    is_supported(&shape).then_some(GemmCall { shape, operands })
}

/// The form of the scales, if the library supports it: one for each factor, or, for a single GEMM of `__e4m3` in
/// `__bfloat`, one for each row and each column, contiguous. These are the types for which PyTorch calls it.
fn scale_form(operands: &PerOperand<Option<BufferView>>, batch: usize, strides: [usize; 2]) -> Option<GemmScales> {
    let (Some(column_scale), Some(row_scale)) = (&operands[4], &operands[5]) else { return Some(GemmScales::None) };
    let ((row, across), (along, column)) = (matrix_tail(row_scale), matrix_tail(column_scale));
    if !is_repeated(across) || !is_repeated(along) {
        return None;
    }
    if is_repeated(row) && is_repeated(column) {
        return (batch == 1 || strides == [0, 0]).then_some(GemmScales::Whole);
    }
    let aligned = [column_scale, row_scale].into_iter().all(|scale| view_alignment(Some(scale)) as usize >= fp8::ROW);
    let types = [0, 1, 3].map(|at| operands[at].as_ref().map(|view| view.dtype));
    let known = types == [DType::Float8E4M3, DType::Float8E4M3, DType::BFloat16].map(Some);
    (is_dense(row) && is_dense(column) && batch == 1 && aligned && known).then_some(GemmScales::Vectors)
}

fn is_repeated(dim: ViewDim) -> bool {
    dim.stride == 0 || dim.extent == 1
}

fn is_dense(dim: ViewDim) -> bool {
    dim.stride == 1 || dim.extent == 1
}

/// The layout of the matrices of a view, and whether it is transposed.
fn batched_layout(view: &BufferView, batch_stride: usize) -> Option<(MatrixLayout, bool)> {
    let MatrixOrder { is_turned, rows, columns, leading } = MatrixOrder::of_view(view)?;
    Some((MatrixLayout { rows, columns, leading, batch_stride: batch_stride as i64 }, is_turned))
}

/// Returns true if cuBLASLt supports a shape: always, except for some shapes of 8-bit floats ([`fp8`]).
fn is_supported(shape: &GemmShape) -> bool {
    if !shape.factors.iter().all(|factor| matches!(factor, MatrixElement::E4m3 | MatrixElement::E5m2)) {
        return shape.scales == GemmScales::None;
    }
    let ((a, turned), (b, straight)) = (&shape.a, &shape.b);
    let added = match &shape.bias {
        GemmBias::None | GemmBias::Rows => true,
        GemmBias::Matrix(matrix) => has_whole_rows(matrix),
    };
    *turned
        && !straight
        && is_whole_rows(a.rows as i64)
        && is_whole_rows(a.columns as i64)
        && has_whole_rows(a)
        && has_whole_rows(b)
        && has_whole_rows(&shape.d)
        && added
        && shape.alignments.iter().all(|&alignment| alignment as usize >= fp8::ROW)
}

fn has_whole_rows(layout: &MatrixLayout) -> bool {
    is_whole_rows(layout.leading) && is_whole_rows(layout.batch_stride)
}

fn is_whole_rows(elements: i64) -> bool {
    elements % fp8::ROW as i64 == 0
}

/// The largest power of two, up to that of buffers, that divides a view's address.
fn view_alignment(view: Option<&BufferView>) -> u32 {
    let bytes = view.map_or(0, |view| view.offset * view.dtype.byte_size());
    let power = if bytes == 0 { ALIGNMENT } else { 1 << bytes.trailing_zeros() };
    power.min(ALIGNMENT) as u32
}
