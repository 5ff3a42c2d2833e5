//! Syntax errors: a stable code, one sentence, where, and how to repair.

use crate::span::Span;
use crate::spelling::shorten_text;

/// A secondary place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxLabel {
    /// The place.
    pub span: Span,
    /// The text at the place.
    pub text: String,
}

/// The replacement of a part of the text, which repairs an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxEdit {
    /// The text that is replaced.
    pub span: Span,
    /// The text in its place.
    pub text: String,
}

/// One syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// `H0001` to `H0099`.
    pub code: &'static str,
    /// Lower case, one sentence, no full stop.
    pub message: String,
    /// The place.
    pub span: Span,
    /// Text under the place; may be empty.
    pub label: String,
    /// Other places (the bracket that is open, the block's header).
    pub others: Vec<SyntaxLabel>,
    /// Ways to repair it.
    pub notes: Vec<String>,
    /// The edit that repairs it, if one does.
    pub edit: Option<SyntaxEdit>,
    /// The name that its notes propose for the result of a statement that the text does not have.
    pub new_name: Option<&'static str>,
}

impl SyntaxError {
    /// An error at `span` without labels or notes.
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code: code.text(),
            message: message.into(),
            span,
            label: String::new(),
            others: Vec::new(),
            notes: Vec::new(),
            edit: None,
            new_name: None,
        }
    }

    /// A part of a text that is longer than the limit.
    pub fn too_large(message: impl Into<String>, limit: usize, span: Span) -> Self {
        Self::new(Code::TooLarge, span, message).with_note(format!("the limit is {limit}"))
    }

    /// A number of a tensor, a communication or a device that is larger than the largest.
    pub fn large_number(digits: &str, what: &str, largest: u32, span: Span) -> Self {
        Self::new(Code::Number, span, format!("the number `{}` is too large", shorten_text(digits)))
            .with_note(format!("the largest number of a {what} is {largest}"))
    }

    /// With a text under the place.
    pub(crate) fn with_label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// With a second place.
    pub(crate) fn with_second_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.others.push(SyntaxLabel { span, text: text.into() });
        self
    }

    /// With an edit that repairs it.
    pub(crate) fn with_edit(mut self, edit: SyntaxEdit) -> Self {
        self.edit = Some(edit);
        self
    }

    /// With a name that its notes propose for a new result.
    pub(crate) fn with_new_name(mut self, name: Option<&'static str>) -> Self {
        self.new_name = name;
        self
    }

    /// With a hint how to repair it.
    pub(crate) fn with_note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        /// The kinds of syntax errors.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Code { $($(#[doc = $doc])+ $name),* }

        impl Code {
            /// `H0001` and so on.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }
        }

        /// Every code with what it means, in order.
        pub const CODES: &[(&str, &str)] = &[$(($code, concat!($($doc),+))),*];
    };
}

codes! {
    /// An unexpected token, or a statement that ends too early.
    Unexpected = "H0001";
    /// A bracket that is never closed.
    Unclosed = "H0002";
    /// A closing bracket without an opening bracket.
    Unmatched = "H0003";
    /// A container or kernel section without its closing `}`.
    OpenSection = "H0004";
    /// A line whose indentation matches no open block.
    Indentation = "H0005";
    /// An `ELSE` without an `IF`.
    LoneElse = "H0006";
    /// A FOR, IF or ELSE header without `:` or `{`.
    NoBlock = "H0007";
    /// A text without a container.
    NoContainer = "H0008";
    /// A number that is out of range.
    Number = "H0009";
    /// An unknown element type in a tensor reference.
    Dtype = "H0010";
    /// An unknown memory letter in a tensor reference.
    Memory = "H0011";
    /// An unknown iteration type of a domain.
    IterType = "H0012";
    /// An unknown parallel type of a domain.
    ParallelType = "H0013";
    /// A malformed tensor reference or domain.
    Tensor = "H0014";
    /// A malformed device mesh.
    Mesh = "H0015";
    /// Blocks, brackets or operators nested too deeply.
    TooDeep = "H0016";
    /// A version line with an unsupported version.
    Version = "H0017";
    /// Text outside of a container.
    Outside = "H0018";
    /// Bytes that are not UTF-8.
    NotUtf8 = "H0019";
    /// An unexpected character.
    Character = "H0020";
    /// Two list elements without a comma between them.
    NoComma = "H0021";
    /// A text, a statement or a word that exceeds its length limit.
    TooLarge = "H0022";
    /// More errors than the limit; the rest is not checked.
    TooManyErrors = "H0023";
    /// A statement in the syntax of another language.
    Foreign = "H0024";
    /// A program that starts inside another program.
    Interleaved = "H0025";
    /// A `//`, which begins a comment, where a quotient is meant (a warning where the comment may be one).
    Division = "H0026";
    /// Processes whose lines stand in one log printed different programs (a warning).
    RanksDiffer = "H0027";
}
