//! Fused groups and compiled kernels.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Standalone, no_axes, no_checks};
use crate::ir::AttrKey;
use crate::plan;
use crate::verify::rules;

/// `PostOnStream`.
pub const POST_ON_STREAM: OpSpec = OpSpec {
    name: "PostOnStream",
    spellings: &[],
    summary: "Runs a HostUnit on the current stream: its operands are the unit, then the inputs; its results the outputs.",
    layout: Layout::Own,
    results: 0,
    args: &[],
    effect: Effect::Opaque,
    standalone: Standalone::No,
    axes: rules::post::axes,
    makes_axes: false,
    verify: rules::post::verify,
    lower: plan::lower_post_on_stream,
};

/// `LaunchKernel`.
pub const LAUNCH_KERNEL: OpSpec = OpSpec {
    name: "LaunchKernel",
    spellings: &[],
    summary: "Launches the compiled kernel of a group.",
    layout: Layout::Own,
    results: 0,
    args: &[ArgSpec::tight("Group ID", AttrKey::GroupId, ArgKind::Int)],
    effect: Effect::Opaque,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_launch_kernel,
};
