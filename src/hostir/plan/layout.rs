//! The memory of tensors: the stored elements, and the shard of an iteration of a loop on streams.

use super::inst::{BufferKind, InstKind};
use super::scalar::EvalScope;
use super::view::{BufferView, ViewDim, ViewDims, row_major};
use super::{PlanBuilder, stream_part};
use crate::axes::LogicalAxis;
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{DeviceMesh, ParallelType, TensorId};
use smallvec::SmallVec;

/// The layout of a tensor in memory of its own.
struct TensorLayout {
    /// The extents of what is stored.
    stored: Vec<usize>,
    /// All axes; repeated ones have stride 0.
    dims: ViewDims,
}

impl PlanBuilder<'_> {
    /// The layout of a tensor of a local shape: row-major over the stored elements.
    fn tensor_layout(&self, tensor: TensorId, shape: &[usize]) -> TensorLayout {
        let axes = self.axes.stored_axes(tensor);
        let repeats: SmallVec<[bool; 8]> =
            axes.zip(shape).map(|(axis, &extent)| axis.expanded.is_some() && extent > 1).collect();
        let stored: Vec<usize> =
            shape.iter().zip(&repeats).map(|(&extent, &repeats)| if repeats { 1 } else { extent }).collect();
        let mut dims = row_major(&stored);
        for ((dim, &extent), _) in dims.iter_mut().zip(shape).zip(&repeats).filter(|(_, repeats)| **repeats) {
            *dim = ViewDim { extent, stride: 0 };
        }
        TensorLayout { stored, dims }
    }

    /// The local extents of the stored elements of a tensor: 1 along an expanded broadcast.
    ///
    /// # Errors
    /// As [`Self::local_shape`].
    pub fn stored_shape(&self, tensor: TensorId) -> Result<Vec<usize>, Diag> {
        Ok(self.tensor_layout(tensor, &self.local_shape(tensor)?).stored)
    }

    /// The axes of a tensor of a local shape that is row-major from some element on.
    pub(crate) fn packed_dims(&self, tensor: TensorId, shape: &[usize]) -> ViewDims {
        self.tensor_layout(tensor, shape).dims
    }

    /// The stored elements of a tensor's view: the first along each axis that the tensor declares as an expanded
    /// broadcast.
    pub(crate) fn declared_part(&self, tensor: TensorId, view: &BufferView) -> BufferView {
        let mut part = view.clone();
        for (axis, dim) in self.axes.stored_axes(tensor).zip(&mut part.dims) {
            if axis.expanded.is_some() && dim.repeats_element() {
                dim.extent = 1;
            }
        }
        part
    }

    /// Adds a buffer for the stored elements of a tensor of a local shape.
    ///
    /// # Errors
    /// As [`Self::new_buffer`].
    pub(super) fn tensor_buffer(
        &mut self,
        tensor: TensorId,
        shape: &[usize],
        kind: BufferKind,
    ) -> Result<BufferView, Diag> {
        let TensorLayout { stored, dims } = self.tensor_layout(tensor, shape);
        let view = self.new_buffer(tensor, &stored, kind)?;
        Ok(BufferView { dims, ..view })
    }

    /// The local shape of an iteration's shard of a tensor: for a stream axis, its part.
    fn part_shape(&self, tensor: TensorId) -> Result<Vec<usize>, Diag> {
        let mut shape = self.local_shape(tensor)?;
        if let (Some(&index), Some(stream)) = (self.scope.stream_indices.last(), self.axes.stream_axis(tensor)) {
            let extent = shape[stream.position];
            shape[stream.position] = stream_part(self, extent, stream.parts, index)?.1;
        }
        Ok(shape)
    }

    /// The extents of a tensor over all devices and iterations; of an expanded broadcast, the extent to which it is
    /// expanded.
    ///
    /// # Errors
    /// If an extent has no value.
    pub fn whole_shape(&self, tensor: TensorId) -> Result<Vec<usize>, Diag> {
        let scope = EvalScope { unit: self.program.tensor(tensor).unit, ..self.eval_scope() };
        let axes = self.axes.stored_axes(tensor).map(|axis| axis.expanded.unwrap_or(axis.extent));
        let extents = axes.map(|extent| scope.eval_int(extent).map_err(|error| self.eval_error(error)));
        extents.map(|extent| extent.map(|extent| extent.max(0) as usize)).collect()
    }

    /// The index, in the whole tensor, of the first element that this rank and this iteration have of it.
    ///
    /// # Errors
    /// If the local shape or the part of the iteration cannot be computed.
    pub fn shard_origin(&self, tensor: TensorId) -> Result<Vec<usize>, Diag> {
        let shape = self.local_shape(tensor)?;
        let mesh = self.program.tensor_mesh(tensor);
        let devices = self.axes.stored_axes(tensor).map(LogicalAxis::device_type);
        let places = devices.map(|device| self.rank.and_then(|rank| shard_place(device, mesh, rank)).unwrap_or(0));
        let mut origin: Vec<usize> = places.zip(&shape).map(|(place, &extent)| place * extent).collect();
        if let (Some(&index), Some(stream)) = (self.scope.stream_indices.last(), self.axes.stream_axis(tensor)) {
            origin[stream.position] += stream_part(self, shape[stream.position], stream.parts, index)?.0;
        }
        Ok(origin)
    }

    /// Allocates an iteration's shard of a tensor, and binds it.
    ///
    /// # Errors
    /// If the tensor's shape cannot be computed, or as [`Self::new_buffer`].
    pub fn allocate_tensor(&mut self, tensor: TensorId) -> Result<BufferView, Diag> {
        let shape = self.part_shape(tensor)?;
        let view = self.tensor_buffer(tensor, &shape, BufferKind::Allocated)?;
        self.rebind_tensor(tensor, Some(view.clone()))?;
        Ok(view)
    }

    /// Allocates memory that later iterations keep, and returns all of it: for a stream axis it has room for the
    /// longest part, and the tensor is bound to the iteration's.
    ///
    /// # Errors
    /// As [`Self::allocate_tensor`].
    pub(crate) fn allocate_kept(&mut self, tensor: TensorId) -> Result<BufferView, Diag> {
        let (Some(stream), false) = (self.axes.stream_axis(tensor), self.scope.stream_indices.is_empty()) else {
            return self.allocate_tensor(tensor);
        };
        let part = self.part_shape(tensor)?;
        let mut room = self.local_shape(tensor)?;
        room[stream.position] = room[stream.position].div_ceil(self.eval_size(stream.parts)?.max(1));
        let all = self.tensor_buffer(tensor, &room, BufferKind::Allocated)?;
        self.tensors.keep_part(self.program.memory_tensor(tensor), all.clone());
        self.rebind_tensor(tensor, Some(leading_part(&all, &part)))?;
        Ok(all)
    }

    /// Keeps the memory that a tensor has. In the memory of [`Self::allocate_kept`], a shorter part of a stream axis is
    /// the leading one.
    ///
    /// # Errors
    /// If the part cannot be computed, or the plan becomes too large.
    pub(crate) fn keep_memory(&mut self, tensor: TensorId) -> Result<(), Diag> {
        let bound = self.tensor_binding(tensor).map(|view| view.buffer);
        let kept = self.tensors.kept_part(self.program.memory_tensor(tensor));
        let Some(all) = kept.filter(|all| Some(all.buffer) == bound && !self.scope.stream_indices.is_empty()).cloned()
        else {
            return Ok(());
        };
        let part = self.part_shape(tensor)?;
        self.rebind_tensor(tensor, Some(leading_part(&all, &part)))
    }

    /// Refuses memory with several elements where a tensor stores one.
    ///
    /// # Errors
    /// If a broadcast axis of the tensor is expanded, and the view does not repeat an element along it.
    pub(crate) fn check_repetition(&self, tensor: TensorId, view: &BufferView) -> Result<(), Diag> {
        let mut axes = self.axes.stored_axes(tensor).zip(&view.dims).enumerate();
        let found = axes.find(|(_, (axis, dim))| axis.expanded.is_some() && dim.extent > 1 && dim.stride != 0);
        let Some((position, (_, dim))) = found else { return Ok(()) };
        let name = self.quoted_tensor(tensor);
        let message = message!(
            "axis {} of {} is an expanded broadcast, which stores one element, but the memory that it is bound to has {} there",
            position,
            name,
            dim.extent
        );
        Err(self.error_here(codes::BROADCAST_SIZE, message).with_note(self.own_elements_note(dim.extent)))
    }

    /// The error for an instruction that gives one stored element several values.
    pub(super) fn several_values_error(&self, kind: &InstKind, axis: usize) -> Diag {
        let view = kind.written_view();
        let extent = view.and_then(|view| view.dims.get(axis)).map_or(0, |dim| dim.extent);
        let result = self.program.op(self.op).output_tensors().next();
        let tensor = result.or_else(|| view.map(|view| self.plan.buffers[view.buffer].tensor));
        let name = tensor.map(|tensor| Message::from(self.quoted_tensor(tensor))).unwrap_or_default();
        let message = message!(
            "axis {} of {} is an expanded broadcast, which stores one element, but {} different ones are written along it",
            axis,
            name,
            extent
        );
        self.error_here(codes::BROADCAST_SIZE, message).with_note(self.own_elements_note(extent))
    }

    fn own_elements_note(&self, extent: usize) -> String {
        match self.program.is_hir2() {
            true => format!("write `{extent}` in place of `b.1 ex {extent}` for an axis with elements of its own"),
            false => "write an `i` axis in place of `{1 ex ..}` for elements of its own".to_owned(),
        }
    }
}

/// The position of a rank's shard among the shards along an axis that is sharded over a parallel type, or not sharded;
/// `None` if the rank is not in the mesh.
pub(crate) fn shard_place(device: Option<ParallelType>, mesh: Option<&DeviceMesh>, rank: u32) -> Option<usize> {
    match (device, mesh) {
        (Some(device), Some(mesh)) => mesh.device_coordinate(rank, device).map(|place| place as usize),
        (Some(_), None) => Some(rank as usize),
        (None, _) => Some(0),
    }
}

/// The leading elements of a view along each axis.
fn leading_part(all: &BufferView, shape: &[usize]) -> BufferView {
    let mut part = all.clone();
    part.dims.iter_mut().zip(shape).for_each(|(dim, &extent)| dim.extent = dim.extent.min(extent));
    part
}
