//! Loops and branches.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, OpSpec, Standalone, no_axes};
use crate::ir::AttrKey;
use crate::plan;
use crate::verify::rules;

/// Predicate kinds of an IF in a host program.
pub const PREDICATES: &[&str] = &["Manual"];

/// `FOR`.
pub const FOR: OpSpec = OpSpec {
    name: "FOR",
    spellings: &[],
    summary: "Runs its block once for each index of a domain: `FOR i in iS0{8}:`.",
    layout: Layout::Own,
    results: 0,
    args: &[
        ArgSpec::positional(AttrKey::Index, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Domain, ArgKind::Axis),
        ArgSpec::tight("start", AttrKey::Start, ArgKind::Expr).optional(),
        ArgSpec::tight("stop", AttrKey::Stop, ArgKind::Expr).optional(),
        ArgSpec::tight("step", AttrKey::Step, ArgKind::Expr).optional(),
    ],
    effect: Effect::Control,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: rules::loops::verify,
    lower: plan::lower_for,
};

/// `FOR`.
pub const FOR_RANGE: OpSpec = OpSpec {
    name: "FOR",
    spellings: &[],
    summary: "Runs its block for the indices from a start up to a stop: `FOR i from 0 to 8:`.",
    layout: Layout::Own,
    results: 0,
    args: &[
        ArgSpec::positional(AttrKey::Index, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Stop, ArgKind::Expr),
        ArgSpec::tight("step", AttrKey::Step, ArgKind::Expr).optional(),
    ],
    effect: Effect::Control,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: rules::loops::verify,
    lower: plan::lower_for_range,
};

/// `IF`.
pub const IF: OpSpec = OpSpec {
    name: "IF",
    spellings: &[],
    summary: "Runs its first block if the condition holds, else its second: `IF Manual ( i == rank ):`.",
    layout: Layout::Own,
    results: 0,
    args: &[
        ArgSpec::positional(AttrKey::Predicate, ArgKind::Word(PREDICATES)),
        ArgSpec::operand(ArgKind::Expr),
    ],
    effect: Effect::Control,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: rules::branch::verify,
    lower: plan::lower_if,
};
