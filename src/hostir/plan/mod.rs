//! Plans: for each rank, one sequence of instructions in which all sizes, buffers and ranks are resolved.
//!
//! [`PlanBuilder`] builds a plan; `crate::lower` drives it over a program.

mod attention_inst;
pub mod axes;
mod budget;
mod builder;
mod collective;
mod compose;
mod copies;
pub mod cost;
mod cursor;
mod debug_info;
mod device_parts;
mod device_work;
mod elided_copies;
mod ended_names;
mod env;
mod expr_value;
mod gemm_pairs;
mod initial;
mod inst;
mod inst_fields;
mod inst_list;
mod inst_questions;
mod inst_template;
mod issued_communications;
mod launch_inst;
mod layout;
mod library_gemm;
mod loop_scope;
mod matching;
pub mod network;
mod packed_insts;
mod participation;
mod poison;
mod print;
mod red_op;
mod remainder;
mod row_function;
mod scalar;
mod stored_inst;
mod stored_part;
mod stream_table;
mod take_inst;
mod tensor_bindings;
mod view;
mod view_overlap;

pub use attention_inst::AttentionInst;
pub use axes::AxesTable;
pub use budget::PlanLimits;
pub(crate) use budget::{Deadline, PlanBudget, size_text, time_limit_advice};
pub use builder::PlanBuilder;
pub use collective::{CollectiveTransfer, EqualShare, MemberRole, MemberSeat, TeamTransfers, WholeTensor};
pub use compose::{ComposedKernel, ScratchStart, emit_running_sums, emit_sum, emit_take, rows_of_view, unsharded_view};
pub(crate) use copies::stream_part;
pub use copies::{emit_copy, emit_copy_to_result, expanded_view};
pub use cursor::InstCursor;
pub(crate) use cursor::StoredCursor;
pub use debug_info::{ComputedIndexFault, DebugInfo};
pub use device_work::DeviceWork;
pub use elided_copies::{ElidedCopies, elide_copies};
pub use env::ExtentEnv;
pub use expr_value::{EvalError, ExprValue};
pub use gemm_pairs::{GemmPair, WorkItem, direct_store_pairs, sole_reader_pairs};
pub use initial::{ReductionFold, starts_from_identity, type_range};
pub(crate) use inst::LEAST_INST_BYTES;
pub use inst::{
    BufferKind, CollectiveInst, CollectiveKind, CommSlot, EventId, GemmInst, Inst, InstId, InstKind, InstOrigin,
    IterationId, KernelStep, LoopIteration, MessageHeader, PlanBuffer, PointwiseKernel, ReduceInst, StepOperand,
    StreamSlot, USER_STREAM, WorkSlot,
};
pub(crate) use inst_fields::ViewMotion;
pub(crate) use inst_list::RepeatedBody;
pub use inst_questions::InstRole;
pub(crate) use issued_communications::{HandlePost, HandleStart};
pub use launch_inst::{LaunchArgument, LaunchInst, UserKernel};
pub(crate) use layout::shard_place;
pub use library_gemm::{BatchAxis, LibraryBias, LibraryGemm, MatrixOrder, PerOperand, is_library_gemm};
pub use matching::{CollectiveMember, MatchedCommunicator, MatchedMessage, PlanMatching, RankInst};
pub use print::PlanText;
pub use red_op::RedOp;
pub(crate) use row_function::compute_row;
pub use row_function::{RowCall, RowElements, RowFunction, RowOperand, RowValues};
pub use scalar::apply_function;
pub(crate) use scalar::{LocalScalars, constant_value, evaluate_extent, evaluate_scalar};
pub(crate) use stored_inst::{InstReader, QueueAction, StoredInst};
pub use stored_part::stored_input;
pub use take_inst::{AccumulateInst, RowsInst, TakeInst};
pub use view::{BufferId, BufferView, ViewDim, ViewDims, row_major};
pub use view_overlap::{are_disjoint, is_same_view};

pub use crate::ir::functions::{Function, ScalarValue};
use crate::ir::{CommBackend, ExprId, IdVec, OpId};
use smallvec::SmallVec;

/// A communicator: an ordered team and the library that carries its communications. A team may have several, each with
/// a queue of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlanCommunicator {
    /// Absolute ranks in team order, which gathers and scatters follow.
    pub team: Vec<u32>,
    /// The library or mechanism.
    pub backend: CommBackend,
    /// The name in the text (`comm=`); `None` for the usual one.
    pub name: Option<Box<str>>,
}

impl PlanCommunicator {
    /// ` second` of a communicator with a name, for texts.
    pub fn name_suffix(&self) -> String {
        self.name.as_ref().map_or_else(String::new, |name| format!(" {name}"))
    }
}

/// The program's way to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamLabel {
    /// The program has no name for it: the caller's stream, unless a GetCurrentStream binds one.
    Unnamed,
    /// A GetCurrentStream binds this expression to it.
    Bound(ExprId),
    /// The number of the stream in the pool.
    Index(i64),
}

/// A Deallocate of the tensor that owns a buffer to which other tensors are bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedOwner {
    /// The buffer.
    pub buffer: BufferId,
    /// The Deallocate.
    pub op: OpId,
    /// The number of instructions issued before it.
    pub issued: usize,
}

/// Facts about a plan that no instruction needs.
#[derive(Clone, Default, Debug)]
pub struct PlanNotes {
    /// Buffers whose tensor a Deallocate ended while other tensors were bound to them, in issue order.
    pub ended_owners: Vec<EndedOwner>,
    /// The values to show after a run, in issue order.
    pub prints: Vec<PlanPrint>,
}

/// The values that a `Print` shows, each with its name.
#[derive(Clone, Debug)]
pub struct PlanPrint {
    /// The op and the loop iteration.
    pub origin: InstOrigin,
    /// The values.
    pub values: Vec<(String, PrintedValue)>,
}

/// A value that a `Print` shows.
#[derive(Clone, Debug)]
pub enum PrintedValue {
    /// A scalar.
    Scalar(ScalarValue),
    /// A tensor: the copy, which is kept until the run has ended. It is one of the plan's outputs, after those of the
    /// program.
    Tensor(BufferView),
}

/// The instructions of one rank, with their buffers and communicators.
#[derive(Clone, Default, Debug)]
pub struct Plan {
    /// The rank.
    pub rank: u32,
    /// Its buffers.
    pub buffers: IdVec<BufferId, PlanBuffer>,
    /// By buffer: the extents of the tensor for which it was created, on this rank; for messages.
    pub buffer_shapes: Vec<SmallVec<[usize; 4]>>,
    /// Its instructions in the order the host issues them.
    insts: inst_list::InstList,
    /// Loop indices by iteration; row 0 is empty.
    pub iterations: Vec<LoopIteration>,
    /// The communicators of which the rank is a member.
    pub communicators: IdVec<CommSlot, PlanCommunicator>,
    /// Number of streams; the first is the caller's.
    pub streams: u32,
    /// Facts for reports.
    pub notes: PlanNotes,
    /// By stream: the name that the program has for it, for messages.
    pub stream_labels: Vec<StreamLabel>,
    /// Number of events.
    pub events: u32,
    /// Number of completion handles.
    pub works: u32,
    /// The memory of each tensor input; `None` if the rank is not in its mesh.
    pub inputs: Vec<Option<BufferView>>,
    /// The memory of each tensor output at the end; `None` if nothing is bound to it.
    pub outputs: Vec<Option<BufferView>>,
    /// The peak of the bytes of allocated and input buffers, in issue order.
    pub peak_bytes: u64,
}

impl Plan {
    /// The loop indices around an instruction.
    pub fn iteration_of(&self, origin: InstOrigin) -> &LoopIteration {
        &self.iterations[inst::index_of(origin.iteration)]
    }
    /// The number of a stream in the pool, by which the program's text names it; `None` for the caller's stream.
    pub fn stream_number(&self, stream: StreamSlot) -> Option<i64> {
        match self.stream_labels.get(stream.0 as usize) {
            _ if stream == USER_STREAM => None,
            Some(StreamLabel::Index(number)) => Some(*number),
            _ => Some(i64::from(stream.0)),
        }
    }
    /// `s2`, or `caller`: a stream in a listing.
    pub fn stream_tag(&self, stream: StreamSlot) -> String {
        self.stream_number(stream).map_or_else(|| "caller".to_owned(), |number| format!("s{number}"))
    }
    /// `stream 2`, or `caller`: the title of a stream's work.
    pub fn stream_title(&self, stream: StreamSlot) -> String {
        self.stream_number(stream).map_or_else(|| "caller".to_owned(), |number| format!("stream {number}"))
    }
    /// `4 streams and the caller's`: the number of streams in words.
    pub fn stream_count_text(&self) -> String {
        match self.streams.saturating_sub(1) {
            0 => "the caller's stream".to_owned(),
            1 => "1 stream and the caller's".to_owned(),
            more => format!("{more} streams and the caller's"),
        }
    }
}
