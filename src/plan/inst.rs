//! What a plan is made of: slots, strided views and instructions.

use super::function::Function;
use super::initial::ReductionFold;
use super::scalar::ScalarValue;
use super::take_inst::{AccumulateInst, TakeInst};
use crate::ir::{DType, Id, OpId, TensorId};
use smallvec::SmallVec;

crate::ir::dense_id! {
    /// A buffer of a plan.
    BufferId
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
    /// A communicator: one team and one backend.
    CommSlot
}
crate::ir::dense_id! {
    /// One posted communication (or group) that can be waited for.
    WorkSlot
}
crate::ir::dense_id! {
    /// A row of the plan's table of loop iterations; 0 is "outside of any loop".
    IterationId
}

/// Who owns a buffer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferKind {
    /// Bound by the caller: input number `n`.
    Input(u32),
    /// Made by ALLOCATE or by an op whose result had no memory.
    Allocated,
    /// Made by the plan itself, for a step that needs room.
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

/// Extent and stride of one axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewDim {
    /// Number of indices.
    pub extent: usize,
    /// Elements between neighbours; 0 for an expanded axis.
    pub stride: usize,
}

/// The axes of a view, outermost first.
pub type ViewDims = SmallVec<[ViewDim; 6]>;

/// A strided range of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferView {
    /// The buffer.
    pub buffer: BufferId,
    /// First element.
    pub offset: usize,
    /// Axes, outermost first; an axis spread over devices has extent 1, reductions are left out.
    pub dims: ViewDims,
    /// Element type.
    pub dtype: DType,
}

impl BufferView {
    /// Number of indices (elements counted with repetition for expanded axes).
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.extent).product()
    }
    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Extents, outermost first.
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.extent).collect()
    }
    /// How many elements behind its first element its last one lies, where it has any.
    pub fn last_offset(&self) -> usize {
        self.dims.iter().map(|dim| dim.extent.saturating_sub(1) * dim.stride).sum()
    }
    /// Whether its elements lie one behind the other in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for dim in self.dims.iter().rev() {
            if dim.extent != 1 && dim.stride != expected {
                return self.is_empty();
            }
            expected *= dim.extent;
        }
        true
    }
    /// The same elements with other row-major dims; `None` unless it is contiguous and the number of
    /// elements agrees.
    pub fn reshaped_to(&self, shape: &[usize]) -> Option<BufferView> {
        let fits = self.is_contiguous() && shape.iter().product::<usize>() == self.len();
        fits.then(|| BufferView { dims: row_major(shape), ..self.clone() })
    }
}

/// Row-major dims of a shape.
pub fn row_major(shape: &[usize]) -> ViewDims {
    let mut dims: ViewDims = shape.iter().map(|&extent| ViewDim { extent, stride: 0 }).collect();
    let mut stride = 1usize;
    for dim in dims.iter_mut().rev() {
        dim.stride = stride;
        stride = stride.saturating_mul(dim.extent.max(1));
    }
    dims
}

/// Where an instruction comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstOrigin {
    /// The op.
    pub op: OpId,
    /// The values of the loop indices around it.
    pub iteration: IterationId,
}

/// How reductions combine two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RedOp {
    /// `a + b`
    Sum,
    /// `a * b`
    Product,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Logical or bitwise and.
    And,
    /// Logical or bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The sum over the number of team members.
    Avg,
}

impl RedOp {
    /// All operations with their words; the first word of each is the usual one.
    pub const WORDS: &'static [(&'static str, RedOp)] = &[
        ("sum", RedOp::Sum),
        ("add", RedOp::Sum),
        ("product", RedOp::Product),
        ("prod", RedOp::Product),
        ("mul", RedOp::Product),
        ("min", RedOp::Min),
        ("fmin", RedOp::Min),
        ("max", RedOp::Max),
        ("fmax", RedOp::Max),
        ("band", RedOp::And),
        ("and", RedOp::And),
        ("logical_and", RedOp::And),
        ("bitwise_and", RedOp::And),
        ("bor", RedOp::Or),
        ("or", RedOp::Or),
        ("logical_or", RedOp::Or),
        ("bitwise_or", RedOp::Or),
        ("bxor", RedOp::Xor),
        ("xor", RedOp::Xor),
        ("bitwise_xor", RedOp::Xor),
        ("avg", RedOp::Avg),
    ];
    /// The operation of a word (letter case is ignored).
    pub fn parse(word: &str) -> Option<RedOp> {
        Self::WORDS.iter().find(|(text, _)| text.eq_ignore_ascii_case(word)).map(|(_, op)| *op)
    }
    /// The usual word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, op)| *op == self).map_or("", |(text, _)| text)
    }
}

/// What a collective does; see `docs/language.md` for each type's inputs and outputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// Senders' shards, in team order, to the root.
    Gather,
    /// Everybody's shards, in team order, to everybody.
    Allgather,
    /// The root's equal parts, in team order, to the receivers.
    Scatter,
    /// The reduction of the senders' tensors to the root.
    Reduce,
    /// The reduction of everybody's tensors to everybody.
    Allreduce,
    /// Part `j` of the reduction to team member `j`.
    ReduceScatter,
    /// The root's tensor to the receivers.
    Broadcast,
    /// The root's tensor to the other member.
    SendRecv,
    /// Part `j` of member `i` becomes part `i` of member `j`.
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
    /// Whether it combines elements.
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
    /// Type it computes in (of comparisons: the operands').
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

/// A collective as one rank takes part in it.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveInst {
    /// Its communicator.
    pub comm: CommSlot,
    /// What it does.
    pub kind: CollectiveKind,
    /// Position of the root in the team.
    pub root: Option<usize>,
    /// How elements are combined.
    pub red_op: RedOp,
    /// What this rank contributes (contiguous).
    pub input: Option<BufferView>,
    /// What this rank receives (contiguous).
    pub output: Option<BufferView>,
    /// What a Wait waits for.
    pub work: WorkSlot,
}

/// A matrix product: `out[.., m, n] = sum_k a[.., m, k] * b[.., k, n] + bias[.., m, n]`.
#[derive(Clone, PartialEq, Debug)]
pub struct GemmInst {
    /// Left factor, with the output's batch extents.
    pub a: BufferView,
    /// Right factor, with the output's batch extents.
    pub b: BufferView,
    /// Added to the product, with the output's extents.
    pub bias: Option<BufferView>,
    /// Result.
    pub out: BufferView,
}

/// What an instruction does. Everything but the communications runs on [`Inst::stream`], in order;
/// communications start on their communicator's queue once the stream's earlier work is done
/// (`Send` and `Recv` without `comm` run on the stream itself).
#[derive(Clone, PartialEq, Debug)]
pub enum InstKind {
    /// Memory of a buffer begins, with undefined content.
    Alloc {
        /// The buffer.
        buffer: BufferId,
    },
    /// Memory of a buffer ends.
    Free {
        /// The buffer.
        buffer: BufferId,
    },
    /// Copies elements; equal extents and types.
    Copy {
        /// From.
        src: BufferView,
        /// To.
        dst: BufferView,
    },
    /// Writes one value everywhere.
    Fill {
        /// Where.
        dst: BufferView,
        /// What, converted to the view's type.
        value: ScalarValue,
    },
    /// Matrix product.
    Gemm(Box<GemmInst>),
    /// Pointwise.
    Kernel(Box<PointwiseKernel>),
    /// Combines elements along axes.
    Reduce {
        /// How, and from which value on.
        op: ReductionFold,
        /// Positions among the input's dims.
        axes: SmallVec<[usize; 2]>,
        /// From.
        input: BufferView,
        /// To: the input's other dims in order.
        output: BufferView,
    },
    /// Reads where an index tensor says.
    Take(Box<TakeInst>),
    /// Adds rows where an index tensor says.
    Accumulate(Box<AccumulateInst>),
    /// A collective communication.
    Collective(Box<CollectiveInst>),
    /// Sends to a rank.
    Send {
        /// The communicator; `None`: on the stream.
        comm: Option<CommSlot>,
        /// On the stream: whether the sender copies, and so waits for the receiver to be there.
        put: bool,
        /// Absolute rank.
        peer: u32,
        /// What (contiguous).
        view: BufferView,
        /// What a Wait waits for.
        work: WorkSlot,
    },
    /// Receives from a rank.
    Recv {
        /// The communicator; `None`: on the stream.
        comm: Option<CommSlot>,
        /// On the stream: whether the sender copies; else the receiver does, and waits for the sender.
        put: bool,
        /// Absolute rank.
        peer: u32,
        /// Where to (contiguous).
        view: BufferView,
        /// What a Wait waits for.
        work: WorkSlot,
    },
    /// Sends and receives up to `GroupEnd` start together.
    GroupBegin,
    /// Ends a group.
    GroupEnd {
        /// The communicator of the group.
        comm: CommSlot,
        /// What a Wait waits for.
        work: WorkSlot,
    },
    /// The stream goes on when the work is done.
    WaitWork {
        /// The work.
        work: WorkSlot,
    },
    /// Marks this point of the stream.
    Record {
        /// The mark.
        event: EventId,
    },
    /// The stream goes on when the mark is reached.
    WaitEvent {
        /// The mark.
        event: EventId,
    },
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// What it does.
    pub kind: InstKind,
    /// The stream that was current.
    pub stream: StreamSlot,
    /// Where it comes from.
    pub origin: InstOrigin,
}

/// Bytes that an allocator takes for so many bytes: its sizes are an eighth apart.
fn allocator_bytes(bytes: usize) -> usize {
    bytes + bytes / 8 + 16
}

impl InstKind {
    /// Bytes that it takes beside its place in the plan.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            InstKind::Gemm(_) => allocator_bytes(size_of::<GemmInst>()),
            InstKind::Kernel(kernel) => {
                let steps = kernel.steps.capacity() * size_of::<KernelStep>();
                allocator_bytes(size_of::<PointwiseKernel>()) + allocator_bytes(steps)
            }
            InstKind::Take(_) => allocator_bytes(size_of::<TakeInst>()),
            InstKind::Accumulate(_) => allocator_bytes(size_of::<AccumulateInst>()),
            InstKind::Collective(_) => allocator_bytes(size_of::<CollectiveInst>()),
            _ => 0,
        }
    }
    /// Bytes that the queues of a run on the CPU take for it: its place in a growing list, and for what
    /// communicators carry out a unit with four lists of its own.
    pub(super) fn queue_bytes(&self) -> usize {
        const PLACE: usize = 3 * size_of::<u32>();
        const UNIT: usize = 3 * 112 + 4 * 16;
        match self {
            InstKind::Collective(_)
            | InstKind::Send { comm: Some(_), .. }
            | InstKind::Recv { comm: Some(_), .. }
            | InstKind::GroupEnd { .. } => PLACE + UNIT,
            _ => PLACE,
        }
    }

    /// Whether it computes, copies or communicates: the others bring order, or memory.
    pub fn is_work(&self) -> bool {
        !matches!(
            self,
            InstKind::Alloc { .. }
                | InstKind::Free { .. }
                | InstKind::WaitWork { .. }
                | InstKind::Record { .. }
                | InstKind::WaitEvent { .. }
                | InstKind::GroupBegin
                | InstKind::GroupEnd { .. }
        )
    }
    /// Whether it is the side of a message on streams that initiates the transfer (the sender's with
    /// `put`, the receiver's with `get`), and so waits until the other side has come to it.
    pub fn initiates_transfer(&self) -> bool {
        matches!(self, InstKind::Send { comm: None, put: true, .. } | InstKind::Recv { comm: None, put: false, .. })
    }
    /// Views it reads.
    pub fn read_views(&self) -> SmallVec<[&BufferView; 3]> {
        match self {
            InstKind::Copy { src, .. } => SmallVec::from_slice(&[src]),
            InstKind::Gemm(gemm) => [&gemm.a, &gemm.b].into_iter().chain(&gemm.bias).collect(),
            InstKind::Kernel(kernel) => kernel.inputs.iter().collect(),
            InstKind::Reduce { input, .. } => SmallVec::from_slice(&[input]),
            InstKind::Take(take) => SmallVec::from_slice(&[&take.input, &take.index]),
            InstKind::Accumulate(put) => SmallVec::from([&put.base, &put.index, &put.value]),
            InstKind::Collective(collective) => collective.input.iter().collect(),
            InstKind::Send { view, .. } => SmallVec::from_slice(&[view]),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Fill { .. }
            | InstKind::Recv { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => SmallVec::new(),
        }
    }
    /// The view it writes.
    pub fn written_view(&self) -> Option<&BufferView> {
        match self {
            InstKind::Copy { dst, .. } | InstKind::Fill { dst, .. } => Some(dst),
            InstKind::Gemm(gemm) => Some(&gemm.out),
            InstKind::Kernel(kernel) => Some(&kernel.output),
            InstKind::Reduce { output, .. } => Some(output),
            InstKind::Take(take) => Some(&take.output),
            InstKind::Accumulate(put) => Some(&put.output),
            InstKind::Collective(collective) => collective.output.as_ref(),
            InstKind::Recv { view, .. } => Some(view),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Send { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => None,
        }
    }
    /// Whether it only does something on its stream: it neither communicates nor orders streams.
    pub fn is_local(&self) -> bool {
        match self {
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce { .. }
            | InstKind::Take(_)
            | InstKind::Accumulate(_) => true,
            InstKind::Collective(_)
            | InstKind::Send { .. }
            | InstKind::Recv { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => false,
        }
    }
    /// Bytes it has to read and write.
    pub fn traffic_bytes(&self) -> u64 {
        if let InstKind::Take(take) = self {
            return take.traffic_bytes();
        }
        let views = self.read_views().into_iter().chain(self.written_view());
        views.map(|view| (view.len() * view.dtype.byte_size()) as u64).sum()
    }
}

/// Views of one iteration table row: `(loop index name, value)`, outermost loop first.
pub type LoopIteration = SmallVec<[(crate::ir::Symbol, i64); 2]>;

/// The first stream, the caller's.
pub const USER_STREAM: StreamSlot = StreamSlot(0);

/// Position of an id, for tables.
pub(crate) fn index_of<I: Id>(id: I) -> usize {
    id.index()
}
