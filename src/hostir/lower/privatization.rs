//! The state that completed loops leave to later ones.

use crate::analysis::loop_private::{LoopPrivateTensors, UseCounts};
use crate::ir::{OpId, Program, TensorId};
use crate::plan::BufferId;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The state that completed loops leave to later ones: their loop-private tensors and last buffers.
#[derive(Default)]
pub(super) struct PrivatizationCache {
    loops: FxHashMap<OpId, Rc<LoopPrivateTensors>>,
    /// The buffer that the last iteration of a loop gave to a tensor that had no memory before that loop.
    pub(super) left: FxHashMap<TensorId, BufferId>,
    use_counts: Option<UseCounts>,
}

impl PrivatizationCache {
    /// Returns the tensors that get new memory in each iteration of a loop.
    pub(super) fn private_tensors(&mut self, program: &Program, looped: OpId) -> Rc<LoopPrivateTensors> {
        if let Some(known) = self.loops.get(&looped) {
            return Rc::clone(known);
        }
        let use_counts = self.use_counts.get_or_insert_with(|| UseCounts::from_program(program));
        let found = Rc::new(LoopPrivateTensors::of_loop(program, looped, use_counts));
        self.loops.insert(looped, Rc::clone(&found));
        found
    }
}
