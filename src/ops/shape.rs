//! The shape ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `BROADCAST`.
pub const BROADCAST: OpSpec = OpSpec {
    name: "BROADCAST",
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

/// `SQUEEZE`.
pub const SQUEEZE: OpSpec = OpSpec {
    name: "SQUEEZE",
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

/// `EXPAND`.
pub const EXPAND: OpSpec = OpSpec {
    name: "EXPAND",
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

/// `REPEAT`.
pub const REPEAT: OpSpec = OpSpec {
    name: "REPEAT",
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

/// `VIEW`.
pub const VIEW: OpSpec = OpSpec {
    name: "VIEW",
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

/// `SLICE`.
pub const SLICE: OpSpec = OpSpec {
    name: "SLICE",
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

/// `PAD`.
pub const PAD: OpSpec = OpSpec {
    name: "PAD",
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

/// `CAT`.
pub const CAT: OpSpec = OpSpec {
    name: "CAT",
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
