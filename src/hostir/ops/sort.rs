//! `argsort` and `topk`: rows in order, as PyTorch's functions of these names. NaN is the largest number; equal elements
//! keep their order.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec, UsualValue};
use super::tensor_checks;
use crate::axes::logical_axes;
use crate::axes::pairing::{LinkResult, LinkSide, equal_rank_positions, link_kept_positions, operand_side};
use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, AxisLink, CallPadding, DType, IterDomain, IterType, Op, OpId, OpIdentity, OpLayout,
    ParallelType, Program, TensorId, quoted_op,
};
use crate::ops::result_types::{TensorType, TypeList, is_plain, stored_domains};
use crate::plan::{
    BufferView, InstKind, PlanBuilder, RowCall, RowElements, RowFunction, RowValues, RowsInst, ScalarValue,
};
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;

/// `true` for the largest elements first.
const DESCENDING: AttrKey = AttrKey::Own(0);
/// `true` if equal elements must keep their order; they always do.
const STABLE: AttrKey = AttrKey::Own(1);
/// `true` for the largest elements, `false` for the smallest.
const LARGEST: AttrKey = AttrKey::Own(0);
/// `true` if the selected elements must be in order; they always are.
const SORTED: AttrKey = AttrKey::Own(1);

/// `argsort`.
pub const ARGSORT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "argsort",
        layout: OpLayout::OneLine(CallPadding::Padded),
        reshapes: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes the positions of an axis's elements in sorted order.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::spaced("descending", DESCENDING, ArgKind::CapitalBool).with_usual(UsualValue::Flag(false)),
        ArgSpec::spaced("stable", STABLE, ArgKind::CapitalBool).with_usual(UsualValue::Flag(false)),
    ],
    relate: Some(link_other_axes),
    infer: Infer::Result(infer_argsort),
    checks: &[tensor_checks::check_dim_argument, check_positions],
    repair: None,
    lower: Lower::Instructions(lower_argsort),
};

/// `topk`.
pub const TOPK: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "topk",
        layout: OpLayout::ResultTuple,
        results: 2,
        reshapes: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Selects the largest or smallest elements of an axis: their values and positions.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::positional(AttrKey::Count, ArgKind::Expr),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::spaced("largest", LARGEST, ArgKind::CapitalBool).with_usual(UsualValue::Flag(true)),
        ArgSpec::spaced("sorted", SORTED, ArgKind::CapitalBool).with_usual(UsualValue::Flag(true)),
    ],
    relate: Some(link_other_axes),
    infer: Infer::Results(infer_topk),
    checks: &[tensor_checks::check_dim_argument, check_positions, check_topk],
    repair: None,
    lower: Lower::Instructions(lower_topk),
};

/// The number of the axis along which an op works, if it is a constant.
fn axis_number(program: &Program, op: &Op) -> Option<i64> {
    op.expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim))
}

/// argsort, topk, scan: all axes but the one along which the op works, with those of each result.
pub(super) fn link_other_axes(program: &Program, id: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let from = operand_side(program, id, 0)?;
    let dim = axis_number(program, program.op(id));
    for result in program.op(id).output_tensors() {
        let to = LinkSide::new(program, result);
        let Some((a, b)) = equal_rank_positions(program, id, &from, &to)? else { continue };
        if let Some(dim) = dim.filter(|dim| (0..a.len() as i64).contains(dim)) {
            link_kept_positions(&from, &to, &a, &b, links, |k| dim != k as i64);
        }
    }
    Ok(())
}

/// The operand's axes, positions as elements.
fn infer_argsort(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let ty = TensorType::of_copy(program, *operands.first()?);
    Some(TensorType { dtype: DType::Int, ..ty })
}

/// The operand's axes, but as many elements as are selected along the one of the selection.
fn infer_topk(program: &Program, op: &Op) -> Option<TypeList> {
    let operand = op.input_tensors().next().filter(|&operand| is_plain(program, operand))?;
    let mut domains = stored_domains(program, operand);
    let dim = usize::try_from(axis_number(program, op)?).ok()?;
    *domains.get_mut(dim)? = IterDomain::new(IterType::Iteration, ParallelType::Serial, op.expr_attr(AttrKey::Count)?);
    let values = TensorType::with_domains_of(program, operand, domains);
    let positions = TensorType { dtype: DType::Int, ..values.clone() };
    Some(smallvec![values, positions])
}

/// The last result has positions, which are integers; others have the operand's elements.
fn check_positions(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let results: SmallVec<[TensorId; 2]> = op.output_tensors().collect();
    let (Some(operand), Some((&positions, values))) = (op.input_tensors().next(), results.split_last()) else {
        return;
    };
    for &value in values {
        tensor_checks::check_equal_dtypes(program, id, operand, value, diags);
    }
    tensor_checks::check_index_type(program, id, positions, "positions", diags);
}

/// The selected elements exist, and the results have as many.
fn check_topk(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let count = op.expr_attr(AttrKey::Count).and_then(|count| program.exprs().as_int(count));
    let dim = axis_number(program, op).and_then(|dim| usize::try_from(dim).ok());
    let (Some(count), Some(dim), Some(operand)) = (count, dim, op.input_tensors().next()) else { return };
    let name = quoted_op(program, id);
    if let Some(extent) = constant_extent(program, operand, dim)
        && !(0..=extent).contains(&count)
    {
        let tensor = program.quoted_tensor(operand);
        let message =
            message!("`{}` selects {} of the {} elements of axis {} of `{}`", name, count, extent, dim, tensor);
        let diag = Diag::error(codes::TOP_COUNT, program.op_span(id), message);
        diags.push(with_declaration(diag, program, operand, id).with_note("select at most all elements of the axis"));
        return;
    }
    for result in op.output_tensors() {
        let Some(extent) = constant_extent(program, result, dim).filter(|&extent| extent != count) else { continue };
        let tensor = program.quoted_tensor(result);
        let message =
            message!("`{}` selects {} elements, but axis {} of `{}` has {}", name, count, dim, tensor, extent);
        let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
        diags.push(with_declaration(diag, program, result, id));
    }
}

/// The extent of a stored axis, if it is a constant.
fn constant_extent(program: &Program, tensor: TensorId, axis: usize) -> Option<i64> {
    let axes = logical_axes(program, tensor);
    let at = *axes.stored_positions().get(axis).filter(|_| !axes.split)?;
    program.exprs().as_int(axes.axes[at as usize].extent)
}

/// The operand of an op along one axis.
struct RowAxis {
    tensor: TensorId,
    view: BufferView,
    axis: usize,
}

impl RowAxis {
    fn new(cx: &PlanBuilder<'_>, op: &Op) -> Result<Self, Diag> {
        let tensor = cx.operand_tensor(op, 0)?;
        let Some(dim) = op.expr_attr(AttrKey::Dim) else {
            return Err(cx.error_here(codes::NEEDED, "the axis of the op is not known"));
        };
        let (axis, view) = (cx.eval_size(dim)?, cx.input_view(tensor)?);
        if axis >= view.dims.len() {
            let message = message!("{} has no axis {}", cx.quoted_tensor(tensor), axis);
            return Err(cx.error_here(codes::SHAPES, message));
        }
        if view.dtype.is_complex() {
            let message = message!("{} is complex, and complex numbers have no order", cx.quoted_tensor(tensor));
            return Err(cx.error_here(codes::COMPLEX_FUNCTION, message));
        }
        Ok(Self { tensor, view, axis })
    }

    /// Appends the instruction for one result.
    fn emit(
        &self,
        cx: &mut PlanBuilder<'_>,
        function: &'static RowFunction,
        result: SortedResult,
        flag: bool,
    ) -> Result<(), Diag> {
        let output = cx.output_view(result.tensor)?;
        let mut shape = self.view.shape();
        shape[self.axis] = result.extent;
        if output.shape() != shape {
            return Err(cx.shape_error(self.tensor, &shape, result.tensor, &output.shape()));
        }
        let rows = RowsInst {
            function,
            result: result.number,
            batch_axes: shape.len() - 1,
            inputs: smallvec![axis_last(&self.view, self.axis)],
            arguments: smallvec![ScalarValue::Bool(flag)],
            output: axis_last(&output, self.axis),
        };
        cx.emit_inst(InstKind::Rows(Box::new(rows)))
    }
}

/// One result of an op.
struct SortedResult {
    /// Its number among those of the op.
    number: usize,
    tensor: TensorId,
    /// Its number of elements along the axis.
    extent: usize,
}

/// The view with an axis in the last place.
fn axis_last(view: &BufferView, axis: usize) -> BufferView {
    let mut turned = view.clone();
    let dim = turned.dims.remove(axis);
    turned.dims.push(dim);
    turned
}

fn flag(op: &Op, key: AttrKey) -> bool {
    op.attr(key) == Some(&AttrValue::Bool(true))
}

fn lower_argsort(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let rows = RowAxis::new(cx, op)?;
    let result = SortedResult { number: 0, tensor: cx.result_tensor(op)?, extent: rows.view.dims[rows.axis].extent };
    rows.emit(cx, &ARGSORT_ROW, result, flag(op, DESCENDING))
}

fn lower_topk(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let rows = RowAxis::new(cx, op)?;
    let Some(count) = op.expr_attr(AttrKey::Count) else {
        return Err(cx.error_here(codes::NEEDED, "the number of elements to select is not known"));
    };
    let (count, extent) = (cx.eval_size(count)?, rows.view.dims[rows.axis].extent);
    if count > extent {
        let message = message!(
            "`topk` selects {} of the {} elements of axis {} of {}",
            count,
            extent,
            rows.axis,
            cx.quoted_tensor(rows.tensor)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    for (number, tensor) in op.output_tensors().enumerate() {
        rows.emit(cx, &TOPK_ROW, SortedResult { number, tensor, extent: count }, flag(op, LARGEST))?;
    }
    Ok(())
}

static ARGSORT_ROW: RowFunction = RowFunction { name: "argsort", compute: argsort_row };
static TOPK_ROW: RowFunction = RowFunction { name: "topk", compute: topk_row };

fn argsort_row(call: &RowCall<'_>) -> Result<RowValues, String> {
    Ok(RowValues::Integers(to_positions(&sorted_positions(call)?)))
}

/// Result 0 has the values, result 1 the positions.
fn topk_row(call: &RowCall<'_>) -> Result<RowValues, String> {
    let mut positions = sorted_positions(call)?;
    positions.truncate(call.shape.iter().product());
    if call.result == 1 {
        return Ok(RowValues::Integers(to_positions(&positions)));
    }
    Ok(match call.operands[0].elements {
        RowElements::Reals(values) => RowValues::Reals(positions.iter().map(|&at| values[at]).collect()),
        RowElements::Integers(values) => RowValues::Integers(positions.iter().map(|&at| values[at]).collect()),
    })
}

fn to_positions(places: &[usize]) -> Vec<i64> {
    places.iter().map(|&at| at as i64).collect()
}

/// The positions of a row's elements in ascending order, or in descending order if the op's argument is true. Equal
/// elements keep their order in both.
fn sorted_positions(call: &RowCall<'_>) -> Result<Vec<usize>, String> {
    let ([operand], [descending]) = (call.operands, call.arguments) else {
        return Err("a sort has one operand and one argument".to_owned());
    };
    let mut positions: Vec<usize> = (0..operand.elements.len()).collect();
    let descending = descending.as_bool();
    match operand.elements {
        RowElements::Reals(values) => {
            positions.sort_by(|&a, &b| in_direction(order_of(values[a], values[b]), descending))
        }
        RowElements::Integers(values) => {
            positions.sort_by(|&a, &b| in_direction(values[a].cmp(&values[b]), descending))
        }
    }
    Ok(positions)
}

fn in_direction(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

/// The order of reals: NaN after all numbers, and equal to other NaN.
fn order_of(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
