//! `embedding`: the rows of a table that an index tensor selects, as PyTorch's `embedding`.
//!
//! Arguments that concern gradients alone (`padding_idx`, `scale_grad_by_freq`, `sparse`) changes nothing here; the gradient of
//! the table is an `indexPutAccumulate`. With `max_norm`, rows of a larger norm are scaled down to it in the result;
//! PyTorch changes the table, too.

use super::checks::check_integer_index;
use super::lowering::check_index_types;
use crate::axes::logical_axes;
use crate::axes::pairing::{AxisMismatch, LinkResult, has_split_axis, link_pairs, operand_side, result_side};
use crate::diag::message;
use crate::diag::{Diag, Diags, codes, count_text};
use crate::ir::places::with_declaration;
use crate::ir::{ArgumentsEnd, AttrKey, AxisLink, DType, Op, OpId, OpIdentity, OpLayout, Program, TensorId, quoted_op};
use crate::ops::real_kernel::{RealKernel, real};
use crate::ops::result_types::{TensorType, stored_domains};
use crate::ops::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec, UsualValue};
use crate::ops::tensor_checks::{check_equal_dtypes, swapped_index};
use crate::plan::{
    BufferView, Function, InstKind, PlanBuilder, RedOp, ReduceInst, ReductionFold, TakeInst, ViewDim, constant_value,
};
use smallvec::smallvec;

/// The row whose gradient is zero.
const PADDING: AttrKey = AttrKey::Own(0);
/// The largest norm of a row.
const MAX_NORM: AttrKey = AttrKey::Own(1);
/// The exponent of the norm.
const NORM_TYPE: AttrKey = AttrKey::Own(2);
/// True if the gradient is divided by the frequency of a row.
const BY_FREQUENCY: AttrKey = AttrKey::Own(3);
/// True if the gradient is stored as sparse.
const SPARSE: AttrKey = AttrKey::Own(4);

/// `embedding`.
pub const EMBEDDING: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "embedding",
        layout: OpLayout::ArgumentLines(ArgumentsEnd::Closed),
        reshapes: true,
        indexed: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Takes the rows of a table that an index tensor selects, scaled down to `max_norm` if it is given. The other attributes concern gradients.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("padding_idx", PADDING, ArgKind::Expr).optional(),
        ArgSpec::spaced("max_norm", MAX_NORM, ArgKind::Expr).optional(),
        ArgSpec::spaced("norm_type", NORM_TYPE, ArgKind::Expr).with_usual(UsualValue::Double("2")),
        ArgSpec::spaced("scale_grad_by_freq", BY_FREQUENCY, ArgKind::Expr).with_usual(UsualValue::False),
        ArgSpec::spaced("sparse", SPARSE, ArgKind::Expr).with_usual(UsualValue::False),
    ],
    relate: Some(link_embedding),
    infer: Infer::Result(infer_embedding),
    checks: &[check_embedding],
    repair: None,
    lower: Lower::Instructions(lower_embedding),
};

/// `[..]` of a table `[V, E]` -> `[.., E]`. A norm is one of a whole row.
fn link_embedding(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (index, table, out) = (operand_side(program, op, 0)?, operand_side(program, op, 1)?, result_side(program, op)?);
    if swapped_index(program, op, index.tensor).is_some() || has_split_axis(&[&index, &table, &out]) {
        return Ok(());
    }
    let (x, a, b) = (index.stored_positions(), table.stored_positions(), out.stored_positions());
    let name = quoted_op(program, op);
    for (side, need, found) in [(&table, 2, a.len()), (&out, x.len() + 1, b.len())] {
        if found != need {
            let message = message!(
                "`{}` needs {} in `{}`, but it has {}",
                name,
                count_text(need, "axis"),
                program.quoted_tensor(side.tensor),
                found
            );
            let note = "an index `[..]` and a table `[rows, elements]` give `[.., elements]`";
            return Err(AxisMismatch { code: codes::RANK, message, note: note.into(), tensor: Some(side.tensor) });
        }
    }
    link_pairs(&index, &out, &x, &b, links);
    if program.op(op).attr(MAX_NORM).is_none() {
        link_pairs(&table, &out, &a[1..], &b[x.len()..], links);
    }
    Ok(())
}

fn infer_embedding(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let &[index, table, ..] = operands else { return None };
    let mut domains = stored_domains(program, index);
    domains.push(*stored_domains(program, table).get(1)?);
    Some(TensorType::with_domains_of(program, table, domains))
}

/// Checks that indices are integers, elements keep their type, and the row without a gradient is one of the table.
fn check_embedding(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let mut operands = op.input_tensors();
    let (Some(index), Some(table), Some(out)) = (operands.next(), operands.next(), op.output_tensors().next()) else {
        return;
    };
    if !check_integer_index(program, id, index, diags) {
        return;
    }
    check_equal_dtypes(program, id, table, out, diags);
    let axes = logical_axes(program, table);
    let rows = axes.stored_positions().first().and_then(|&row| program.exprs().as_int(axes.axes[row as usize].extent));
    let padding = op.expr_attr(PADDING).and_then(|expr| constant_value(program, expr));
    let (Some(rows), Some(padding)) = (rows.filter(|_| !axes.split), padding) else { return };
    let padding = padding.as_i64();
    if !(-rows..rows).contains(&padding) {
        let name = program.quoted_tensor(table);
        let message = message!("`padding_idx` is {}, but `{}` has {} rows", padding, name, rows);
        let diag = Diag::error(codes::PADDING_ROW, program.op_span(id), message);
        let note = "rows count from 0; a negative number counts from the end";
        diags.push(with_declaration(diag, program, table, id).with_note(note));
    }
}

/// A take of rows, and with `max_norm` their norms.
fn lower_embedding(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (index, table, result) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?);
    check_index_types(cx, index, &[table, result])?;
    let (mut places, rows, mut output) = (cx.input_view(index)?, cx.input_view(table)?, cx.output_view(result)?);
    let elements = rows.dims.last().copied().unwrap_or(ViewDim { extent: 1, stride: 0 });
    let need = [places.shape().as_slice(), &[elements.extent]].concat();
    if rows.dims.len() != 2 || output.shape() != need {
        return Err(cx.shape_error(table, &rows.shape(), result, &output.shape()));
    }
    if places.dims.is_empty() {
        let unit = ViewDim { extent: 1, stride: 0 };
        places.dims.push(unit);
        output.dims.insert(0, unit);
    }
    let axis = places.dims.len() - 1;
    places.dims.push(ViewDim { stride: 0, ..elements });
    let mut input = rows;
    let repeated = output.dims[..axis].iter().map(|dim| ViewDim { stride: 0, ..*dim });
    input.dims.insert_many(0, repeated);
    let take = TakeInst { input, index: places, axis, output: output.clone() };
    cx.emit_inst(InstKind::Take(Box::new(take)))?;
    match op.expr_attr(MAX_NORM) {
        Some(most) => {
            let most = cx.eval_scalar(most)?.as_f64();
            emit_largest_norm(cx, op, result, output, most)
        }
        None => Ok(()),
    }
}

/// The number that PyTorch adds to a norm before it divides by it.
const NORM_MARGIN: f64 = 1e-7;

/// Scales rows with a norm above `most` down to it.
fn emit_largest_norm(
    cx: &mut PlanBuilder<'_>,
    op: &Op,
    result: TensorId,
    rows: BufferView,
    most: f64,
) -> Result<(), Diag> {
    let exponent = op.expr_attr(NORM_TYPE).map_or(Ok(2.0), |expr| cx.eval_scalar(expr).map(|value| value.as_f64()))?;
    if !rows.dtype.is_float() || exponent.is_nan() || exponent <= 0.0 {
        let message = message!("`max_norm` with a norm of type {} is not supported in a run", format!("{exponent}"));
        let note = "elements must be real numbers, and `norm_type` positive or infinite";
        return Err(cx.error_here(codes::CANNOT_RUN, message).with_note(note));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let compute = if rows.dtype == DType::Double { DType::Double } else { DType::Float };
    let shape = rows.shape();
    let (&elements, outer) = shape.split_last().unwrap_or((&1, &[]));
    let powers = cx.new_scratch(result, &shape, compute)?;
    let norms = cx.new_scratch(result, outer, compute)?;
    let mut steps = RealKernel::new(compute);
    let element = steps.input(rows.clone());
    let size = steps.apply_function(Function::Abs, [element]);
    if exponent.is_finite() {
        steps.apply_function(Function::Pow, [size, real(exponent)]);
    }
    steps.emit(cx, powers.clone())?;
    let fold: ReductionFold = if exponent.is_finite() { RedOp::Sum } else { RedOp::Max }.into();
    cx.emit_inst(InstKind::Reduce(Box::new(ReduceInst {
        op: fold,
        axes: smallvec![outer.len()],
        input: powers.clone(),
        output: norms.clone(),
    })))?;
    let mut steps = RealKernel::new(compute);
    let element = steps.input(rows.clone());
    let mut along = norms.clone();
    along.dims.push(ViewDim { extent: elements, stride: 0 });
    let mut norm = steps.input(along);
    if exponent.is_finite() {
        norm = steps.apply_function(Function::Pow, [norm, real(1.0 / exponent)]);
    }
    let above = steps.compare(Function::Gt, [norm, real(most)]);
    let divisor = steps.apply_function(Function::Add, [norm, real(NORM_MARGIN)]);
    let scale = steps.apply_function(Function::Div, [real(most), divisor]);
    let scale = steps.choose(above, [scale, real(1.0)]);
    steps.apply_function(Function::Mul, [element, scale]);
    steps.emit(cx, rows)?;
    cx.free_scratch(&powers)?;
    cx.free_scratch(&norms)
}
