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
pub use budget::PlanLimits;
pub(crate) use budget::{Deadline, PlanBudget};
pub use builder::PlanBuilder;
pub use collective::{CollectiveTransfer, EqualShare, MemberRole, MemberSeat, TeamTransfers, WholeTensor};
pub(crate) use copies::{emit_copy, emit_copy_to_result, expanded_view, stream_part};
pub use cursor::{InstCursor, InstId};
pub use debug_info::DebugInfo;
pub use env::ExtentEnv;
pub use function::Function;
pub(crate) use initial::type_range;
pub use initial::{ReductionFold, starts_from_identity};
pub use inst::{
    BufferId, BufferKind, BufferView, CollectiveInst, CollectiveKind, CommSlot, EventId, GemmInst, Inst, InstKind,
    InstOrigin, IterationId, KernelStep, LoopIteration, PlanBuffer, PointwiseKernel, RedOp, StepOperand, StreamSlot,
    USER_STREAM, ViewDim, ViewDims, WorkSlot, row_major,
};
pub use matching::{CollectiveMember, MatchedCommunicator, MatchedMessage, PlanMatching, RankInst};
pub use print::PlanText;
pub use scalar::{EvalError, ScalarValue, apply_function};
pub(crate) use scalar::{LocalScalars, evaluate_extent};
pub use take_inst::{AccumulateInst, TakeInst};

use crate::ir::IdVec;

/// One communicator: an ordered team and the library that carries its traffic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlanCommunicator {
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
    pub buffers: IdVec<BufferId, PlanBuffer>,
    /// Its instructions in the order the host issues them.
    insts: Vec<Inst>,
    /// Loop indices by iteration; row 0 is empty.
    pub iterations: Vec<LoopIteration>,
    /// Communicators it is a member of.
    pub communicators: IdVec<CommSlot, PlanCommunicator>,
    /// Number of streams; stream 0 is the caller's.
    pub streams: u32,
    /// Number of events.
    pub events: u32,
    /// Number of works.
    pub works: u32,
    /// Memory of each tensor input; `None` outside of its mesh.
    pub inputs: Vec<Option<BufferView>>,
    /// Memory of each tensor output at the end; `None` where nothing was bound.
    pub outputs: Vec<Option<BufferView>>,
    /// Most bytes of allocated and input buffers alive at one time, in issue order.
    pub peak_bytes: u64,
}

impl Plan {
    /// The loop indices around an instruction.
    pub fn iteration_of(&self, origin: InstOrigin) -> &LoopIteration {
        &self.iterations[inst::index_of(origin.iteration)]
    }
}
