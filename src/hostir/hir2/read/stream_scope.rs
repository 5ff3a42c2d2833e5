//! The loops and streams around the statement that is read.

use crate::ir::ExprId;

/// The loops and streams around a statement.
pub(super) struct StreamScope {
    loops: u32,
    /// True once the caller's stream has a name.
    has_caller: bool,
    /// The streams of the blocks around, innermost last.
    current: Vec<ExprId>,
    /// The address that stands for the next name of a stream.
    next_address: u64,
}

impl StreamScope {
    /// The scope at the start of a program.
    pub(super) fn new() -> Self {
        Self { loops: 0, has_caller: false, current: Vec::new(), next_address: 1 }
    }

    /// A loop begins.
    pub(super) fn enter_loop(&mut self) {
        self.loops += 1;
    }

    /// A loop ends.
    pub(super) fn leave_loop(&mut self) {
        self.loops -= 1;
    }

    /// Returns true if a loop is around the statement.
    pub(super) fn is_in_loop(&self) -> bool {
        self.loops > 0
    }

    /// The caller's stream has a name from here on; returns true if it had one before.
    pub(super) fn name_caller(&mut self) -> bool {
        std::mem::replace(&mut self.has_caller, true)
    }

    /// A block of a stream begins.
    pub(super) fn enter_stream(&mut self, stream: ExprId) {
        self.current.push(stream);
    }

    /// A block of a stream ends.
    pub(super) fn leave_stream(&mut self) {
        self.current.pop();
    }

    /// The stream of the innermost block.
    pub(super) fn current_stream(&self) -> Option<ExprId> {
        self.current.last().copied()
    }

    /// The address that stands for a new name.
    pub(super) fn next_address(&self) -> u64 {
        self.next_address
    }

    /// The address is taken.
    pub(super) fn take_address(&mut self) {
        self.next_address += 1;
    }
}
