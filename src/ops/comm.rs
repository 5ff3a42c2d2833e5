//! The comm ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `COMMUNICATION`.
pub const COMMUNICATION: OpSpec = OpSpec {
    name: "COMMUNICATION",
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

/// `P2P_COMMUNICATION`.
pub const P2P_COMMUNICATION: OpSpec = OpSpec {
    name: "P2P_COMMUNICATION",
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

/// `COLLECTIVE_PERMUTE`.
pub const COLLECTIVE_PERMUTE: OpSpec = OpSpec {
    name: "COLLECTIVE_PERMUTE",
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

/// `START_COALESCING`.
pub const START_COALESCING: OpSpec = OpSpec {
    name: "START_COALESCING",
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

/// `END_COALESCING`.
pub const END_COALESCING: OpSpec = OpSpec {
    name: "END_COALESCING",
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

/// `WAIT`.
pub const WAIT: OpSpec = OpSpec {
    name: "WAIT",
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

/// `SHARE_MEM_HANDLES`.
pub const SHARE_MEM_HANDLES: OpSpec = OpSpec {
    name: "SHARE_MEM_HANDLES",
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

/// `DISPATCH`.
pub const DISPATCH: OpSpec = OpSpec {
    name: "DISPATCH",
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

/// `COMBINE`.
pub const COMBINE: OpSpec = OpSpec {
    name: "COMBINE",
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
