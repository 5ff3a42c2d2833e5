//! Lowering of ops that read or write elements selected by an index tensor.

use super::SCATTER;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, DType, Op, OpId, TensorId, Value, quoted_type};
use crate::plan::{AccumulateInst, BufferView, InstKind, PlanBuilder, RedOp, TakeInst, ViewDim, expanded_view};

/// The view with its axes of extent 1 repeated to the shape, except along `axis`.
fn broadcast_except_axis(view: &BufferView, axis: usize, shape: &[usize]) -> Option<BufferView> {
    let mut wanted = shape.to_vec();
    *wanted.get_mut(axis)? = view.dims.get(axis)?.extent;
    expanded_view(view, &wanted).filter(|_| view.dims.len() == shape.len())
}

/// The operands and the result of a gather, and its axis.
struct GatherOperands {
    input: (TensorId, BufferView),
    index: (TensorId, BufferView),
    axis: usize,
    result: TensorId,
}

impl GatherOperands {
    fn new(cx: &PlanBuilder<'_>, op: &Op) -> Result<Self, Diag> {
        let (input, index) = (cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?);
        let result = cx.result_tensor(op)?;
        let Some(dim) = op.expr_attr(AttrKey::Dim) else {
            return Err(cx.error_here(codes::NEEDED, "the axis of the index is unknown"));
        };
        let axis = cx.eval_size(dim)?;
        check_index_types(cx, index, &[input, result])?;
        let views = (cx.input_view(input)?, cx.input_view(index)?);
        if axis >= views.0.dims.len() {
            let message = format!("{} has no axis {axis}", cx.tensor_name(input));
            return Err(cx.error_here(codes::SHAPES, message));
        }
        Ok(Self { input: (input, views.0), index: (index, views.1), axis, result })
    }

    /// Appends the instruction. The index is broadcast to the result's shape, the input along the other axes.
    fn emit_take(self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let output = cx.output_view(self.result)?;
        let shape = output.shape();
        let misfit =
            |(tensor, view): &(TensorId, BufferView)| cx.shape_error(*tensor, &view.shape(), self.result, &shape);
        let input = broadcast_except_axis(&self.input.1, self.axis, &shape).ok_or_else(|| misfit(&self.input))?;
        let index = expanded_view(&self.index.1, &shape).ok_or_else(|| misfit(&self.index))?;
        cx.emit_inst(InstKind::Take(Box::new(TakeInst { input, index, axis: self.axis, output })))
    }
}

/// Checks that indices are integers, and that elements are moved or added to others of their type.
pub(super) fn check_index_types(cx: &PlanBuilder<'_>, index: TensorId, others: &[TensorId]) -> Result<(), Diag> {
    if !cx.tensor_dtype(index).is_index() {
        let found = quoted_type(cx.tensor_dtype(index));
        let message = message!(
            "{} is `{}`; an index must be `{}` or `{}`",
            cx.quoted_tensor(index),
            found,
            quoted_type(DType::Int32),
            quoted_type(DType::Int)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    let differing = others.windows(2).find(|pair| cx.tensor_dtype(pair[0]) != cx.tensor_dtype(pair[1]));
    let Some(pair) = differing else { return Ok(()) };
    let [one, other] = [pair[0], pair[1]]
        .map(|tensor| message!("{} is `{}`", cx.quoted_tensor(tensor), quoted_type(cx.tensor_dtype(tensor))));
    let message = message!("{} and {}; they need one type", one, other);
    Err(cx.error_here(codes::SHAPES, message))
}

/// `indexSelect`: the index has one axis, which replaces the selected one.
pub(super) fn lower_index_select(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let mut gather = GatherOperands::new(cx, op)?;
    let (input, index) = (&gather.input, &mut gather.index.1);
    if index.dims.len() != 1 {
        return Err(cx.shape_error(gather.index.0, &index.shape(), input.0, &input.1.shape()));
    }
    let after = input.1.dims.len() - 1 - gather.axis;
    index.dims.extend(std::iter::repeat_n(ViewDim { extent: 1, stride: 0 }, after));
    gather.emit_take(cx)
}

/// `takeAlongAxis`: input and index broadcast against each other along the other axes.
pub(super) fn lower_take_along_axis(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let gather = GatherOperands::new(cx, op)?;
    check_same_rank(cx, &gather)?;
    gather.emit_take(cx)
}

/// `torchGather`: the result has the index's shape; of the input's other axes the first elements are read.
pub(super) fn lower_torch_gather(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let mut gather = GatherOperands::new(cx, op)?;
    check_same_rank(cx, &gather)?;
    let shape = gather.index.1.shape();
    let input = &mut gather.input.1;
    for (axis, (dim, &extent)) in input.dims.iter_mut().zip(&shape).enumerate() {
        // An axis that is too short does not fit: nothing is broadcast here.
        if axis != gather.axis && dim.extent < extent {
            let full = gather.input.1.shape();
            return Err(cx.shape_error(gather.index.0, &shape, gather.input.0, &full));
        }
        if axis != gather.axis {
            dim.extent = extent;
        }
    }
    gather.emit_take(cx)
}

fn check_same_rank(cx: &PlanBuilder<'_>, gather: &GatherOperands) -> Result<(), Diag> {
    let (input, index) = (&gather.input, &gather.index);
    if input.1.dims.len() == index.1.dims.len() {
        return Ok(());
    }
    Err(cx.shape_error(index.0, &index.1.shape(), input.0, &input.1.shape()))
}

/// `indexPutAccumulate`: an index `[n]` or `[n, 1]`, and a value of `n` rows.
pub(super) fn lower_index_put_accumulate(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let tensors = [cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.operand_tensor(op, 2)?];
    let result = cx.result_tensor(op)?;
    let [base, index, value] = tensors;
    check_index_types(cx, index, &[base, value, result])?;
    let (added, mut places, from) = (cx.input_view(value)?, cx.input_view(index)?, cx.input_view(base)?);
    let output = cx.output_view(result)?;
    if from.shape() != output.shape() || output.dims.is_empty() {
        return Err(cx.shape_error(base, &from.shape(), result, &output.shape()));
    }
    let column = places.dims.len() == 2 && places.dims[1].extent == 1;
    if column {
        places.dims.truncate(1);
    }
    let mut shape = output.shape();
    shape[0] = added.dims.first().map_or(0, |dim| dim.extent);
    if added.shape() != shape {
        return Err(cx.shape_error(value, &added.shape(), result, &output.shape()));
    }
    if places.shape() != shape[..1] {
        return Err(cx.shape_error(index, &places.shape(), value, &shape));
    }
    let rest = shape[1..].iter().map(|&extent| ViewDim { extent, stride: 0 });
    places.dims.extend(rest);
    let put = AccumulateInst { base: from, index: places, value: added, axis: 0, combine: Some(RedOp::Sum), output };
    cx.emit_inst(InstKind::Accumulate(Box::new(put)))
}

/// `scatter`: of the value's elements, those with an index are written.
pub(super) fn lower_scatter(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (operand, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let (Some(source), Some(index)) = (SCATTER.named_operand(op, "src"), SCATTER.named_operand(op, "idx")) else {
        return Err(cx.error_here(codes::NEEDED, "the source and the index of the scatter are not known"));
    };
    let (Some(index), Some(dim)) = (index.as_tensor(), op.expr_attr(AttrKey::Dim)) else {
        return Err(cx.error_here(codes::NEEDED, "the index and the axis of the scatter are not known"));
    };
    let mut tensors = vec![operand, result];
    tensors.extend(source.as_tensor());
    check_index_types(cx, index, &tensors)?;
    let (axis, base, places) = (cx.eval_size(dim)?, cx.input_view(operand)?, cx.input_view(index)?);
    let output = cx.output_view(result)?;
    if base.shape() != output.shape() {
        return Err(cx.shape_error(operand, &base.shape(), result, &output.shape()));
    }
    let combine = match op.word_attr(AttrKey::ReduceOp).map(|word| cx.program.name(word)) {
        None => None,
        Some(word) => Some(RedOp::parse(word).ok_or_else(|| {
            cx.error_here(codes::CANNOT_RUN, format!("a scatter with `{word}` is not supported in a run"))
        })?),
    };
    let (value, scratch) = scattered_value(cx, source, index, result, &places)?;
    let put = AccumulateInst { base, index: places, value, axis, combine, output };
    if !put.has_fitting_shapes() {
        return Err(cx.shape_error(index, &put.index.shape(), result, &put.output.shape()));
    }
    cx.emit_inst(InstKind::Accumulate(Box::new(put)))?;
    scratch.map_or(Ok(()), |memory| cx.free_scratch(&memory))
}

/// An element for each index: the first ones of a tensor along every axis, or a number, which needs memory.
fn scattered_value(
    cx: &mut PlanBuilder<'_>,
    source: Value,
    index: TensorId,
    result: TensorId,
    places: &BufferView,
) -> Result<(BufferView, Option<BufferView>), Diag> {
    let shape = places.shape();
    if let Some(tensor) = source.as_tensor() {
        let mut value = cx.input_view(tensor)?;
        let full = value.shape();
        if full.len() != shape.len() || full.iter().zip(&shape).any(|(own, needed)| own < needed) {
            return Err(cx.shape_error(index, &shape, tensor, &full));
        }
        value.dims.iter_mut().zip(&shape).for_each(|(dim, &extent)| dim.extent = extent);
        return Ok((value, None));
    }
    let Some(number) = source.as_scalar() else {
        return Err(cx.error_here(codes::NEEDED, "the source of the scatter has no value"));
    };
    let value = cx.eval_scalar(number)?;
    let one = cx.new_scratch(result, &[1], cx.tensor_dtype(result))?;
    cx.emit_inst(InstKind::Fill { dst: Box::new(one.clone()), value })?;
    let dims = shape.iter().map(|&extent| ViewDim { extent, stride: 0 }).collect();
    Ok((BufferView { dims, ..one.clone() }, Some(one)))
}
