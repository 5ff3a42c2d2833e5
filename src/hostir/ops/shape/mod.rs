//! Ops that change the shape of a tensor.

mod checks;
mod links;
mod lowering;
mod types;

pub use types::explain_unknown_type;

use super::literals::check_fill_literal;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::ir::{AttrKey, AttrValue, CallPadding, Op, OpIdentity, OpKind, OpLayout, StandaloneRule, TensorId, Value};

/// `broadcast`.
pub const BROADCAST: OpSpec = OpSpec {
    identity: OpIdentity { name: "broadcast", ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Adds axes of extent 1 where a flag is set.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::spaced("flags", AttrKey::Flags, ArgKind::Bools)],
    relate: Some(links::link_broadcast),
    infer: Infer::Result(types::infer_broadcast),
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_broadcast),
};

/// `squeeze`.
pub const SQUEEZE: OpSpec = OpSpec {
    identity: OpIdentity { name: "squeeze", ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Removes axes of extent 1 where a flag is set.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::spaced("flags", AttrKey::Flags, ArgKind::Bools)],
    relate: Some(links::link_squeeze),
    infer: Infer::Result(types::infer_squeeze),
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_squeeze),
};

/// `expand`.
pub const EXPAND: OpSpec = OpSpec {
    identity: OpIdentity { name: "expand", layout: OpLayout::OneLine(CallPadding::Padded), ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Repeats broadcast axes without storing them.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs).optional()],
    relate: Some(links::link_expand),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype],
    repair: Some(checks::expand_repair),
    lower: Lower::Instructions(lowering::lower_expand),
};

/// `repeat`.
pub const REPEAT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "repeat",
        layout: OpLayout::OneLine(CallPadding::Padded),
        reshapes: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Repeats axes.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(links::link_repeat),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_repeat),
};

/// `view_as_scalar`.
pub const VIEW_AS_SCALAR: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "view_as_scalar",
        layout: OpLayout::OneLine(CallPadding::Padded),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes the parts of complex numbers an axis of extent 2, the last one.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::positional(AttrKey::Axis, ArgKind::Axis)],
    relate: Some(links::link_view_as_scalar),
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lowering::lower_view_as_scalar),
};

/// `view`.
pub const VIEW: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "view",
        layout: OpLayout::OneLine(CallPadding::Padded),
        reshapes: true,
        row_major_view: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[("reshape", |style| style.reshape)],
    summary: "Copies its operand with another shape; `alloc(share=A)` gives the same memory another shape.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(links::link_view),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_view),
};

/// `slice`.
pub const SLICE: OpSpec = OpSpec {
    identity: OpIdentity { name: "slice", standalone: StandaloneRule::Yes, reshapes: true, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Takes a range of each axis.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::positional(AttrKey::Ranges, ArgKind::Ranges)],
    relate: Some(links::link_slice),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, checks::check_slice_ranges],
    repair: None,
    lower: Lower::Instructions(lowering::lower_slice),
};

/// `pad`.
pub const PAD: OpSpec = OpSpec {
    identity: OpIdentity { name: "pad", reshapes: true, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Adds elements before and after each axis; zeros unless a value is given.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::positional(AttrKey::Widths, ArgKind::Exprs),
        ArgSpec::spaced("value", AttrKey::Fill, ArgKind::Expr).optional(),
    ],
    relate: Some(links::link_pad),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, check_fill_literal],
    repair: Some(checks::pad_repair),
    lower: Lower::Instructions(lowering::lower_pad),
};

/// `cat`.
pub const CAT: OpSpec = OpSpec {
    identity: OpIdentity { name: "cat", reshapes: true, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Concatenates tensors along an axis.",
    args: &[ArgSpec::operand(ArgKind::Tensor).repeated(), ArgSpec::positional(AttrKey::Dim, ArgKind::Int)],
    relate: Some(links::link_cat),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, tensor_checks::check_dim_argument],
    repair: Some(checks::cat_repair),
    lower: Lower::Instructions(lowering::lower_cat),
};

/// `broadcast( T0, flags = {true, false} )`, without its result.
pub fn broadcast_op(tensor: TensorId, flags: Box<[bool]>) -> Op {
    let attrs = vec![(AttrKey::Flags, AttrValue::Bools(flags))];
    Op { attrs, ..Op::new(OpKind::Broadcast) }.with_operand(Value::Tensor(tensor))
}

/// `view( T0 )`, without its result.
pub fn view_op(tensor: TensorId) -> Op {
    Op::new(OpKind::View).with_operand(Value::Tensor(tensor))
}
