//! Axis links of ops that change the shape of a tensor.

use crate::axes::pairing::{
    AxisMismatch, AxisPositions, ChosenAxes, LinkResult, LinkSide, both_sides, equal_rank_positions, has_same_extent,
    has_split_axis, link_copy, link_equal_lists, link_kept_positions, link_pairs, result_side,
};
use crate::diag::message;
use crate::diag::{Message, codes, count_text};
use crate::ir::{AttrKey, AttrValue, AxisLink, DType, Op, OpId, Program, TensorId, quoted_op};
use smallvec::SmallVec;

/// The flags of a broadcast or squeeze.
pub(super) fn axis_flags(op: &Op) -> Option<&[bool]> {
    match op.attr(AttrKey::Flags)? {
        AttrValue::Bools(flags) => Some(flags),
        _ => None,
    }
}

/// Pairs the axes without a flag of `flagged` with those of `plain`, forwards or backwards.
fn link_by_flags(program: &Program, op: OpId, flagged: &LinkSide, axes: &[u32]) -> Result<AxisPositions, AxisMismatch> {
    let flags = axis_flags(program.op(op)).unwrap_or_default();
    if flags.len() != axes.len() {
        let name = quoted_op(program, op);
        let tensor = program.quoted_tensor(flagged.tensor);
        return Err(AxisMismatch {
            code: codes::FLAGS,
            message: message!(
                "`{}` has {}, but `{}` has {}",
                name,
                count_text(flags.len(), "flag"),
                tensor,
                count_text(axes.len(), "axis")
            ),
            note: "write one flag for each axis".into(),
            tensor: Some(flagged.tensor),
        });
    }
    Ok(axes.iter().zip(flags).filter(|(_, flag)| !**flag).map(|(k, _)| *k).collect())
}

/// broadcast: the operand's axes are the result's without a flag.
pub(super) fn link_broadcast(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    let kept = link_by_flags(program, op, &to, &to.stored_positions())?;
    link_equal_lists(
        program,
        op,
        ChosenAxes { side: &from, axes: &from.stored_positions() },
        ChosenAxes { side: &to, axes: &kept },
        links,
    )
}

/// squeeze: the result's axes are the operand's without a flag.
pub(super) fn link_squeeze(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    let kept = link_by_flags(program, op, &from, &from.stored_positions())?;
    link_equal_lists(
        program,
        op,
        ChosenAxes { side: &from, axes: &kept },
        ChosenAxes { side: &to, axes: &to.stored_positions() },
        links,
    )
}

/// expand: position by position; an expanded broadcast stays a broadcast.
pub(super) fn link_expand(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    link_copy(program, op, links)
}

/// repeat: the axes whose extent stays.
pub(super) fn link_repeat(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    link_kept_positions(&from, &to, &a, &b, links, |k| has_same_extent(&from, &to, a[k], b[k]));
    Ok(())
}

/// view_as_scalar: the leading axes; the result has one more. Of operands other than complex numbers, whose elements a
/// program cannot describe, those of equal extents.
pub(super) fn link_view_as_scalar(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    let (a, b) = (from.stored_positions(), to.stored_positions());
    if matches!(program.tensor(from.tensor).dtype, DType::ComplexFloat | DType::ComplexDouble) {
        let lead = &b[..b.len().saturating_sub(1)];
        let (from, to) = (ChosenAxes { side: &from, axes: &a }, ChosenAxes { side: &to, axes: lead });
        return link_equal_lists(program, op, from, to, links);
    }
    let pairs = a.iter().zip(&b);
    let lead = pairs.take_while(|(x, y)| has_same_extent(&from, &to, **x, **y)).count();
    link_pairs(&from, &to, &a[..lead], &b[..lead], links);
    Ok(())
}

/// view: leading and trailing axes of equal extents.
pub(super) fn link_view(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    let (a, b) = (from.stored_positions(), to.stored_positions());
    let shorter = a.len().min(b.len());
    let lead = (0..shorter).take_while(|&k| has_same_extent(&from, &to, a[k], b[k])).count();
    link_pairs(&from, &to, &a[..lead], &b[..lead], links);
    let (a, b) = (&a[lead..], &b[lead..]);
    let trail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| has_same_extent(&from, &to, **x, **y));
    let trail = trail.count();
    link_pairs(&from, &to, &a[a.len() - trail..], &b[b.len() - trail..], links);
    Ok(())
}

/// slice: the axes taken whole (`{0, extent, 1}`).
pub(super) fn link_slice(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    let Some(AttrValue::Ranges(ranges)) = program.op(op).attr(AttrKey::Ranges) else {
        return Ok(());
    };
    if ranges.len() != a.len() {
        let name = program.quoted_tensor(from.tensor);
        return Err(AxisMismatch {
            code: codes::RANGES,
            message: message!("`slice` has {}, but `{}` has {} axes", count_text(ranges.len(), "range"), name, a.len()),
            note: Message::advice(
                "write one range `{start, stop, step}` for each axis",
                "write one range `[start, stop, step]` for each axis",
            ),
            tensor: Some(from.tensor),
        });
    }
    let exprs = program.exprs();
    link_kept_positions(&from, &to, &a, &b, links, |k| {
        let [start, stop, step] = ranges[k];
        exprs.as_int(start) == Some(0) && exprs.as_int(step) == Some(1) && stop == from.axes.axes[a[k] as usize].extent
    });
    Ok(())
}

/// pad: the axes that get no elements.
pub(super) fn link_pad(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    let Some(AttrValue::Exprs(widths)) = program.op(op).attr(AttrKey::Widths) else {
        return Ok(());
    };
    let zero = |k: usize| widths.get(k).is_some_and(|&w| program.exprs().as_int(w) == Some(0));
    link_kept_positions(&from, &to, &a, &b, links, |k| zero(2 * k) && zero(2 * k + 1));
    Ok(())
}

/// cat: every axis but the one along which the operands are joined.
pub(super) fn link_cat(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let to = result_side(program, op)?;
    let dim = program.op(op).expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let operands: SmallVec<[TensorId; 4]> = program.op(op).input_tensors().collect();
    for tensor in operands {
        let from = LinkSide::new(program, tensor);
        let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { continue };
        link_kept_positions(&from, &to, &a, &b, links, |k| dim.is_some_and(|dim| dim != k as i64));
    }
    Ok(())
}
