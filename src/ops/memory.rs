//! The memory ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `ALLOCATE`.
pub const ALLOCATE: OpSpec = OpSpec {
    name: "ALLOCATE",
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

/// `DEALLOCATE`.
pub const DEALLOCATE: OpSpec = OpSpec {
    name: "DEALLOCATE",
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

/// `HIR_ALIAS_SELECT`.
pub const HIR_ALIAS_SELECT: OpSpec = OpSpec {
    name: "HIR_ALIAS_SELECT",
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

/// `SELECT`.
pub const SELECT: OpSpec = OpSpec {
    name: "SELECT",
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

/// `SHARD_BY_STREAM`.
pub const SHARD_BY_STREAM: OpSpec = OpSpec {
    name: "SHARD_BY_STREAM",
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

/// `SYMMETRIC_CONTIGUOUS_VIEW`.
pub const SYMMETRIC_CONTIGUOUS_VIEW: OpSpec = OpSpec {
    name: "SYMMETRIC_CONTIGUOUS_VIEW",
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
