//! Axis links of communications: extents are global, so most types keep every axis.

use super::local_parts::{find_local_part, scattered_note};
use crate::axes::list_axes;
use crate::axes::pairing::{
    AxisMismatch, AxisPositions, LinkResult, LinkSide, both_sides, has_split_axis, link_pairs, rank_mismatch,
};
use crate::diag::{Message, message};
use crate::ir::{AttrKey, AxisLink, OpId, Program, quoted_bare_expr, quoted_op};

/// Returns true if a communication type reduces over the input's device axis.
pub(crate) fn is_reducing_kind(kind: &str) -> bool {
    matches!(kind, "Reduce" | "Allreduce" | "ReduceScatter")
}

/// Whether a communication type has a root.
pub(crate) fn has_root(kind: &str) -> bool {
    matches!(kind, "Gather" | "Scatter" | "Reduce" | "Broadcast" | "SendRecv")
}

/// Communication: position by position; the input's device axis of a reducing type becomes the output's reduction, or
/// disappears.
pub(crate) fn link_communication(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    let kind = program.op(op).word_attr(AttrKey::Type).map_or("", |word| program.name(word));
    if let Some(mismatch) = find_local_part(program, op, kind, &from, &to) {
        return Err(mismatch);
    }
    match kind {
        _ if is_reducing_kind(kind) => link_reduced_axes(program, op, &from, &to, links),
        "Broadcast" => link_shard(program, op, &from, &to, links),
        _ => link_kept_axes(program, op, &from, &to, links),
    }
}

/// CollectivePermute: position by position, or one part to one part.
pub(crate) fn link_collective_permute(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    link_shard(program, op, &from, &to, links)
}

/// Links a shard's axes: if the output has no device axis and one axis less than the input, one rank's shard is sent.
fn link_shard(program: &Program, op: OpId, from: &LinkSide, to: &LinkSide, links: &mut Vec<AxisLink>) -> LinkResult {
    let (a, b) = (from.stored_positions(), to.stored_positions());
    let rest = unsharded_axes(from, &a);
    if rest.len() == b.len() && rest.len() < a.len() {
        link_pairs(from, to, &rest, &b, links);
        return Ok(());
    }
    link_kept_axes(program, op, from, to, links)
}

/// The axes with more than one index on each device.
fn unsharded_axes(side: &LinkSide, axes: &[u32]) -> AxisPositions {
    axes.iter().copied().filter(|&k| !side.axes.axes[k as usize].is_device_index()).collect()
}

fn link_kept_axes(
    program: &Program,
    op: OpId,
    from: &LinkSide,
    to: &LinkSide,
    links: &mut Vec<AxisLink>,
) -> LinkResult {
    let (a, b) = (from.stored_positions(), to.stored_positions());
    if a.len() != b.len() {
        let mut mismatch = rank_mismatch(program, op, from, a.len(), b.len(), to);
        let note = kept_axes_note(program, from);
        mismatch.note = if b.len() < a.len() { message!("{}. {}", note, joined_axes_advice()) } else { note };
        return Err(mismatch);
    }
    link_pairs(from, to, &a, &b, links);
    Ok(())
}

/// The way to use what a communication receives with fewer axes, without a copy.
fn joined_axes_advice() -> Message {
    Message::advice(
        "Receive into a tensor of these axes; an `ALLOCATE` with `.alias=` of it gives its memory other axes, without a \
         copy",
        "Receive into a tensor `G` of these axes; `V: f32[p * n, k] = alloc(share=G)` gives its memory joined axes, \
         without a copy",
    )
}

/// `[m, n]`: the extents of a side.
fn extents_text(program: &Program, side: &LinkSide) -> Message {
    let extents: Vec<Message> = side
        .stored_positions()
        .iter()
        .map(|&at| side.axes.axes[at as usize].extent)
        .map(|extent| quoted_bare_expr(program, extent).into())
        .collect();
    message!("[{}]", Message::join(&extents, ", "))
}

/// The axes that the result of a communication has: those of the operand, sharded or not.
fn kept_axes_note(program: &Program, from: &LinkSide) -> Message {
    message!(
        "the axes of {} are {}: the result has all of them, `{}` where they are not sharded",
        program.quoted_tensor(from.tensor),
        list_axes(program, from.tensor),
        extents_text(program, from)
    )
}

fn link_reduced_axes(
    program: &Program,
    op: OpId,
    from: &LinkSide,
    to: &LinkSide,
    links: &mut Vec<AxisLink>,
) -> LinkResult {
    let (a, all, stored) = (from.stored_positions(), to.all_positions(), to.stored_positions());
    if a.len() == all.len() {
        link_pairs(from, to, &a, &all, links);
        return Ok(());
    }
    if a.len() == stored.len() {
        link_pairs(from, to, &a, &stored, links);
        return Ok(());
    }
    let rest = unsharded_axes(from, &a);
    if rest.len() == stored.len() && rest.len() < a.len() {
        link_pairs(from, to, &rest, &stored, links);
        return Ok(());
    }
    Err(reduced_rank_mismatch(program, op, from, to))
}

fn reduced_rank_mismatch(program: &Program, op: OpId, from: &LinkSide, to: &LinkSide) -> AxisMismatch {
    let mut mismatch = rank_mismatch(program, op, from, from.stored_positions().len(), to.all_positions().len(), to);
    let found = program.op(op);
    let kind = found.word_attr(AttrKey::Type).map_or("", |word| program.name(word));
    let scattered = if kind == "ReduceScatter" { scattered_note(program, found, from, to) } else { None };
    if let Some(note) = scattered {
        mismatch.message = message!(
            "`{}` needs a part for each rank in its operand, but `{}` is {}",
            quoted_op(program, op),
            program.quoted_tensor(from.tensor),
            extents_text(program, from)
        );
        mismatch.note = note;
        return mismatch;
    }
    mismatch.note =
        "keep the device axis of the input as a reduction axis in the output, or omit it there".to_owned().into();
    mismatch
}
