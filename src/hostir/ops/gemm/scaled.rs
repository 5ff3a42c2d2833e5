//! `scaled_matmul`: a GEMM of 8-bit floats, whose rows and columns have scales.
//!
//! nvFuser prints it as `ScaledMmaOp` with a word for each operand. The meaning is that of PyTorch's `_scaled_mm`: each
//! row of the left factor and each column of the right one has a scale in `float`, or a whole factor has one.

use super::links::link_matmul;
use super::lowering::emit_gemm;
use super::types::infer_matmul;
use crate::axes::LogicalAxis;
use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side, result_side};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AxisLink, CallPadding, DType, GemmForm, Op, OpId, OpIdentity, OpLayout, Program, StandaloneRule, TensorId, Value,
    quoted_op, quoted_type,
};
use crate::ops::result_types::TensorType;
use crate::ops::spec::{ArgSpec, Infer, Lower, OpSpec};
use crate::ops::tensor_checks;
use crate::plan::{BufferView, GemmInst, PlanBuilder};

/// `scaled_matmul`, printed as `ScaledMmaOp`.
pub const SCALED_MATMUL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "scaled_matmul",
        layout: OpLayout::OneLine(CallPadding::Tight),
        standalone: StandaloneRule::Yes,
        gemm: Some(GemmForm { scaled: true, ..GemmForm::PLAIN }),
        optional_results: 2,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[("ScaledMmaOp", |_| true)],
    summary: "Computes a batched GEMM of 8-bit floats, times a scale for each row and each column, plus a bias if given, and rounds once.",
    args: &[
        ArgSpec::keyed_operand("mat1"),
        ArgSpec::keyed_operand("mat2"),
        ArgSpec::keyed_operand("scale1"),
        ArgSpec::keyed_operand("scale2"),
        ArgSpec::keyed_operand("alpha").optional(),
        ArgSpec::keyed_operand("bias").optional(),
        ArgSpec::keyed_operand("beta").optional(),
    ],
    relate: Some(link_scaled_matmul),
    infer: Infer::Result(infer_scaled_matmul),
    checks: &[check_scaled_dtypes],
    repair: None,
    lower: Lower::Instructions(lower_scaled_matmul),
};

/// The indices of the scales among the operands.
const SCALES: [usize; 2] = [2, 3];

/// The bias, if the op has one.
fn bias_operand(op: &Op) -> Option<TensorId> {
    SCALED_MATMUL.named_operand(op, "bias").and_then(Value::as_tensor)
}

/// `[.., M, K] x [.., K, N] -> [.., M, N, r(K)]`, the scales `[.., M, 1]` and `[.., 1, N]` or of one element, and the
/// bias `[N]` or `[.., M, N]`.
fn link_scaled_matmul(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    for place in 0..2 {
        let factor = operand_side(program, op, place)?;
        let rank = factor.stored_positions().len();
        if !factor.axes.split && rank < 2 {
            let tensor = program.tensor_name(factor.tensor);
            return Err(rank_error(
                &factor,
                message!("`scaled_matmul` needs matrices, but the rank of `{}` is {}", tensor, rank),
            ));
        }
    }
    link_matmul(program, op, links)?;
    for place in SCALES {
        link_scale(program, op, place, links)?;
    }
    link_bias(program, op, links)
}

/// As matmul, with the element type of the bias, else `__bfloat`.
fn infer_scaled_matmul(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let dtype = bias_operand(op).map_or(DType::BFloat16, |bias| program.tensor(bias).dtype);
    Some(TensorType { dtype, ..infer_matmul(program, op, operands)? })
}

fn rank_error(side: &LinkSide, message: Message) -> AxisMismatch {
    AxisMismatch { code: codes::RANK, message, note: Message::default(), tensor: Some(side.tensor) }
}

/// Returns true if an axis has one element, on one device.
fn is_unit_axis(program: &Program, axis: &LogicalAxis) -> bool {
    let one = axis.is_broadcast() && axis.expanded.is_none() || program.exprs().as_int(axis.extent) == Some(1);
    one && !axis.is_sharded()
}

/// Links a scale's batch and its rows or columns with those of the result.
fn link_scale(program: &Program, op: OpId, place: usize, links: &mut Vec<AxisLink>) -> LinkResult {
    let (scale, factor) = (operand_side(program, op, place)?, operand_side(program, op, place - 2)?);
    let out = result_side(program, op)?;
    if has_split_axis(&[&scale, &factor, &out]) {
        return Ok(());
    }
    let (axes, targets) = (scale.stored_positions(), out.stored_positions());
    let is_unit = |axis: u32| is_unit_axis(program, &scale.axes.axes[axis as usize]);
    if axes.iter().all(|&axis| is_unit(axis)) {
        return Ok(());
    }
    let rank = factor.stored_positions().len();
    let [name, of] = [&scale, &factor].map(|side| program.tensor_name(side.tensor));
    if axes.len() != rank {
        let found = axes.len();
        let message = message!(
            "`{}`, the scale of `{}`, needs {} axes as `{}` has, or one element, but its rank is {}",
            name,
            of,
            rank,
            of,
            found
        );
        let note = Message::advice(
            "scales of rows are `[iS0{m}, bS1{1}]`, those of columns `[bS2{1}, iS3{n}]`",
            "scales of rows are `f32[m, b.1]`, those of columns `f32[b.1, n]`",
        );
        return Err(AxisMismatch { note, ..rank_error(&scale, message) });
    }
    // Rows have scales in a column, columns in a row.
    let across = if place == SCALES[0] { rank - 1 } else { rank - 2 };
    if let Some(extent) =
        program.exprs().as_int(scale.axes.axes[axes[across] as usize].extent).filter(|&extent| extent != 1)
    {
        let (what, shape) = if place == SCALES[0] { ("row", "[.., m, 1]") } else { ("column", "[.., 1, n]") };
        let message = message!("`{}` needs one scale for each {} of `{}`, but has {}", name, what, of, extent);
        let note = message!("its shape is {}", shape);
        return Err(AxisMismatch { code: codes::EXTENT, message, note, tensor: Some(scale.tensor) });
    }
    let first = targets.len().saturating_sub(rank);
    for (at, &axis) in axes.iter().enumerate().filter(|(at, axis)| *at != across && !is_unit(**axis)) {
        link_pairs(&scale, &out, &[axis], &targets[first + at..], links);
    }
    Ok(())
}

/// Links the axes of a bias with the last ones of the result: `[N]`, or all.
fn link_bias(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let Some(tensor) = bias_operand(program.op(op)) else { return Ok(()) };
    let (bias, out) = (LinkSide::new(program, tensor), result_side(program, op)?);
    if has_split_axis(&[&bias, &out]) {
        return Ok(());
    }
    let (axes, targets) = (bias.stored_positions(), out.stored_positions());
    if axes.len() != 1 && axes.len() != targets.len() {
        let (name, need, found) = (program.quoted_tensor(tensor), targets.len(), axes.len());
        let message =
            message!("the bias of `scaled_matmul` needs 1 or {} stored axes, but `{}` has {}", need, name, found);
        return Err(rank_error(&bias, message));
    }
    link_pairs(&bias, &out, &axes, &targets[targets.len() - axes.len()..], links);
    Ok(())
}

/// V32 for scaled GEMMs: factors of 8 bits, a wider result, scales in `float`, a bias of the result's type.
fn check_scaled_dtypes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let tensors: Vec<TensorId> = op.input_tensors().collect();
    let (&[a, b, row, column, ..], Some(out)) = (tensors.as_slice(), op.output_tensors().next()) else { return };
    let dtype = |tensor: TensorId| program.tensor(tensor).dtype;
    let factors = [a, b].into_iter().filter(|&factor| !dtype(factor).is_fp8_factor());
    let factors = factors.map(|factor| {
        (factor, message!("factors in `{}` or `{}`", quoted_type(DType::Float8E4M3), quoted_type(DType::Float8E5M2)))
    });
    let scales = [row, column].into_iter().filter(|&scale| dtype(scale) != DType::Float);
    let scales = scales.map(|scale| (scale, message!("scales in `{}`", quoted_type(DType::Float))));
    let wide = matches!(dtype(out), DType::Float | DType::Half | DType::BFloat16);
    let result = (!wide).then(|| {
        let [float, half, short] = [DType::Float, DType::Half, DType::BFloat16].map(quoted_type);
        (out, message!("a result in `{}`, `{}` or `{}`", float, half, short))
    });
    for (tensor, need) in factors.chain(scales).chain(result) {
        let (name, found) = (program.quoted_tensor(tensor), quoted_type(dtype(tensor)));
        let message = message!("`scaled_matmul` needs {}, but `{}` is {}", need, name, found);
        let diag = Diag::error(codes::DTYPE, program.op_span(id), message);
        diags.push(with_declaration(diag, program, tensor, id));
    }
    if let Some(bias) = bias_operand(op) {
        tensor_checks::check_equal_dtypes(program, id, bias, out, diags);
    }
}

/// Refuses a GEMM whose further results are block scales of the first.
///
/// # Errors
/// [`codes::CANNOT_RUN`] if the op has them.
pub(super) fn refuse_block_scales(cx: &PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    if cx.program.op(id).results.len() == 1 {
        return Ok(());
    }
    let message = message!("block scales of the result of `{}` are not supported in a run", quoted_op(cx.program, id));
    let note = "leave the results after the first out: the result has an element type without scales";
    Err(cx.error_here(codes::CANNOT_RUN, message).with_note(note))
}

/// The factors' GEMM with its scales and bias.
fn lower_scaled_matmul(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    for word in ["alpha", "beta"] {
        if SCALED_MATMUL.named_operand(op, word).is_some() {
            let message = format!("`{word}=` of `scaled_matmul` is not supported in a run");
            return Err(cx.error_here(codes::CANNOT_RUN, message).with_note("multiply a scale or the bias by it"));
        }
    }
    refuse_block_scales(cx, id)?;
    let (left, right, result) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?);
    let [row, column] = [cx.operand_tensor(op, SCALES[0])?, cx.operand_tensor(op, SCALES[1])?];
    let (a, b, out) = (cx.input_view(left)?, cx.input_view(right)?, cx.output_view(result)?);
    if a.dims.len() < 2 || b.dims.len() < 2 {
        return Err(cx.shape_error(left, &a.shape(), right, &b.shape()));
    }
    let scales = Some(Box::new([scale_view(cx, row, 1, result, &out)?, scale_view(cx, column, 2, result, &out)?]));
    let bias = match bias_operand(op) {
        None => None,
        Some(tensor) => Some(cx.fitted_input(tensor, result, &out.shape())?),
    };
    emit_gemm(cx, [left, right, result], GemmInst { a, b, bias, scales, out })
}

/// A scale for each element of the result; the axis `from_end` of the scale, counted from its last as 1, has one
/// element.
fn scale_view(
    cx: &mut PlanBuilder<'_>,
    scale: TensorId,
    from_end: usize,
    result: TensorId,
    out: &BufferView,
) -> Result<BufferView, Diag> {
    let view = cx.input_view(scale)?;
    let across = view.dims.len().checked_sub(from_end).map_or(1, |at| view.dims[at].extent);
    if across != 1 {
        return Err(cx.shape_error(scale, &view.shape(), result, &out.shape()));
    }
    cx.fitted_input(scale, result, &out.shape())
}
