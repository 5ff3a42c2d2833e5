//! What the loops that have run so far left behind.

use crate::analysis::renewed::{LoopPrivateTensors, TouchCounts};
use crate::ir::{OpId, Program, TensorId};
use crate::plan::BufferId;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What is known of the loops that have run so far.
#[derive(Default)]
pub(super) struct PrivatizationCache {
    loops: FxHashMap<OpId, Rc<LoopPrivateTensors>>,
    /// What the last iteration of a loop gave a tensor: no memory that it had before another loop.
    pub(super) left: FxHashMap<TensorId, BufferId>,
    touches: Option<TouchCounts>,
}

impl PrivatizationCache {
    /// What loses its memory when an iteration of a loop begins.
    pub(super) fn private_tensors(&mut self, program: &Program, looped: OpId) -> Rc<LoopPrivateTensors> {
        if let Some(known) = self.loops.get(&looped) {
            return Rc::clone(known);
        }
        let touches = self.touches.get_or_insert_with(|| TouchCounts::from_program(program));
        let found = Rc::new(LoopPrivateTensors::of_loop(program, looped, touches));
        self.loops.insert(looped, Rc::clone(&found));
        found
    }
}
