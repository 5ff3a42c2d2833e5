//! The copy ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `SET`.
pub const SET: OpSpec = OpSpec {
    name: "SET",
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

/// `SET_PERMUTE`.
pub const SET_PERMUTE: OpSpec = OpSpec {
    name: "SET_PERMUTE",
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

/// `SEGMENTER_SET`.
pub const SEGMENTER_SET: OpSpec = OpSpec {
    name: "SEGMENTER_SET",
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

/// `SEGMENTER_SET_PERMUTE`.
pub const SEGMENTER_SET_PERMUTE: OpSpec = OpSpec {
    name: "SEGMENTER_SET_PERMUTE",
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
