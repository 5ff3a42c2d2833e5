//! Copies of whole tensors, with or without a permutation of their axes.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Padding, Standalone};
use crate::ir::AttrKey;
use crate::plan;
use crate::verify::rules;

/// Cache hints.
pub const CACHE_OPS: &[&str] = &["AllLevels", "Streaming", "Global"];

/// `Set`.
pub const SET: OpSpec = OpSpec {
    name: "Set",
    spellings: &[],
    summary: "Copies a tensor or a scalar.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Operand),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::Yes,
    axes: rules::copy::axes,
    makes_axes: false,
    verify: rules::copy::verify,
    lower: plan::lower_set,
};

/// `Set.Permute`.
pub const SET_PERMUTE: OpSpec = OpSpec {
    name: "Set.Permute",
    spellings: &[],
    summary: "Copies a tensor with its axes permuted.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
        ArgSpec::tight("perm", AttrKey::Perm, ArgKind::Ints).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::permute::axes,
    makes_axes: false,
    verify: rules::permute::verify,
    lower: plan::lower_set_permute,
};

/// `SegmenterSet`.
pub const SEGMENTER_SET: OpSpec = OpSpec {
    name: "SegmenterSet",
    spellings: &[],
    summary: "Copies a tensor at the border of two segments.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::copy::axes,
    makes_axes: false,
    verify: rules::copy::verify,
    lower: plan::lower_set,
};

/// `SegmenterSet.Permute`.
pub const SEGMENTER_SET_PERMUTE: OpSpec = OpSpec {
    name: "SegmenterSet.Permute",
    spellings: &[],
    summary: "Copies a tensor at the border of two segments with its axes permuted.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
        ArgSpec::tight("perm", AttrKey::Perm, ArgKind::Ints).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::permute::axes,
    makes_axes: false,
    verify: rules::permute::verify,
    lower: plan::lower_set_permute,
};
