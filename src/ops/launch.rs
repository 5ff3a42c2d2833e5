//! The launch ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `POST_ON_STREAM`.
pub const POST_ON_STREAM: OpSpec = OpSpec {
    name: "POST_ON_STREAM",
    spellings: &[],
    summary: "",
    layout: Layout::Own,
    results: 0,
    args: &[],
    effect: Effect::Pure,
    axes: no_axes,
    verify: no_checks,
    lower: unsupported,
};

/// `LAUNCH_KERNEL`.
pub const LAUNCH_KERNEL: OpSpec = OpSpec {
    name: "LAUNCH_KERNEL",
    spellings: &[],
    summary: "",
    layout: Layout::Own,
    results: 0,
    args: &[],
    effect: Effect::Pure,
    axes: no_axes,
    verify: no_checks,
    lower: unsupported,
};
