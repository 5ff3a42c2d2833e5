//! Streams.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, Link, OpSpec, Standalone, no_axes, no_checks};
use crate::plan;

/// `GetCurrentStream`.
pub const GET_CURRENT_STREAM: OpSpec = OpSpec {
    name: "GetCurrentStream",
    spellings: &[],
    summary: "Binds a name to the current stream.",
    layout: Layout::Own,
    results: 0,
    args: &[],
    effect: Effect::Stream,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_get_current_stream,
};

/// `SetCurrentStream`.
pub const SET_CURRENT_STREAM: OpSpec = OpSpec {
    name: "SetCurrentStream",
    spellings: &[],
    summary: "Makes a stream the current one.",
    layout: Layout::Words(Link::To),
    results: 0,
    args: &[ArgSpec::operand(ArgKind::Stream)],
    effect: Effect::Stream,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_set_current_stream,
};

/// `Synchronize`.
pub const SYNCHRONIZE: OpSpec = OpSpec {
    name: "Synchronize",
    spellings: &[],
    summary: "Makes the current stream wait for what a stream has been given so far.",
    layout: Layout::Words(Link::None),
    results: 0,
    args: &[ArgSpec::operand(ArgKind::Stream)],
    effect: Effect::Stream,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_synchronize,
};
