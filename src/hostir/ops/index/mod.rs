//! Ops that read or write elements selected by an index tensor, with PyTorch's shapes.
//!
//! Indices are integers from 0; negative ones are errors, as in `torch.gather`. The axis that an index selects
//! from must not be sharded; the others may be.

mod checks;
mod embedding;
mod links;
mod lowering;

pub use embedding::EMBEDDING;

use super::reduce::REDUCE_WORDS;
use super::result_types::{TensorType, infer_copy, stored_domains};
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpCheck, OpSpec};
use super::tensor_checks;
use crate::axes::pairing::LinkFn;
use crate::diag::Diag;
use crate::ir::{AttrKey, Op, OpId, OpIdentity, OpLayout, OwnForm, Program, TensorId};
use crate::plan::PlanBuilder;

/// The functions of an index op: axis links, types, checks, lowering.
struct IndexOpFunctions {
    relate: LinkFn,
    infer: Infer,
    checks: &'static [OpCheck],
    lower: fn(&mut PlanBuilder<'_>, OpId) -> Result<(), Diag>,
}

const fn index_op(
    name: &'static str,
    summary: &'static str,
    args: &'static [ArgSpec],
    functions: IndexOpFunctions,
) -> OpSpec {
    OpSpec {
        identity: OpIdentity { name, reshapes: true, indexed: true, ..OpIdentity::TENSOR_OP },
        spellings: &[],
        summary,
        args,
        relate: Some(functions.relate),
        infer: functions.infer,
        checks: functions.checks,
        repair: None,
        lower: Lower::Instructions(functions.lower),
    }
}

/// `indexSelect`.
pub const INDEX_SELECT: OpSpec = index_op(
    "indexSelect",
    "Takes the slices of an axis that an index tensor selects.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::operand(ArgKind::Tensor),
    ],
    IndexOpFunctions {
        relate: links::link_index_select,
        infer: Infer::Written,
        checks: &[checks::check_gather],
        lower: lowering::lower_index_select,
    },
);

/// `indexPutAccumulate`.
pub const INDEX_PUT_ACCUMULATE: OpSpec = index_op(
    "indexPutAccumulate",
    "Adds values to the rows that an index tensor selects.",
    &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    IndexOpFunctions {
        relate: links::link_index_put,
        infer: Infer::Result(infer_copy),
        checks: &[checks::check_index_put],
        lower: lowering::lower_index_put_accumulate,
    },
);

/// `takeAlongAxis`.
pub const TAKE_ALONG_AXIS: OpSpec = index_op(
    "takeAlongAxis",
    "Takes one element of an axis for each element of the index, whose other axes are those of the operand.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
    ],
    IndexOpFunctions {
        relate: links::link_take_along,
        infer: Infer::Result(infer_gather),
        checks: &[checks::check_gather],
        lower: lowering::lower_take_along_axis,
    },
);

/// `torchGather`.
pub const TORCH_GATHER: OpSpec = index_op(
    "torchGather",
    "Takes one element of an axis for each element of the index, as `torch.gather` does.",
    &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::operand(ArgKind::Tensor),
    ],
    IndexOpFunctions {
        relate: links::link_gather,
        infer: Infer::Result(infer_gather),
        checks: &[checks::check_gather_fit],
        lower: lowering::lower_torch_gather,
    },
);

/// `scatter`, in `hir 2` `torchScatter`, since `scatter` is a collective there.
pub const SCATTER: OpSpec = {
    let row = index_op(
        "torchScatter",
        "Writes elements of an axis where the index says, as `torch.scatter` and `scatter_reduce` do.",
        &[
            ArgSpec::spaced_operand("in", ArgKind::Tensor),
            ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
            ArgSpec::spaced_operand("src", ArgKind::Operand),
            ArgSpec::spaced_operand("idx", ArgKind::Tensor),
            ArgSpec::spaced("accumulate", AttrKey::ReduceOp, ArgKind::Word(REDUCE_WORDS)).optional(),
        ],
        IndexOpFunctions {
            relate: links::link_scatter,
            infer: Infer::Result(infer_copy),
            checks: &[tensor_checks::check_dim_argument, checks::check_scatter],
            lower: lowering::lower_scatter,
        },
    );
    let identity = OpIdentity { layout: OpLayout::Own(OwnForm::Scatter), ..row.identity };
    OpSpec { identity, spellings: &[("scatter", |_| true)], ..row }
};

/// takeAlongAxis and torchGather: the axes of the index, the operand's element type.
fn infer_gather(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let &[operand, index, ..] = operands else { return None };
    Some(TensorType::with_domains_of(program, operand, stored_domains(program, index)))
}
