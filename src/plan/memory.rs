//! Lowering of ALLOCATE, Deallocate and of ops that bind a tensor to a part of another.

use super::{InstKind, Lowering, Scalar, View};
use crate::analysis::Axis;
use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{AttrKey, AttrValue, Op, OpId, ParallelType, TensorId};

/// Allocates a tensor unless it has memory already that it keeps.
pub fn lower_allocate(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let tensor = match op.attr(AttrKey::Buffer) {
        Some(AttrValue::Tensor(tensor)) => *tensor,
        _ => match op.output_tensors().chain(op.input_tensors()).next() {
            Some(tensor) => tensor,
            None => return Err(cx.error(codes::NEEDED, "ALLOCATE names no tensor")),
        },
    };
    if !cx.in_mesh(tensor) {
        return Ok(());
    }
    if op.keeps_memory() && cx.binding(tensor).is_some() {
        return Ok(());
    }
    let view = cx.allocate(tensor)?;
    if op.attr(AttrKey::ZeroInit) == Some(&AttrValue::Bool(true)) {
        cx.emit(InstKind::Fill { dst: view, value: Scalar::Int(0) })?;
    }
    Ok(())
}

/// Ends a tensor's binding.
pub fn lower_deallocate(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    for tensor in op.input_tensors().chain(op.output_tensors()) {
        if cx.binding(tensor).is_some() {
            cx.rebind(tensor, None)?;
        } else if cx.in_mesh(tensor) {
            let name = cx.name(tensor);
            return Err(cx.error(
                codes::NO_MEMORY_HERE,
                format!("{name} has no memory that could be freed"),
            ));
        }
    }
    Ok(())
}

/// The axis that a select names, among the logical axes of its input.
fn selected_axis(cx: &Lowering<'_>, op: &Op, input: TensorId) -> Result<Axis, Diag> {
    let axes = cx.axes.of(input);
    let found = match op.attr(AttrKey::Axis) {
        Some(AttrValue::Domain(domain)) => {
            let first = cx.program.tensor(input).domains_start;
            let printed = domain.0.checked_sub(first);
            let number = cx.program.domain(*domain).number;
            let by_place = axes.iter().find(|axis| Some(axis.printed) == printed);
            by_place
                .or_else(|| axes.iter().find(|axis| axis.number == number && number != u32::MAX))
        }
        Some(AttrValue::Expr(expr)) => {
            let position = cx.int(*expr)?;
            usize::try_from(position).ok().and_then(|position| axes.get(position))
        }
        _ => None,
    };
    found.copied().ok_or_else(|| {
        cx.error(
            codes::OUT_OF_RANGE,
            format!("the axis of the select is not an axis of {}", cx.name(input)),
        )
    })
}

/// Binds the result to one index of an axis of the operand.
pub fn lower_select(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand(op, 0)?, cx.result(op)?);
    let axis = selected_axis(cx, op, input)?;
    let source = cx.input(input)?;
    let view = match cx.stored_position(input, &axis) {
        None => source,
        Some(position) => {
            let by_device = axis.is_sharded() && cx.rank.is_some();
            let index = match op.expr(AttrKey::Index) {
                _ if axis.is_broadcast() || by_device => 0,
                Some(expr) => cx.int(expr)?,
                None => return Err(cx.error(codes::NEEDED, "the select has no index")),
            };
            select(cx, input, &source, position, index)?
        }
    };
    bind_part(cx, input, result, view)
}

fn select(
    cx: &Lowering<'_>,
    input: TensorId,
    source: &View,
    position: usize,
    index: i64,
) -> Result<View, Diag> {
    let dim = source.dims[position];
    let Some(index) = usize::try_from(index).ok().filter(|&index| index < dim.extent) else {
        let message = format!(
            "index {index} is out of range: axis {position} of {} has {} elements",
            cx.name(input),
            dim.extent
        );
        return Err(cx.error(codes::OUT_OF_RANGE, message));
    };
    let mut view = source.clone();
    view.dims.remove(position);
    view.offset += index * dim.stride;
    Ok(view)
}

/// Binds a result to a view after checking its shape.
fn bind_part(
    cx: &mut Lowering<'_>,
    input: TensorId,
    result: TensorId,
    view: View,
) -> Result<(), Diag> {
    let shape = cx.local_shape(result)?;
    if shape != view.shape() {
        return Err(cx.shape_error(result, &shape, input, &view.shape()));
    }
    cx.rebind(result, Some(view))
}

/// Binds the result to one slice of the operand's stream axis.
pub fn lower_shard_by_stream(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand(op, 0)?, cx.result(op)?);
    let position = cx.axes.stored(input).position(|axis| axis.parallel == ParallelType::Stream);
    let Some(position) = position else {
        let message = format!("{} has no stream axis to slice", cx.name(input));
        return Err(cx.error(codes::SPLIT_AXES, message));
    };
    cx.local_shape(result)?;
    let index = op.expr(AttrKey::StreamIndex).or_else(|| op.expr(AttrKey::Index));
    let Some(index) = index else {
        return Err(cx.error(codes::NEEDED, "no stream index is given"));
    };
    let (source, index) = (cx.input(input)?, cx.int(index)?);
    let mut view = select(cx, input, &source, position, index)?;
    if cx.axes.stored(result).count() == source.dims.len() {
        let stride = source.dims[position].stride;
        view.dims.insert(position, super::Dim { extent: 1, stride });
    }
    cx.rebind(result, Some(view))
}
