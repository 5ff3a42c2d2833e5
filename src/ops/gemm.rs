//! Matrix products.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Standalone};
use crate::plan;
use crate::verify::rules;

/// `matmul`.
pub const MATMUL: OpSpec = OpSpec {
    name: "matmul",
    spellings: &[],
    summary: "Batched matrix product.",
    layout: Layout::Aligned,
    results: 1,
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    effect: Effect::Pure,
    standalone: Standalone::Yes,
    axes: rules::matmul::axes,
    makes_axes: false,
    verify: rules::matmul::verify,
    lower: plan::lower_matmul,
};

/// `linear`.
pub const LINEAR: OpSpec = OpSpec {
    name: "linear",
    spellings: &[],
    summary: "Product with a transposed weight, plus a bias if given.",
    layout: Layout::AlignedLoose,
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::Yes,
    axes: rules::linear::axes,
    makes_axes: false,
    verify: rules::linear::verify,
    lower: plan::lower_linear,
};
