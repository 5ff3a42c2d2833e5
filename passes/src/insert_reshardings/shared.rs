//! Copies of operands that several ops need alike, such as the gathered rows of a projection to q, k and v.

use crate::support::builder::OpBuilder;
use crate::support::reshard::declare_stored_copy;
use hostir::ir::{MeshId, OpId, ParallelType, Program, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

/// An operand, and the mesh and the parallel types of its copy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CopyPlace {
    pub(super) operand: TensorId,
    pub(super) mesh: Option<MeshId>,
    pub(super) types: Vec<ParallelType>,
}

/// The copies so far that later ops may read.
pub(super) struct SharedCopies {
    /// The tensors that have the same elements wherever they are read; `None` if no copy is shared.
    constant: Option<FxHashSet<TensorId>>,
    made: FxHashMap<CopyPlace, TensorId>,
}

impl SharedCopies {
    /// No copies yet; if they are not shared, none is ever found.
    pub(super) fn new(program: &Program, shares: bool) -> Self {
        Self { constant: shares.then(|| constant_tensors(program)), made: FxHashMap::default() }
    }

    /// A copy of an operand: one that was made before, or a new one, which is appended.
    pub(super) fn copy_of(&mut self, build: &mut OpBuilder<'_, '_>, place: CopyPlace, out: &mut Vec<OpId>) -> TensorId {
        if let Some(copy) = self.made.get(&place) {
            return *copy;
        }
        let copy = declare_stored_copy(build, place.operand, place.mesh, &place.types);
        out.push(build.build_set(copy, place.operand));
        // A copy on streams belongs to the loop of its op.
        let is_on_streams = place.types.contains(&ParallelType::Stream);
        let is_constant = self.constant.as_ref().is_some_and(|constant| constant.contains(&place.operand));
        if is_constant && !is_on_streams {
            self.made.insert(place, copy);
        }
        copy
    }
}

/// The inputs that nothing writes, and the results that one op writes.
fn constant_tensors(program: &Program) -> FxHashSet<TensorId> {
    let mut writers: FxHashMap<TensorId, u32> = FxHashMap::default();
    for (_, op) in program.ops().iter() {
        for result in op.all_tensors() {
            writers.entry(result).or_default();
        }
        for result in op.output_tensors() {
            *writers.entry(result).or_default() += 1;
        }
    }
    writers.into_iter().filter(|(_, count)| *count <= 1).map(|(tensor, _)| tensor).collect()
}
