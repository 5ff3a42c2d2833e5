//! Ops that read or write where another tensor says. They are read, verified by their operands and
//! printed; none of them runs yet.

use super::spec::{
    ArgKind, ArgSpec, Effect, Layout, OpSpec, Padding, Standalone, no_axes, no_checks,
};
use crate::ir::AttrKey;
use crate::plan::unsupported;

const fn spec(name: &'static str, summary: &'static str, args: &'static [ArgSpec]) -> OpSpec {
    OpSpec {
        name,
        spellings: &[],
        summary,
        layout: Layout::TwoLines(Padding::Padded),
        results: 1,
        args,
        effect: Effect::Pure,
        standalone: Standalone::No,
        axes: no_axes,
        makes_axes: false,
        verify: no_checks,
        lower: unsupported,
    }
}

/// `indexSelect`.
pub const INDEX_SELECT: OpSpec = spec(
    "indexSelect",
    "Takes the slices of an axis that an index tensor names.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::operand(ArgKind::Tensor),
    ],
);

/// `indexPutAccumulate`.
pub const INDEX_PUT_ACCUMULATE: OpSpec = spec(
    "indexPutAccumulate",
    "Adds values to the rows that an index tensor names.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
    ],
);

/// `takeAlongAxis`.
pub const TAKE_ALONG_AXIS: OpSpec = spec(
    "takeAlongAxis",
    "Takes one element of an axis for each element of the index, whose other axes are the operand's.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
    ],
);

/// `torchGather`.
pub const TORCH_GATHER: OpSpec = spec(
    "torchGather",
    "Takes one element of an axis for each element of the index, as `torch.gather` does.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::operand(ArgKind::Tensor),
    ],
);
