//! Axis links of communications: extents are global, so most types keep every axis.

use super::links::{Mismatch, Positions, Related, Side, both, pair, rank_mismatch, split};
use crate::ir::{AttrKey, OpId, Program};
use crate::ops::AxisLink;

/// Whether a communication type reduces over the input's device axis.
pub fn reduces(kind: &str) -> bool {
    matches!(kind, "Reduce" | "Allreduce" | "ReduceScatter")
}

/// Whether a communication type has a root.
pub fn has_root(kind: &str) -> bool {
    matches!(kind, "Gather" | "Scatter" | "Reduce" | "Broadcast" | "SendRecv")
}

/// Communication: position by position; the input's device axis of a reducing type becomes the
/// output's reduction, or is gone.
pub fn communication(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let kind = program.op(op).word(AttrKey::Type).map_or("", |word| program.name(word));
    match kind {
        _ if reduces(kind) => reduce(program, op, &from, &to, links),
        "Broadcast" => part(program, op, &from, &to, links),
        _ => keep(program, op, &from, &to, links),
    }
}

/// CollectivePermute: position by position, or one part to one part.
pub fn permute(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    part(program, op, &from, &to, links)
}

/// Where the output has no device axis and one axis less than the input, a rank's part is what travels.
fn part(program: &Program, op: OpId, from: &Side, to: &Side, links: &mut Vec<AxisLink>) -> Related {
    let (a, b) = (from.stored(), to.stored());
    let rest = unsharded(from, &a);
    if rest.len() == b.len() && rest.len() < a.len() {
        pair(from, to, &rest, &b, links);
        return Ok(());
    }
    keep(program, op, from, to, links)
}

/// The axes that do not lie across devices.
fn unsharded(side: &Side, axes: &[u32]) -> Positions {
    let sharded = |k: &u32| side.axes.axes[*k as usize].device().is_some();
    axes.iter().copied().filter(|k| !sharded(k)).collect()
}

fn keep(program: &Program, op: OpId, from: &Side, to: &Side, links: &mut Vec<AxisLink>) -> Related {
    let (a, b) = (from.stored(), to.stored());
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, from, a.len(), b.len(), to));
    }
    pair(from, to, &a, &b, links);
    Ok(())
}

fn reduce(
    program: &Program,
    op: OpId,
    from: &Side,
    to: &Side,
    links: &mut Vec<AxisLink>,
) -> Related {
    let (a, all, stored) = (from.stored(), to.all(), to.stored());
    if a.len() == all.len() {
        pair(from, to, &a, &all, links);
        return Ok(());
    }
    if a.len() == stored.len() {
        pair(from, to, &a, &stored, links);
        return Ok(());
    }
    let rest = unsharded(from, &a);
    if rest.len() == stored.len() && rest.len() < a.len() {
        pair(from, to, &rest, &stored, links);
        return Ok(());
    }
    Err(reduced_rank(program, op, from, to))
}

fn reduced_rank(program: &Program, op: OpId, from: &Side, to: &Side) -> Mismatch {
    let mut mismatch = rank_mismatch(program, op, from, from.stored().len(), to.all().len(), to);
    mismatch.note =
        "the device axis of the input stays in the output as a reduction, or is left out"
            .to_owned();
    mismatch
}
