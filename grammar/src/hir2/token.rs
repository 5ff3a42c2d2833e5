//! Tokens of `hir 2`.

use crate::ast::{StringInterner, Symbol};
use crate::error::{Code, SyntaxError};
use crate::limits::{MAX_ERRORS, MAX_TOKENS};
use crate::span::Span;
use logos::Logos;

/// What logos matches.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Debug)]
#[logos(skip r"[ \r]+")]
enum RawTok {
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[0-9]+)*")]
    Name,
    #[regex(r"[0-9]+")]
    Int,
    #[regex(r"0[xX][0-9A-Fa-f]+")]
    Hex,
    #[regex(r"[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", priority = 5)]
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
}

/// A kind of token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineTok {
    /// A word, maybe with numbers behind dots (`G.1`).
    Name(Symbol),
    Int(i64),
    Hex(u64),
    Float(Symbol),
    /// The text between backquotes.
    Verbatim(Symbol),
    LParen,
    RParen,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    Comma,
    Semicolon,
    Colon,
    Equals,
    Arrow,
    DotDot,
    Dot,
    At,
    Power,
    /// An operator.
    Op(Symbol),
    /// A text in quotes.
    Quoted,
    /// Behind the last token.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LineToken {
    pub(super) tok: LineTok,
    pub(super) span: Span,
    /// Its column if it is the first on its line, else `u32::MAX`.
    pub(super) column: u32,
    /// True if a blank line stands somewhere between the token before (or the comment) and its line.
    pub(super) after_blank: bool,
}

impl LineToken {
    /// Whether the token is the first of its line.
    pub(super) fn starts_line(&self) -> bool {
        self.column != u32::MAX
    }
}

/// A comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineComment {
    pub(super) span: Span,
    /// Its column if it has the line for itself.
    pub(super) column: Option<u32>,
    /// The number of the token behind it.
    pub(super) before: u32,
    /// True if a blank line stands above it.
    pub(super) after_blank: bool,
}

/// The tokens of a text.
pub(super) struct TokenList {
    pub(super) tokens: Vec<LineToken>,
    pub(super) comments: Vec<LineComment>,
}

/// Columns that a tab counts as.
const TAB: u32 = 8;

/// Finds the tokens and comments of a text.
pub(super) fn list_tokens(text: &str, strings: &mut StringInterner, errors: &mut Vec<SyntaxError>) -> TokenList {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut list = TokenLister {
        text,
        strings,
        errors,
        list: TokenList { tokens: Vec::with_capacity(text.len() / 4), comments: Vec::new() },
        line: LineState { start, is_fresh: true, has_tab: false, blank: false, column: 0 },
    };
    let mut lexer = RawTok::lexer(&text[start..]);
    while let Some(found) = lexer.next() {
        let span = Span::new(start + lexer.span().start, start + lexer.span().end);
        list.add_raw(found, span);
        if list.list.tokens.len() + list.list.comments.len() > MAX_TOKENS || list.errors.len() >= MAX_ERRORS {
            list.errors.push(SyntaxError::new(Code::TooLarge, span, "the text has too many tokens"));
            break;
        }
    }
    let end = Span::new(text.len(), text.len());
    list.list.tokens.push(LineToken { tok: LineTok::End, span: end, column: 0, after_blank: false });
    list.list
}

/// The line that is read.
struct LineState {
    start: usize,
    /// True if no token stands on it yet.
    is_fresh: bool,
    has_tab: bool,
    /// True if a blank line was above it.
    blank: bool,
    column: u32,
}

struct TokenLister<'a> {
    text: &'a str,
    strings: &'a mut StringInterner,
    errors: &'a mut Vec<SyntaxError>,
    list: TokenList,
    line: LineState,
}

impl TokenLister<'_> {
    fn add_raw(&mut self, found: Result<RawTok, ()>, span: Span) {
        let text = &self.text[span.as_usize_range()];
        let tok = match found {
            Ok(RawTok::Newline) => return self.end_line(span),
            Ok(RawTok::Tab) => return self.add_tab(span),
            Ok(RawTok::Comment) => return self.add_comment(span),
            Ok(RawTok::Hash) => {
                self.add_comment(span);
                let error = SyntaxError::new(
                    Code::Foreign,
                    Span::new(span.start as usize, span.start as usize + 1),
                    "comments start with `//`, not with `#`",
                );
                self.errors.push(error.with_note(format!("write `//{}`", text.trim_start_matches('#'))));
                return;
            }
            Ok(RawTok::Name) => LineTok::Name(self.strings.intern(text)),
            Ok(RawTok::Int) => self.integer(text, span),
            Ok(RawTok::Hex) => self.hexadecimal(text, span),
            Ok(RawTok::Float) => LineTok::Float(self.strings.intern(text)),
            Ok(RawTok::Verbatim) => LineTok::Verbatim(self.strings.intern(&text[1..text.len() - 1])),
            Ok(RawTok::LParen) => LineTok::LParen,
            Ok(RawTok::RParen) => LineTok::RParen,
            Ok(RawTok::LBracket) => LineTok::LBracket,
            Ok(RawTok::RBracket) => LineTok::RBracket,
            Ok(RawTok::LBrace) => LineTok::LBrace,
            Ok(RawTok::RBrace) => LineTok::RBrace,
            Ok(RawTok::Comma) => LineTok::Comma,
            Ok(RawTok::Semicolon) => LineTok::Semicolon,
            Ok(RawTok::Colon) => LineTok::Colon,
            Ok(RawTok::Equals) => LineTok::Equals,
            Ok(RawTok::Arrow) => LineTok::Arrow,
            Ok(RawTok::DotDot) => LineTok::DotDot,
            Ok(RawTok::Dot) => LineTok::Dot,
            Ok(RawTok::At) => LineTok::At,
            Ok(RawTok::Power) => LineTok::Power,
            Ok(RawTok::Op) => LineTok::Op(self.strings.intern(text)),
            Ok(RawTok::Quoted) => LineTok::Quoted,
            Err(()) => return self.report_character(span),
        };
        self.push(tok, span);
    }

    fn push(&mut self, tok: LineTok, span: Span) {
        let column = if self.line.is_fresh { self.column_of(span) } else { u32::MAX };
        let after_blank = self.line.is_fresh && self.line.blank;
        if self.line.is_fresh {
            (self.line.is_fresh, self.line.blank) = (false, false);
        }
        self.list.tokens.push(LineToken { tok, span, column, after_blank });
    }

    fn column_of(&self, span: Span) -> u32 {
        span.start - self.line.start as u32 + self.line.column
    }

    fn end_line(&mut self, span: Span) {
        self.line.blank |= self.line.is_fresh;
        self.line.start = span.end as usize;
        self.line.column = 0;
        self.line.has_tab = false;
        self.line.is_fresh = true;
    }

    fn add_tab(&mut self, span: Span) {
        if !self.line.is_fresh {
            return;
        }
        let here = self.column_of(span);
        self.line.column += (here / TAB + 1) * TAB - here - 1;
        if !std::mem::replace(&mut self.line.has_tab, true) {
            let message = "this line is indented by a tab";
            self.errors.push(
                SyntaxError::new(Code::Indentation, span, message)
                    .with_note("indent by blanks, two a block: `hir-opt FILE -o FILE` does"),
            );
        }
    }

    fn add_comment(&mut self, span: Span) {
        let column = self.line.is_fresh.then(|| self.column_of(span));
        let end = self.text[span.as_usize_range()].trim_end().len();
        let span = Span::new(span.start as usize, span.start as usize + end);
        let before = self.list.tokens.len() as u32;
        let after_blank = self.line.is_fresh && self.line.blank;
        self.list.comments.push(LineComment { span, column, before, after_blank });
        if self.line.is_fresh {
            // A line with a comment is no blank line.
            self.line.blank = false;
            self.line.is_fresh = false;
        }
    }

    fn integer(&mut self, text: &str, span: Span) -> LineTok {
        // The smallest integer has one digit's value more than the largest.
        let value = text.parse::<u64>().ok().filter(|&value| value <= 1 << 63);
        match value {
            Some(value) => LineTok::Int(value as i64),
            None => {
                self.errors.push(SyntaxError::new(
                    Code::Number,
                    span,
                    format!("the number {text} does not fit 64 bits"),
                ));
                LineTok::Int(0)
            }
        }
    }

    fn hexadecimal(&mut self, text: &str, span: Span) -> LineTok {
        match u64::from_str_radix(&text[2..], 16) {
            Ok(value) => LineTok::Hex(value),
            Err(_) => {
                self.errors.push(SyntaxError::new(
                    Code::Number,
                    span,
                    format!("the number {text} does not fit 64 bits"),
                ));
                LineTok::Hex(0)
            }
        }
    }

    fn report_character(&mut self, span: Span) {
        let found = self.text[span.as_usize_range()].chars().next().unwrap_or(' ');
        let error = SyntaxError::new(Code::Character, span, format!("unexpected character {found:?}"));
        let note = match found {
            '`' => "what stands in backquotes ends on the same line",
            '"' | '\'' => "texts in quotes are not part of the language",
            _ => "remove it",
        };
        self.errors.push(error.with_note(note));
    }
}
