//! The names of elements in the coordinates of whole tensors.

use super::PreparedProgram;
use crate::ir::{DeviceMesh, Id, ParallelType, Program, TensorId};
use crate::plan::{AxesTable, BufferId, Plan, shard_place};
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
    axes: SmallVec<[ShardedAxis; 4]>,
    mesh: Option<DeviceMesh>,
}

/// The distribution of a stored axis.
#[derive(Clone, Copy, Debug)]
struct ShardedAxis {
    /// The parallel type over which it is sharded.
    device: Option<ParallelType>,
    /// True if each device stores one index of it.
    is_device_index: bool,
}

impl ShardedTensors {
    /// Collects the tensors of a program whose ranks hold shards.
    pub(super) fn new(program: &Program, axes: &AxesTable) -> Self {
        let sharded = program.tensors().ids().filter_map(|tensor| {
            let stored = axes.stored_axes(tensor);
            let axes: SmallVec<[ShardedAxis; 4]> = stored
                .map(|axis| ShardedAxis { device: axis.device_type(), is_device_index: axis.is_device_index() })
                .collect();
            let mesh = program.tensor_mesh(tensor).cloned();
            axes.iter().any(|axis| axis.device.is_some()).then_some((tensor, ShardedTensor { axes, mesh }))
        });
        Self { tensors: sharded.collect() }
    }

    /// The first index of a rank's shard along each axis; `None` if memory of this shape is no shard of the tensor.
    fn shard_origin(&self, tensor: TensorId, rank: u32, shape: &[usize]) -> Option<SmallVec<[usize; 4]>> {
        let ShardedTensor { axes, mesh } = self.tensors.get(&tensor)?;
        if axes.len() != shape.len() {
            return None;
        }
        let mut starts = axes.iter().zip(shape).map(|(axis, &extent)| match axis.is_device_index && extent != 1 {
            true => None,
            false => shard_place(axis.device, mesh.as_ref(), rank).map(|place| place * extent),
        });
        starts.try_fold(SmallVec::new(), |mut all, start| {
            all.push(start?);
            Some(all)
        })
    }
}

/// The index of an element from its position in row-major order.
pub(crate) fn unravel_index(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        *at = flat % extent.max(1);
        flat /= extent.max(1);
    }
    index
}

impl PreparedProgram {
    /// `T2[1, 0, 3]`: an element of a buffer, by its position in row-major order. If the buffer is a rank's shard of a
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
