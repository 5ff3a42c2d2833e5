//! Tensors made from scalars.

use super::element_index::{IndexedSteps, axis_index};
use super::literals;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::axes::logical_axes;
use crate::diag::{Diag, Diags, codes, count_text, message};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, CallPadding, DType, ExprId, OpId, OpIdentity, OpLayout, Program, TensorId, quoted_expr,
    quoted_op,
};
use crate::plan::{BufferView, Function, InstKind, PlanBuilder, PointwiseKernel, ScalarValue, StepOperand};
use smallvec::SmallVec;

/// `full`.
pub const FULL: OpSpec = OpSpec {
    identity: OpIdentity { name: "full", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Fills a tensor with one value.",
    args: &[ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs), ArgSpec::positional(AttrKey::Fill, ArgKind::Expr)],
    relate: None,
    infer: Infer::Written,
    checks: &[check_full_extents, literals::check_fill_literal],
    repair: None,
    lower: Lower::Instructions(lower_full),
};

/// `iota`.
pub const IOTA: OpSpec = OpSpec {
    identity: OpIdentity { name: "iota", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Makes an arithmetic sequence: length, start, step, element type.",
    args: &[
        ArgSpec::positional(AttrKey::Size, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Step, ArgKind::Expr),
        ArgSpec::positional(AttrKey::OutType, ArgKind::DType),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[tensor_checks::check_named_type, literals::check_iota_literals],
    repair: None,
    lower: Lower::Instructions(lower_iota),
};

/// `eye`.
pub const EYE: OpSpec = OpSpec {
    identity: OpIdentity { name: "eye", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Makes a matrix of ones on the diagonal and zeros beside it: rows, element type.",
    args: &[ArgSpec::positional(AttrKey::Size, ArgKind::Expr), ArgSpec::positional(AttrKey::OutType, ArgKind::DType)],
    relate: None,
    infer: Infer::Written,
    checks: &[tensor_checks::check_named_type],
    repair: None,
    lower: Lower::Instructions(lower_eye),
};

/// `TensorConstruct`.
pub const TENSOR_CONSTRUCT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "TensorConstruct",
        layout: OpLayout::OneLine(CallPadding::Tight),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes a tensor of an array of scalars, with an array for each axis after the first; of a scalar, one without axes.",
    args: &[ArgSpec::positional(AttrKey::Elements, ArgKind::Array)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lower_tensor_construct),
};

/// The extents of `full` are those of its result, as far as they are numbers.
fn check_full_extents(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some(AttrValue::Exprs(given)), Some(result)) = (op.attr(AttrKey::Extents), op.output_tensors().next()) else {
        return;
    };
    let axes = logical_axes(program, result);
    let stored: Vec<ExprId> = axes.stored_positions().iter().map(|&k| axes.axes[k as usize].extent).collect();
    let (name, tensor) = (quoted_op(program, id), program.quoted_tensor(result));
    let found = match given.len() == stored.len() {
        _ if axes.split => return,
        false => (
            codes::RANK,
            message!("`{}` makes {}, but `{}` has {}", name, count_text(given.len(), "axis"), tensor, stored.len()),
        ),
        true => match given.iter().zip(&stored).position(|(a, b)| are_unequal(program, *a, *b)) {
            None => return,
            Some(axis) => {
                let [made, has] = [given[axis], stored[axis]].map(|extent| quoted_expr(program, extent));
                (
                    codes::EXTENT,
                    message!(
                        "`{}` makes axis {} with {} elements, but in `{}` it has {}",
                        name,
                        axis,
                        made,
                        tensor,
                        has
                    ),
                )
            }
        },
    };
    diags.push(with_declaration(Diag::error(found.0, program.op_span(id), found.1), program, result, id));
}

/// Returns true for two different numbers.
fn are_unequal(program: &Program, a: ExprId, b: ExprId) -> bool {
    let [a, b] = [a, b].map(|extent| program.exprs().as_int(extent));
    a.zip(b).is_some_and(|(a, b)| a != b)
}

/// `full`: one value everywhere.
///
/// # Errors
/// If the value is missing or cannot be evaluated, the result has another shape, or it cannot be allocated.
pub fn lower_full(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let scalar = op.operands.iter().rev().find_map(|value| value.as_scalar());
    let Some(expr) = op.expr_attr(AttrKey::Fill).or(scalar) else {
        return Err(cx.error_here(codes::NEEDED, "the value of `full` is unknown"));
    };
    check_full_shape(cx, id, result)?;
    let value = cx.eval_scalar(expr)?;
    let dst = cx.output_view(result)?;
    cx.emit_inst(InstKind::Fill { dst: Box::new(dst), value })
}

/// The extents of `full` are those of its result for the sizes of a run, as far as they have values.
fn check_full_shape(cx: &mut PlanBuilder<'_>, id: OpId, result: TensorId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let Some(AttrValue::Exprs(given)) = op.attr(AttrKey::Extents) else { return Ok(()) };
    let made: Vec<Option<usize>> = given.iter().map(|&extent| cx.eval_size(extent).ok()).collect();
    let whole = cx.whole_shape(result)?;
    if made.len() != whole.len() || made.iter().zip(&whole).all(|(made, has)| made.is_none_or(|made| made == *has)) {
        return Ok(());
    }
    let made = made.iter().map(|extent| extent.map_or_else(|| "?".to_owned(), |extent| extent.to_string()));
    let made = made.collect::<Vec<String>>().join(", ");
    let (name, tensor) = (quoted_op(cx.program, id), cx.quoted_tensor(result));
    let shapes = message!("makes shape [{}], but {} has {}", made, tensor, format!("{whole:?}"));
    Err(cx.error_here(codes::SHAPES, message!("`{}` {}", name, shapes)))
}

/// `iota`: `start + i * step`, where `i` is the index in the whole tensor.
///
/// # Errors
/// If start or step cannot be evaluated, the result has another number of axes than one or of elements than the length, or
/// it cannot be allocated.
pub fn lower_iota(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let start = op.expr_attr(AttrKey::Start).map_or(Ok(ScalarValue::Int(0)), |expr| cx.eval_scalar(expr))?;
    let step = op.expr_attr(AttrKey::Step).map_or(Ok(ScalarValue::Int(1)), |expr| cx.eval_scalar(expr))?;
    let output = cx.output_view(result)?;
    if output.dims.len() != 1 {
        return Err(cx.error_here(codes::SHAPES, "the result of `iota` must have one axis"));
    }
    let length = op.expr_attr(AttrKey::Size).and_then(|size| cx.eval_size(size).ok());
    let whole = cx.whole_shape(result)?.first().copied();
    if let Some((length, whole)) = length.zip(whole).filter(|(length, whole)| length != whole) {
        let (name, tensor) = (quoted_op(cx.program, id), cx.quoted_tensor(result));
        let message = message!("`{}` makes {}, but {} has {}", name, count_text(length, "element"), tensor, whole);
        let note = "its arguments are the number of elements, the first value, the step and the type";
        return Err(cx.error_here(codes::SHAPES, message).with_note(note));
    }
    let dtype = output.dtype;
    let mut steps = IndexedSteps::default();
    let index = axis_index(cx, result, 0, &mut steps)?;
    let product = steps.push(Function::Mul, &[index, StepOperand::Const(step)], [dtype, dtype]);
    steps.push(Function::Add, &[product, StepOperand::Const(start)], [dtype, dtype]);
    emit_factory_kernel(cx, output, steps)
}

/// `eye`: whether the indices are equal.
///
/// # Errors
/// If the result is no matrix, the number of rows is unknown or another one, or the result cannot be allocated.
pub fn lower_eye(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let whole = cx.whole_shape(result)?;
    let rows = op.expr_attr(AttrKey::Size).map_or(Ok(0), |size| cx.eval_size(size))?;
    if whole.len() != 2 || whole[0] != rows {
        let (name, tensor) = (quoted_op(cx.program, id), cx.quoted_tensor(result));
        let message = message!("`{}` makes {} rows, but {} has shape {}", name, rows, tensor, format!("{whole:?}"));
        return Err(cx.error_here(codes::SHAPES, message).with_note("the result is a matrix of that many rows"));
    }
    let output = cx.output_view(result)?;
    let mut steps = IndexedSteps::default();
    let row = axis_index(cx, result, 0, &mut steps)?;
    let column = axis_index(cx, result, 1, &mut steps)?;
    let equal = steps.push(Function::Eq, &[row, column], [DType::Int, DType::Bool]);
    steps.push(Function::Cast, &[equal], [DType::Bool, output.dtype]);
    emit_factory_kernel(cx, output, steps)
}

/// `TensorConstruct`: one scalar after the other.
///
/// # Errors
/// If a scalar has no value, the result has another shape than the array, or it cannot be allocated.
fn lower_tensor_construct(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let array = match op.attr(AttrKey::Elements) {
        Some(AttrValue::Exprs(elements)) => cx.eval_array(elements)?,
        Some(AttrValue::Expr(elements)) => cx.eval_value(*elements)?,
        _ => return Err(cx.error_here(codes::NEEDED, "the scalars of the tensor are unknown")),
    };
    let (whole, found) = (cx.whole_shape(result)?, array.array_shape());
    let mut numbers = Vec::new();
    if found != whole || array.push_numbers(&whole, &mut numbers).is_none() {
        let (name, tensor) = (quoted_op(cx.program, id), cx.quoted_tensor(result));
        let shapes = message!("makes shape {}, but {} has {}", format!("{found:?}"), tensor, format!("{whole:?}"));
        let note = "arrays inside of an array have equal lengths";
        return Err(cx.error_here(codes::SHAPES, message!("`{}` {}", name, shapes)).with_note(note));
    }
    let (output, origin) = (cx.output_view(result)?, cx.shard_origin(result)?);
    for place in 0..output.len() {
        let (dst, index) = element_view(&output, place);
        let at =
            index.iter().zip(&origin).zip(&whole).fold(0, |at, ((index, first), extent)| at * extent + first + index);
        let Some(&value) = numbers.get(at) else { continue };
        cx.emit_inst(InstKind::Fill { dst: Box::new(dst), value })?;
    }
    Ok(())
}

/// The element at a place in row-major order, as a view without axes, and its index along each axis.
fn element_view(view: &BufferView, mut place: usize) -> (BufferView, Vec<usize>) {
    let mut index = vec![0; view.dims.len()];
    let mut offset = view.offset;
    for (dim, index) in view.dims.iter().zip(&mut index).rev() {
        *index = place % dim.extent.max(1);
        place /= dim.extent.max(1);
        offset += *index * dim.stride;
    }
    (BufferView { offset, dims: Default::default(), ..view.clone() }, index)
}

/// Makes a tensor by steps without inputs.
pub(super) fn emit_factory_kernel(
    cx: &mut PlanBuilder<'_>,
    output: BufferView,
    steps: IndexedSteps,
) -> Result<(), Diag> {
    let steps = steps.into_steps();
    cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs: SmallVec::new(), output, steps })))
}
