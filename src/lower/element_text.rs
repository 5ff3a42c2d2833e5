//! The names of elements in the coordinates of whole tensors.

use super::PreparedProgram;
use super::prepare::shard_start;
use crate::ir::{DeviceMesh, Id, ParallelType, Program, TensorId};
use crate::plan::{AxesTable, BufferId, Plan};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The tensors of a program that are sharded over devices.
#[derive(Clone, Default, Debug)]
pub struct ShardedTensors {
    tensors: FxHashMap<TensorId, ShardedTensor>,
}

/// The distribution of a tensor over devices.
#[derive(Clone, Debug)]
struct ShardedTensor {
    /// By stored axis: the parallel type over which it is sharded.
    devices: SmallVec<[Option<ParallelType>; 4]>,
    mesh: Option<DeviceMesh>,
}

impl ShardedTensors {
    /// Collects the tensors of a program whose ranks hold shards.
    pub(super) fn new(program: &Program, axes: &AxesTable) -> Self {
        let sharded = program.tensors().ids().filter_map(|tensor| {
            let stored = axes.stored_axes(tensor);
            let devices: SmallVec<[Option<ParallelType>; 4]> =
                stored.map(|axis| axis.is_sharded().then_some(axis.parallel)).collect();
            let mesh = program.tensor_mesh(tensor).cloned();
            devices.iter().any(Option::is_some).then_some((tensor, ShardedTensor { devices, mesh }))
        });
        Self { tensors: sharded.collect() }
    }

    /// The first index of a rank's shard along each axis; `None` if memory of this shape is no shard of the tensor.
    fn shard_origin(&self, tensor: TensorId, rank: u32, shape: &[usize]) -> Option<SmallVec<[usize; 4]>> {
        let ShardedTensor { devices, mesh } = self.tensors.get(&tensor)?;
        if devices.len() != shape.len() {
            return None;
        }
        let mut starts = devices.iter().zip(shape).map(|(device, &extent)| match device {
            Some(_) if extent != 1 => None,
            device => shard_start(*device, mesh.as_ref(), rank),
        });
        starts.try_fold(SmallVec::new(), |mut all, start| {
            all.push(start?);
            Some(all)
        })
    }
}

/// The index of an element by its place in row-major order.
pub(crate) fn unravel_index(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        *at = flat % extent.max(1);
        flat /= extent.max(1);
    }
    index
}

impl PreparedProgram {
    /// `T2[1, 0, 3]`: an element of a buffer, by its place in row-major order. If the buffer is a rank's shard of a
    /// tensor, the indices are those in the whole tensor.
    pub fn element_text(&self, plan: &Plan, buffer: BufferId, element: usize) -> String {
        let Some(owner) = plan.buffers.get(buffer) else { return "?".to_owned() };
        let shape = plan.buffer_shapes.get(buffer.index()).map_or(&[][..], |shape| shape.as_slice());
        let mut index = unravel_index(shape, element);
        if let Some(origin) = self.shards.shard_origin(owner.tensor, plan.rank, shape) {
            index.iter_mut().zip(origin).for_each(|(at, start)| *at += start);
        }
        format!("{}{index:?}", self.labels.tensor_name(owner.tensor))
    }
}
