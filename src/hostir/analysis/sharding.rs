//! Sharding: which axes are distributed over devices, and which ops move data between devices.

use crate::axes::{LastAxes, LogicalAxis, logical_axes, plain_order};
use crate::ir::{AxisLink, IterDomain, OpEffect, OpKind};
use crate::ir::{OpId, ParallelType, Program, TensorId};

const DEVICE_TYPES: [ParallelType; 3] = [ParallelType::DIDx, ParallelType::DIDy, ParallelType::DIDz];

/// The logical axis of a tensor on each device type (x, y, z). Reduced axes count as not sharded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sharding {
    /// By device type: the position among the logical axes (of a tensor made by splits: among the
    /// printed domains).
    pub axes: [Option<u32>; 3],
}

impl Sharding {
    /// Whether some axis is sharded over devices.
    pub fn is_sharded(&self) -> bool {
        self.axes.iter().any(Option::is_some)
    }
    /// The device type of an axis.
    pub fn device_type(&self, axis: u32) -> Option<ParallelType> {
        let at = self.axes.iter().position(|found| *found == Some(axis))?;
        Some(DEVICE_TYPES[at])
    }
}

/// Returns how a tensor is sharded over devices.
pub fn tensor_sharding(program: &Program, tensor: TensorId) -> Sharding {
    sharding_and_splits(program, tensor).0
}

/// The sharding of a tensor over devices, and true if splits hide its axes.
fn sharding_and_splits(program: &Program, tensor: TensorId) -> (Sharding, bool) {
    // Most tensors have plain axes, which need not be made to be looked at.
    if let Some(order) = plain_order(program, tensor) {
        return (sharding_of_types(order.map(|(_, domain)| domain.is_sharded().then_some(domain.parallel))), false);
    }
    let axes = logical_axes(program, tensor);
    (sharding_of_types(axes.axes.iter().map(LogicalAxis::device_type)), axes.split)
}

/// The sharding of axes with these device types; of one type the first.
fn sharding_of_types(types: impl Iterator<Item = Option<ParallelType>>) -> Sharding {
    let mut sharding = Sharding::default();
    for (found, k) in types.zip(0..) {
        let at = DEVICE_TYPES.iter().position(|kind| found == Some(*kind));
        if let Some(at) = at {
            sharding.axes[at].get_or_insert(k);
        }
    }
    sharding
}

/// The devices of all meshes of an op's tensors, in ascending order; `None` if a tensor has no mesh, so that every
/// rank takes part.
pub fn op_devices(program: &Program, op: OpId) -> Option<Vec<u32>> {
    let op = program.op(op);
    let mut devices = Vec::new();
    for tensor in op.input_tensors().chain(op.output_tensors()) {
        devices.extend_from_slice(&program.tensor_mesh(tensor)?.devices);
    }
    devices.sort_unstable();
    devices.dedup();
    Some(devices)
}

/// Returns true if a compute op needs data of other devices: its tensors' meshes differ, or a device axis of an operand
/// is not the same device axis of the result, or the other way round. Streams do not count. Host ops and communications
/// never need such data; of the slices of memory only those that [`needs_slice_resharding`] names.
pub fn is_resharding(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    let kind = op.kind;
    if kind.effect() == OpEffect::Alias && !kind.is_mathematics() {
        return needs_slice_resharding(program, id);
    }
    if !kind.is_mathematics() {
        return false;
    }
    let mut tensors = op.input_tensors().chain(op.output_tensors());
    let Some(first) = tensors.next() else { return false };
    let mesh = program.tensor(first).mesh;
    if tensors.any(|tensor| program.tensor(tensor).mesh != mesh) {
        return true;
    }
    if mesh.is_none() {
        return false;
    }
    moves_shards(program, id)
}

/// Whether an op has a result that is sharded in another way than one of its operands.
pub(crate) fn moves_shards(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    let mut tensors = op.input_tensors().chain(op.dependent_results());
    if !tensors.any(|tensor| program.domains(tensor).iter().any(IterDomain::is_sharded)) {
        return false;
    }
    let mut links = Vec::new();
    op.kind.spec().axes(program, id, &mut links);
    links.retain(|link| !link.broadcast);
    op.input_tensors().any(|producer| {
        op.dependent_results().any(|consumer| has_different_shardings(program, op.kind, producer, consumer, &links))
    })
}

/// Returns true if a slice of memory (`HirAliasSelect`) needs data of other devices: it is placed on a device that
/// has no shard of the tensor, or an axis that the tensor and the slice share is sharded in only one of them or
/// in different ways. The selected axis does not count: of a sharded axis, a slice takes the rank's own shard.
pub fn needs_slice_resharding(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    // A symmetric tensor is one memory for all devices, which its view only shows.
    if is_symmetric_view(op.kind) {
        return false;
    }
    if op.output_tensors().any(|slice| op.input_tensors().any(|whole| resides_elsewhere(program, whole, slice))) {
        return true;
    }
    let mut links = Vec::new();
    op.kind.spec().axes(program, id, &mut links);
    let mut last = (LastAxes::default(), LastAxes::default());
    links.iter().filter(|link| !link.broadcast).any(|link| {
        let from = last.0.find_axis(program, link.from.0, link.from.1);
        let to = last.1.find_axis(program, link.to.0, link.to.1);
        let kinds = [from, to].map(|axis| axis.and_then(|axis| axis.device_type()));
        let tensors = [link.from.0, link.to.0];
        if kinds[0] == kinds[1] {
            return kinds[0].is_some_and(|kind| has_shifted_shard(program, tensors, kind));
        }
        tensors.iter().zip(kinds).any(|(&tensor, kind)| kind.is_some_and(|kind| spans_devices(program, tensor, kind)))
    })
}

/// Returns true if an op binds a tensor to the shards of several devices in their memories: a run on whole tensors has
/// them in one.
pub fn shows_other_devices(program: &Program, id: OpId) -> bool {
    is_symmetric_view(program.op(id).kind) && moves_shards(program, id)
}

fn is_symmetric_view(kind: OpKind) -> bool {
    kind == OpKind::SymmetricContiguousView
}

/// Returns true if a device of the slice's mesh has no shard of the tensor.
fn resides_elsewhere(program: &Program, whole: TensorId, slice: TensorId) -> bool {
    let (Some(whole), Some(slice)) = (program.tensor_mesh(whole), program.tensor_mesh(slice)) else {
        return false;
    };
    !whole.contains_mesh(slice)
}

/// Returns true if a device has different shards of the tensor and of its slice along an axis.
fn has_shifted_shard(program: &Program, [whole, slice]: [TensorId; 2], kind: ParallelType) -> bool {
    let (Some(whole), Some(slice)) = (program.tensor_mesh(whole), program.tensor_mesh(slice)) else {
        return false;
    };
    !whole.agrees_with_mesh(slice, kind)
}

/// Returns true if a device type spans several devices on a tensor's mesh, or the tensor has no mesh.
fn spans_devices(program: &Program, tensor: TensorId, kind: ParallelType) -> bool {
    let extent = program.tensor_mesh(tensor).and_then(|mesh| mesh.axis_extent(kind));
    extent.is_none_or(|extent| extent != 1)
}

/// Returns true if an op makes a sharded axis of its result, so that no single device holds the elements that the op
/// reads for it: a view that splits a replicated axis over devices. On a mesh of one device no data moves.
pub fn shards_made_axis(program: &Program, kind: OpKind, result: TensorId, links: &[AxisLink]) -> bool {
    kind.reshapes()
        && (0..).zip(&logical_axes(program, result).axes).any(|(at, axis)| {
            let device = axis.device_type().filter(|&device| spans_devices(program, result, device));
            device.is_some() && !links.iter().any(|link| link.to == (result, at))
        })
}

/// Returns true if an operand and a result of an op of this kind are sharded differently over the devices of their
/// mesh, judged by the op's links (those that are no broadcasts).
pub fn has_different_shardings(
    program: &Program,
    kind: OpKind,
    producer: TensorId,
    consumer: TensorId,
    links: &[AxisLink],
) -> bool {
    let [(sharded, is_split), (wanted, is_result_split)] =
        [producer, consumer].map(|tensor| sharding_and_splits(program, tensor));
    if is_split || is_result_split {
        return sharded.axes.map(|axis| axis.is_some()) != wanted.axes.map(|axis| axis.is_some());
    }
    let to = |k: u32| links.iter().find(|l| l.from == (producer, k) && l.to.0 == consumer).map(|l| l.to.1);
    let from = |k: u32| links.iter().find(|l| l.to == (consumer, k) && l.from.0 == producer).map(|l| l.from.1);
    let moves = (0..DEVICE_TYPES.len()).any(|kind| {
        let moved = sharded.axes[kind].is_some_and(|k| to(k).is_none() || to(k) != wanted.axes[kind]);
        // An operand needs no data for an axis that it does not have (a matmul's N for A).
        let cut = wanted.axes[kind].and_then(from).is_some_and(|k| sharded.axes[kind] != Some(k));
        moved || cut
    });
    moves || shards_made_axis(program, kind, consumer, links)
}
