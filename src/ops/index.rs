//! Ops that read or write where another tensor says, with PyTorch's shapes.
//!
//! Indices are integers from 0; negative ones are errors, as in `torch.gather`. The axis that an index chooses
//! from lies on one device, the others may lie across devices.

use super::spec::{ArgKind, ArgSpec, AxisLink, Effect, Layout, OpSpec, Padding, Standalone};
use crate::diag::{Diag, Diags};
use crate::ir::{AttrKey, OpId, Program};
use crate::plan::{self, Lowering};
use crate::verify::rules;

/// What differs beside the text: axes, checks, lowering.
struct Functions {
    axes: fn(&Program, OpId, &mut Vec<AxisLink>),
    verify: fn(&Program, OpId, &mut Diags),
    lower: fn(&mut Lowering<'_>, OpId) -> Result<(), Diag>,
}

const fn spec(
    name: &'static str,
    summary: &'static str,
    args: &'static [ArgSpec],
    functions: Functions,
) -> OpSpec {
    OpSpec {
        name,
        spellings: &[],
        summary,
        layout: Layout::TwoLines(Padding::Padded),
        results: 1,
        args,
        effect: Effect::Pure,
        standalone: Standalone::No,
        axes: functions.axes,
        makes_axes: true,
        verify: functions.verify,
        lower: functions.lower,
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
    Functions {
        axes: rules::index_select::axes,
        verify: rules::index_select::verify,
        lower: plan::lower_index_select,
    },
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
    Functions {
        axes: rules::index_put::axes,
        verify: rules::index_put::verify,
        lower: plan::lower_index_put_accumulate,
    },
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
    Functions {
        axes: rules::take_along_axis::axes,
        verify: rules::take_along_axis::verify,
        lower: plan::lower_take_along_axis,
    },
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
    Functions {
        axes: rules::torch_gather::axes,
        verify: rules::torch_gather::verify,
        lower: plan::lower_torch_gather,
    },
);
