//! Memory: making, freeing and slicing it.

use super::spec::{
    ArgKind, ArgSpec, Effect, Equals, Layout, OpSpec, Padding, Standalone, no_axes, no_checks,
};
use crate::ir::AttrKey;
use crate::plan::{self, unsupported};
use crate::verify::rules;

/// Words of `mem_type=`, see [`crate::ir::MemoryType::word`].
pub const MEMORY_WORDS: &[&str] = &["register", "shared", "global", "tensor", "symmetric"];

/// `ALLOCATE`.
pub const ALLOCATE: OpSpec = OpSpec {
    name: "ALLOCATE",
    spellings: &[],
    summary: "Makes memory for its result.",
    layout: Layout::Own,
    results: 1,
    args: &[
        ArgSpec::tight("buffer", AttrKey::Buffer, ArgKind::Tensor).optional(),
        ArgSpec::tight("mem_type", AttrKey::MemType, ArgKind::Word(MEMORY_WORDS)),
        ArgSpec::tight("size", AttrKey::Size, ArgKind::Expr).optional(),
        ArgSpec::tight("zero_init", AttrKey::ZeroInit, ArgKind::Bool),
        ArgSpec::tight("resets_to_zero", AttrKey::ResetsToZero, ArgKind::Bool).optional(),
        ArgSpec::tight("keep", AttrKey::Keep, ArgKind::Bool).optional(),
        ArgSpec::tight("alias", AttrKey::Alias, ArgKind::Tensor).optional(),
    ],
    effect: Effect::Allocate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: rules::allocate::verify,
    lower: plan::lower_allocate,
};

/// `Deallocate`.
pub const DEALLOCATE: OpSpec = OpSpec {
    name: "Deallocate",
    spellings: &[],
    summary: "Ends the life of a tensor's memory.",
    layout: Layout::Own,
    results: 0,
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    effect: Effect::Free,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_deallocate,
};

/// `HirAliasSelect`.
pub const HIR_ALIAS_SELECT: OpSpec = OpSpec {
    name: "HirAliasSelect",
    spellings: &[],
    summary: "Binds its result to one slice of its operand's memory.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("axis", AttrKey::Axis, ArgKind::Axis),
        ArgSpec::spaced("index", AttrKey::Index, ArgKind::Expr),
    ],
    effect: Effect::Alias,
    standalone: Standalone::No,
    axes: rules::select::axes,
    makes_axes: false,
    verify: rules::select::verify,
    lower: plan::lower_select,
};

/// `select`.
pub const SELECT: OpSpec = OpSpec {
    name: "select",
    spellings: &[],
    summary: "Takes one slice of its operand; at host level it binds, as HirAliasSelect does.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("axis", AttrKey::Axis, ArgKind::Axis),
        ArgSpec::spaced("index", AttrKey::Index, ArgKind::Expr),
    ],
    effect: Effect::Alias,
    standalone: Standalone::Yes,
    axes: rules::select::axes,
    makes_axes: false,
    verify: rules::select::verify,
    lower: plan::lower_select,
};

/// `ShardByStream`.
pub const SHARD_BY_STREAM: OpSpec = OpSpec {
    name: "ShardByStream",
    spellings: &[],
    summary: "Binds its result to the part of its operand that a stream works on.",
    layout: Layout::OneLine(Padding::Tight),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("stream_index", AttrKey::StreamIndex, ArgKind::Expr)
            .with_equals(Equals::StreamIndex),
    ],
    effect: Effect::Alias,
    standalone: Standalone::No,
    axes: rules::shard_by_stream::axes,
    makes_axes: false,
    verify: rules::shard_by_stream::verify,
    lower: plan::lower_shard_by_stream,
};

/// `SymmetricContiguousView`.
pub const SYMMETRIC_CONTIGUOUS_VIEW: OpSpec = OpSpec {
    name: "SymmetricContiguousView",
    spellings: &[],
    summary: "Binds its result to the memory of all devices.",
    layout: Layout::OneLine(Padding::Tight),
    results: 1,
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    effect: Effect::Alias,
    standalone: Standalone::No,
    axes: rules::copy::axes,
    makes_axes: false,
    verify: rules::copy::verify,
    lower: unsupported,
};
