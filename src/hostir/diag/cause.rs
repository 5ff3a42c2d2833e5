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
    /// A send and a receive that should be the two sides of one message, but name other ranks.
    Peers(PeerMismatch),
    /// Members of a team that compute different teams at one statement.
    Teams,
    /// The members of a team that start a collective which the others never start.
    Members(Vec<i64>),
    /// Messages from one rank to another that are more than the other side has.
    Counts(CountMismatch),
}

/// The two sides of messages that are not equally many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountMismatch {
    /// A message that the other side lacks.
    pub posted: Span,
    /// A message of the other side; `None` if it has none.
    pub answered: Option<Span>,
    /// The rank that has more, and the other one.
    pub ranks: [u32; 2],
    /// True if the first rank sends.
    pub sends: bool,
}

/// A message to or from a rank, which names another rank in its own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerMismatch {
    /// The message of the first rank.
    pub posted: Span,
    /// That of the second one.
    pub answered: Span,
    /// Both ranks: the first names the second.
    pub ranks: [u32; 2],
    /// The rank that the second one names.
    pub found: u32,
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
