//! The happens-before order of all ranks' instructions, by vector clocks.
//!
//! An `OrderWalk` goes through the queues of all ranks (streams and communicators, as [`super::queues`] divides them)
//! in one order that respects all others. It reports each access to memory to an [`OrderObserver`]: the clock at its
//! start, and the point of a queue at which it has ended. Two accesses are ordered iff one has ended at a point that
//! the clock at the other's start has reached.
//!
//! The rules (`docs/language.md`, "Order"):
//! - a stream's instructions follow each other; a communicator's units too;
//! - `Synchronize` orders the earlier work of a stream before the later work of the current stream;
//! - a unit starts after the work that the issuing streams had at the time of the post, and a Wait is after its end;
//! - for two ranks, a member of a collective ends after the starts of those whose data it receives, a receive after
//!   the start of its send;
//! - a message on streams starts after both sides' posts and ends on both sides at once. The target's buffer is in
//!   use from its post on.

mod awaited_clocks;
mod clock;
mod rank_state;
mod walk;

pub(crate) use clock::{ChainPoint, VectorClock};
pub(crate) use walk::{
    AccessEnd, MemoryAccess, OrderObserver, WaitInst, WalkOutcome, WalkedEnds, walk_order, walk_rotated_order,
};
