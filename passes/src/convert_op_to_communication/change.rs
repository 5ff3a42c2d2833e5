//! The change that an op makes to the sharding of its operand.

use crate::support::reshard::strided_over;
use hostir::axes::{LogicalAxes, logical_axes};
use hostir::ir::AxisLink;
use hostir::ir::{AttrKey, IterDomain, OpId, ParallelType, Program, TensorId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An axis that gains or loses a device type.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardingChange {
    /// The device type.
    pub(super) device: ParallelType,
    /// The side that is sharded, and the axis among its logical axes.
    pub(super) sharded: (TensorId, u32),
    /// The same axis of the other side; `None` if it is unknown.
    pub(super) whole: Option<(TensorId, u32)>,
    /// True if the result has it.
    pub(super) gained: bool,
}

/// The axes that change, without device axes that the op reduces.
pub(super) fn sharding_changes(
    program: &Program,
    op: OpId,
    input: TensorId,
    output: TensorId,
) -> SmallVec<[ShardingChange; 2]> {
    let (from, to) = (logical_axes(program, input), logical_axes(program, output));
    if from.has_parts() || to.has_parts() {
        let mut found = own_types(input, &from, &to, false);
        found.extend(own_types(output, &to, &from, true));
        return found;
    }
    let mut found = SmallVec::new();
    for link in operand_result_links(program, op) {
        let (a, b) = (from.axes[link.from.1 as usize], to.axes[link.to.1 as usize]);
        let (lost, gained) = (a.device_type(), b.device_type());
        if lost == gained {
            continue;
        }
        if let Some(device) = lost.filter(|_| !a.is_broadcast() && !b.is_reduction()) {
            found.push(ShardingChange { device, sharded: link.from, whole: Some(link.to), gained: false });
        }
        if let Some(device) = gained.filter(|_| !b.is_broadcast()) {
            found.push(ShardingChange { device, sharded: link.to, whole: Some(link.from), gained: true });
        }
    }
    found
}

/// The links between an op's one operand and its one result, broadcasts left out.
pub(super) fn operand_result_links(program: &Program, op: OpId) -> Vec<AxisLink> {
    let mut links = Vec::new();
    program.op(op).kind.spec().axes(program, op, &mut links);
    links.retain(|link| !link.broadcast);
    links
}

/// The changes by device types that only one side has: for tensors that splits made, only the device types of their
/// loops are known.
fn own_types(tensor: TensorId, axes: &LogicalAxes, other: &LogicalAxes, gained: bool) -> SmallVec<[ShardingChange; 2]> {
    let mut found = SmallVec::new();
    for (axis, k) in axes.axes.iter().zip(0..) {
        let device = axis.device_type();
        let device = device.filter(|_| other.axes.iter().all(|axis| axis.device_type() != device));
        let sharded = (tensor, k);
        found.extend(device.map(|device| ShardingChange { device, sharded, whole: None, gained }));
    }
    found
}

/// The axis outside of an axis that keeps its parts from being ranges of memory: in nvFuser's order (that of the
/// printed domains) and in memory order. Devices, reductions and broadcasts take no memory.
pub(super) fn outer_axis(program: &Program, tensor: TensorId, axis: u32) -> Option<IterDomain> {
    let axes = logical_axes(program, tensor);
    let domains = program.domains(tensor);
    let printed = axes.axes.get(axis as usize)?.printed;
    let before = domains.get(..printed as usize).unwrap_or_default();
    let in_memory = axes.axes.iter().take(axis as usize);
    let in_memory = in_memory.filter_map(|axis| domains.get(axis.printed as usize));
    let mut outer = before.iter().chain(in_memory);
    outer.find(|domain| !(domain.parallel.is_device() || domain.is_reduction() || domain.is_broadcast())).copied()
}

/// The select, with the axis outside of the selected one, that makes a slice more than one range of memory. `selects`
/// returns the op that made each slice.
pub(super) fn find_strided_select(
    program: &Program,
    selects: &FxHashMap<TensorId, OpId>,
    mut slice: TensorId,
) -> Option<(OpId, IterDomain)> {
    // A chain of selects is as long as its first tensor has axes.
    for _ in 0..=program.domains(slice).len() + selects.len() {
        let id = *selects.get(&slice)?;
        let op = program.op(id);
        let source = op.input_tensors().next()?;
        let printed = op.domain_attr(AttrKey::Axis)?.0.checked_sub(program.tensor(source).domains_start)?;
        let axis = logical_axes(program, source).of_printed(printed)?;
        if let Some(outer) = strided_over(program, &logical_axes(program, source).axes, axis) {
            return Some((id, *program.domains(source).get(outer.printed as usize)?));
        }
        slice = source;
    }
    None
}
