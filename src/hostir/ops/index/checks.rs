//! V39: requirements on an index tensor beyond paired axes: an integer type, an existing axis, and an operand that is
//! long enough.

use super::super::literals::check_literal;
use super::super::tensor_checks;
use super::SCATTER;
use crate::axes::logical_axes;
use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, ExprId, OpId, Program, TensorId, Value, quoted_op};

/// The tensors and the axis of a gather.
struct GatherAxes {
    input: TensorId,
    index: TensorId,
    result: TensorId,
    /// The selected axis, if it is a constant.
    dim: Option<i64>,
}

fn match_gather(program: &Program, id: OpId) -> Option<GatherAxes> {
    let op = program.op(id);
    let mut tensors = op.input_tensors();
    let (input, index) = (tensors.next()?, tensors.next()?);
    let dim = op.expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    Some(GatherAxes { input, index, result: op.output_tensors().next()?, dim })
}

/// Checks a gather: its indices are integers that select along one of the operand's axes, and elements keep their type.
pub(crate) fn check_gather(program: &Program, id: OpId, diags: &mut Diags) {
    let Some(GatherAxes { input, index, result, dim }) = match_gather(program, id) else { return };
    if !check_integer_index(program, id, index, diags) {
        return;
    }
    tensor_checks::check_equal_dtypes(program, id, input, result, diags);
    let rank = logical_axes(program, input).stored_positions().len();
    if let Some(dim) = dim.filter(|dim| !(0..rank as i64).contains(dim)) {
        let name = program.quoted_tensor(input);
        let message = message!("dimension {} does not exist: `{}` has rank {}", dim, name, rank);
        let diag = Diag::error(codes::DIM, program.op_span(id), message);
        diags.push(with_declaration(diag, program, input, id));
    }
}

/// Checks torchGather: in addition, the index is nowhere longer than the operand except along the selected axis, and
/// the result is as long as the index.
pub(crate) fn check_gather_fit(program: &Program, id: OpId, diags: &mut Diags) {
    check_gather(program, id, diags);
    let Some(GatherAxes { input, index, result, dim }) = match_gather(program, id) else { return };
    let sides = [stored_extents(program, input), stored_extents(program, index), stored_extents(program, result)];
    for (k, ((a, x), b)) in (0..).zip(sides[0].iter().zip(&sides[1]).zip(&sides[2])) {
        let [a, x, b] = [a, x, b].map(|&extent| program.exprs().as_int(extent));
        if let (Some(x), Some(a)) = (x, a)
            && x > a
            && dim != Some(k)
        {
            let need = "an index that is not longer than the operand";
            report_extent(program, id, need, k, [(index, x), (input, a)], diags);
        }
        if let (Some(x), Some(b)) = (x, b)
            && x != b
        {
            report_extent(program, id, EQUAL, k, [(index, x), (result, b)], diags);
        }
    }
}

/// scatter: the index has integers, the elements have one type, the result has the operand's shape, and the index is
/// nowhere longer than the source, nor than the result except along the chosen axis.
pub(crate) fn check_scatter(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let [Some(base), source, Some(index)] = ["in", "src", "idx"].map(|word| SCATTER.named_operand(op, word)) else {
        return;
    };
    let (Some(base), Some(index), Some(result)) = (base.as_tensor(), index.as_tensor(), op.output_tensors().next())
    else {
        return;
    };
    if !check_integer_index(program, id, index, diags) {
        return;
    }
    tensor_checks::check_equal_dtypes(program, id, base, result, diags);
    match source {
        Some(Value::Tensor(source)) => tensor_checks::check_equal_dtypes(program, id, source, result, diags),
        Some(Value::Scalar(number)) => check_literal(program, id, number, program.tensor(result).dtype, diags),
        _ => {}
    }
    let source = source.and_then(Value::as_tensor);
    check_scattered_extents(program, id, [base, index, result], source, diags);
}

/// The extents of a scatter's tensors.
fn check_scattered_extents(
    program: &Program,
    id: OpId,
    [base, index, result]: [TensorId; 3],
    source: Option<TensorId>,
    diags: &mut Diags,
) {
    let dim = program.op(id).expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let rank = stored_extents(program, index).len();
    let Some(dim) = dim.filter(|dim| (0..rank as i64).contains(dim)) else { return };
    for axis in 0..rank {
        let [from, own, to] = [base, index, result].map(|tensor| constant_extent(program, tensor, axis));
        let number = axis as i64;
        if let Some((own, most)) = own.zip(to).filter(|(own, most)| own > most && dim != number) {
            let need = "an index that is not longer than the result";
            report_extent(program, id, need, number, [(index, own), (result, most)], diags);
        }
        let most = source.and_then(|source| Some((source, constant_extent(program, source, axis)?)));
        if let Some((own, (source, most))) = own.zip(most).filter(|(own, (_, most))| own > most) {
            let need = "an index that is not longer than the source";
            report_extent(program, id, need, number, [(index, own), (source, most)], diags);
        }
        // Links compare the other axes.
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| dim == number && from != to) {
            report_extent(program, id, EQUAL, number, [(base, from), (result, to)], diags);
        }
    }
}

/// indexPutAccumulate: integers name rows, and the result has the operand's.
pub(crate) fn check_index_put(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let mut tensors = op.input_tensors();
    let (Some(base), Some(index), Some(value), Some(result)) =
        (tensors.next(), tensors.next(), tensors.next(), op.output_tensors().next())
    else {
        return;
    };
    if !check_integer_index(program, id, index, diags) {
        return;
    }
    tensor_checks::check_equal_dtypes(program, id, base, result, diags);
    tensor_checks::check_equal_dtypes(program, id, value, result, diags);
    if let (Some(from), Some(to)) = (constant_extent(program, base, 0), constant_extent(program, result, 0))
        && from != to
    {
        report_extent(program, id, EQUAL, 0, [(base, from), (result, to)], diags);
    }
    if constant_extent(program, index, 1).is_some_and(|extent| extent != 1) {
        let name = program.quoted_tensor(index);
        let message = message!("the second axis of index `{}` must have extent 1", name);
        let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
        diags.push(with_declaration(diag, program, index, id).with_note("write an index as `[n]` or `[n, 1]`"));
    }
}

/// The extent of a stored axis, if it is a constant.
fn constant_extent(program: &Program, tensor: TensorId, axis: usize) -> Option<i64> {
    stored_extents(program, tensor).get(axis).and_then(|&extent| program.exprs().as_int(extent))
}

/// The extents of the stored axes; `None` for unknown ones.
fn stored_extents(program: &Program, tensor: TensorId) -> Vec<ExprId> {
    let axes = logical_axes(program, tensor);
    if axes.split {
        return Vec::new();
    }
    axes.stored_positions().iter().map(|&k| axes.axes[k as usize].extent).collect()
}

/// Checks that an index has integers. Returns false after an error: what else is wrong often follows from it.
pub(super) fn check_integer_index(program: &Program, id: OpId, index: TensorId, diags: &mut Diags) -> bool {
    tensor_checks::check_index_type(program, id, index, "index", diags)
}

const EQUAL: &str = "equal extents";

/// Two constant extents that do not fit.
fn report_extent(
    program: &Program,
    id: OpId,
    need: &str,
    axis: i64,
    [(a, x), (b, y)]: [(TensorId, i64); 2],
    diags: &mut Diags,
) {
    let name = quoted_op(program, id);
    let (first, second) = (program.quoted_tensor(a), program.quoted_tensor(b));
    let message =
        message!("`{}` needs {}, but axis {} of `{}` has {} and of `{}` {}", name, need, axis, first, x, second, y);
    let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
    diags.push(with_declaration(with_declaration(diag, program, a, id), program, b, id));
}
