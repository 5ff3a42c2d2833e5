//! Ops that change the shape of a tensor.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Padding, Standalone};
use crate::ir::AttrKey;
use crate::plan::{self, unsupported};
use crate::verify::rules;

/// `broadcast`.
pub const BROADCAST: OpSpec = OpSpec {
    name: "broadcast",
    spellings: &[],
    summary: "Adds axes of extent 1 where a flag is set.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("flags", AttrKey::Flags, ArgKind::Bools),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::broadcast::axes,
    makes_axes: false,
    verify: rules::broadcast::verify,
    lower: plan::lower_broadcast,
};

/// `squeeze`.
pub const SQUEEZE: OpSpec = OpSpec {
    name: "squeeze",
    spellings: &[],
    summary: "Removes axes of extent 1 where a flag is set.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("flags", AttrKey::Flags, ArgKind::Bools),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::squeeze::axes,
    makes_axes: false,
    verify: rules::squeeze::verify,
    lower: plan::lower_squeeze,
};

/// `expand`.
pub const EXPAND: OpSpec = OpSpec {
    name: "expand",
    spellings: &[],
    summary: "Repeats broadcast axes without storing them.",
    layout: Layout::OneLine(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::expand::axes,
    makes_axes: false,
    verify: rules::expand::verify,
    lower: plan::lower_expand,
};

/// `repeat`.
pub const REPEAT: OpSpec = OpSpec {
    name: "repeat",
    spellings: &[],
    summary: "Repeats axes.",
    layout: Layout::OneLine(Padding::Padded),
    results: 1,
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::repeat::axes,
    makes_axes: true,
    verify: rules::repeat::verify,
    lower: unsupported,
};

/// `view`.
pub const VIEW: OpSpec = OpSpec {
    name: "view",
    spellings: &[("reshape", |style| style.reshape)],
    summary: "Gives the elements another shape.",
    layout: Layout::OneLine(Padding::Padded),
    results: 1,
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::view::axes,
    makes_axes: true,
    verify: rules::view::verify,
    lower: plan::lower_view,
};

/// `slice`.
pub const SLICE: OpSpec = OpSpec {
    name: "slice",
    spellings: &[],
    summary: "Takes a range of each axis.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::positional(AttrKey::Ranges, ArgKind::Ranges),
    ],
    effect: Effect::Pure,
    standalone: Standalone::Yes,
    axes: rules::slice::axes,
    makes_axes: true,
    verify: rules::slice::verify,
    lower: plan::lower_slice,
};

/// `pad`.
pub const PAD: OpSpec = OpSpec {
    name: "pad",
    spellings: &[],
    summary: "Adds elements before and after each axis; zeros unless a value is given.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::positional(AttrKey::Widths, ArgKind::Exprs),
        ArgSpec::spaced("value", AttrKey::Fill, ArgKind::Expr).optional(),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::pad::axes,
    makes_axes: true,
    verify: rules::pad::verify,
    lower: plan::lower_pad,
};

/// `cat`.
pub const CAT: OpSpec = OpSpec {
    name: "cat",
    spellings: &[],
    summary: "Puts tensors behind each other along an axis.",
    layout: Layout::TwoLines(Padding::Padded),
    results: 1,
    args: &[
        ArgSpec::operand(ArgKind::Tensor).repeated(),
        ArgSpec::positional(AttrKey::Dim, ArgKind::Int),
    ],
    effect: Effect::Pure,
    standalone: Standalone::No,
    axes: rules::cat::axes,
    makes_axes: true,
    verify: rules::cat::verify,
    lower: plan::lower_cat,
};
