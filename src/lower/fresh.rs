//! What the loops that have run so far left behind.

use crate::analysis::renewed::{Renewed, Touches};
use crate::ir::{OpId, Program, TensorId};
use crate::plan::BufferId;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What is known of the loops that have run so far.
#[derive(Default)]
pub(super) struct Fresh {
    loops: FxHashMap<OpId, Rc<Renewed>>,
    /// What the last iteration of a loop gave a tensor: no memory that it had before another loop.
    pub(super) left: FxHashMap<TensorId, BufferId>,
    touches: Option<Touches>,
}

impl Fresh {
    /// What loses its memory when an iteration of a loop begins.
    pub(super) fn of(&mut self, program: &Program, looped: OpId) -> Rc<Renewed> {
        if let Some(known) = self.loops.get(&looped) {
            return Rc::clone(known);
        }
        let touches = self.touches.get_or_insert_with(|| Touches::of(program));
        let found = Rc::new(Renewed::of(program, looped, touches));
        self.loops.insert(looped, Rc::clone(&found));
        found
    }
}
