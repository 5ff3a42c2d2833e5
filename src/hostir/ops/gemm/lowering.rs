//! Lowering of GEMMs.

use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{OpId, TensorId, quoted_type};
use crate::plan::{BufferView, GemmInst, InstKind, PlanBuilder, ViewDim, expanded_view, unsharded_view};

/// `matmul`, as `torch.matmul`: leading axes are batches and broadcast.
pub(super) fn lower_matmul(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (left, right, result) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?);
    let out = cx.output_view(result)?;
    emit_matmul(cx, [left, right, result], None, out)
}

/// `matmul_add`: `a @ b + c`, where `c` has the result's shape.
pub(super) fn lower_matmul_add(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (left, right, result) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?);
    let added = cx.operand_tensor(op, 2)?;
    let accumulator = cx.input_view(added)?;
    let out = cx.output_view(result)?;
    if accumulator.shape() != out.shape() {
        return Err(cx.shape_error(added, &accumulator.shape(), result, &out.shape()));
    }
    emit_matmul(cx, [left, right, result], Some(accumulator), out)
}

/// Appends a GEMM of operands that may be vectors: vectors get an axis of extent 1, as do the result and the added
/// term.
fn emit_matmul(
    cx: &mut PlanBuilder<'_>,
    tensors: [TensorId; 3],
    mut bias: Option<BufferView>,
    mut out: BufferView,
) -> Result<(), Diag> {
    let [left, right, _] = tensors;
    let (mut a, mut b) = (cx.input_view(left)?, cx.input_view(right)?);
    if a.dims.is_empty() || b.dims.is_empty() {
        return Err(cx.shape_error(left, &a.shape(), right, &b.shape()));
    }
    let unit = ViewDim { extent: 1, stride: 0 };
    if a.dims.len() == 1 {
        a.dims.insert(0, unit);
        let place = (out.dims.len() + 1 - b.dims.len().min(2)).min(out.dims.len());
        bias.iter_mut().chain([&mut out]).for_each(|view| view.dims.insert(place, unit));
    }
    if b.dims.len() == 1 {
        b.dims.push(unit);
        bias.iter_mut().chain([&mut out]).for_each(|view| view.dims.push(unit));
    }
    emit_gemm(cx, tensors, GemmInst { a, b, bias, scales: None, out })
}

/// `linear`: `input @ weight^T + bias`.
pub(super) fn lower_linear(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (left, right, result) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?);
    let (mut a, mut w) = (cx.input_view(left)?, cx.input_view(right)?);
    let mut out = cx.output_view(result)?;
    if w.dims.len() > 2 {
        w = unsharded_view(cx, right, w);
        a = unsharded_view(cx, left, a);
        out = unsharded_view(cx, result, out);
    }
    if w.dims.len() == 1 {
        w.dims.insert(0, ViewDim { extent: 1, stride: 0 });
        out.dims.push(ViewDim { extent: 1, stride: 0 });
    }
    if w.dims.len() != 2 || a.dims.is_empty() {
        return Err(cx.shape_error(left, &a.shape(), right, &w.shape()));
    }
    w.dims.swap(0, 1);
    if a.dims.len() == 1 {
        a.dims.insert(0, ViewDim { extent: 1, stride: 0 });
        let place = out.dims.len().saturating_sub(1);
        out.dims.insert(place, ViewDim { extent: 1, stride: 0 });
    }
    let bias = match op.input_tensors().nth(2) {
        None => None,
        Some(tensor) => {
            let mut view = cx.input_view(tensor)?;
            if view.dims.len() > 1 {
                view = unsharded_view(cx, tensor, view);
            }
            let Some(fit) = expanded_view(&view, &out.shape()) else {
                return Err(cx.shape_error(tensor, &view.shape(), result, &out.shape()));
            };
            Some(fit)
        }
    };
    emit_gemm(cx, [left, right, result], GemmInst { a, b: w, bias, scales: None, out })
}

/// Appends a GEMM whose factors get the result's batch; the tensors are the factors and the result.
pub(super) fn emit_gemm(cx: &mut PlanBuilder<'_>, tensors: [TensorId; 3], gemm: GemmInst) -> Result<(), Diag> {
    let GemmInst { a, b, bias, scales, out } = gemm;
    let (a_shape, b_shape, out_shape) = (a.shape(), b.shape(), out.shape());
    let (m, k) = (a_shape[a_shape.len() - 2], a_shape[a_shape.len() - 1]);
    let (k2, n) = (b_shape[b_shape.len() - 2], b_shape[b_shape.len() - 1]);
    if k != k2 {
        return Err(cx.shape_error(tensors[0], &a_shape, tensors[1], &b_shape));
    }
    let batch = out_shape.len().saturating_sub(2);
    if out_shape.len() < 2 || out_shape[batch..] != [m, n] {
        return Err(cx.shape_error(tensors[2], &out_shape, tensors[0], &a_shape));
    }
    let [full_a, full_b] = [[m, k], [k, n]].map(|last| [&out_shape[..batch], &last].concat());
    let Some(a) = expanded_view(&a, &full_a) else {
        return Err(cx.shape_error(tensors[0], &a_shape, tensors[2], &out_shape));
    };
    let Some(b) = expanded_view(&b, &full_b) else {
        return Err(cx.shape_error(tensors[1], &b_shape, tensors[2], &out_shape));
    };
    if a.dtype != b.dtype && !(a.dtype.is_fp8_factor() && b.dtype.is_fp8_factor()) {
        let message = message!(
            "{} is `{}`, but {} is `{}`; a GEMM needs a single type",
            cx.quoted_tensor(tensors[0]),
            quoted_type(a.dtype),
            cx.quoted_tensor(tensors[1]),
            quoted_type(b.dtype)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    cx.emit_inst(InstKind::Gemm(Box::new(GemmInst { a, b, bias, scales, out })))
}
