//! Programs with all unknowns gone: one sequence of resolved instructions for each rank.
//!
//! [`prepare`] binds the extents ([`sizes`]), decides whether the program is lowered, and lowers it once
//! for each rank ([`Lowering`]); [`mod@shard`] and [`assemble`] go between whole tensors and ranks' parts.

pub mod axes;
mod budget;
mod collective;
mod comm;
mod compute;
mod control;
pub mod cost;
mod cursor;
mod fresh;
mod function;
mod initial;
mod inst;
mod labels;
mod lower;
mod matching;
mod memory;
mod prepare;
mod print;
pub(crate) mod real;
mod scalar;
mod shape;
pub mod shard;
pub mod sizes;
mod take;

pub(crate) use budget::Deadline;
pub use budget::Limits;
pub use collective::{
    CollectiveTransfer, EqualShare, MemberRole, MemberSeat, TeamTransfers, WholeTensor,
};
pub use comm::{
    lower_collective_permute, lower_communication, lower_end_coalescing, lower_p2p,
    lower_share_mem_handles, lower_start_coalescing, lower_wait,
};
pub use compute::{
    lower_full, lower_iota, lower_linear, lower_matmul, lower_pointwise, lower_reduction,
    lower_set, lower_set_permute,
};
pub use control::{
    launch_call, lower_for, lower_for_range, lower_get_current_stream, lower_if,
    lower_post_on_stream, lower_set_current_stream, lower_synchronize,
};
pub use cursor::{InstCursor, InstId};
pub use function::Function;
pub use initial::{Fold, starts_from_identity};
pub use inst::{
    Arg, Buffer, BufferId, BufferKind, Collective, CollectiveKind, CommSlot, Dim, Dims, EventId,
    Gemm, Inst, InstKind, Iteration, IterationId, Kernel, Origin, RedOp, Step, StreamSlot,
    USER_STREAM, View, WorkSlot, row_major,
};
pub use labels::Labels;
pub use lower::Lowering;
pub use matching::{CollectiveMember, MatchedCommunicator, MatchedMessage, PlanMatching, RankInst};
pub use memory::{lower_allocate, lower_deallocate, lower_select, lower_shard_by_stream};
pub use prepare::{Port, PortAxis, Prepared, prepare, prepare_keeping, prepare_rank};
pub use print::PlanText;
pub use scalar::{EvalError, Scalar, apply};
pub use shape::{
    lower_broadcast, lower_cat, lower_expand, lower_pad, lower_slice, lower_squeeze, lower_view,
};
pub use shard::{assemble, shard};
pub use sizes::{Env, Sizes, infer, needed_ranks};
pub use take::{
    Accumulate, Take, lower_index_put_accumulate, lower_index_select, lower_take_along_axis,
    lower_torch_gather,
};

use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{IdVec, OpId};

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

/// `lower` of LaunchKernel: its kernel is not in the text.
pub fn lower_launch_kernel(cx: &mut Lowering<'_>, _: OpId) -> Result<(), Diag> {
    let message = "`LaunchKernel` cannot run: the text does not hold the kernel that it launches";
    let note = "write the kernel's ops as a HostUnit and post it with `PostOnStream`, or in the place of the launch";
    Err(cx.error(codes::CANNOT_RUN, message).note(note))
}

/// `lower` of ops that cannot run yet: an error that names the op.
pub fn unsupported(cx: &mut Lowering<'_>, op: OpId) -> Result<(), Diag> {
    let name = cx.program.op(op).kind.spec().name;
    Err(cx.error(codes::CANNOT_RUN, format!("`{name}` cannot run yet")))
}
