//! Tensors made from scalars.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Standalone, no_axes, no_checks};
use crate::ir::AttrKey;
use crate::plan;

/// `full`.
pub const FULL: OpSpec = OpSpec {
    name: "full",
    spellings: &[],
    summary: "Fills a tensor with one value.",
    layout: Layout::Factory,
    results: 1,
    args: &[
        ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs),
        ArgSpec::positional(AttrKey::Fill, ArgKind::Expr),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_full,
};

/// `iota`.
pub const IOTA: OpSpec = OpSpec {
    name: "iota",
    spellings: &[],
    summary: "Counts: length, start, step, element type.",
    layout: Layout::Factory,
    results: 1,
    args: &[
        ArgSpec::positional(AttrKey::Size, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Step, ArgKind::Expr),
        ArgSpec::positional(AttrKey::OutType, ArgKind::DType),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_iota,
};
