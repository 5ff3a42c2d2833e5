//! The stream ops.

use super::spec::{Effect, Layout, OpSpec, no_axes, no_checks};
use crate::plan::unsupported;

/// `GET_CURRENT_STREAM`.
pub const GET_CURRENT_STREAM: OpSpec = OpSpec {
    name: "GET_CURRENT_STREAM",
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

/// `SET_CURRENT_STREAM`.
pub const SET_CURRENT_STREAM: OpSpec = OpSpec {
    name: "SET_CURRENT_STREAM",
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

/// `SYNCHRONIZE`.
pub const SYNCHRONIZE: OpSpec = OpSpec {
    name: "SYNCHRONIZE",
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
