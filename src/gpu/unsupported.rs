//! Instructions that GPUs cannot run.

use hostir::ir::{CommBackend, DType};
use hostir::plan::{CollectiveKind, Function, RedOp};

/// The reason why an instruction cannot run. Displayed, it completes the sentence "the CUDA backend cannot run ...".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unsupported {
    /// A result that overlaps an operand other than in place.
    Overlap,
    /// Arithmetic on elements of a type.
    Arithmetic(DType),
    /// A pointwise function of a type.
    Pointwise(Function, DType),
    /// A local reduction of a type.
    Reduction(RedOp, DType),
    /// Copies of elements of so many bytes.
    ElementSize(usize),
    /// A fill with a value other than 0.
    Fill(DType),
    /// A communication of elements of a type over NCCL.
    Communication(DType),
    /// A reduction that NCCL lacks.
    NcclReduction(RedOp),
    /// A collective in which the library requires members that do not take part.
    Membership(&'static str),
    /// A collective whose input and output share memory.
    SharedMemory(CollectiveKind),
    /// A communication backend without a transport.
    Backend(CommBackend),
    /// More messages that read other GPUs than may wait on the device at the same time.
    ConcurrentReads(usize),
    /// An instruction that no valid plan holds.
    Malformed(&'static str),
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsupported::Overlap => f.write_str("an op whose result overlaps its operand in memory"),
            Unsupported::Arithmetic(dtype) => write!(f, "elements of type `{}`", dtype.name()),
            Unsupported::Pointwise(function, dtype) => {
                write!(f, "`{}` of `{}`", function.name(), dtype.name())
            }
            Unsupported::Reduction(op, dtype) => {
                write!(f, "the reduction `{}` of `{}`", op.word(), dtype.name())
            }
            Unsupported::ElementSize(bytes) => write!(f, "elements of {bytes} bytes"),
            Unsupported::Fill(dtype) => write!(f, "a fill of `{}`", dtype.name()),
            Unsupported::Communication(dtype) => write!(f, "a communication of `{}`", dtype.name()),
            Unsupported::NcclReduction(op) => {
                write!(f, "the reduce operation `{}`, which NCCL lacks", op.word())
            }
            Unsupported::Membership(what) | Unsupported::Malformed(what) => f.write_str(what),
            Unsupported::SharedMemory(kind) => {
                write!(f, "a {} whose input and output share memory", kind.name())
            }
            Unsupported::Backend(CommBackend::Ucc) => {
                f.write_str("`backend=UCC`; `--map-backend=UCC=NCCL` runs it with NCCL")
            }
            Unsupported::Backend(backend) => write!(f, "`backend={backend}`"),
            Unsupported::ConcurrentReads(count) => write!(
                f,
                "{count} concurrent messages that read other GPUs in one CUDA graph of several GPUs: each occupies SMs while it waits, which other sessions may hold"
            ),
        }
    }
}

impl std::error::Error for Unsupported {}
