//! Instructions that GPUs cannot run.

use hostir::diag::message;
use hostir::diag::{Message, PartKind, Quoted};
use hostir::ir::{CommBackend, DType, bare_head, quoted_argument, quoted_type};
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
    /// A function of rows, which has no kernel.
    Rows(&'static str),
    /// Copies of elements of so many bytes.
    ElementSize(usize),
    /// A fill with a value other than 0.
    Fill(DType),
    /// A communication of elements of a type over NCCL.
    Communication(DType),
    /// A reduction that NCCL lacks.
    NcclReduction(RedOp),
    /// A collective in which the library requires members that do not take part.
    Membership(MembershipFault),
    /// A collective whose input and output share memory.
    SharedMemory(CollectiveKind),
    /// A communication backend without a transport.
    Backend(CommBackend),
    /// More messages that read other GPUs than may wait on the device at the same time.
    ConcurrentReads(usize),
    /// An instruction that no valid plan holds.
    Malformed(&'static str),
}

impl Unsupported {
    /// The words that complete the sentence.
    pub fn message(&self) -> Message {
        match self {
            Unsupported::Overlap => "an op whose result overlaps its operand in memory".into(),
            Unsupported::Arithmetic(dtype) => message!("elements of type `{}`", quoted_type(*dtype)),
            Unsupported::Pointwise(function, dtype) => {
                message!("`{}` of `{}`", Quoted::new(PartKind::Op, function.name()), quoted_type(*dtype))
            }
            Unsupported::Reduction(op, dtype) => {
                message!("the reduction `{}` of `{}`", op.word(), quoted_type(*dtype))
            }
            Unsupported::Rows(name) => {
                message!("`{}`; `--backend=cpu` does", Quoted::new(PartKind::Op, *name))
            }
            Unsupported::ElementSize(bytes) => message!("elements of {} bytes", bytes),
            Unsupported::Fill(dtype) => message!("a fill of `{}`", quoted_type(*dtype)),
            Unsupported::Communication(dtype) => message!("a communication of `{}`", quoted_type(*dtype)),
            Unsupported::NcclReduction(op) => {
                message!("the reduce operation `{}`, which NCCL lacks", op.word())
            }
            Unsupported::Membership(fault) => fault.message(),
            Unsupported::Malformed(what) => (*what).into(),
            Unsupported::SharedMemory(kind) => {
                message!("a {} whose input and output share memory", bare_head(kind.name()))
            }
            Unsupported::Backend(CommBackend::Ucc) => {
                message!(
                    "`{}`; `--map-backend=UCC=NCCL` runs it with NCCL",
                    quoted_argument("backend", CommBackend::Ucc.word())
                )
            }
            Unsupported::Backend(backend) => message!("`{}`", quoted_argument("backend", backend.word())),
            Unsupported::ConcurrentReads(count) => message!(
                "{} concurrent messages that read other GPUs in one CUDA graph of several GPUs: each occupies SMs while it waits, which other sessions may hold",
                count
            ),
        }
    }
}

/// A collective whose members do not all take part as NCCL demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipFault {
    /// A member of a Reduce neither sends nor is the root.
    IdleMember,
    /// The root of a Reduce that averages does not send.
    AverageWithoutRoot,
    /// A member neither sends nor receives.
    PassiveMember,
    /// No member of a reduction sends.
    NoSender,
}

impl MembershipFault {
    fn message(self) -> Message {
        let reduce = bare_head("Reduce");
        match self {
            Self::IdleMember => message!("a {} with a member that neither sends nor is the root", reduce),
            Self::AverageWithoutRoot => message!("a {} with `red_op=avg` whose root does not send", reduce),
            Self::PassiveMember => "a member that does not send or receive".into(),
            Self::NoSender => "a reduction that nobody sends to".into(),
        }
    }
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message().as_str())
    }
}

impl std::error::Error for Unsupported {}
