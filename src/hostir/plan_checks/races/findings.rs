//! The findings of a walk, without words.

use super::history::{PastAccess, UnwrittenElements};
use crate::plan::{BufferId, BufferView, InstId};

/// Two accesses without an order.
#[derive(Clone, Debug)]
pub(in crate::plan_checks) struct UnorderedPair {
    /// The access that the walk came to first.
    pub(in crate::plan_checks) earlier: PastAccess,
    /// The other one.
    pub(in crate::plan_checks) later: PastAccess,
    /// An element that both access.
    pub(in crate::plan_checks) element: usize,
}

/// Something wrong with a buffer's memory.
#[derive(Clone, Debug)]
pub(in crate::plan_checks) enum MemoryFinding {
    /// Two accesses, at least one of which writes, have no order.
    Race {
        /// The rank.
        rank: usize,
        /// The buffer.
        buffer: BufferId,
        /// The accesses.
        pair: UnorderedPair,
    },
    /// An instruction of a stream reads an element and writes it as another one.
    Overlap {
        /// The rank.
        rank: usize,
        /// The instruction.
        inst: InstId,
        /// The buffer.
        buffer: BufferId,
        /// An element that it reads and writes.
        element: usize,
    },
    /// An access to an input or output that the end of the caller's stream does not wait for.
    Unjoined {
        /// The rank.
        rank: usize,
        /// The buffer.
        buffer: BufferId,
        /// The access.
        access: PastAccess,
    },
    /// A read of uninitialised elements.
    Unwritten {
        /// The rank.
        rank: usize,
        /// The reading instruction.
        inst: InstId,
        /// The view that it reads.
        view: BufferView,
        /// The elements.
        elements: UnwrittenElements,
    },
    /// An output that has no memory at the end.
    FreedOutput {
        /// The rank.
        rank: usize,
        /// The output's number.
        output: usize,
    },
    /// An output with uninitialised elements.
    UnwrittenOutput(UnwrittenOutput),
}

impl MemoryFinding {
    /// An output that is not wholly written.
    pub(super) fn unwritten_output(&self) -> Option<&UnwrittenOutput> {
        match self {
            Self::UnwrittenOutput(found) => Some(found),
            _ => None,
        }
    }
}

/// The uninitialised elements of an output on a rank.
#[derive(Clone, Copy, Debug)]
pub(in crate::plan_checks) struct UnwrittenOutput {
    /// The rank.
    pub(in crate::plan_checks) rank: usize,
    /// The output's number.
    pub(in crate::plan_checks) output: usize,
    /// The elements.
    pub(in crate::plan_checks) elements: UnwrittenElements,
    /// The number of all elements.
    pub(in crate::plan_checks) all: usize,
}
