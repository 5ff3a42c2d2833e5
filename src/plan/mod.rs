//! Plans: programs with all unknowns gone, as one sequence of resolved instructions for each rank.
//!
//! [`PlanBuilder`] builds one; `crate::lower` drives it over a program.

pub mod axes;
mod budget;
mod builder;
mod collective;
mod copies;
pub mod cost;
mod cursor;
mod debug_info;
mod env;
mod function;
mod initial;
mod inst;
mod matching;
mod print;
pub(crate) mod real;
mod scalar;
mod take_inst;

pub use axes::AxesTable;
pub use budget::Limits;
pub(crate) use budget::{Budget, Deadline};
pub use builder::PlanBuilder;
pub use collective::{
    CollectiveTransfer, EqualShare, MemberRole, MemberSeat, TeamTransfers, WholeTensor,
};
pub(crate) use copies::{copy_into, emit_copy, expanded, stream_part};
pub use cursor::{InstCursor, InstId};
pub use debug_info::Labels;
pub use env::Env;
pub use function::Function;
pub(crate) use initial::fold;
pub use initial::{Fold, starts_from_identity};
pub use inst::{
    Arg, Buffer, BufferId, BufferKind, Collective, CollectiveKind, CommSlot, Dim, Dims, EventId,
    Gemm, Inst, InstKind, Iteration, IterationId, Kernel, Origin, RedOp, Step, StreamSlot,
    USER_STREAM, View, WorkSlot, row_major,
};
pub use matching::{CollectiveMember, MatchedCommunicator, MatchedMessage, PlanMatching, RankInst};
pub use print::PlanText;
pub use scalar::{EvalError, Scalar, apply};
pub(crate) use scalar::{Locals, evaluate};
pub use take_inst::{Accumulate, Take};

use crate::ir::IdVec;

/// One communicator: an ordered team and the library that carries its traffic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Communicator {
    /// Absolute ranks in the order that gathers and scatters follow.
    pub team: Vec<u32>,
    /// `NCCL`, `UCC` or `CUDA`.
    pub backend: String,
}

/// What one rank does.
#[derive(Clone, Default, Debug)]
pub struct Plan {
    /// The rank.
    pub rank: u32,
    /// Its buffers.
    pub buffers: IdVec<BufferId, Buffer>,
    /// Its instructions in the order the host issues them.
    insts: Vec<Inst>,
    /// Loop indices by iteration; row 0 is empty.
    pub iterations: Vec<Iteration>,
    /// Communicators it is a member of.
    pub communicators: IdVec<CommSlot, Communicator>,
    /// Number of streams; stream 0 is the caller's.
    pub streams: u32,
    /// Number of events.
    pub events: u32,
    /// Number of works.
    pub works: u32,
    /// Memory of each tensor input; `None` outside of its mesh.
    pub inputs: Vec<Option<View>>,
    /// Memory of each tensor output at the end; `None` where nothing was bound.
    pub outputs: Vec<Option<View>>,
    /// Most bytes of allocated and input buffers alive at one time, in issue order.
    pub peak_bytes: u64,
}

impl Plan {
    /// The loop indices around an instruction.
    pub fn iteration(&self, origin: Origin) -> &Iteration {
        &self.iterations[inst::at(origin.iteration)]
    }
}
