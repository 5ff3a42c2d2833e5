//! The streams and loops around the statement that is written.

use crate::ir::ExprId;

/// The streams and loops around a statement.
#[derive(Clone, Default)]
pub(super) struct OpenStreams {
    /// True if `stream 0 = current` stands in the text so far, or a statement that implies it.
    pub(super) is_caller_bound: bool,
    /// The streams of the blocks and loops, innermost last.
    streams: Vec<ExprId>,
    loops: usize,
}

impl OpenStreams {
    /// No stream and no loop, where the caller's stream has a name or not.
    pub(super) fn with_caller(is_caller_bound: bool) -> Self {
        Self { is_caller_bound, ..Self::default() }
    }

    /// A block of a stream begins.
    pub(super) fn enter_stream(&mut self, stream: ExprId) {
        self.streams.push(stream);
    }

    /// A block of a stream ends.
    pub(super) fn leave_stream(&mut self) {
        self.streams.pop();
    }

    /// The stream of the innermost block.
    pub(super) fn innermost_stream(&self) -> Option<ExprId> {
        self.streams.last().copied()
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
}
