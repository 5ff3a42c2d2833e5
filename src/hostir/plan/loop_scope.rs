//! The loops around the op that is being lowered: indices, scalars, and the iteration.

use super::scalar::LocalScalars;
use super::{IterationId, LoopIteration};
use crate::ir::functions::ScalarValue;
use crate::ir::{ExprId, Symbol};

/// The loops and branches around an op.
pub(crate) struct LoopScope {
    /// Loop indices and scalar results by name.
    pub(crate) locals: LocalScalars,
    /// The indices and their values, outermost first.
    pub(super) indices: LoopIteration,
    /// The row of the indices in the plan's table of iterations.
    pub(super) iteration: IterationId,
    /// The indices of the enclosing loops that shard tensors by stream, outermost first.
    pub(super) stream_indices: Vec<ExprId>,
    /// The number of random ops without a seed that have run so far.
    pub(super) random_draws: i64,
}

/// The scope to restore at the end of an iteration.
pub(crate) struct OuterIteration {
    iteration: IterationId,
    locals: usize,
    indices: usize,
    stream_indices: usize,
}

impl LoopScope {
    /// The scope outside of all loops.
    pub(super) fn new() -> Self {
        Self {
            locals: LocalScalars::default(),
            indices: LoopIteration::new(),
            iteration: IterationId(0),
            stream_indices: Vec::new(),
            random_draws: 0,
        }
    }

    /// Marks the scope around an iteration or branch that begins.
    pub(super) fn outer(&self) -> OuterIteration {
        OuterIteration {
            iteration: self.iteration,
            locals: self.locals.len(),
            indices: self.indices.len(),
            stream_indices: self.stream_indices.len(),
        }
    }

    /// Binds a loop index in an iteration.
    pub(super) fn bind_index(&mut self, index: Symbol, value: i64, iteration: IterationId) {
        self.locals.push(index, ScalarValue::Int(value));
        self.indices.push((index, value));
        self.iteration = iteration;
    }

    /// Restores the scope around an iteration or branch.
    pub(super) fn restore(&mut self, outer: OuterIteration) {
        self.stream_indices.truncate(outer.stream_indices);
        self.indices.truncate(outer.indices);
        self.locals.truncate(outer.locals);
        self.iteration = outer.iteration;
    }
}
