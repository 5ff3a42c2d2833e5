//! The op table: one line an op, one file a family.
//!
//! [`OpKind`] is the row number; [`OpKind::spec`] the row. Names resolve in [`find`].

pub mod comm;
pub mod control;
pub mod copy;
pub mod factory;
pub mod gemm;
pub mod index;
pub mod launch;
pub mod memory;
pub mod pointwise;
pub mod reduce;
pub mod scalar;
pub mod shape;
pub mod spec;
pub mod stream;

pub use spec::{
    ArgKind, ArgSpec, AxisLink, Effect, Equals, Layout, Link, OpSpec, Padding, Presence, Standalone,
};

use crate::ir::{AttrKey, OpId, Program};

macro_rules! op_table {
    ($($kind:ident => $spec:path,)*) => {
        /// Row of the op table.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs, reason = "the rows document themselves: OpSpec::summary")]
        pub enum OpKind { $($kind,)* }

        static TABLE: &[&OpSpec] = &[$(&$spec,)*];

        impl OpKind {
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
    Broadcast => shape::BROADCAST,
    Squeeze => shape::SQUEEZE,
    Expand => shape::EXPAND,
    Repeat => shape::REPEAT,
    View => shape::VIEW,
    Slice => shape::SLICE,
    Pad => shape::PAD,
    Cat => shape::CAT,
    IndexSelect => index::INDEX_SELECT,
    IndexPutAccumulate => index::INDEX_PUT_ACCUMULATE,
    TakeAlongAxis => index::TAKE_ALONG_AXIS,
    TorchGather => index::TORCH_GATHER,
    Matmul => gemm::MATMUL,
    Linear => gemm::LINEAR,
    Full => factory::FULL,
    Iota => factory::IOTA,
    Define => scalar::DEFINE,
}

impl OpKind {
    /// The op's declaration.
    pub fn spec(self) -> &'static OpSpec {
        TABLE[self as usize]
    }
    /// Whether the op permutes the axes of its operand, and so has a permutation
    /// ([`AttrKey::Perm`]).
    pub fn permutes(self) -> bool {
        matches!(self, Self::SetPermute | Self::SegmenterSetPermute)
    }
}

/// What people call an op: a pointwise one by the function that it computes.
pub fn name_of(program: &Program, op: OpId) -> &str {
    let op = program.op(op);
    op.word(AttrKey::Function).map_or(op.kind.spec().name, |word| program.name(word))
}

/// The kind of a head word, in any style's spelling. Pointwise functions are not ops of their own:
/// see [`pointwise::find`].
pub fn find(name: &str) -> Option<OpKind> {
    OpKind::ALL.iter().copied().find(|kind| {
        let spec = kind.spec();
        has_head_word(*kind)
            && (spec.name == name || spec.spellings.iter().any(|(other, _)| *other == name))
    })
}

/// All head words in table order: what a misspelt one may have meant.
pub fn head_words() -> impl Iterator<Item = &'static str> {
    OpKind::ALL.iter().filter(|kind| has_head_word(**kind)).flat_map(|kind| {
        let spec = kind.spec();
        std::iter::once(spec.name).chain(spec.spellings.iter().map(|(name, _)| *name))
    })
}

/// FOR and IF are keywords of the grammar; pointwise ops and definitions have no word of their own.
fn has_head_word(kind: OpKind) -> bool {
    !matches!(
        kind,
        OpKind::For | OpKind::ForRange | OpKind::If | OpKind::Pointwise | OpKind::Define
    )
}
