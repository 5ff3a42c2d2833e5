//! V35: ranges of a slice. Repairs of unequal extents.

use crate::axes::logical_axes;
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes, message};
use crate::ir::{AttrKey, AttrValue, OffsetExpr, OpId, Program, expr_text};
use crate::ops::tensor_checks::constant_extents;

/// V35: constant ranges of a slice run forwards and stay inside their axes.
pub(crate) fn check_slice_ranges(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(AttrValue::Ranges(ranges)) = op.attr(AttrKey::Ranges) else { return };
    let Some(input) = op.input_tensors().next() else { return };
    let axes = logical_axes(program, input);
    for (range, k) in ranges.iter().zip(axes.stored_positions()) {
        let [start, stop, step] = range.map(|expr| program.exprs().as_int(expr));
        let extent = program.exprs().as_int(axes.axes[k as usize].extent);
        let backwards = matches!((start, stop), (Some(start), Some(stop)) if start > stop);
        let outside = matches!((stop, extent), (Some(stop), Some(extent)) if stop > extent);
        if backwards || outside || start.is_some_and(|s| s < 0) || step.is_some_and(|s| s <= 0) {
            let written: Vec<String> = range.iter().map(|expr| expr_text(program, *expr)).collect();
            let written = written.join(", ");
            let range = Quoted::spelled(PartKind::Scalar, format!("{{{written}}}"), format!("[{written}]"));
            let message = message!(
                "the range {} of axis {} of `{}` is not within the axis",
                range,
                k,
                program.tensor_name(input)
            );
            let diag = Diag::error(codes::RANGES, program.op_span(id), message);
            diags.push(match extent {
                Some(extent) => {
                    diag.with_note(message!("the axis has {} elements; a range is start, stop and step", extent))
                }
                None => diag,
            });
        }
    }
}

/// The repair if the operands of a `cat` make up its result along another axis.
pub(super) fn cat_repair(program: &Program, id: OpId) -> Option<Message> {
    let op = program.op(id);
    let inputs: Vec<Vec<Option<i64>>> = op.input_tensors().map(|tensor| constant_extents(program, tensor)).collect();
    let result = constant_extents(program, op.output_tensors().next()?);
    let axis = (0..result.len()).find(|axis| make_up(&inputs, &result, *axis))?;
    let names: Vec<Message> = op.input_tensors().map(|tensor| message!("{}", program.quoted_tensor(tensor))).collect();
    Some(message!("along axis {} they make up the result: `cat({}, {})`", axis, Message::join(&names, ", "), axis))
}

/// Returns true if the extents of the inputs along an axis are those of the result in sum, and equal along the others.
fn make_up(inputs: &[Vec<Option<i64>>], result: &[Option<i64>], axis: usize) -> bool {
    let sum = inputs.iter().map(|input| input.get(axis).copied().flatten()).sum::<Option<i64>>();
    let mut others = (0..result.len()).filter(|other| *other != axis);
    sum.is_some() && sum == result[axis] && others.all(|k| inputs.iter().all(|input| input.get(k) == result.get(k)))
}

/// The shape that the widths of a `pad` make.
pub(super) fn pad_repair(program: &Program, id: OpId) -> Option<Message> {
    let op = program.op(id);
    let (input, Some(AttrValue::Exprs(widths))) = (op.input_tensors().next()?, op.attr(AttrKey::Widths)) else {
        return None;
    };
    let axes = logical_axes(program, input);
    let extents = axes.stored_positions().into_iter().zip(widths.chunks_exact(2)).map(|(k, pair)| {
        let [before, after] = [pair[0], pair[1]].map(|width| program.exprs().as_int(width));
        let extent = axes.axes.get(k as usize)?.extent;
        Some(OffsetExpr::of_sum(program, extent, before?.checked_add(after?)?).short_text(program))
    });
    let extents = extents.collect::<Option<Vec<String>>>()?.join(", ");
    let name = program.quoted_tensor(input);
    Some(message!(
        "the widths are those before and after each axis, the first axis first: these make `[{}]` of `{}`",
        extents,
        name
    ))
}

/// The axes that an `expand` needs.
pub(super) fn expand_repair(program: &Program, id: OpId) -> Option<Message> {
    let op = program.op(id);
    let [from, to] =
        [op.input_tensors().next()?, op.output_tensors().next()?].map(|tensor| program.quoted_tensor(tensor));
    Some(message!("an axis that repeats is `b.1` in the type of `{}`, and `b.1 ex n` in that of `{}`", from, to))
}
