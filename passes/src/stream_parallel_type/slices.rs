//! The slices of tensors that one iteration of a loop works on.

use crate::support::builder::{Build, domain_id};
use hostir::analysis::MappedAxis;
use hostir::ir::{ExprId, IterDomain, MemoryType, OpId, TensorId};
use rustc_hash::FxHashMap;

/// The slices that one loop has made, and the ops for the end of its iterations.
pub(super) struct Slices {
    /// Which part of each tensor the loop slices.
    pub(super) index: ExprId,
    made: FxHashMap<TensorId, TensorId>,
    /// Ops for the end of the iteration.
    pub(super) epilogue: Vec<OpId>,
}

impl Slices {
    /// None yet; they will be parts `index`.
    pub(super) fn new(index: ExprId) -> Self {
        Self { index, made: FxHashMap::default(), epilogue: Vec::new() }
    }
}

/// The slice of a tensor in this iteration; the op that makes it is appended where it is new.
pub(super) fn slice(
    build: &mut Build<'_, '_>,
    tensor: TensorId,
    axis: MappedAxis,
    slices: &mut Slices,
    out: &mut Vec<OpId>,
) -> TensorId {
    if let Some(&slice) = slices.made.get(&tensor) {
        return slice;
    }
    let index = slices.index;
    let slice = new_slice(build, tensor, axis);
    let domain = domain_id(build.program(), tensor, axis.printed);
    out.push(build.select(slice, tensor, domain, index));
    slices.made.insert(tensor, slice);
    slice
}

/// A tensor without one axis, its domains in logical order.
pub(super) fn new_slice(build: &mut Build<'_, '_>, tensor: TensorId, axis: MappedAxis) -> TensorId {
    let program = build.program();
    let domains: Vec<IterDomain> = program
        .logical_axes(tensor)
        .iter()
        .filter(|&&printed| printed != axis.printed)
        .map(|&printed| program.domains(tensor)[printed as usize])
        .collect();
    build.tensor(tensor, MemoryType::Local, &domains)
}
