//! The factory ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `FULL`.
pub const FULL: OpSpec = OpSpec {
    name: "FULL",
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

/// `IOTA`.
pub const IOTA: OpSpec = OpSpec {
    name: "IOTA",
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
