//! Lowering of ops that change a tensor's shape; all of them copy.

use crate::diag::{Diag, Message, codes, message};
use crate::ir::{AttrKey, AttrValue, DType, ExprId, Op, OpId, TensorId, quoted_type};
use crate::ops::uneven_split::uneven_split;
use crate::plan::{
    BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, ScalarValue, StepOperand, ViewDim,
    ViewDims, emit_copy, emit_copy_to_result, expanded_view,
};

fn op_flags(cx: &PlanBuilder<'_>, op: &Op) -> Result<Vec<bool>, Diag> {
    match op.attr(AttrKey::Flags) {
        Some(AttrValue::Bools(flags)) => Ok(flags.to_vec()),
        _ => Err(cx.error_here(codes::NEEDED, "the flags are unknown")),
    }
}

/// `broadcast`: new axes of extent 1 where a flag is set.
pub(super) fn lower_broadcast(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    let flags = op_flags(cx, op)?;
    if flags.iter().filter(|&&new| !new).count() != source.dims.len() {
        let message = format!(
            "the flags leave {} axes, but {} has {}",
            flags.iter().filter(|&&new| !new).count(),
            cx.tensor_name(input),
            source.dims.len()
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    let mut old = source.dims.iter();
    let unit = ViewDim { extent: 1, stride: 0 };
    let dims = flags.iter().map(|&new| if new { unit } else { *old.next().unwrap_or(&unit) });
    let dims = dims.collect();
    emit_copy_to_result(cx, input, BufferView { dims, ..source }, result)
}

/// `squeeze`: drops the axes of extent 1 where a flag is set.
pub(super) fn lower_squeeze(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    let flags = op_flags(cx, op)?;
    if flags.len() != source.dims.len() {
        let message = message!(
            "`squeeze` needs a flag for each of the {} axes of {}, but has {}",
            source.dims.len(),
            cx.quoted_tensor(input),
            flags.len()
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    if let Some(axis) = flags.iter().zip(&source.dims).position(|(&drop, dim)| drop && dim.extent != 1) {
        let (name, extent) = (cx.quoted_tensor(input), source.dims[axis].extent);
        let message = message!("`squeeze` removes axes of extent 1, but axis {} of {} has {}", axis, name, extent);
        let note = "write `false` for an axis that stays; `reduction` sums over one";
        return Err(cx.error_here(codes::SHAPES, message).with_note(note));
    }
    let kept = source.dims.iter().zip(&flags).filter(|(_, drop)| !**drop).map(|(dim, _)| *dim);
    let dims = kept.collect();
    emit_copy_to_result(cx, input, BufferView { dims, ..source }, result)
}

/// `expand`: axes of extent 1 repeated.
pub(super) fn lower_expand(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    emit_copy_to_result(cx, input, source, result)
}

/// `repeat`: each axis of the result is a multiple of the operand's, which follows itself.
pub(super) fn lower_repeat(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    let output = cx.output_view(result)?;
    let pairs = source.dims.iter().zip(&output.dims);
    let counts: Option<Vec<usize>> = pairs.map(|(from, to)| repeat_count(from.extent, to.extent)).collect();
    let Some(counts) = counts.filter(|_| source.dims.len() == output.dims.len()) else {
        let error = cx.shape_error(input, &source.shape(), result, &output.shape());
        return Err(error.with_note("each extent of the result must be a multiple of the operand's"));
    };
    // Two axes for each: over the repetitions, which the operand repeats, and over its elements.
    let [mut src, mut dst] = [source.clone(), output.clone()].map(|view| BufferView { dims: ViewDims::new(), ..view });
    for ((from, to), count) in source.dims.iter().zip(&output.dims).zip(counts) {
        src.dims.extend([ViewDim { extent: count, stride: 0 }, *from]);
        dst.dims.extend([
            ViewDim { extent: count, stride: to.stride * from.extent },
            ViewDim { extent: from.extent, stride: to.stride },
        ]);
    }
    emit_copy(cx, src, dst)
}

/// The number of times that an extent is repeated to give another one.
fn repeat_count(from: usize, to: usize) -> Option<usize> {
    match to.checked_rem(from) {
        Some(0) => Some(to / from),
        None if to == 0 => Some(1),
        _ => None,
    }
}

/// `view_as_scalar`: the real parts, then the imaginary parts, each into its index of the last axis.
pub(super) fn lower_view_as_scalar(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let parts = match cx.tensor_dtype(input) {
        DType::ComplexFloat => DType::Float,
        DType::ComplexDouble => DType::Double,
        other => {
            let name = cx.quoted_tensor(input);
            let message = message!("`view_as_scalar` needs complex numbers, but {} is {}", name, quoted_type(other));
            return Err(cx.error_here(codes::CANNOT_RUN, message));
        }
    };
    let (source, output) = (cx.input_view(input)?, cx.output_view(result)?);
    let expected: Vec<usize> = source.shape().into_iter().chain([2]).collect();
    if expected != output.shape() || output.dtype != parts {
        return Err(cx.shape_error(input, &expected, result, &output.shape()));
    }
    for (place, function) in [Function::Real, Function::Imag].into_iter().enumerate() {
        let mut output = output.clone();
        output.offset += place * output.dims.pop().map_or(0, |dim| dim.stride);
        let args = [StepOperand::Input(0)].into_iter().collect();
        let steps = vec![KernelStep { function, args, compute: source.dtype, result: parts }];
        let inputs = [source.clone()].into_iter().collect();
        cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps })))?;
    }
    Ok(())
}

/// `view`: the same elements in row-major order under the result's shape.
pub(super) fn lower_view(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    check_view_sharding(cx, input, result)?;
    let dst = cx.output_view(result)?;
    let (source, stored) = without_repetition(source, dst.clone());
    let shape = source.shape();
    let Some(reshaped) = stored.reshaped_to(&shape) else {
        let [from, to] = [&shape, &dst.shape()].map(|shape| shape.iter().product::<usize>());
        let error = cx.shape_error(input, &shape, result, &dst.shape());
        let error = if from == to { error } else { error.with_note(element_counts(cx, [input, result], [from, to])) };
        return Err(uneven_split(cx, &[result, input]).unwrap_or(error));
    };
    emit_copy(cx, source, reshaped)
}

/// `A has 12 elements, B 15`
fn element_counts(cx: &PlanBuilder<'_>, [a, b]: [TensorId; 2], [first, second]: [usize; 2]) -> Message {
    message!("{} has {} elements, {} has {}", cx.quoted_tensor(a), first, cx.quoted_tensor(b), second)
}

/// The stored elements of both sides of a view, without the axes that both repeat at the same place.
fn without_repetition(mut source: BufferView, mut dst: BufferView) -> (BufferView, BufferView) {
    let (mut before, mut place) = (1usize, 0);
    for axis in 0..dst.dims.len() {
        let extent = dst.dims[axis].extent;
        let mut skipped = source.dims[..place].iter().map(|dim| dim.extent).product::<usize>();
        while place < source.dims.len() && (skipped < before || source.dims[place].extent == 1) {
            skipped *= source.dims[place].extent;
            place += 1;
        }
        let same = source.dims.get(place).is_some_and(|dim| skipped == before && dim.extent == extent);
        if same && dst.dims[axis].repeats_element() && source.dims[place].repeats_element() {
            source.dims[place].extent = 1;
            dst.dims[axis].extent = 1;
            continue;
        }
        before *= extent;
    }
    (source, dst)
}

/// Checks that device axes stay in place: only then is a rank's shard of a view the view of its shard. An axis on one
/// device has one shard, wherever it is.
fn check_view_sharding(cx: &PlanBuilder<'_>, input: TensorId, result: TensorId) -> Result<(), Diag> {
    if cx.rank.is_none() {
        return Ok(());
    }
    if sharded_places(cx, input)? != sharded_places(cx, result)? {
        let message = format!(
            "the view moves elements of {} between devices: {} is not sharded along the same axis",
            cx.tensor_name(input),
            cx.tensor_name(result)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    Ok(())
}

/// The sharded axes of a tensor, each with the number of elements of the axes before it.
fn sharded_places(cx: &PlanBuilder<'_>, tensor: TensorId) -> Result<Vec<(crate::ir::ParallelType, usize)>, Diag> {
    let mut before = 1usize;
    let mut found = Vec::new();
    for axis in cx.axes.stored_axes(tensor) {
        let extent = if axis.is_broadcast() { 1 } else { cx.eval_size(axis.extent)? };
        if axis.is_sharded() && extent != 1 {
            found.push((axis.parallel, before));
        }
        before = before.saturating_mul(extent);
    }
    Ok(found)
}

/// `slice`: a range of each axis, clamped to its extent.
pub(super) fn lower_slice(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let mut view = cx.input_view(input)?;
    let Some(AttrValue::Ranges(ranges)) = op.attr(AttrKey::Ranges) else {
        return Err(cx.error_here(codes::NEEDED, "the ranges of the slice are unknown"));
    };
    if ranges.len() != view.dims.len() {
        let message = format!(
            "the slice has {} ranges for the {} axes of {}",
            ranges.len(),
            view.dims.len(),
            cx.tensor_name(input)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    let sharded: Vec<bool> = cx.axes.stored_axes(input).map(|axis| axis.is_device_index()).collect();
    let cut: Vec<bool> = cx.axes.stored_axes(input).map(|axis| cx.rank.is_some() && axis.parts.is_some()).collect();
    for (axis, range) in ranges.iter().enumerate() {
        if sharded[axis] && cx.rank.is_some() {
            continue;
        }
        if cut[axis] && !is_whole_axis(cx, input, axis, range)? {
            let name = cx.tensor_name(input);
            let message = format!("the slice takes a range of axis {axis} of {name}, which is spread over devices");
            return Err(cx
                .error_here(codes::CANNOT_RUN, message)
                .with_note("gather the axis first, or slice along another one"));
        }
        if cut[axis] && cx.rank.is_some() {
            continue;
        }
        let [start, stop, step] = [cx.eval_int(range[0])?, cx.eval_int(range[1])?, cx.eval_int(range[2])?];
        let extent = view.dims[axis].extent as i64;
        if step < 1 {
            return Err(
                cx.error_here(codes::OUT_OF_RANGE, format!("the step of a slice must be positive, but is {step}"))
            );
        }
        let (start, stop) = (clamp_bound(start, extent), clamp_bound(stop, extent));
        let count = (stop - start).max(0) as usize;
        // A step past the end takes one element, like a step of the whole extent.
        let step = step.min(extent.max(1)) as usize;
        view.offset += start as usize * view.dims[axis].stride;
        view.dims[axis].extent = count.div_ceil(step);
        view.dims[axis].stride *= step;
    }
    let (made, found) = (view.shape(), cx.output_view(result)?.shape());
    if expanded_view(&view, &found).is_none() {
        return Err(cx.result_shape_error(&made, result, &found));
    }
    emit_copy_to_result(cx, input, view, result)
}

/// Returns true if a range covers the whole axis of a tensor.
fn is_whole_axis(cx: &PlanBuilder<'_>, tensor: TensorId, axis: usize, range: &[ExprId; 3]) -> Result<bool, Diag> {
    let Some(extent) = cx.axes.stored_axes(tensor).nth(axis).map(|axis| axis.extent) else { return Ok(false) };
    let [start, stop, step] = [cx.eval_int(range[0])?, cx.eval_int(range[1])?, cx.eval_int(range[2])?];
    Ok(start == 0 && step == 1 && stop >= cx.eval_int(extent)?)
}

/// The bound of a slice as an index of the axis: negative ones count from the end.
fn clamp_bound(value: i64, extent: i64) -> i64 {
    let value = if value < 0 { value.saturating_add(extent) } else { value };
    value.clamp(0, extent)
}

/// `pad`: widths are (before, after) pairs from the outermost axis; the default value is 0.
pub(super) fn lower_pad(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    let Some(AttrValue::Exprs(widths)) = op.attr(AttrKey::Widths) else {
        return Err(cx.error_here(codes::NEEDED, "the widths of the pad are unknown"));
    };
    if widths.len() != 2 * source.dims.len() {
        let message = message!(
            "`pad` needs {} widths, one before and one after each axis of {}, but has {}",
            2 * source.dims.len(),
            cx.quoted_tensor(input),
            widths.len()
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    let value = op.expr_attr(AttrKey::Fill).map_or(Ok(ScalarValue::Int(0)), |expr| cx.eval_scalar(expr))?;
    let mut pads = Vec::new();
    for (pair, dim) in widths.chunks_exact(2).zip(&source.dims) {
        let [before, after] = [cx.eval_int(pair[0])?, cx.eval_int(pair[1])?];
        let total = (dim.extent as i64).saturating_add(before).saturating_add(after).max(0);
        pads.push((before, total));
    }
    let output = cx.output_view(result)?;
    let expected: Vec<usize> = pads.iter().map(|&(_, total)| total as usize).collect();
    if expected != output.shape() {
        return Err(cx.result_shape_error(&expected, result, &output.shape()));
    }
    let (src, dst) = padded_views(source, output.clone(), &pads);
    cx.emit_inst(InstKind::Fill { dst: Box::new(output), value })?;
    emit_copy(cx, src, dst)
}

/// The elements that a pad keeps, in its input and in its result. `pads` are the width before each axis and the axis's
/// extent in the result; negative widths truncate.
fn padded_views(mut src: BufferView, mut dst: BufferView, pads: &[(i64, i64)]) -> (BufferView, BufferView) {
    for (axis, &(before, total)) in pads.iter().enumerate() {
        let extent = src.dims[axis].extent as i64;
        let (skip, shift) = (before.saturating_neg().clamp(0, extent), before.clamp(0, total));
        let kept = (extent - skip).min(total - shift) as usize;
        src.offset += skip as usize * src.dims[axis].stride;
        dst.offset += shift as usize * dst.dims[axis].stride;
        src.dims[axis].extent = kept;
        dst.dims[axis].extent = kept;
    }
    (src, dst)
}

/// `cat`: tensors one after the other along an axis.
pub(super) fn lower_cat(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let Some(dim) = op.expr_attr(AttrKey::Dim) else {
        return Err(cx.error_here(codes::NEEDED, "the axis of the cat is unknown"));
    };
    let axis = cx.eval_size(dim)?;
    let inputs: Vec<TensorId> = op.input_tensors().collect();
    let mut sources = Vec::new();
    for &input in &inputs {
        sources.push(cx.input_view(input)?);
    }
    let output = cx.output_view(result)?;
    let mut start = 0;
    for (&input, source) in inputs.iter().zip(sources) {
        let mut shape = output.shape();
        let extent = source.dims.get(axis).map_or(usize::MAX, |dim| dim.extent);
        let room = output.dims.get(axis).map_or(0, |dim| dim.extent);
        if extent > room.saturating_sub(start) {
            return Err(cx.shape_error(input, &source.shape(), result, &shape));
        }
        shape[axis] = extent;
        if shape != source.shape() {
            return Err(cx.shape_error(input, &source.shape(), result, &output.shape()));
        }
        let mut part = output.clone();
        part.offset += start * part.dims[axis].stride;
        part.dims[axis].extent = extent;
        start += extent;
        emit_copy(cx, source, part)?;
    }
    if output.dims.get(axis).map(|dim| dim.extent) != Some(start) {
        let message =
            format!("the operands together have extent {start} along axis {axis}, unlike {}", cx.tensor_name(result));
        return Err(cx.error_here(codes::SHAPES, message));
    }
    Ok(())
}
