//! Lowering of ALLOCATE, Deallocate and ops that bind a tensor to a part of another.

use crate::axes::LogicalAxis;
use crate::diag::message;
use crate::diag::{Diag, Message, codes, count_text};
use crate::ir::{
    AttrKey, AttrValue, ExprId, Op, OpId, Program, TensorId, bare_head, depends_on_scalar, expr_text, quoted_type,
    short_expr_text,
};
use crate::ops::comm::emit_mesh_allgather;
use crate::ops::uneven_split::uneven_split;
use crate::plan::{BufferView, InstKind, PlanBuilder, ScalarValue, stream_part};

/// Allocates a tensor unless it keeps memory that it already has.
pub(super) fn lower_allocate(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let tensor = match op.attr(AttrKey::Buffer) {
        Some(AttrValue::Tensor(tensor)) => *tensor,
        _ => match op.output_tensors().chain(op.input_tensors()).next() {
            Some(tensor) => tensor,
            None => return Err(cx.error_here(codes::NEEDED, message!("the {} has no tensor", bare_head("ALLOCATE")))),
        },
    };
    if !cx.is_in_mesh(tensor) {
        return Ok(());
    }
    if let Some(original) = op.shared_memory() {
        return share_memory(cx, op, tensor, original);
    }
    if op.keeps_memory() && cx.tensor_binding(tensor).is_some() {
        return cx.keep_memory(tensor);
    }
    let view = if op.keeps_memory() { cx.allocate_kept(tensor)? } else { cx.allocate_tensor(tensor)? };
    if op.attr(AttrKey::ZeroInit) == Some(&AttrValue::Bool(true)) {
        cx.emit_inst(InstKind::Fill { dst: Box::new(view), value: ScalarValue::Int(0) })?;
    }
    Ok(())
}

/// ``B (8 elements of f32)``: a tensor with what a rank stores of it.
fn sized_tensor_text(cx: &PlanBuilder<'_>, tensor: TensorId, shape: &[usize]) -> Message {
    let elements = count_text(count_elements(shape), "element");
    message!("{} ({} of {} on a rank)", cx.quoted_tensor(tensor), elements, quoted_type(cx.tensor_dtype(tensor)))
}

/// Binds a tensor to the first elements of another one's memory.
fn share_memory(cx: &mut PlanBuilder<'_>, op: &Op, tensor: TensorId, original: TensorId) -> Result<(), Diag> {
    let (memory, shape) = (cx.input_view(original)?.stored_part(), cx.local_shape(tensor)?);
    let (have, need) = (memory.shape(), cx.stored_shape(tensor)?);
    if !memory.is_contiguous() {
        let message = format!(
            "{} cannot share the memory of {}, which is not contiguous",
            cx.tensor_name(tensor),
            cx.tensor_name(original)
        );
        return Err(cx
            .error_here(codes::ALIAS_SHAPE, message)
            .with_note("share the memory of a tensor that is not a slice, or of a slice of its first axis"));
    }
    if count_elements(&need) > count_elements(&have) || memory.dtype != cx.tensor_dtype(tensor) {
        let [part, whole] =
            [(tensor, &need[..]), (original, &have[..])].map(|(tensor, shape)| sized_tensor_text(cx, tensor, shape));
        let message = message!("{} does not fit into the memory of {}", part, whole);
        return Err(cx.error_here(codes::ALIAS_SHAPE, message).with_note(Message::advice(
            "omit `.alias=`, or name a tensor of the same type that is large enough",
            "write `alloc` for memory of its own, or share that of a tensor with the same element type that is large \
             enough",
        )));
    }
    if count_elements(&need) < count_elements(&have)
        && let Some(error) = uneven_split(cx, &[tensor])
    {
        return Err(error);
    }
    let view = BufferView { dims: cx.packed_dims(tensor, &shape), ..memory };
    cx.rebind_tensor(tensor, Some(view.clone()))?;
    if op.attr(AttrKey::ZeroInit) == Some(&AttrValue::Bool(true)) {
        cx.emit_inst(InstKind::Fill { dst: Box::new(view), value: ScalarValue::Int(0) })?;
    }
    Ok(())
}

/// The number of elements of a shape; the largest number if it overflows.
fn count_elements(shape: &[usize]) -> usize {
    shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent)).unwrap_or(usize::MAX)
}

/// Ends a tensor's binding.
pub(super) fn lower_deallocate(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    for tensor in op.input_tensors().chain(op.output_tensors()) {
        if cx.tensor_binding(tensor).is_some() {
            cx.end_tensor(tensor)?;
        } else if let Some(error) = cx.ended_error(tensor) {
            return Err(error);
        } else if cx.is_in_mesh(tensor) {
            let name = cx.tensor_name(tensor);
            return Err(cx.error_here(codes::NO_MEMORY_HERE, format!("{name} has no memory to free")));
        }
    }
    Ok(())
}

/// The axis that a select names, among the logical axes of its input.
fn selected_axis(cx: &PlanBuilder<'_>, op: &Op, input: TensorId) -> Result<LogicalAxis, Diag> {
    let axes = cx.axes.axes_of(input);
    let found = match op.attr(AttrKey::Axis) {
        Some(AttrValue::Domain(domain)) => {
            let first = cx.program.tensor(input).domains_start;
            let printed = domain.0.checked_sub(first);
            let number = cx.program.domain(*domain).number;
            let by_place = axes.iter().find(|axis| Some(axis.printed) == printed);
            by_place.or_else(|| {
                axes.iter().find(|axis| number.is_some() && axis.domain_number(cx.program, input) == number)
            })
        }
        Some(AttrValue::Expr(expr)) => {
            let position = cx.eval_int(*expr)?;
            usize::try_from(position).ok().and_then(|position| axes.get(position))
        }
        _ => None,
    };
    found.copied().ok_or_else(|| {
        cx.error_here(codes::OUT_OF_RANGE, format!("the selected axis is not an axis of {}", cx.tensor_name(input)))
    })
}

/// Binds the result to one index of an axis of the operand.
pub(super) fn lower_select(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let axis = selected_axis(cx, op, input)?;
    let source = cx.input_view(input)?;
    let view = match cx.stored_position(input, &axis) {
        None => source,
        Some(position) => {
            let by_device = axis.is_device_index() && cx.rank.is_some();
            let index = match op.expr_attr(AttrKey::Index) {
                _ if axis.is_broadcast() || by_device => 0,
                Some(expr) => cx.eval_int(expr)?,
                None => return Err(cx.error_here(codes::NEEDED, "the index of the select is missing")),
            };
            let view = select_view(cx, input, &source, position, index);
            view.map_err(|diag| match op.expr_attr(AttrKey::Index) {
                Some(expr) => {
                    let part = last_part_text(cx, input, position, [axis.extent, expr]);
                    let diag = with_index_range(cx, diag, [axis.extent, expr], index, &part);
                    cx.with_remainder_note(diag, expr, index)
                }
                None => diag,
            })?
        }
    };
    bind_subview(cx, input, result, view)
}

/// Adds to the error of an index the indices that its axis has, and the loop that goes on too long.
fn with_index_range(cx: &PlanBuilder<'_>, diag: Diag, [extent, index]: [ExprId; 2], value: i64, part: &str) -> Diag {
    let short = short_expr_text(cx.program, index);
    let mut indices = cx.loop_indices().iter().rev();
    let counted = indices.find(|(name, _)| depends_on_scalar(cx.program, index, *name));
    let printed = format!("indices go from 0 to {}", expr_text(cx.program, extent));
    diag.with_note(match counted {
        Some((name, at)) => {
            let name = cx.program.name(*name);
            let of_index = if short == name { String::new() } else { format!(" `{short}`") };
            let fault = match value < 0 {
                true => format!("is {value} at {name}={at}"),
                false => format!(
                    "leaves this range at {name}={at}; let the loop of `{name}` end before that, or change the index"
                ),
            };
            Message::advice(
                format!("{printed} - 1"),
                format!("indices go from 0, and the last one is `{part}`: the index{of_index} {fault}"),
            )
        }
        None => Message::advice(format!("{printed} - 1"), format!("indices go from 0, and the last one is `{part}`")),
    })
}

/// `V[:, n - 1]`: a part with the last index of an axis. The name of a part of a part has its own index, too, which the
/// last one replaces.
fn last_part_text(cx: &PlanBuilder<'_>, input: TensorId, position: usize, [extent, index]: [ExprId; 2]) -> String {
    let (name, last) = (cx.tensor_name(input), short_expr_text(cx.program, extent));
    let last = match last.parse::<i64>() {
        Ok(extent) => (extent - 1).to_string(),
        Err(_) => format!("{last} - 1"),
    };
    let own = short_expr_text(cx.program, index);
    let Some((base, items)) = name.split_once('[') else { return index_text(&name, position, &last) };
    let mut items: Vec<&str> = items.trim_end_matches(']').split(", ").collect();
    match items.iter().rposition(|item| *item == own) {
        Some(at) => {
            items[at] = &last;
            format!("{base}[{}]", items.join(", "))
        }
        None => index_text(&name, position, &last),
    }
}

/// `V[:, n - 1]`: a tensor with an index at an axis.
pub(super) fn index_text(name: &str, position: usize, index: &str) -> String {
    let (base, items) = match name.split_once('[') {
        Some((base, items)) => (base, items.trim_end_matches(']').split(", ").collect()),
        None => (name, Vec::new()),
    };
    let mut items: Vec<&str> = items;
    let mut open = position + 1;
    for item in &mut items {
        if *item == ":" {
            open -= 1;
            if open == 0 {
                *item = index;
                break;
            }
        }
    }
    while open > 1 {
        items.push(":");
        open -= 1;
    }
    if open == 1 {
        items.push(index);
    }
    format!("{base}[{}]", items.join(", "))
}

fn select_view(
    cx: &PlanBuilder<'_>,
    input: TensorId,
    source: &BufferView,
    position: usize,
    index: i64,
) -> Result<BufferView, Diag> {
    let dim = source.dims[position];
    let Some(index) = usize::try_from(index).ok().filter(|&index| index < dim.extent) else {
        let message = format!(
            "index {index} is out of range: axis {position} of {} has {} elements",
            cx.tensor_name(input),
            dim.extent
        );
        return Err(cx.error_here(codes::OUT_OF_RANGE, message));
    };
    let mut view = source.clone();
    view.dims.remove(position);
    view.offset += index * dim.stride;
    Ok(view)
}

/// Binds a result to a view after checking its shape.
fn bind_subview(cx: &mut PlanBuilder<'_>, input: TensorId, result: TensorId, view: BufferView) -> Result<(), Diag> {
    let shape = cx.local_shape(result)?;
    if shape != view.shape() {
        return Err(cx.shape_error(result, &shape, input, &view.shape()));
    }
    cx.check_repetition(result, &view)?;
    cx.rebind_tensor(result, Some(view))
}

/// Binds the result to one part of the operand's memory: of the stream axis of the result or of the operand. A part is
/// as long as the extent divided by the number of parts, rounded up; the last ones are shorter if that leaves a
/// remainder.
pub(super) fn lower_shard_by_stream(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let Some(stream) = cx.axes.stream_axis(result).or_else(|| cx.axes.stream_axis(input)) else {
        let (input, result) = (cx.tensor_name(input), cx.tensor_name(result));
        let message = format!("neither {result} nor {input} has a stream-parallel axis to shard");
        return Err(cx.error_here(codes::SPLIT_AXES, message).with_note(Message::advice(
            format!("write an axis of extent `i0` in 3 parts as `istreamIdx0{{3}}, iS1{{ceilDiv(i0, 3)}}` in {result}"),
            format!("write the axis over streams as `st:n` in the type of {result}, as in `{result}: f32[st:4, 3]`"),
        )));
    };
    cx.local_shape(result)?;
    let index = op.expr_attr(AttrKey::StreamIndex).or_else(|| op.expr_attr(AttrKey::Index));
    let Some(index) = index else {
        return Err(cx.error_here(codes::NEEDED, "the stream index is missing"));
    };
    let source = cx.input_view(input)?;
    let (mut view, position) = (source, stream.position);
    let Some(dim) = view.dims.get(position).copied() else {
        return Err(cx.shape_error(result, &cx.local_shape(result)?, input, &view.shape()));
    };
    let (start, length) = stream_part(cx, dim.extent, stream.parts, index)?;
    view.offset += start * dim.stride;
    view.dims[position].extent = length;
    if cx.axes.stored_axes(result).count() < view.dims.len() && length == 1 {
        view.dims.remove(position);
    }
    cx.check_repetition(result, &view)?;
    cx.rebind_tensor(result, Some(view))
}

/// Binds the result to the shards of all devices, one after the other. A run on whole tensors has them in one memory.
/// Else each rank gathers a copy, which shows what the view shows as long as nobody writes the shards or the view.
pub(super) fn lower_symmetric_view(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let outermost = cx.axes.stored_axes(input).next().is_some_and(|axis| axis.is_sharded());
    if !outermost {
        let message = message!("{} must be sharded along its first axis", cx.quoted_tensor(input));
        return Err(cx.error_here(codes::LAYOUT, message).with_note(Message::advice(
            "as in `T0_g_float[ideviceIdx.x0{2}, iS1{4}] (DeviceMesh{0 1})`",
            format!("as in `{}: f32[x:2, 4]`", cx.tensor_name(input)),
        )));
    }
    if cx.rank.is_none() {
        let view = cx.input_view(input)?;
        return bind_subview(cx, input, result, view);
    }
    if let Some(write) = find_later_write(cx.program, id, [input, result]) {
        let (input, result) = (cx.quoted_tensor(input), cx.quoted_tensor(result));
        let message = message!("{} shows the memory of {}, which is written after the view was made", result, input);
        let note = "make the view after the last write, or gather the shards with an Allgather where they are needed";
        let span = cx.program.op_span(write);
        return Err(cx.error_here(codes::STALE_VIEW, message).with_label(span, "written here").with_note(note));
    }
    emit_mesh_allgather(cx, input, result)
}

/// An op that writes one of two tensors when a view of the first one exists: after the op that makes the view, or, if
/// that op is in a loop, anywhere.
fn find_later_write(program: &Program, view: OpId, tensors: [TensorId; 2]) -> Option<OpId> {
    let memories = tensors.map(|tensor| program.memory_tensor(tensor));
    let in_loop = !program.block(program.body()).ops.contains(&view);
    let (mut made, mut found) = (in_loop, None);
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let writes = op.output_tensors().any(|tensor| memories.contains(&program.memory_tensor(tensor)));
        if made && id != view && writes && !op.kind.is_allocation() {
            found = found.or(Some(id));
        }
        made |= id == view;
    });
    found
}
