//! Op kinds: opaque handles with the facts that every layer may query.
//!
//! The op table (`crate::ops`) makes one [`OpKind`] for each row; modules below it use kinds without knowing the rows.
//! Properties that need functions of other layers (arguments, axis links, checks, lowering) are in
//! `crate::ops::OpSpec`.

use super::ids::TensorId;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A row of the op table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpKind(&'static OpIdentity);

/// The facts about an op that need no function of another layer.
#[derive(PartialEq, Eq, Debug)]
pub struct OpIdentity {
    /// The number of the row.
    pub index: u8,
    /// Head word in the default style.
    pub name: &'static str,
    /// Its layout in the text.
    pub layout: OpLayout,
    /// Number of results before `=` (communications and statements: 0).
    pub results: usize,
    /// Its effect.
    pub effect: OpEffect,
    /// The ops of the kind that nvFuser's lowering makes ops of the host program; others go into HostUnits.
    pub standalone: StandaloneRule,
    /// The ranks that run it.
    pub runs_on: RunsOn,
    /// True if it makes axes of its result from the elements of several axes, or from parts of one: such an axis has no
    /// link although its elements come from the operand.
    pub reshapes: bool,
}

impl OpIdentity {
    /// The defaults of a row: a tensor op without effects that HostUnits hold.
    pub const TENSOR_OP: OpIdentity = OpIdentity {
        index: u8::MAX,
        name: "",
        layout: OpLayout::TwoLines(CallPadding::Padded),
        results: 1,
        effect: OpEffect::Pure,
        standalone: StandaloneRule::No,
        runs_on: RunsOn::Mesh,
        reshapes: false,
    };

    /// Returns true if ops of the kind have a number (`Communication 39`).
    pub const fn is_numbered(&self) -> bool {
        matches!(self.layout, OpLayout::Keyed | OpLayout::Words(WordLink::Number))
    }

    /// Returns a copy with a row number.
    pub const fn at_row(&self, index: u8) -> OpIdentity {
        OpIdentity { index, ..*self }
    }
}

impl OpKind {
    /// The kind of a row.
    pub const fn new(identity: &'static OpIdentity) -> Self {
        Self(identity)
    }
    /// The number of the row.
    pub const fn row(self) -> usize {
        self.0.index as usize
    }
    /// Head word in the default style.
    pub fn name(self) -> &'static str {
        self.0.name
    }
    /// Its layout in the text.
    pub fn layout(self) -> OpLayout {
        self.0.layout
    }
    /// Number of results before `=`.
    pub fn result_count(self) -> usize {
        self.0.results
    }
    /// Its effect.
    pub fn effect(self) -> OpEffect {
        self.0.effect
    }
    /// The ops of the kind that nvFuser's lowering makes ops of the host program.
    pub fn standalone(self) -> StandaloneRule {
        self.0.standalone
    }
    /// The ranks that run it.
    pub fn runs_on(self) -> RunsOn {
        self.0.runs_on
    }
    /// Returns true if the op makes an axis of its result from elements of several axes, or from parts of one.
    pub fn reshapes(self) -> bool {
        self.0.reshapes
    }
}

impl Hash for OpKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.index.hash(state);
    }
}

impl PartialOrd for OpKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.index.cmp(&other.0.index)
    }
}

impl fmt::Debug for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// The ranks that run an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsOn {
    /// The ranks in the mesh of one of its tensors, or all if one of them has no mesh.
    Mesh,
    /// The members of its team.
    Team,
    /// The ranks that run the communications whose handles it names.
    Handle,
}

/// The layout of an op in the text. The set is closed; `print` has one function for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpLayout {
    /// One line: `out = name( a, key = value )`, blanks inside the parentheses if `Padded`.
    OneLine(CallPadding),
    /// Two lines: `out` and, indented by three more blanks, `= name( a, key = value )`.
    TwoLines(CallPadding),
    /// `matmul`: each operand on a line of its own, operands aligned.
    Aligned,
    /// `linear`: as `Aligned`, with nvFuser's odd blanks before `,` and `)`.
    AlignedLoose,
    /// Two lines without padding, ending in `;`: `full` and `iota`. No comma follows an empty list.
    Factory,
    /// Pointwise: infix or prefix operator, or named function with one operand a line; ends in `;`.
    Pointwise,
    /// `Name N (key=value, ...)`: communications.
    Keyed,
    /// Words: `Synchronize Stream 0` or, by [`Style::call_form`](super::Style::call_form), `Synchronize(Stream 0)`.
    Words(WordLink),
    /// A scalar definition: `i84 = i82 % 8;`.
    Define,
    /// The op prints and reads itself with a form of its own that `print` and `resolve` know by
    /// punctuation: ALLOCATE, Deallocate, FOR, IF, PostOnStream, LaunchKernel, ShareMemHandles,
    /// GetCurrentStream.
    Own,
}

/// The words between the head of a [`OpLayout::Words`] statement and its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordLink {
    /// Nothing.
    None,
    /// `to`
    To,
    /// The op's number (`EndCoalescing 32`); it has no operand.
    Number,
}

/// Blanks inside the parentheses of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallPadding {
    /// `f( a )`
    Padded,
    /// `f(a)`
    Tight,
}

/// The effect of running an op; passes and checks query this and never the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpEffect {
    /// Computes its results from its operands and nothing else.
    Pure,
    /// Binds its result to a part of its operand's memory.
    Alias,
    /// Allocates memory for its result.
    Allocate,
    /// Frees its operand.
    Free,
    /// Selects or synchronizes streams.
    Stream,
    /// Starts, groups or awaits communication.
    Communicate,
    /// Runs blocks.
    Control,
    /// Reads and writes its tensors in an unknown way (a compiled kernel).
    Opaque,
}

/// The ops of a kind that occur in a host program by themselves (nvFuser's `isLowerableAsStandaloneHostOp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandaloneRule {
    /// None.
    No,
    /// All.
    Yes,
    /// Those with two operands.
    Binary,
}

/// A correspondence of two tensors' axes: equal extents, equal indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisLink {
    /// Tensor and position among its logical axes (reductions included).
    pub from: (TensorId, u32),
    /// Tensor and position among its logical axes (reductions included).
    pub to: (TensorId, u32),
    /// True if exactly one of the two is a broadcast: they are at one place, but their extents differ.
    pub broadcast: bool,
}
