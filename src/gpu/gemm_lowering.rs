//! Lowers GEMMs to calls of cuBLASLt: its types, scales and alignments. [`LibraryGemm`] has the layouts of the strided
//! views, without copies.

pub mod fp8;

use crate::gemm_shape::{GemmBias, GemmNumerics, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use crate::memory_layout::ALIGNMENT;
use hostir::ir::DType;
use hostir::plan::{BatchAxis, BufferView, GemmInst, LibraryBias, LibraryGemm, MatrixOrder, PerOperand, ViewDim};

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
    /// The types, if the library has them.
    fn for_gemm(gemm: &GemmInst) -> Option<Self> {
        let factors = [matrix_element(gemm.b.dtype)?, matrix_element(gemm.a.dtype)?];
        Some(Self { element: matrix_element(gemm.out.dtype)?, factors })
    }
}

/// The calls that compute a GEMM, without loss of precision; `None` if a kernel of our own has to.
pub fn gemm_calls(gemm: &GemmInst) -> Option<Vec<GemmCall>> {
    let types = GemmTypes::for_gemm(gemm)?;
    let library = LibraryGemm::of_gemm(gemm)?;
    library.call_offsets().iter().map(|offsets| gemm_call(&library, offsets, types)).collect()
}

fn gemm_call(
    library: &LibraryGemm,
    offsets: &PerOperand<usize>,
    GemmTypes { element, factors }: GemmTypes,
) -> Option<GemmCall> {
    let BatchAxis { extent: batch, strides } = library.batch;
    let operands: PerOperand<Option<BufferView>> = std::array::from_fn(|at| {
        let view = library.operands[at].as_ref()?;
        Some(BufferView { offset: view.offset + offsets[at], ..view.clone() })
    });
    let [a, b] = [0, 1].map(|at| (batched_layout(library.factors[at], strides[at]), library.factors[at].is_turned));
    let shape = GemmShape {
        element,
        factors,
        numerics: GemmNumerics::default(),
        a,
        b,
        d: batched_layout(library.result, strides[3]),
        bias: match library.bias {
            LibraryBias::Absent => GemmBias::None,
            LibraryBias::Row => GemmBias::Rows,
            LibraryBias::Matrix(order) => GemmBias::Matrix(batched_layout(order, strides[2])),
        },
        scales: scale_form(&operands, batch, [strides[4], strides[5]])?,
        batch: i32::try_from(batch).ok()?,
        parts: 1,
        remote: false,
        alignments: [0, 1, 2, 3].map(|at| view_alignment(operands[at].as_ref())),
    };
    is_supported(&shape).then_some(GemmCall { shape, operands })
}

/// Rank-2 tails of the views: matrices.
fn matrix_tail(view: &BufferView) -> (ViewDim, ViewDim) {
    let n = view.dims.len();
    (view.dims[n - 2], view.dims[n - 1])
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

/// The layout of the matrices of a batch.
fn batched_layout(MatrixOrder { rows, columns, leading, .. }: MatrixOrder, batch_stride: usize) -> MatrixLayout {
    MatrixLayout { rows, columns, leading, batch_stride: batch_stride as i64 }
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
