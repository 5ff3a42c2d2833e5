//! The op table: one line for each op. The file or folder of an op's family has its row, axis links, types of results,
//! checks and lowering.
//!
//! [`OpKind`] is a row's handle, opaque to modules below this one; [`OpKind::spec`] is the row. An [`OpRegistry`] looks
//! up names: of our rows, and of those that a caller adds.

pub mod arguments;
pub mod attention;
pub mod comm;
pub mod control;
pub mod copy;
mod element_index;
pub(crate) mod expected_types;
pub mod factory;
pub mod gemm;
pub mod index;
pub mod kernel;
pub mod launch;
mod literals;
pub mod memory;
pub mod observe;
pub mod pointwise;
pub mod quantize;
pub mod random;
mod real_kernel;
pub mod reduce;
pub mod registry;
pub mod result_types;
pub mod scalar;
pub mod scan;
pub mod shape;
pub mod sort;
pub mod spec;
pub mod stream;
pub mod tensor_checks;
mod uneven_split;
pub mod user_launch;
pub mod welford;

pub use registry::OpRegistry;
pub use spec::{ArgKind, ArgPresence, ArgSpec, EqualsSpacing, Infer, OpSpec, UsualValue};

use crate::ir::{AttrKey, OpIdentity, OpKind};

macro_rules! op_table {
    ($($kind:ident => $spec:path,)*) => {
        /// Row numbers.
        enum Row { $($kind,)* }

        static TABLE: &[&OpSpec] = &[$(&$spec,)*];

        #[allow(
            non_upper_case_globals,
            missing_docs,
            reason = "kinds are matched like variants; the rows document themselves: OpSpec::summary"
        )]
        impl OpKind {
            $(pub const $kind: OpKind = {
                const IDENTITY: OpIdentity = $spec.identity.at_row(Row::$kind as u8);
                OpKind::new(&IDENTITY)
            };)*

            /// All kinds in table order.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$kind,)*];
        }
    };
}

op_table! {
    Allocate => memory::ALLOCATE,
    Deallocate => memory::DEALLOCATE,
    HirAliasSelect => memory::HIR_ALIAS_SELECT,
    Select => memory::SELECT,
    ShardByStream => memory::SHARD_BY_STREAM,
    SymmetricContiguousView => memory::SYMMETRIC_CONTIGUOUS_VIEW,
    For => control::FOR,
    ForRange => control::FOR_RANGE,
    If => control::IF,
    GetCurrentStream => stream::GET_CURRENT_STREAM,
    SetCurrentStream => stream::SET_CURRENT_STREAM,
    Synchronize => stream::SYNCHRONIZE,
    Assert => observe::ASSERT,
    Print => observe::PRINT,
    PostOnStream => launch::POST_ON_STREAM,
    LaunchKernel => launch::LAUNCH_KERNEL,
    Communication => comm::COMMUNICATION,
    P2PCommunication => comm::P2P_COMMUNICATION,
    CollectivePermute => comm::COLLECTIVE_PERMUTE,
    StartCoalescing => comm::START_COALESCING,
    EndCoalescing => comm::END_COALESCING,
    Wait => comm::WAIT,
    ShareMemHandles => comm::SHARE_MEM_HANDLES,
    Dispatch => comm::DISPATCH,
    Combine => comm::COMBINE,
    Set => copy::SET,
    SetPermute => copy::SET_PERMUTE,
    SegmenterSet => copy::SEGMENTER_SET,
    SegmenterSetPermute => copy::SEGMENTER_SET_PERMUTE,
    Pointwise => pointwise::POINTWISE,
    Reduction => reduce::REDUCTION,
    GroupedReduction => reduce::GROUPED_REDUCTION,
    Welford => welford::WELFORD,
    GroupedWelford => welford::GROUPED_WELFORD,
    Argsort => sort::ARGSORT,
    Topk => sort::TOPK,
    Scan => scan::SCAN,
    Broadcast => shape::BROADCAST,
    Squeeze => shape::SQUEEZE,
    Expand => shape::EXPAND,
    Repeat => shape::REPEAT,
    ViewAsScalar => shape::VIEW_AS_SCALAR,
    View => shape::VIEW,
    Slice => shape::SLICE,
    Pad => shape::PAD,
    Cat => shape::CAT,
    IndexSelect => index::INDEX_SELECT,
    IndexPutAccumulate => index::INDEX_PUT_ACCUMULATE,
    TakeAlongAxis => index::TAKE_ALONG_AXIS,
    TorchGather => index::TORCH_GATHER,
    Scatter => index::SCATTER,
    Matmul => gemm::MATMUL,
    MatmulAdd => gemm::MATMUL_ADD,
    Linear => gemm::LINEAR,
    ScaledMatmul => gemm::SCALED_MATMUL,
    Sdpa => attention::SDPA,
    SdpaBwd => attention::SDPA_BWD,
    Embedding => index::EMBEDDING,
    GroupedMatmul => gemm::GROUPED_MATMUL,
    BlockQuantize => quantize::BLOCK_QUANTIZE,
    GroupedBlockQuantize => quantize::GROUPED_BLOCK_QUANTIZE,
    PreprocessGroupedScales => quantize::PREPROCESS_GROUPED_SCALES,
    CutlassGroupedMatmul => quantize::CUTLASS_GROUPED_MATMUL,
    Full => factory::FULL,
    Iota => factory::IOTA,
    Eye => factory::EYE,
    TensorConstruct => factory::TENSOR_CONSTRUCT,
    RngUniform => random::RNG_UNIFORM,
    RngUniformRange => random::RNG_UNIFORM_RANGE,
    RngNormalStandard => random::RNG_NORMAL_STANDARD,
    RngNormalGeneral => random::RNG_NORMAL_GENERAL,
    Mma => kernel::MMA,
    LdMatrix => kernel::LD_MATRIX,
    LdMatrixPermute => kernel::LD_MATRIX_PERMUTE,
    StMatrix => kernel::ST_MATRIX,
    StMatrixPermute => kernel::ST_MATRIX_PERMUTE,
    CpAsync => kernel::CP_ASYNC,
    CpAsyncBulk => kernel::CP_ASYNC_BULK,
    CpAsyncBulkTensorTile => kernel::CP_ASYNC_BULK_TENSOR_TILE,
    LdTMem => kernel::LD_TMEM,
    StTMem => kernel::ST_TMEM,
    LaunchDependentGrid => kernel::LAUNCH_DEPENDENT_GRID,
    WaitForPriorGrid => kernel::WAIT_FOR_PRIOR_GRID,
    Define => scalar::DEFINE,
}

impl OpKind {
    /// The op's declaration.
    ///
    /// # Panics
    /// For an op of a caller whose identity does not name its row.
    pub fn spec(self) -> &'static OpSpec {
        match TABLE.get(self.row()) {
            Some(spec) => spec,
            None => self.caller_spec().and_then(|spec| spec.downcast_ref()).expect("the identity names its row"),
        }
    }
    /// Returns true if the op has a seed, or takes one from the run.
    pub fn takes_seed(self) -> bool {
        self.spec().args.iter().any(|arg| arg.key == Some(AttrKey::Seed))
    }
    /// Returns true if the op permutes the axes of its operand, and so has a permutation
    /// ([`crate::ir::AttrKey::Perm`]).
    pub fn has_permutation(self) -> bool {
        self.spec().args.iter().any(|arg| arg.key == Some(AttrKey::Perm))
    }
}
