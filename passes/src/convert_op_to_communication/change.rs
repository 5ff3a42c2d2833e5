//! What an op changes about the sharding of its operand.

use hostir::analysis::{Axes, Axis, logical_axes};
use hostir::ir::{AttrKey, IterDomain, OpId, ParallelType, Program, TensorId};
use hostir::ops::AxisLink;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An axis that gains or loses a device type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The device type.
    pub(super) device: ParallelType,
    /// The side that is sharded, and the axis among its logical axes.
    pub(super) sharded: (TensorId, u32),
    /// The same axis of the other side; `None` where nothing is known about it.
    pub(super) whole: Option<(TensorId, u32)>,
    /// True if the result has it.
    pub(super) gained: bool,
}

/// The axes that change. A device axis that the op reduces is none of them.
pub(super) fn changes(
    program: &Program,
    op: OpId,
    input: TensorId,
    output: TensorId,
) -> SmallVec<[Change; 2]> {
    let (from, to) = (logical_axes(program, input), logical_axes(program, output));
    if from.split || to.split {
        return changed_types((input, &from), (output, &to));
    }
    let mut found = SmallVec::new();
    for link in links(program, op) {
        let (a, b) = (from.axes[link.from.1 as usize], to.axes[link.to.1 as usize]);
        let (lost, gained) = (a.device(), b.device());
        if lost == gained {
            continue;
        }
        if let Some(device) = lost.filter(|_| !a.is_broadcast() && !b.is_reduction()) {
            found.push(Change { device, sharded: link.from, whole: Some(link.to), gained: false });
        }
        if let Some(device) = gained.filter(|_| !b.is_broadcast()) {
            found.push(Change { device, sharded: link.to, whole: Some(link.from), gained: true });
        }
    }
    found
}

/// The links between an op's one operand and its one result, broadcasts left out.
pub(super) fn links(program: &Program, op: OpId) -> Vec<AxisLink> {
    let mut links = Vec::new();
    (program.op(op).kind.spec().axes)(program, op, &mut links);
    links.retain(|link| !link.broadcast);
    links
}

/// Of tensors made by splits only the device types of their loops are known.
fn changed_types(
    (input, from): (TensorId, &Axes),
    (output, to): (TensorId, &Axes),
) -> SmallVec<[Change; 2]> {
    let has =
        |axes: &Axes, device| axes.axes.iter().any(|axis: &Axis| axis.device() == Some(device));
    let one_sided = |tensor: TensorId, axes: &Axes, other: &Axes, gained: bool| {
        let mut found: SmallVec<[Change; 2]> = SmallVec::new();
        for (axis, k) in axes.axes.iter().zip(0..) {
            if let Some(device) = axis.device().filter(|&device| !has(other, device)) {
                found.push(Change { device, sharded: (tensor, k), whole: None, gained });
            }
        }
        found
    };
    let mut found = one_sided(input, from, to, false);
    found.extend(one_sided(output, to, from, true));
    found
}

/// The axis outside of an axis that keeps its parts from being ranges of memory: in nvFuser's order (that
/// of the printed domains) and in memory order. Devices, reductions and broadcasts take no room.
pub(super) fn outer_axis(program: &Program, tensor: TensorId, axis: u32) -> Option<IterDomain> {
    let axes = logical_axes(program, tensor);
    let domains = program.domains(tensor);
    let printed = axes.axes.get(axis as usize)?.printed;
    let before = domains.get(..printed as usize).unwrap_or_default();
    let takes_room = |domain: &&IterDomain| {
        !(domain.parallel.is_device() || domain.is_reduction() || domain.is_broadcast())
    };
    let outer = before.iter().find(takes_room);
    let in_memory = || {
        let inside = axes.axes.iter().take(axis as usize);
        inside.filter_map(|axis| domains.get(axis.printed as usize)).find(takes_room)
    };
    outer.or_else(in_memory).copied()
}

/// The select, with the axis outside of the selected one, that makes a slice more than one range of
/// memory. `selects` gives the op that each slice comes from.
pub(super) fn strided(
    program: &Program,
    selects: &FxHashMap<TensorId, OpId>,
    mut slice: TensorId,
) -> Option<(OpId, IterDomain)> {
    // A chain of selects is as long as its first tensor has axes.
    for _ in 0..=program.domains(slice).len() + selects.len() {
        let id = *selects.get(&slice)?;
        let op = program.op(id);
        let source = op.input_tensors().next()?;
        let printed =
            op.domain(AttrKey::Axis)?.0.checked_sub(program.tensor(source).domains_start)?;
        let axis = logical_axes(program, source).of_printed(printed)?;
        let outside = logical_axes(program, source);
        let outer = outside.axes.iter().take(axis as usize).find(|axis| {
            let one = program.exprs().as_int(axis.extent) == Some(1);
            !(one || axis.parallel.is_device() || axis.is_reduction() || axis.is_broadcast())
        });
        if let Some(outer) = outer {
            return Some((id, *program.domains(source).get(outer.printed as usize)?));
        }
        slice = source;
    }
    None
}
