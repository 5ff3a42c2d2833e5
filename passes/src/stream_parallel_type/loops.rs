//! Loops over streams before their construction: their ops, and the source of each one's data.

use super::config::{AllgatherMethod, Config};
use hostir::ir::{DomainId, OpId, Program};

/// A part of the new body.
pub(super) enum BodyItem {
    /// An op that stays where it is.
    Op(OpId),
    /// Ops that move into a loop.
    Loop(StreamLoop),
}

/// Ops with one stream-parallel axis.
pub(super) struct StreamLoop {
    /// The axis that the first op is spread by.
    pub(super) domain: DomainId,
    /// Its class.
    pub(super) class: u32,
    /// The ops in order, with the source of each one's data.
    pub(super) ops: Vec<(OpId, DataRole)>,
    /// The communication of its ops, if any.
    device_move: Option<DeviceMove>,
}

impl StreamLoop {
    /// A loop of one op.
    pub(super) fn from_op(op: OpId, streamed: StreamedOp) -> Self {
        let StreamedOp { domain, class, role } = streamed;
        Self { domain, class, ops: vec![(op, role)], device_move: role.device_move() }
    }
    /// True if an op may join the loop.
    ///
    /// True if an op may join the loop. A loop that exchanges parts takes no collective, nor the other way round: rank
    /// 1's first exchange waits for rank 0's second iteration, which would wait for a collective with rank 1's first.
    /// (nvFuser merges them, and hangs.) Reduce-scatters join neither: their ranks work on other parts than those of an
    /// exchange, and their result is complete only after the loop.
    pub(super) fn can_join(&self, program: &Program, streamed: StreamedOp) -> bool {
        let device_move = streamed.role.device_move();
        self.class == streamed.class
            && program.domain(self.domain).extent == program.domain(streamed.domain).extent
            && (self.device_move.is_none() || device_move.is_none() || self.device_move == device_move)
    }
    /// Adds an op.
    pub(super) fn push(&mut self, op: OpId, streamed: StreamedOp) {
        self.ops.push((op, streamed.role));
        self.device_move = self.device_move.or(streamed.role.device_move());
    }
    /// Whether each rank starts at its own part.
    pub(super) fn is_offset(&self, config: &Config) -> bool {
        match self.device_move {
            Some(DeviceMove::Scatter) => true,
            Some(DeviceMove::Reduce) => false,
            _ => config.allgather == AllgatherMethod::Ring,
        }
    }
}

/// The source of an op's data in an iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DataRole {
    /// It has it.
    Local,
    /// From all ranks of a team together.
    Collective,
    /// The part that another rank holds.
    Gather,
    /// Partial results of its own part on other ranks, one rank's in each iteration.
    Scatter,
    /// All partial results of one rank's part, reduced on their way there.
    Reduce,
}

/// The communication between devices that the ops of one loop take part in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceMove {
    /// All ranks together, in each iteration.
    Collective,
    /// Rank r's iteration i with rank i's iteration r.
    Exchange,
    /// Iteration i of rank r with iteration i of ranks r + i and r - i.
    Scatter,
    /// All ranks together, to rank i in iteration i.
    Reduce,
}

impl DataRole {
    /// True if this pass turns the op into a collective, and not convert-op-to-communication.
    pub(super) fn is_collective_of_pass(self, config: &Config) -> bool {
        match self {
            DataRole::Reduce => true,
            DataRole::Gather => config.allgather == AllgatherMethod::Broadcast,
            DataRole::Local | DataRole::Collective | DataRole::Scatter => false,
        }
    }
    fn device_move(self) -> Option<DeviceMove> {
        match self {
            DataRole::Local => None,
            DataRole::Collective => Some(DeviceMove::Collective),
            DataRole::Gather => Some(DeviceMove::Exchange),
            DataRole::Scatter => Some(DeviceMove::Scatter),
            DataRole::Reduce => Some(DeviceMove::Reduce),
        }
    }
}

/// An op that moves into a loop.
#[derive(Clone, Copy)]
pub(super) struct StreamedOp {
    /// The axis that is looped over.
    pub(super) domain: DomainId,
    /// Its class.
    pub(super) class: u32,
    /// The source of its data.
    pub(super) role: DataRole,
}

/// An op, and the loop it asks for.
#[derive(Clone, Copy)]
pub(super) struct GraphNode {
    pub(super) op: OpId,
    pub(super) streamed: Option<StreamedOp>,
}
