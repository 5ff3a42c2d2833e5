//! Copies of operands that several ops need alike, such as the gathered rows of a projection to q, k and v.

use crate::support::builder::OpBuilder;
use crate::support::reshard::declare_stored_copy;
use hostir::ir::{MeshId, OpId, ParallelType, Program, TensorId};

/// An operand, and the mesh and the parallel types of its copy.
#[derive(PartialEq)]
pub(super) struct CopyPlace {
    pub(super) operand: TensorId,
    pub(super) mesh: Option<MeshId>,
    pub(super) types: Vec<ParallelType>,
}

/// The copies so far that later ops may read.
pub(super) struct SharedCopies {
    shares: bool,
    made: Vec<(CopyPlace, TensorId)>,
}

impl SharedCopies {
    /// No copies yet; if they are not shared, none is ever found.
    pub(super) fn new(shares: bool) -> Self {
        Self { shares, made: Vec::new() }
    }

    /// A copy of an operand: one that was made before, or a new one, which is appended.
    pub(super) fn copy_of(&mut self, build: &mut OpBuilder<'_, '_>, place: CopyPlace, out: &mut Vec<OpId>) -> TensorId {
        if let Some((_, copy)) = self.made.iter().find(|(made, _)| *made == place) {
            return *copy;
        }
        let copy = declare_stored_copy(build, place.operand, place.mesh, &place.types);
        out.push(build.build_set(copy, place.operand));
        // A copy on streams belongs to the loop of its op.
        let is_on_streams = place.types.contains(&ParallelType::Stream);
        if self.shares && !is_on_streams && is_written_once(build.program(), place.operand) {
            self.made.push((place, copy));
        }
        copy
    }
}

/// True if a tensor has the same elements wherever it is read.
fn is_written_once(program: &Program, tensor: TensorId) -> bool {
    let writers = program.ops().iter().filter(|(_, op)| op.output_tensors().any(|result| result == tensor));
    writers.count() <= 1
}
