//! What an op declares about itself.
//!
//! An op is plain data plus a few functions in its family's file and one line in the table of
//! [`super`]. Parser, printer, generic checks, docs and completion follow from the data; a forgotten
//! function is a compile error.

use crate::diag::Diags;
use crate::ir::{AttrKey, OpId, Program, Style, TensorId};
use crate::plan::Lowering;

/// How an op is written. The set is closed; `print` has one function a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One line: `out = name( a, key = value )`, blanks inside the parentheses if `Padded`.
    OneLine(Padding),
    /// Two lines: `out` and, indented by three more blanks, `= name( a, key = value )`.
    TwoLines(Padding),
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
    /// Words: `Synchronize Stream 0` or, by [`Style::call_form`], `Synchronize(Stream 0)`.
    Words(Link),
    /// A scalar definition: `i84 = i82 % 8;`.
    Define,
    /// The op prints and reads itself with a form of its own that `print` and `resolve` know by
    /// punctuation: ALLOCATE, Deallocate, FOR, IF, PostOnStream, LaunchKernel, ShareMemHandles,
    /// GetCurrentStream.
    Own,
}

/// What stands between the head of a [`Layout::Words`] statement and its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Nothing.
    None,
    /// `to`
    To,
    /// The op's number (`EndCoalescing 32`); it has no operand.
    Number,
}

/// Whether a call has blanks inside its parentheses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding {
    /// `f( a )`
    Padded,
    /// `f(a)`
    Tight,
}

/// How the `=` of a keyed argument is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Equals {
    /// `key = value`
    Spaced,
    /// `key=value`
    Tight,
    /// `key=value` or `key = value`, by [`Style::tight_stream_index`].
    StreamIndex,
}

/// What an argument holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// A tensor operand.
    Tensor,
    /// A tensor or scalar operand.
    Operand,
    /// A scalar attribute, written as an expression.
    Expr,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An element type.
    DType,
    /// `true` or `false`.
    Bool,
    /// A domain of the first operand (or its logical position).
    Axis,
    /// `{true, false}`
    Bools,
    /// `{a, b}`
    Exprs,
    /// `{ {a, b, c} {a, b, c} }`
    Ranges,
    /// `(0 1 2)`
    Team,
    /// `{1, 0}` of integers.
    Ints,
    /// A bare integer (an [`crate::ir::AttrValue::Expr`] that is one).
    Int,
    /// `Stream <expr>`
    Stream,
    /// `Communication 39`
    Handle,
}

impl ArgKind {
    /// What is needed, in words.
    pub fn describe(self) -> &'static str {
        match self {
            ArgKind::Tensor => "a tensor",
            ArgKind::Operand => "a tensor or a scalar",
            ArgKind::Expr => "a scalar",
            ArgKind::Word(_) => "a word",
            ArgKind::DType => "an element type",
            ArgKind::Bool => "`true` or `false`",
            ArgKind::Axis => "an iteration domain such as `iS0{i0}` or a position",
            ArgKind::Bools => "a list such as `{true, false}`",
            ArgKind::Exprs => "a list such as `{i0, 4}`",
            ArgKind::Ranges => "a list of ranges such as `{ {0, i0, 1} {0, 4, 1} }`",
            ArgKind::Team => "device numbers such as `(0 1 2 3)`",
            ArgKind::Ints => "a list of integers such as `{1, 0}`",
            ArgKind::Int => "an integer",
            ArgKind::Stream => "a stream such as `Stream 0`",
            ArgKind::Handle => "a handle such as `Communication 39`",
        }
    }
}

/// When an argument stands in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Always.
    Required,
    /// Only where the program has it.
    Optional,
}

/// One argument in written order.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// The word before `=`; `None` for a positional argument.
    pub word: Option<&'static str>,
    /// How its `=` is written.
    pub equals: Equals,
    /// The attribute it fills; `None` for an operand (or, with `result`, a result).
    pub key: Option<AttrKey>,
    /// Whether it is a result (`output=` of a Communication).
    pub result: bool,
    /// What it holds.
    pub kind: ArgKind,
    /// When it is there.
    pub presence: Presence,
    /// Whether it stands for any number (at least one) of positional operands.
    pub repeated: bool,
}

impl ArgSpec {
    const BLANK: ArgSpec = ArgSpec {
        word: None,
        equals: Equals::Tight,
        key: None,
        result: false,
        kind: ArgKind::Tensor,
        presence: Presence::Required,
        repeated: false,
    };

    /// A positional operand.
    pub const fn operand(kind: ArgKind) -> Self {
        Self { kind, ..Self::BLANK }
    }
    /// A positional attribute.
    pub const fn positional(key: AttrKey, kind: ArgKind) -> Self {
        Self { key: Some(key), kind, ..Self::BLANK }
    }
    /// `word=value`
    pub const fn tight(word: &'static str, key: AttrKey, kind: ArgKind) -> Self {
        Self { word: Some(word), key: Some(key), kind, ..Self::BLANK }
    }
    /// `word = value`
    pub const fn spaced(word: &'static str, key: AttrKey, kind: ArgKind) -> Self {
        Self { word: Some(word), equals: Equals::Spaced, key: Some(key), kind, ..Self::BLANK }
    }
    /// `word=<tensor>` that is an operand.
    pub const fn keyed_operand(word: &'static str) -> Self {
        Self { word: Some(word), ..Self::BLANK }
    }
    /// `word=<tensor>` that is a result.
    pub const fn keyed_result(word: &'static str) -> Self {
        Self { word: Some(word), result: true, ..Self::BLANK }
    }
    /// The same, but it may be left out.
    pub const fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self
    }
    /// The same, but it stands for one or more operands.
    pub const fn repeated(mut self) -> Self {
        self.repeated = true;
        self
    }
    /// The same with another `=`.
    pub const fn with_equals(mut self, equals: Equals) -> Self {
        self.equals = equals;
        self
    }
    /// How messages call it: its word, or what it is.
    pub fn title(&self) -> &'static str {
        match (self.word, self.key) {
            (Some(word), _) => word,
            (None, Some(key)) => key.word(),
            (None, None) => "operand",
        }
    }
}

/// What running the op does; passes and checks ask this, never the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Computes its results from its operands and nothing else.
    Pure,
    /// Binds its result to a part of its operand's memory.
    Alias,
    /// Makes memory for its result.
    Allocate,
    /// Ends the life of its operand.
    Free,
    /// Changes or orders streams.
    Stream,
    /// Starts, groups or awaits communication.
    Communicate,
    /// Holds blocks.
    Control,
    /// Reads and writes its tensors in a way nobody can see into (a kernel).
    Opaque,
}

/// Which ops of a kind stand in a host program by themselves (nvFuser's `isLowerableAsStandaloneHostOp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standalone {
    /// None.
    No,
    /// All.
    Yes,
    /// Those with two operands.
    Binary,
}

/// An axis of one tensor that is an axis of another: extents equal, index equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisLink {
    /// Tensor and position among its logical axes (reductions included).
    pub from: (TensorId, u32),
    /// Tensor and position among its logical axes (reductions included).
    pub to: (TensorId, u32),
    /// Whether exactly one of the two is a broadcast: they stand at one place, but the extents differ.
    pub broadcast: bool,
}

/// A head word and whether a style asks for it.
pub type Spelling = (&'static str, fn(&Style) -> bool);

/// One row of the op table.
pub struct OpSpec {
    /// Head word in the default style.
    pub name: &'static str,
    /// Other head words and when the style asks for them.
    pub spellings: &'static [Spelling],
    /// One sentence.
    pub summary: &'static str,
    /// How it is written.
    pub layout: Layout,
    /// Number of results before `=` (communications and statements: 0).
    pub results: usize,
    /// Arguments in written order.
    pub args: &'static [ArgSpec],
    /// What it does.
    pub effect: Effect,
    /// Whether nvFuser's lowering makes it an op of the host program; others go into HostUnits.
    pub standalone: Standalone,
    /// Which axes of operands and results correspond.
    pub axes: fn(&Program, OpId, &mut Vec<AxisLink>),
    /// Whether it makes axes of its result from the elements of several axes, or of parts of one: such an
    /// axis has no link although its elements come from the operand.
    pub makes_axes: bool,
    /// Checks beyond the generic ones.
    pub verify: fn(&Program, OpId, &mut Diags),
    /// Appends its instructions to a rank's plan.
    pub lower: fn(&mut Lowering<'_>, OpId) -> Result<(), crate::diag::Diag>,
}

impl OpSpec {
    /// Whether the op has a number (`Communication 39`).
    pub fn numbered(&self) -> bool {
        matches!(self.layout, Layout::Keyed | Layout::Words(Link::Number))
    }
    /// The head word in a style.
    pub fn head(&self, style: &Style) -> &'static str {
        self.spellings
            .iter()
            .find(|(_, applies)| applies(style))
            .map_or(self.name, |(name, _)| name)
    }
}

/// No axis of an operand is an axis of a result.
pub fn no_axes(_: &Program, _: OpId, _: &mut Vec<AxisLink>) {}

/// Nothing to check beyond the table.
pub fn no_checks(_: &Program, _: OpId, _: &mut Diags) {}
