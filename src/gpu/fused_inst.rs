//! Units of execution: instructions of a plan, alone or fused.

use hostir::plan::{BufferView, GemmInst, InstId, InstKind, Plan, PointwiseKernel, ReductionFold, WorkItem};
use smallvec::SmallVec;

/// A product of [`FusedInst::StoreGemms`].
#[derive(Clone, PartialEq, Debug)]
pub struct StoredGemm {
    /// The GEMM; its result has memory of this rank only if no message sends it.
    pub gemm: Box<GemmInst>,
    /// Its position.
    pub at: InstId,
    /// Positions of copies that it replaces.
    pub of: Vec<InstId>,
    /// The position of the message that sends the result.
    pub send: Option<InstId>,
}

/// A unit of execution that stands for one or more instructions of a plan.
#[derive(Clone, PartialEq, Debug)]
pub enum FusedInst {
    /// The instruction at this position.
    Inst(InstId),
    /// A pointwise kernel.
    Kernel {
        /// The pointwise computation.
        kernel: Box<PointwiseKernel>,
        /// The positions of its instructions; the last one gives stream and origin.
        of: Vec<InstId>,
    },
    /// A reduction of a pointwise kernel's results, which are not stored
    /// ([`crate::codegen::generate_fused_reduction`]).
    Reduce {
        /// The kernel; `output` gives the shape and element type, its memory may not exist.
        kernel: Box<PointwiseKernel>,
        /// The reduction operation and its initial value.
        op: ReductionFold,
        /// Positions among the dims of the kernel's output.
        axes: SmallVec<[usize; 2]>,
        /// The result.
        output: BufferView,
        /// The positions of its instructions; the last one gives stream and origin.
        of: Vec<InstId>,
    },
    /// A GEMM with other operands than in the plan, so that copies are not needed.
    Gemm {
        /// The GEMM.
        gemm: Box<GemmInst>,
        /// Its position, which gives stream and origin.
        at: InstId,
        /// Positions of the copies.
        of: Vec<InstId>,
    },
    /// A GEMM that stores its result in the memory of the rank to which a message sends it.
    DirectGemm {
        /// The GEMM; its result has no memory of this rank.
        gemm: Box<GemmInst>,
        /// Its position.
        at: InstId,
        /// Positions of copies that it replaces.
        of: Vec<InstId>,
        /// The position of the message, which gives stream and origin.
        send: InstId,
    },
    /// GEMMs with one right factor that store in the memory of several ranks, in one launch once all of these are
    /// ready. The last one gives stream and origin.
    StoreGemms(Vec<StoredGemm>),
}

impl FusedInst {
    /// The instruction that gives the item its stream and origin: its own, the last one of a kernel, or the message for
    /// which a GEMM stores.
    pub fn plan_position(&self) -> InstId {
        match self {
            FusedInst::Inst(at) | FusedInst::Gemm { at, .. } | FusedInst::DirectGemm { send: at, .. } => *at,
            FusedInst::Kernel { of, .. } | FusedInst::Reduce { of, .. } => of.last().copied().unwrap_or(InstId(0)),
            FusedInst::StoreGemms(parts) => parts.last().map_or(InstId(0), |part| part.send.unwrap_or(part.at)),
        }
    }
}

impl WorkItem for FusedInst {
    fn plan_position(&self) -> InstId {
        FusedInst::plan_position(self)
    }
    fn plain_inst(&self) -> Option<InstId> {
        match self {
            FusedInst::Inst(at) => Some(*at),
            _ => None,
        }
    }
    fn own_gemm(&self, plan: &Plan) -> Option<GemmInst> {
        match self {
            FusedInst::Gemm { gemm, .. } => Some((**gemm).clone()),
            FusedInst::Inst(at) => match &plan.inst(*at).kind {
                InstKind::Gemm(gemm) => Some((**gemm).clone()),
                _ => None,
            },
            FusedInst::Kernel { .. }
            | FusedInst::Reduce { .. }
            | FusedInst::DirectGemm { .. }
            | FusedInst::StoreGemms(_) => None,
        }
    }
    fn read_views(&self, plan: &Plan) -> Vec<BufferView> {
        match self {
            FusedInst::Inst(at) => plan.inst(*at).kind.read_views().into_iter().cloned().collect(),
            FusedInst::Kernel { kernel, .. } | FusedInst::Reduce { kernel, .. } => kernel.inputs.to_vec(),
            FusedInst::Gemm { gemm, .. } | FusedInst::DirectGemm { gemm, .. } => gemm.read_views().cloned().collect(),
            FusedInst::StoreGemms(parts) => parts.iter().flat_map(|part| part.gemm.read_views()).cloned().collect(),
        }
    }
}
