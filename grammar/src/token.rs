//! Tokens: the matches of logos ([`RawToken`]) and the tokens of the layout and the grammar ([`Tok`]).
//!
//! A [`Tok`] is small and `Copy`: names are interned, and a whole tensor reference or iteration
//! domain is one token, so that a printed statement is a dozen tokens whatever its tensors' rank.

use crate::ast::{DomainId, Symbol, TensorRefId};
use crate::span::Span;
use logos::Logos;

/// A match of the regular lexer; [`crate::lex`] turns it into a [`Tok`].
#[derive(Logos, Clone, Copy, PartialEq, Debug)]
#[logos(skip r"[ \t\r\x0b\x0c]+")]
pub(crate) enum RawToken {
    /// A line break and the indentation of the line it starts.
    #[regex(r"\n[ \t]*")]
    Newline,
    #[regex(r"//[^\n]*", allow_greedy = true)]
    Comment,

    /// `T3_g_float`, without the `[` that has to follow.
    #[regex(r"T[0-9]+_[A-Za-z0-9_]*(::complex<(float|double)>)?", priority = 40)]
    TensorHead,
    #[regex(r"T[0-9]+", priority = 40)]
    ShortTensor,
    /// `iS0{`, `ideviceIdx.x1{`, `?S{`, `iS0Ragged{`; misspelt parallel types match as well.
    #[regex(r"[irbsnv?][A-Z][A-Za-z]*(\.[a-z])?[0-9]*(Ragged)?\{")]
    #[regex(r"[irbsnv?][a-z]+Idx(\.[a-z])?[0-9]*(Ragged)?\{")]
    DomainHead,

    // A name that a pass derived.
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[0-9]+)+")]
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*(\.[A-Za-z_][A-Za-z0-9_]*)?")]
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)+<[0-9]+>")]
    #[regex(r"std::complex<(float|double)>")]
    // A coordinate of the rank in a mesh: `DeviceMesh{0 1}.x`.
    #[regex(r"DeviceMesh\{[0-9 {}]*\}\.[A-Za-z_]+")]
    Word,
    #[regex(r"[0-9]+")]
    Int,
    #[regex(r"0x[0-9a-fA-F]+")]
    Hex,
    // A number without a digit after its point, `1.` or `1.e5`, begins as an Int.
    #[regex(r"[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+")]
    Float,
    /// `float(0)`, `double(-inf)`, `int64_t(-1)`, `bool(true)`.
    #[regex(r"(double|float|__half|__bfloat|__e[0-9]m[0-9](_x2)?|u?int(8|16|32|64)_t|int|nvfuser_index_t|bool)\([ ]*(-?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|nan)|true|false)[ ]*\)")]
    // Lines may be broken around the parts of a complex number. A `/` would start a comment.
    #[regex(r"std::complex<(float|double)>\([ \t\r\n]*\([ \t\r\n]*[^()\n;/]*[ \t\r\n]*,[ \t\r\n]*[^()\n;/]*[ \t\r\n]*\)[ \t\r\n]*\)", priority = 30)]
    Typed,
    /// `(double)`, `(float)std::real`.
    #[regex(r"\((double|float|bool|u?int(8|16|32|64)_t|int|nvfuser_index_t|std::complex<(float|double)>|__half|__bfloat)\)(std::real|__half2float|__half2double|__bfloat2float|__bfloat2double)?")]
    Cast,
    #[regex(r"\.[A-Za-z_][A-Za-z0-9_]*")]
    Field,
    /// The value of an argument that is a text: `message="rows divide"`.
    #[regex(r#""[^"\n]*""#)]
    Quoted,

    /// A word or sign that needs no text.
    #[token("FOR", |_| Tok::For)]
    #[token("IF", |_| Tok::If)]
    #[token("ELSE", |_| Tok::Else)]
    #[token("Stream", |_| Tok::Stream)]
    #[token("in", |_| Tok::In)]
    #[token("from", |_| Tok::From)]
    #[token("to", |_| Tok::To)]
    #[token("into", |_| Tok::Into)]
    #[token("step", |_| Tok::Step)]
    #[token("true", |_| Tok::Bool(true, false))]
    #[token("false", |_| Tok::Bool(false, false))]
    #[token("True", |_| Tok::Bool(true, true))]
    #[token("False", |_| Tok::Bool(false, true))]
    #[token("%HostIrContainer", |_| Tok::Container)]
    #[token("%kernel", |_| Tok::Kernel)]
    #[token("END.", |_| Tok::OldEnd)]
    #[token(".alias", |_| Tok::Alias)]
    #[token("...", |_| Tok::Ellipsis)]
    #[token("(", |_| Tok::LParen)]
    #[token(")", |_| Tok::RParen)]
    #[token("{", |_| Tok::LBrace)]
    #[token("}", |_| Tok::RBrace)]
    #[token("[", |_| Tok::LBracket)]
    #[token("]", |_| Tok::RBracket)]
    #[token(",", |_| Tok::Comma)]
    #[token(";", |_| Tok::Semi)]
    #[token(":", |_| Tok::Colon)]
    #[token("=", |_| Tok::Equal)]
    #[token("->", |_| Tok::Arrow)]
    #[token("+", |_| Tok::Infix(Op::Add))]
    #[token("-", |_| Tok::Both(Op::Sub))]
    #[token("*", |_| Tok::Both(Op::Mul))]
    #[token("/", |_| Tok::Infix(Op::Div))]
    #[token("%", |_| Tok::Infix(Op::Mod))]
    #[token("<<", |_| Tok::Infix(Op::Shl))]
    #[token(">>", |_| Tok::Infix(Op::Shr))]
    #[token("==", |_| Tok::Infix(Op::Eq))]
    #[token("!=", |_| Tok::Infix(Op::Ne))]
    #[token(">=", |_| Tok::Infix(Op::Ge))]
    #[token(">", |_| Tok::Infix(Op::Gt))]
    #[token("<=", |_| Tok::Infix(Op::Le))]
    #[token("<", |_| Tok::Infix(Op::Lt))]
    #[token("&&", |_| Tok::Infix(Op::AndAnd))]
    #[token("||", |_| Tok::Infix(Op::OrOr))]
    #[token("&", |_| Tok::Both(Op::And))]
    #[token("|", |_| Tok::Infix(Op::Or))]
    #[token("^", |_| Tok::Infix(Op::Xor))]
    #[token("!", |_| Tok::Prefix(Op::Not))]
    #[token("~", |_| Tok::Prefix(Op::Compl))]
    Plain(Tok),
}

macro_rules! operators {
    ($($name:ident $text:literal $level:literal)*) => {
        /// An operator of an expression.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Op { $($name),* }

        impl Op {
            /// All operators, in the order of their discriminants.
            pub(crate) const ALL: &'static [Op] = &[$(Op::$name),*];
            /// Its text.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Op::$name => $text),* }
            }
            /// Its rank as an infix operator (C's order); 0 if it is never infix.
            pub(crate) fn level(self) -> u8 {
                match self { $(Op::$name => $level),* }
            }
            /// The infix level of an operator's text.
            pub(crate) fn level_of(text: &str) -> u8 {
                match text { $($text => $level,)* _ => 0 }
            }
        }
    };
}

operators! {
    Add "+" 9  Sub "-" 9  Mul "*" 10  Div "/" 10  Mod "%" 10
    Shl "<<" 8  Shr ">>" 8
    Eq "==" 6  Ne "!=" 6  Ge ">=" 7  Gt ">" 7  Le "<=" 7  Lt "<" 7
    AndAnd "&&" 2  OrOr "||" 1  And "&" 5  Or "|" 3  Xor "^" 4
    Not "!" 0  Compl "~" 0
}

/// A token of the grammar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Tok {
    /// The start symbol for the tokens that follow; the parser puts it in front of them.
    Start(Start),
    /// The mark between two statements.
    Next,
    Tensor(TensorRefId),
    Domain(DomainId),
    For,
    If,
    Else,
    Stream,
    In,
    From,
    To,
    Into,
    Step,
    Container,
    Kernel,
    /// `END.`, the end of a container as nvFuser printed it in July 2024.
    OldEnd,
    Bool(bool, bool),
    Word(Symbol),
    Int(i64),
    Hex(u64),
    Float(Symbol),
    Typed(Symbol, Symbol),
    Cast(Symbol),
    /// A text in quotes, without them.
    Quoted(Symbol),
    Alias,
    Field(Symbol),
    Ellipsis,
    LParen,
    RParen,
    LBrace,
    RBrace,
    LBracket,
    RBracket,
    Comma,
    Semi,
    Colon,
    Equal,
    Arrow,
    /// Infix only.
    Infix(Op),
    /// Infix or prefix: `-`, `*`, `&`.
    Both(Op),
    /// Prefix only: `!`, `~`.
    Prefix(Op),
    /// No token; an error was recorded.
    Error,
    /// The end of the text.
    End,
}

/// The entry points of the grammar (one parse table serves all of them).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// Statements or block headers with [`Tok::Next`] between them.
    Stmts,
    /// `(inputs) -> (outputs)`.
    Header,
    /// `a -> b`.
    Pair,
    /// `a, b, c`.
    List,
    /// One expression.
    Expr,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) span: Span,
    /// The column if it is the first of its line, `u32::MAX` otherwise.
    pub(crate) column: u32,
}

impl Token {
    /// True if the token is the first of its line.
    pub(crate) fn starts_line(&self) -> bool {
        self.column != u32::MAX
    }
}

impl Tok {
    /// The closing bracket that this opening one needs.
    pub(crate) fn matching_closer(self) -> Option<Tok> {
        match self {
            Tok::LParen => Some(Tok::RParen),
            Tok::LBrace => Some(Tok::RBrace),
            Tok::LBracket => Some(Tok::RBracket),
            _ => None,
        }
    }

    /// Whether this is a closing bracket.
    pub(crate) fn is_closer(self) -> bool {
        matches!(self, Tok::RParen | Tok::RBrace | Tok::RBracket)
    }

    /// True if this can be the last token of an operand, so that a minus after it is infix.
    pub(crate) fn ends_operand(self) -> bool {
        let atom = matches!(self, Tok::Word(_) | Tok::Int(_) | Tok::Hex(_) | Tok::Float(_) | Tok::Bool(..));
        atom || matches!(self, Tok::Typed(..) | Tok::Tensor(_) | Tok::Field(_)) || self.is_closer()
    }

    /// True if this neither opens, closes, ends nor nests anything.
    pub(crate) fn keeps_nesting(self) -> bool {
        let operand = matches!(self, Tok::Word(_) | Tok::Tensor(_) | Tok::Domain(_) | Tok::Int(_) | Tok::Bool(..));
        operand || matches!(self, Tok::Stream | Tok::To | Tok::Into | Tok::In | Tok::Equal)
    }

    /// Whether this is an operator.
    pub(crate) fn is_operator(self) -> bool {
        matches!(self, Tok::Infix(_) | Tok::Both(_) | Tok::Prefix(_))
    }

    /// True if a line that ends in this token continues in the next one.
    pub(crate) fn wants_more(self) -> bool {
        self.is_operator() || matches!(self, Tok::Equal | Tok::Comma | Tok::Arrow)
    }

    /// True if a line that starts with this token continues the one before.
    pub(crate) fn continues_line(self) -> bool {
        self.is_operator() || matches!(self, Tok::Equal | Tok::Comma | Tok::Arrow | Tok::RParen | Tok::Alias)
    }
}
