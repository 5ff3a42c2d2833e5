//! The pointwise ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `POINTWISE`.
pub const POINTWISE: OpSpec = OpSpec {
    name: "POINTWISE",
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
