//! The memory of a rank's tensors: the view to which each is bound, and the number of tensors bound to each buffer.

use super::{BufferId, BufferView, LoopIteration};
use crate::ir::{IdVec, OpId, Program, TensorId, UnitId};
use rustc_hash::FxHashMap;

/// The end of a tensor's name.
pub(super) struct EndedName {
    /// The Deallocate.
    pub(super) op: OpId,
    /// The iteration of the Deallocate: the name is new in the next one.
    pub(super) indices: LoopIteration,
}

/// The memory of tensors. Aliases are one tensor here: callers name it by [`Program::memory_tensor`].
pub(crate) struct TensorBindings {
    views: IdVec<TensorId, Option<BufferView>>,
    /// By buffer: the number of tensors that are bound to it.
    references: IdVec<BufferId, u32>,
    /// Names that a Deallocate has ended.
    ended: FxHashMap<TensorId, EndedName>,
    /// Memory that iterations keep, with room for the longest part of an axis on streams.
    kept_parts: FxHashMap<TensorId, BufferView>,
    unit_tensors: FxHashMap<UnitId, Vec<TensorId>>,
}

impl TensorBindings {
    /// The tensors of a program without memory.
    pub(super) fn new(program: &Program) -> Self {
        let mut unit_tensors: FxHashMap<UnitId, Vec<TensorId>> = FxHashMap::default();
        for (tensor, declaration) in program.tensors().iter() {
            if let Some(unit) = declaration.unit {
                unit_tensors.entry(unit).or_default().push(tensor);
            }
        }
        Self {
            views: IdVec::filled(None, program.tensors().len()),
            references: IdVec::default(),
            ended: FxHashMap::default(),
            kept_parts: FxHashMap::default(),
            unit_tensors,
        }
    }

    /// The view to which a tensor is bound.
    pub(super) fn view(&self, tensor: TensorId) -> Option<&BufferView> {
        self.views[tensor].as_ref()
    }

    /// Binds a tensor that is not bound to a view.
    pub(super) fn bind(&mut self, tensor: TensorId, view: BufferView) {
        self.references[view.buffer] += 1;
        self.views[tensor] = Some(view);
        self.ended.remove(&tensor);
    }

    /// Binds a tensor to another view, or to nothing. Returns the buffer to which no tensor is bound any more.
    pub(super) fn rebind(&mut self, tensor: TensorId, view: Option<BufferView>) -> Option<BufferId> {
        let old = self.views[tensor].take();
        if let Some(view) = view {
            self.bind(tensor, view);
        }
        let old = old?.buffer;
        self.references[old] -= 1;
        (self.references[old] == 0).then_some(old)
    }

    /// Adds a buffer that no tensor is bound to.
    pub(super) fn add_buffer(&mut self) {
        self.references.push(0);
    }

    /// Reserves room for more buffers; a failure is ignored.
    pub(super) fn reserve_buffers(&mut self, more: usize) {
        self.references.try_reserve_exact(more);
    }

    /// The number of tensors that are bound to a buffer.
    pub(crate) fn reference_count(&self, buffer: BufferId) -> u32 {
        self.references[buffer]
    }

    /// The tensors of a unit.
    pub(super) fn tensors_of_unit(&self, unit: UnitId) -> &[TensorId] {
        self.unit_tensors.get(&unit).map_or(&[], Vec::as_slice)
    }

    /// Marks a tensor's name as ended.
    pub(super) fn end_name(&mut self, tensor: TensorId, end: EndedName) {
        self.ended.insert(tensor, end);
    }

    /// The end of a tensor's name, unless it was bound again.
    pub(super) fn ended_name(&self, tensor: TensorId) -> Option<&EndedName> {
        self.ended.get(&tensor)
    }

    /// Remembers memory that iterations keep for a tensor.
    pub(super) fn keep_part(&mut self, tensor: TensorId, all: BufferView) {
        self.kept_parts.insert(tensor, all);
    }

    /// The memory that iterations keep for a tensor.
    pub(super) fn kept_part(&self, tensor: TensorId) -> Option<&BufferView> {
        self.kept_parts.get(&tensor)
    }
}
