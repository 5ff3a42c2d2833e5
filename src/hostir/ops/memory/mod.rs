//! Memory ops: allocation, deallocation, slices.

mod checks;
mod links;
mod lowering;
pub(crate) mod sharing;
mod types;

pub use types::{select_type, selected_stored_axis};

use super::spec::{ArgKind, ArgSpec, EqualsSpacing, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::axes::pairing::{self};
use crate::ir::{
    AttrKey, AttrValue, CallPadding, DomainId, ExprId, Op, OpEffect, OpIdentity, OpKind, OpLayout, OwnForm,
    StandaloneRule, TensorId, Value,
};

/// Words of `mem_type=`, see [`crate::ir::MemoryType::word`].
pub const MEMORY_WORDS: &[&str] = &["register", "shared", "global", "tensor", "symmetric"];

/// `ALLOCATE`.
pub const ALLOCATE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "ALLOCATE",
        layout: OpLayout::Own(OwnForm::Allocate),
        effect: OpEffect::Allocate,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Allocates memory for its result.",
    args: &[
        ArgSpec::tight("buffer", AttrKey::Buffer, ArgKind::Tensor).optional(),
        ArgSpec::tight("mem_type", AttrKey::MemType, ArgKind::Word(MEMORY_WORDS)),
        ArgSpec::tight("size", AttrKey::Size, ArgKind::Expr).optional(),
        ArgSpec::tight("zero_init", AttrKey::ZeroInit, ArgKind::Bool),
        ArgSpec::tight("resets_to_zero", AttrKey::ResetsToZero, ArgKind::Bool).optional(),
        ArgSpec::tight("keep", AttrKey::Keep, ArgKind::Bool).optional(),
        ArgSpec::tight("alias", AttrKey::Alias, ArgKind::Tensor).optional(),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[checks::check_allocate],
    repair: None,
    lower: Lower::Instructions(lowering::lower_allocate),
};

/// `Deallocate`.
pub const DEALLOCATE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Deallocate",
        layout: OpLayout::Own(OwnForm::Deallocate),
        results: 0,
        effect: OpEffect::Free,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Frees a tensor's memory.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lowering::lower_deallocate),
};

/// `HirAliasSelect`.
pub const HIR_ALIAS_SELECT: OpSpec = OpSpec {
    identity: OpIdentity { name: "HirAliasSelect", effect: OpEffect::Alias, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Binds its result to one slice of its operand's memory.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("axis", AttrKey::Axis, ArgKind::Axis),
        ArgSpec::spaced("index", AttrKey::Index, ArgKind::Expr),
    ],
    relate: Some(links::link_select),
    infer: Infer::Result(types::infer_select),
    checks: &[tensor_checks::check_one_dtype, checks::check_select_index],
    repair: None,
    lower: Lower::Instructions(lowering::lower_select),
};

/// `select`.
pub const SELECT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "select",
        effect: OpEffect::Alias,
        standalone: StandaloneRule::Yes,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Takes one slice of its operand; in the host program it binds the slice, as HirAliasSelect does.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("axis", AttrKey::Axis, ArgKind::Axis),
        ArgSpec::spaced("index", AttrKey::Index, ArgKind::Expr),
    ],
    relate: Some(links::link_select),
    infer: Infer::Result(types::infer_select),
    checks: &[tensor_checks::check_one_dtype, checks::check_select_index],
    repair: None,
    lower: Lower::Instructions(lowering::lower_select),
};

/// `ShardByStream`.
pub const SHARD_BY_STREAM: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "ShardByStream",
        layout: OpLayout::OneLine(CallPadding::Tight),
        effect: OpEffect::Alias,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Binds its result to the shard of its operand that a stream works on.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("stream_index", AttrKey::StreamIndex, ArgKind::Expr).with_equals(EqualsSpacing::StreamIndex),
        ArgSpec::tight("swizzle", AttrKey::Swizzle, ArgKind::Bool).optional(),
    ],
    relate: Some(links::link_shard_by_stream),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_shard_by_stream),
};

/// `SymmetricContiguousView`.
pub const SYMMETRIC_CONTIGUOUS_VIEW: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "SymmetricContiguousView",
        layout: OpLayout::OneLine(CallPadding::Tight),
        effect: OpEffect::Alias,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Binds its result to the shards of all devices, one after the other; the operand is sharded along its first axis.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(pairing::link_copy),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lowering::lower_symmetric_view),
};

/// `T1 = ALLOCATE()`, without attributes.
pub fn allocation_op(tensor: TensorId) -> Op {
    Op::new(OpKind::Allocate).with_result(Value::Tensor(tensor))
}

/// `Deallocate { T1 }`
pub fn deallocation_op(tensor: TensorId) -> Op {
    Op::new(OpKind::Deallocate).with_operand(Value::Tensor(tensor))
}

/// `HirAliasSelect( T1, axis = iS0{8}, index = i )`, without its result.
pub fn slice_op(tensor: TensorId, axis: DomainId, index: ExprId) -> Op {
    let attrs = vec![(AttrKey::Axis, AttrValue::Domain(axis)), (AttrKey::Index, AttrValue::Expr(index))];
    Op { attrs, ..Op::new(OpKind::HirAliasSelect) }.with_operand(Value::Tensor(tensor))
}
