//! Reductions.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Padding, Standalone};
use crate::ir::AttrKey;
use crate::plan;
use crate::verify::rules;

/// Reduction operations. `max` and `min` are spelled `fmax` and `fmin` unless
/// [`crate::ir::Style::short_max`].
pub const REDUCE_WORDS: &[&str] = &[
    "add",
    "mul",
    "max",
    "min",
    "fmax",
    "fmin",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
];

/// `reduction`.
pub const REDUCTION: OpSpec = OpSpec {
    name: "reduction",
    spellings: &[],
    summary: "Reduces the axes that are reductions in its result.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("op", AttrKey::ReduceOp, ArgKind::Word(REDUCE_WORDS)),
        ArgSpec::spaced("initial value", AttrKey::Init, ArgKind::Expr),
        ArgSpec::spaced("allreduce", AttrKey::Allreduce, ArgKind::Bool),
    ],
    effect: Effect::Pure,
    standalone: Standalone::Yes,
    axes: rules::reduction::axes,
    makes_axes: false,
    verify: rules::reduction::verify,
    lower: plan::lower_reduction,
};
