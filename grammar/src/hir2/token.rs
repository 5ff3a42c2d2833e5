//! Tokens of `hir 2`: what logos matches.

use crate::ast::Symbol;
use crate::span::Span;
use logos::Logos;

/// The matches of logos.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Debug)]
#[logos(skip r"[ \r]+")]
pub(super) enum RawLineTok {
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[0-9]+)*")]
    Name,
    #[regex(r"[0-9]+")]
    Int,
    #[regex(r"0[xX][0-9A-Fa-f]+")]
    Hex,
    // A number without a digit after its point, `1.` or `1.e5`, begins as an Int: `1..4` is a range.
    #[regex(r"[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", priority = 5)]
    Float,
    #[regex(r"`[^`\n]*`")]
    Verbatim,
    #[regex(r"//[^\n]*", allow_greedy = true)]
    Comment,
    #[token("\n")]
    Newline,
    #[token("\t")]
    Tab,
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token("=")]
    Equals,
    #[token("->")]
    Arrow,
    #[token("..")]
    DotDot,
    #[token(".")]
    Dot,
    #[token("@")]
    At,
    #[token("**")]
    Power,
    #[regex(r"\|\||&&|==|!=|>=|<=|<<|>>|[-+*/%<>&|^!~]")]
    Op,
    #[regex(r#""[^"\n]*"|'[^'\n]*'"#)]
    Quoted,
    #[regex(r"#[^\n]*", allow_greedy = true)]
    Hash,
    #[token("/*")]
    BlockComment,
}

/// A kind of token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineTok {
    /// A word, maybe with numbers after dots (`G.1`).
    Name(Symbol),
    /// An integer; the magnitude of the smallest one, which has its sign in a token of its own, is negative.
    Int(i64),
    /// `0x1f`
    Hex(u64),
    /// `0.5`: the text.
    Float(Symbol),
    /// The text between backquotes.
    Verbatim(Symbol),
    /// `(`
    LParen,
    /// `)`
    RParen,
    /// `[`
    LBracket,
    /// `]`
    RBracket,
    /// `{`
    LBrace,
    /// `}`
    RBrace,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `:`
    Colon,
    /// `=`
    Equals,
    /// `->`
    Arrow,
    /// `..`
    DotDot,
    /// `.`
    Dot,
    /// `@`
    At,
    /// `**`, which is no operator.
    Power,
    /// An operator.
    Op(Symbol),
    /// A text in quotes.
    Quoted,
    /// Characters that begin no token; an error was recorded.
    Error,
    /// The end of the statement's line: never a token, only an answer to a query for the next one.
    LineEnd,
    /// After the last token.
    End,
}

impl LineTok {
    /// Whether this is a closing bracket.
    pub(super) fn is_closing(self) -> bool {
        matches!(self, LineTok::RParen | LineTok::RBracket | LineTok::RBrace)
    }
}

/// A token and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineToken {
    /// Its kind.
    pub tok: LineTok,
    /// Its place.
    pub span: Span,
    /// Its column if it is the first on its line, else `u32::MAX`.
    pub column: u32,
    /// True if there is a blank line between the token before (or the comment) and its line.
    pub(super) after_blank: bool,
}

impl LineToken {
    /// Returns true if the token is the first of its line; the end of the text counts as one.
    pub fn starts_line(&self) -> bool {
        self.column != u32::MAX
    }
}

/// A comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineComment {
    pub(super) span: Span,
    /// Its column if it has the line for itself.
    pub(super) column: Option<u32>,
    /// True if a blank line precedes it.
    pub(super) after_blank: bool,
}

/// Returns true if the bracket that a text begins with has a comma of its own, as a list of extents has and an
/// expression has not.
///
/// ```
/// use hostir_grammar::hir2::tokens::has_own_comma;
///
/// assert!(has_own_comma("(n, f(m)) + 1"));
/// assert!(!has_own_comma("(f(n, m)), 1"));
/// ```
pub fn has_own_comma(text: &str) -> bool {
    let mut depth = 0u32;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth <= 1 => return false,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 1 => return true,
            _ => {}
        }
    }
    false
}
