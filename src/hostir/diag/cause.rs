//! Causes of diagnostics: the facts that repairs look at, where the code alone does not say enough.

use super::{Message, Span};

/// The cause of a diagnostic, as data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Two accesses to the same memory without an order.
    Race(Race),
    /// Communications of one queue that keep the iterations of a loop from overlapping.
    Skew(SkewPlaces),
    /// Another rank's failure, for which this rank gave up: where it was, as a clause.
    Aborted(Message),
    /// Operations that need statements of their own: the names that its notes propose for their results.
    NewNames(Vec<String>),
    /// Elements that are read before anything has written them.
    Unwritten(UnwrittenPlace),
}

/// Elements of a tensor's memory that are read before anything has written them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnwrittenPlace {
    /// The tensor.
    pub tensor: String,
    /// The rank.
    pub rank: u32,
    /// The first of the elements, `G[1, 0]`.
    pub first: String,
}

/// A loop that is to be skewed: the stage of an iteration runs after the earlier stages of later iterations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkewPlaces {
    /// The loop.
    pub looped: Span,
    /// The statements of its block with which the second stage and the later ones begin.
    pub stages: Vec<Span>,
}

/// A race of two statements, or of two iterations of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    /// The statement that the host issues first.
    pub first: Span,
    /// The one that is to wait.
    pub second: Span,
    /// True if the first one writes.
    pub first_writes: bool,
    /// True if the second one writes.
    pub second_writes: bool,
    /// True if both are one op in different iterations.
    pub is_one_op: bool,
}
