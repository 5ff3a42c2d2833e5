//! The elements of a plan: slots, strided views and instructions.

use super::attention_inst::AttentionInst;
use super::initial::ReductionFold;
use super::launch_inst::LaunchInst;
use super::red_op::RedOp;
use super::take_inst::{AccumulateInst, RowsInst, TakeInst};
use super::view::{BufferId, BufferView, ViewDim};
use crate::ir::functions::{Function, ScalarValue};
use crate::ir::{DType, Id, MessageDirection, MessageProtocol, OpId, TensorId};
use smallvec::SmallVec;

crate::ir::dense_id! {
    /// An instruction of a plan. Ids grow in the order in which the host issues the instructions.
    InstId
}
crate::ir::dense_id! {
    /// A stream of a rank; 0 is the caller's stream.
    StreamSlot
}
crate::ir::dense_id! {
    /// An event: recorded once, waited for any number of times.
    EventId
}
crate::ir::dense_id! {
    /// A communicator: one team, one backend and one name.
    CommSlot
}
crate::ir::dense_id! {
    /// The completion handle of one issued communication (or group), as c10d's `Work`.
    WorkSlot
}
crate::ir::dense_id! {
    /// A row of the plan's table of loop iterations; 0 is "outside of any loop".
    IterationId
}

/// The owner of a buffer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferKind {
    /// Bound by the caller: input number `n`.
    Input(u32),
    /// Made by ALLOCATE or by an op whose result had no memory.
    Allocated,
    /// Made by the plan itself as scratch of an instruction.
    Temp,
}

/// One allocation of one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanBuffer {
    /// Number of elements.
    pub elements: usize,
    /// Element type.
    pub dtype: DType,
    /// The tensor it was made for.
    pub tensor: TensorId,
    /// Owner.
    pub kind: BufferKind,
}

/// The source of an instruction: its op and loop iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct InstOrigin {
    /// The op.
    pub op: OpId,
    /// The values of the loop indices around it.
    pub iteration: IterationId,
}

/// The type of a collective; `docs/language.md` lists each type's inputs and outputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// Concatenates the senders' shards, in team order, on the root.
    Gather,
    /// Concatenates all members' shards, in team order, on every member.
    Allgather,
    /// Sends equal shards of the root's tensor, in team order, to the receivers.
    Scatter,
    /// Reduces the senders' tensors on the root.
    Reduce,
    /// Reduces all members' tensors on every member.
    Allreduce,
    /// Reduces, and leaves shard `j` of the result on team member `j`.
    ReduceScatter,
    /// Sends the root's tensor to the receivers.
    Broadcast,
    /// Sends the root's tensor to the other member.
    SendRecv,
    /// Exchanges shards: shard `j` of member `i` becomes shard `i` of member `j`.
    AllToAll,
}

impl CollectiveKind {
    /// All types.
    pub const ALL: &'static [CollectiveKind] = &[
        CollectiveKind::Gather,
        CollectiveKind::Allgather,
        CollectiveKind::Scatter,
        CollectiveKind::Reduce,
        CollectiveKind::Allreduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Broadcast,
        CollectiveKind::SendRecv,
        CollectiveKind::AllToAll,
    ];
    /// The word of `type=`.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::Gather => "Gather",
            CollectiveKind::Allgather => "Allgather",
            CollectiveKind::Scatter => "Scatter",
            CollectiveKind::Reduce => "Reduce",
            CollectiveKind::Allreduce => "Allreduce",
            CollectiveKind::ReduceScatter => "ReduceScatter",
            CollectiveKind::Broadcast => "Broadcast",
            CollectiveKind::SendRecv => "SendRecv",
            CollectiveKind::AllToAll => "AllToAll",
        }
    }
    /// Whether one member is special.
    pub fn has_root(self) -> bool {
        matches!(
            self,
            CollectiveKind::Gather
                | CollectiveKind::Scatter
                | CollectiveKind::Reduce
                | CollectiveKind::Broadcast
                | CollectiveKind::SendRecv
        )
    }
    /// Returns true if the collective combines elements.
    pub fn is_reducing(self) -> bool {
        matches!(self, CollectiveKind::Reduce | CollectiveKind::Allreduce | CollectiveKind::ReduceScatter)
    }
}

/// An operand of a [`KernelStep`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StepOperand {
    /// The element of input `n` of the kernel.
    Input(u32),
    /// The result of an earlier step.
    Step(u32),
    /// A constant.
    Const(ScalarValue),
    /// The index along an axis of the output.
    Index(u32),
}

/// One function applied to every element.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelStep {
    /// The function.
    pub function: Function,
    /// Its operands.
    pub args: SmallVec<[StepOperand; 3]>,
    /// The type in which it computes (for comparisons, the operands').
    pub compute: DType,
    /// Type of its result.
    pub result: DType,
}

/// Pointwise steps over one index space; the last one's result is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct PointwiseKernel {
    /// Inputs, with the output's extents (broadcast axes have stride 0).
    pub inputs: SmallVec<[BufferView; 2]>,
    /// Output.
    pub output: BufferView,
    /// Steps in order; never empty.
    pub steps: Vec<KernelStep>,
}

/// One rank's side of a collective.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveInst {
    /// Its communicator.
    pub comm: CommSlot,
    /// The type of the operation.
    pub kind: CollectiveKind,
    /// Position of the root in the team.
    pub root: Option<usize>,
    /// The reduction operation.
    pub red_op: RedOp,
    /// The data that this rank contributes (contiguous).
    pub input: Option<BufferView>,
    /// The memory that receives this rank's result (contiguous).
    pub output: Option<BufferView>,
    /// The completion handle that a `Wait` names.
    pub work: WorkSlot,
}

/// A send or receive without its data: one rank's side of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageHeader {
    /// The direction, seen from this rank.
    pub direction: MessageDirection,
    /// The communicator; `None` for a message on the stream.
    pub comm: Option<CommSlot>,
    /// On the stream: the side that copies, which waits until the other side's buffer is ready.
    pub protocol: MessageProtocol,
    /// The absolute rank of the other side.
    pub peer: u32,
    /// The completion handle that a `Wait` names.
    pub work: WorkSlot,
}

impl MessageHeader {
    /// A side of a message that a communicator carries.
    pub fn on_communicator(direction: MessageDirection, comm: CommSlot, peer: u32, work: WorkSlot) -> Self {
        Self { direction, comm: Some(comm), protocol: MessageProtocol::default(), peer, work }
    }
    /// Returns true for the initiator of a message on streams, which waits until the target is ready.
    pub fn initiates_transfer(&self) -> bool {
        self.comm.is_none() && self.protocol.initiator() == self.direction
    }
}

/// A GEMM: `out[.., m, n] = sum_k a[.., m, k] * b[.., k, n] * row[.., m, n] * column[.., m, n] + bias[.., m, n]`,
/// where `row` and `column` are the scales.
#[derive(Clone, PartialEq, Debug)]
pub struct GemmInst {
    /// Left factor, with the output's batch extents.
    pub a: BufferView,
    /// Right factor, with the output's batch extents.
    pub b: BufferView,
    /// The term added to the GEMM, with the output's extents.
    pub bias: Option<BufferView>,
    /// The scales of `a`'s rows and of `b`'s columns, with the output's extents: stride 0 along what they repeat.
    pub scales: Option<Box<[BufferView; 2]>>,
    /// Result.
    pub out: BufferView,
}

impl GemmInst {
    /// The scales, of `a` first; none or two.
    pub fn scale_views(&self) -> &[BufferView] {
        self.scales.as_deref().map_or(&[], |scales| scales.as_slice())
    }
    /// The views that the GEMM reads: `a`, `b`, the bias, the scales.
    pub fn read_views(&self) -> impl Iterator<Item = &BufferView> {
        [&self.a, &self.b].into_iter().chain(&self.bias).chain(self.scale_views())
    }
    /// The same views, to be changed.
    pub fn read_views_mut(&mut self) -> impl Iterator<Item = &mut BufferView> {
        let scales = self.scales.as_deref_mut().map_or(&mut [][..], |scales| scales.as_mut_slice());
        [&mut self.a, &mut self.b].into_iter().chain(&mut self.bias).chain(scales)
    }
}

/// A reduction along axes.
#[derive(Clone, PartialEq, Debug)]
pub struct ReduceInst {
    /// The reduction operation and its initial value.
    pub op: ReductionFold,
    /// Positions among the input's dims.
    pub axes: SmallVec<[usize; 2]>,
    /// From.
    pub input: BufferView,
    /// The destination: the input's other dims in order.
    pub output: BufferView,
}

/// The operation of an instruction. Its views are in boxes, so that the instructions without any are small: they are
/// the most. Everything but communications runs on [`Inst::stream`], in order;
/// communications start on their communicator's queue once the stream's earlier work is done
/// (a message without a communicator runs on the stream itself).
#[derive(Clone, PartialEq, Debug)]
pub enum InstKind {
    /// Starts the lifetime of a buffer, with undefined content.
    Alloc {
        /// The buffer.
        buffer: BufferId,
    },
    /// Ends the lifetime of a buffer.
    Free {
        /// The buffer.
        buffer: BufferId,
    },
    /// Copies elements between views of equal extents and types.
    Copy {
        /// The source.
        src: Box<BufferView>,
        /// The destination.
        dst: Box<BufferView>,
    },
    /// Writes one value to all elements.
    Fill {
        /// The destination.
        dst: Box<BufferView>,
        /// The value, converted to the view's type.
        value: ScalarValue,
    },
    /// Computes a GEMM.
    Gemm(Box<GemmInst>),
    /// Computes pointwise functions.
    Kernel(Box<PointwiseKernel>),
    /// Combines elements along axes.
    Reduce(Box<ReduceInst>),
    /// Reads the elements that an index tensor selects.
    Take(Box<TakeInst>),
    /// Adds rows to those that an index tensor selects.
    Accumulate(Box<AccumulateInst>),
    /// Applies a function to rows.
    Rows(Box<RowsInst>),
    /// Computes attention.
    Attention(Box<AttentionInst>),
    /// Launches a kernel of the user.
    Launch(Box<LaunchInst>),
    /// Starts a collective.
    Collective(Box<CollectiveInst>),
    /// Sends to a rank, or receives from it.
    Message {
        /// The message without its data.
        header: MessageHeader,
        /// The data to send, or the destination of the received data (contiguous).
        view: Box<BufferView>,
    },
    /// Opens a group: the sends and receives up to `GroupEnd` start together.
    GroupBegin,
    /// Ends a group.
    GroupEnd {
        /// The communicator of the group.
        comm: CommSlot,
        /// The work that a Wait waits for.
        work: WorkSlot,
    },
    /// Blocks the stream until a communication is done.
    WaitWork {
        /// The completion handle.
        work: WorkSlot,
    },
    /// Records an event on the stream.
    Record {
        /// The event.
        event: EventId,
    },
    /// Blocks the stream until an event is reached.
    WaitEvent {
        /// The event.
        event: EventId,
    },
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// The operation.
    pub kind: InstKind,
    /// The stream that is current when the op is issued.
    pub stream: StreamSlot,
    /// The op and the loop iteration that the instruction comes from.
    pub origin: InstOrigin,
}

/// Bytes that an allocator uses for a request; its size classes are an eighth apart.
fn allocator_bytes(bytes: usize) -> usize {
    bytes + bytes / 8 + 16
}

/// The bytes that an instruction needs in a run if the plan stores it once for all iterations: its entry in a list that
/// grows.
pub(crate) const LEAST_INST_BYTES: usize = 3 * size_of::<u32>();

impl InstKind {
    /// The heap bytes that the instruction owns, without its entry in the plan.
    pub(super) fn heap_bytes(&self) -> usize {
        let views = self.read_views().into_iter().chain(self.written_views());
        let spilled = views.filter(|view| view.dims.spilled()).map(|view| view.dims.capacity() * size_of::<ViewDim>());
        self.boxed_bytes() + spilled.map(allocator_bytes).sum::<usize>()
    }
    /// The bytes of the structures that the instruction refers to, without lists of axes.
    fn boxed_bytes(&self) -> usize {
        match self {
            InstKind::Gemm(gemm) => {
                let scales = gemm.scales.as_ref().map_or(0, |_| allocator_bytes(size_of::<[BufferView; 2]>()));
                allocator_bytes(size_of::<GemmInst>()) + scales
            }
            InstKind::Kernel(kernel) => {
                let steps = kernel.steps.capacity() * size_of::<KernelStep>();
                allocator_bytes(size_of::<PointwiseKernel>()) + allocator_bytes(steps)
            }
            InstKind::Copy { .. } => 2 * allocator_bytes(size_of::<BufferView>()),
            InstKind::Fill { .. } | InstKind::Message { .. } => allocator_bytes(size_of::<BufferView>()),
            InstKind::Reduce(_) => allocator_bytes(size_of::<ReduceInst>()),
            InstKind::Take(_) => allocator_bytes(size_of::<TakeInst>()),
            InstKind::Accumulate(_) => allocator_bytes(size_of::<AccumulateInst>()),
            InstKind::Rows(_) => allocator_bytes(size_of::<RowsInst>()),
            InstKind::Collective(_) => allocator_bytes(size_of::<CollectiveInst>()),
            InstKind::Attention(attention) => {
                allocator_bytes(size_of::<AttentionInst>()) + allocator_bytes(attention.list_bytes())
            }
            InstKind::Launch(launch) => allocator_bytes(size_of::<LaunchInst>()) + allocator_bytes(launch.list_bytes()),
            _ => 0,
        }
    }
    /// The bytes that a CPU run's queues need for the instruction: its entry in a growing list and, if a communicator
    /// executes it, a unit with four lists.
    pub(super) fn queue_bytes(&self) -> usize {
        const PLACE: usize = LEAST_INST_BYTES;
        const UNIT: usize = 3 * 112 + 4 * 16;
        if self.communicator().is_some() { PLACE + UNIT } else { PLACE }
    }
}

/// One row of the iteration table: `(loop index name, value)`, outermost loop first.
pub type LoopIteration = SmallVec<[(crate::ir::Symbol, i64); 2]>;

/// The first stream, the caller's.
pub const USER_STREAM: StreamSlot = StreamSlot(0);

/// The index of an id, for tables.
pub(crate) fn index_of<I: Id>(id: I) -> usize {
    id.index()
}
