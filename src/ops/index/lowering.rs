//! Ops that read or write where an index tensor says: their instructions and their lowering.

use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, Op, OpId, TensorId};
use crate::plan::{Accumulate, Dim, InstKind, PlanBuilder, Take, View, expanded};

/// The view repeated along its axes of extent 1 to the shape, but as it is along `axis`.
fn along(view: &View, axis: usize, shape: &[usize]) -> Option<View> {
    let mut wanted = shape.to_vec();
    *wanted.get_mut(axis)? = view.dims.get(axis)?.extent;
    expanded(view, &wanted).filter(|_| view.dims.len() == shape.len())
}

/// The operands and the result of a gather, and its axis.
struct Gather {
    input: (TensorId, View),
    index: (TensorId, View),
    axis: usize,
    result: TensorId,
}

impl Gather {
    fn new(cx: &PlanBuilder<'_>, op: &Op) -> Result<Self, Diag> {
        let (input, index) = (cx.operand(op, 0)?, cx.operand(op, 1)?);
        let result = cx.result(op)?;
        let Some(dim) = op.expr(AttrKey::Dim) else {
            return Err(cx.error(codes::NEEDED, "the axis of the index is not known"));
        };
        let axis = cx.size(dim)?;
        check_types(cx, index, &[input, result])?;
        let views = (cx.input(input)?, cx.input(index)?);
        if axis >= views.0.dims.len() {
            let message = format!("{} has no axis {axis}", cx.name(input));
            return Err(cx.error(codes::SHAPES, message));
        }
        Ok(Self { input: (input, views.0), index: (index, views.1), axis, result })
    }

    /// Appends the instruction. The index is broadcast to the result's shape, the input along the other axes.
    fn emit(self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let output = cx.output(self.result)?;
        let shape = output.shape();
        let misfit = |(tensor, view): &(TensorId, View)| {
            cx.shape_error(*tensor, &view.shape(), self.result, &shape)
        };
        let input = along(&self.input.1, self.axis, &shape).ok_or_else(|| misfit(&self.input))?;
        let index = expanded(&self.index.1, &shape).ok_or_else(|| misfit(&self.index))?;
        cx.emit(InstKind::Take(Box::new(Take { input, index, axis: self.axis, output })))
    }
}

/// Indices are integers, and elements are only moved or added to others of their type.
fn check_types(cx: &PlanBuilder<'_>, index: TensorId, others: &[TensorId]) -> Result<(), Diag> {
    if !cx.dtype(index).is_index() {
        let found = cx.dtype(index).name();
        let message = format!("{} is `{found}`; an index is `int` or `int64_t`", cx.name(index));
        return Err(cx.error(codes::SHAPES, message));
    }
    let differs = |pair: &&[TensorId]| cx.dtype(pair[0]) != cx.dtype(pair[1]);
    let Some(pair) = others.windows(2).find(differs) else { return Ok(()) };
    let of = |tensor| format!("{} is `{}`", cx.name(tensor), cx.dtype(tensor).name());
    let message = format!("{} and {}; they need one type", of(pair[0]), of(pair[1]));
    Err(cx.error(codes::SHAPES, message))
}

/// `indexSelect`: the index has one axis, which takes the place of the chosen one.
pub(super) fn lower_index_select(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let mut gather = Gather::new(cx, op)?;
    let (input, index) = (&gather.input, &mut gather.index.1);
    if index.dims.len() != 1 {
        return Err(cx.shape_error(gather.index.0, &index.shape(), input.0, &input.1.shape()));
    }
    let behind = input.1.dims.len() - 1 - gather.axis;
    index.dims.extend(std::iter::repeat_n(Dim { extent: 1, stride: 0 }, behind));
    gather.emit(cx)
}

/// `takeAlongAxis`: input and index broadcast against each other along the other axes.
pub(super) fn lower_take_along_axis(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let gather = Gather::new(cx, op)?;
    same_rank(cx, &gather)?;
    gather.emit(cx)
}

/// `torchGather`: the result has the index's shape; of the input's other axes the first elements are read.
pub(super) fn lower_torch_gather(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let mut gather = Gather::new(cx, op)?;
    same_rank(cx, &gather)?;
    let shape = gather.index.1.shape();
    let input = &mut gather.input.1;
    for (axis, (dim, &extent)) in input.dims.iter_mut().zip(&shape).enumerate() {
        // What is too short stays and does not fit: nothing is broadcast here.
        if axis != gather.axis && dim.extent < extent {
            let full = gather.input.1.shape();
            return Err(cx.shape_error(gather.index.0, &shape, gather.input.0, &full));
        }
        if axis != gather.axis {
            dim.extent = extent;
        }
    }
    gather.emit(cx)
}

fn same_rank(cx: &PlanBuilder<'_>, gather: &Gather) -> Result<(), Diag> {
    let (input, index) = (&gather.input, &gather.index);
    if input.1.dims.len() == index.1.dims.len() {
        return Ok(());
    }
    Err(cx.shape_error(index.0, &index.1.shape(), input.0, &input.1.shape()))
}

/// `indexPutAccumulate`: an index `[n]` or `[n, 1]`, and a value of `n` rows.
pub(super) fn lower_index_put_accumulate(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let tensors = [cx.operand(op, 0)?, cx.operand(op, 1)?, cx.operand(op, 2)?];
    let result = cx.result(op)?;
    let [base, index, value] = tensors;
    check_types(cx, index, &[base, value, result])?;
    let (added, mut places, from) = (cx.input(value)?, cx.input(index)?, cx.input(base)?);
    let output = cx.output(result)?;
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
    let put = Accumulate { base: from, index: places, value: added, output };
    cx.emit(InstKind::Accumulate(Box::new(put)))
}
