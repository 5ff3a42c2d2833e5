//! Scalar definitions.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Standalone, no_axes, no_checks};
use crate::plan;

/// `scalar definition`.
pub const DEFINE: OpSpec = OpSpec {
    name: "scalar definition",
    spellings: &[],
    summary: "Gives a name to the value of an expression: `i84 = i82 % 8;`.",
    layout: Layout::Define,
    results: 1,
    args: &[ArgSpec::operand(ArgKind::Expr)],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_set,
};
