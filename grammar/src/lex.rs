//! The lexer: logos matches, this module interns and joins.
//!
//! A whole tensor reference or iteration domain is one token. The lexer searches the closing bracket, and looks the
//! text up among the known ones: `tensor` reads a reference once per file, however often it is printed.

use crate::ast::Symbol;
use crate::builder::Builder;
use crate::error::{Code, SyntaxError};
use crate::limits::MAX_TOKENS;
use crate::number::{NumberTail, broken_number, misfit_of_float, misfit_of_literal};
use crate::scan::{self, ReferenceEnd};
use crate::span::Span;
use crate::spelling::shorten_text;
use crate::token::{Op, RawToken, Tok, Token};
use logos::{Lexer, Logos};

/// The longest name or number, in bytes.
const MAX_WORD: usize = 1 << 12;
/// The longest tensor reference or domain, in bytes: one with the largest mesh of `hir 2` is shorter.
const MAX_REFERENCE: usize = 1 << 24;

/// A comment, and its column if nothing precedes it on its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawComment {
    pub(crate) span: Span,
    pub(crate) column: Option<u32>,
}

/// A window of tokens over a text.
pub(crate) struct TokenWindow<'t> {
    text: &'t str,
    lexer: Lexer<'t, RawToken>,
    /// The start of the lexer's text in `text`.
    base: usize,
    window: Vec<Token>,
    at: usize,
    /// Column of the line whose first token has not come yet.
    column: u32,
    /// Comments met so far, in order.
    pub(crate) comments: Vec<RawComment>,
}

impl<'t> TokenWindow<'t> {
    /// The tokens of `text[span]`.
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        let part = &text[span.as_usize_range()];
        let blanks = part.len() - part.trim_start_matches([' ', '\t']).len();
        Self {
            text,
            lexer: RawToken::lexer(part),
            base: span.start as usize,
            window: Vec::new(),
            at: 0,
            column: indent_width(&part.as_bytes()[..blanks]),
            comments: Vec::new(),
        }
    }

    /// The token `ahead` places on. Past the end there are only [`Tok::End`]s.
    pub(crate) fn peek(&mut self, b: &mut Builder<'t>, ahead: usize) -> Token {
        while self.window.len() <= self.at + ahead {
            self.read_token(b);
        }
        self.window[self.at + ahead]
    }

    /// The next `count` tokens; they must have been peeked at.
    pub(crate) fn peeked_tokens(&self, count: usize) -> &[Token] {
        &self.window[self.at..self.at + count]
    }

    /// Moves on by `count` tokens, for a look at what follows.
    pub(crate) fn step_ahead(&mut self, count: usize) {
        self.at += count;
    }

    /// Moves back by `count` tokens after a look.
    pub(crate) fn step_back(&mut self, count: usize) {
        self.at -= count;
    }

    /// Moves on by `count` tokens.
    pub(crate) fn advance(&mut self, count: usize) {
        self.at += count;
        if self.at > 4096 && self.at <= self.window.len() {
            self.window.drain(..self.at - 1);
            self.at = 1;
        }
    }

    /// The end of the token before the next one.
    pub(crate) fn consumed_end(&self) -> u32 {
        let before = self.at.checked_sub(1).and_then(|at| self.window.get(at));
        before.map_or(self.base as u32, |token| token.span.end)
    }

    /// Everything up to the end.
    pub(crate) fn into_all_tokens(mut self, b: &mut Builder<'t>) -> Vec<Token> {
        while self.window.last().is_none_or(|token| token.tok != Tok::End) {
            self.read_token(b);
        }
        self.window.pop();
        self.window
    }

    fn push(&mut self, tok: Tok, start: usize, end: usize) {
        let column = std::mem::replace(&mut self.column, u32::MAX);
        self.window.push(Token { tok, span: Span::new(start, end), column });
    }

    /// Puts at least one more token into the window.
    fn read_token(&mut self, b: &mut Builder<'t>) {
        loop {
            let raw = if b.stopped { None } else { self.lexer.next() };
            let range = self.lexer.span();
            let (start, end) = (self.base + range.start, self.base + range.end);
            match raw {
                None => {
                    let end = self.base + self.lexer.source().len();
                    self.column = 0;
                    return self.push(Tok::End, end, end);
                }
                Some(Ok(RawToken::Newline)) => self.column = indent_width(&self.text_bytes()[start + 1..end]),
                Some(_) if !count_token(b, end) => {}
                Some(Ok(RawToken::Comment)) => self.lex_comment(start, end),
                Some(Ok(raw)) => {
                    let (tok, end) = self.convert_match(b, raw, start, end);
                    return self.push(tok, start, end);
                }
                Some(Err(())) => return self.report_unknown(b, start, end),
            }
        }
    }

    fn text_bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    /// Reads a comment; the labels that nvFuser prints after closing braces are none.
    fn lex_comment(&mut self, start: usize, end: usize) {
        let text = self.text[start..end].trim_end();
        let own_line = self.column != u32::MAX;
        let closing = self.window.last().is_some_and(|token| token.tok == Tok::RBrace);
        if !own_line && closing && matches!(text, "// %HostIrContainer" | "// %kernel") {
            return;
        }
        let span = Span::new(start, start + text.len());
        self.comments.push(RawComment { span, column: own_line.then_some(self.column) });
    }

    /// A character that starts no token; a run of them is one error.
    fn report_unknown(&mut self, b: &mut Builder<'t>, start: usize, end: usize) {
        if let Some(last) = self.window.last_mut()
            && last.tok == Tok::Error
            && last.span.end as usize == start
        {
            last.span.end = end as u32;
            if let Some(error) = b.errors.last_mut()
                && error.code == Code::Character.text()
            {
                error.span.end = end as u32;
            }
            return;
        }
        let found = self.text[start..end].chars().next().unwrap_or('?');
        let text = format!("unexpected character {found:?}");
        if found == '#' {
            // A comment of another language: its content is not read.
            let rest = self.lexer.remainder();
            self.lexer.bump(rest.find('\n').unwrap_or(rest.len()));
        }
        let note = crate::foreign::character_replacement(self.text, start, found);
        b.report_error(SyntaxError::new(Code::Character, Span::new(start, end), text).with_note(note));
        self.push(Tok::Error, start, end);
    }

    /// The token for a match, and where it ends.
    fn convert_match(&mut self, b: &mut Builder<'t>, raw: RawToken, start: usize, end: usize) -> (Tok, usize) {
        let text = &self.text[start..end];
        let span = Span::new(start, end);
        if text.len() > MAX_WORD {
            return (report_long_token(b, text, span), end);
        }
        let tok = match raw {
            RawToken::TensorHead => return self.lex_tensor(b, start, end),
            RawToken::DomainHead => return self.lex_domain(b, start, end),
            RawToken::ShortTensor => Tok::Tensor((b.references.short)(b, text, span)),
            RawToken::Word => Tok::Word(b.ast.strings.intern(text)),
            RawToken::Int if text == SMALLEST && self.is_negated(start) => Tok::Int(i64::MIN),
            RawToken::Int => return self.lex_number(b, text, span),
            RawToken::Hex => match u64::from_str_radix(&text[2..], 16) {
                Ok(value) => Tok::Hex(value),
                Err(_) => report_large_number(b, text, span, "64 bits"),
            },
            RawToken::Float => lex_float(b, text, span),
            RawToken::Typed => lex_typed_literal(b, text, span),
            RawToken::Cast => Tok::Cast(b.ast.strings.intern(text)),
            RawToken::Quoted if !self.is_value() => return self.report_quotes(b, span),
            RawToken::Quoted => Tok::Quoted(b.ast.strings.intern(&text[1..text.len() - 1])),
            RawToken::Field => Tok::Field(b.ast.strings.intern(&text[1..])),
            RawToken::Plain(tok) => tok,
            RawToken::Newline | RawToken::Comment => Tok::Error,
        };
        (tok, end)
    }

    /// Returns true if the next token is the value of an argument, after its key and `=`.
    fn is_value(&self) -> bool {
        matches!(&self.window[..], [.., key, sign] if matches!(sign.tok, Tok::Equal | Tok::Colon) && matches!(key.tok, Tok::Word(_)))
    }

    /// A quote where no text may be; the text between the quotes is read.
    fn report_quotes(&mut self, b: &mut Builder<'t>, span: Span) -> (Tok, usize) {
        let (start, end) = (span.start as usize, span.end as usize);
        let open = Span::new(start, start + 1);
        let note = crate::foreign::character_replacement(self.text, start, '"');
        b.report_error(SyntaxError::new(Code::Character, open, "unexpected character '\"'").with_note(note));
        (Tok::Error, end)
    }

    /// An integer, or a float that has no digit after its point.
    fn lex_number(&mut self, b: &mut Builder<'t>, text: &'t str, span: Span) -> (Tok, usize) {
        let (start, end) = (span.start as usize, span.end as usize);
        match NumberTail::of_text(self.lexer.remainder()) {
            NumberTail::None => (lex_integer(b, text, span), end),
            NumberTail::Float(length) => {
                self.lexer.bump(length);
                (lex_float(b, &self.text[start..end + length], Span::new(start, end + length)), end + length)
            }
            NumberTail::Broken(length) => {
                self.lexer.bump(length);
                let end = end + length;
                b.report_error(broken_number(&self.text[start..end], Span::new(start, end)));
                (Tok::Error, end)
            }
        }
    }

    /// Returns true if a prefix minus is directly before `start`.
    fn is_negated(&self, start: usize) -> bool {
        let [before @ .., minus] = &self.window[..] else { return false };
        let prefix = before.last().is_none_or(|token| !token.tok.ends_operand());
        minus.tok == Tok::Both(Op::Sub) && minus.span.end as usize == start && prefix
    }

    /// `T3_g_float[...] (DeviceMesh{..})`, or a name that only looks like its head.
    fn lex_tensor(&mut self, b: &mut Builder<'t>, start: usize, head: usize) -> (Tok, usize) {
        let limit = self.base + self.lexer.source().len();
        if let Some(known) = (b.references.again)(b, Span::new(start, limit)) {
            self.lexer.bump(known.end - head);
            return (Tok::Tensor(known.id), known.end);
        }
        match scan::scan_tensor(&self.text_bytes()[..limit], start, head) {
            None => {
                let text = &self.text[start..head];
                (Tok::Word(b.ast.strings.intern(text)), head)
            }
            Some(ReferenceEnd::Closed(end)) if end - start > MAX_REFERENCE => {
                self.lexer.bump(end - head);
                let span = Span::new(start, start + 1);
                let message = format!("the tensor reference has {} bytes", end - start);
                b.report_error(
                    SyntaxError::new(Code::TooLarge, span, message)
                        .with_note(format!("the limit is {MAX_REFERENCE} bytes")),
                );
                (Tok::Error, end)
            }
            Some(ReferenceEnd::Closed(end)) => {
                self.lexer.bump(end - head);
                (Tok::Tensor((b.references.full)(b, Span::new(start, end))), end)
            }
            Some(ReferenceEnd::Broken { open, end }) => self.lex_broken_reference(b, open, head, end),
        }
    }

    /// `iS0{i0}`; `head` is just after the `{`.
    fn lex_domain(&mut self, b: &mut Builder<'t>, start: usize, head: usize) -> (Tok, usize) {
        let bytes = &self.text_bytes()[..self.base + self.lexer.source().len()];
        match scan::scan_domain(bytes, head - 1) {
            ReferenceEnd::Closed(end) => {
                self.lexer.bump(end - head);
                match (b.references.domain)(b, Span::new(start, end)) {
                    Some(id) => (Tok::Domain(id), end),
                    None => (Tok::Error, end),
                }
            }
            ReferenceEnd::Broken { open, end } => self.lex_broken_reference(b, open, head, end),
        }
    }

    fn lex_broken_reference(&mut self, b: &mut Builder<'t>, open: usize, head: usize, end: usize) -> (Tok, usize) {
        let end = end.max(head);
        let end = (end..self.text.len()).find(|&at| self.text.is_char_boundary(at)).unwrap_or(self.text.len());
        let bracket = self.text_bytes()[open] as char;
        let text = format!("the `{bracket}` of this tensor reference or domain is never closed");
        b.report_error(
            SyntaxError::new(Code::Unclosed, Span::new(open, open + 1), text)
                .with_label("opened here")
                .with_note("close it on the same line, before the next statement"),
        );
        self.lexer.bump(end - head);
        (Tok::Error, end)
    }
}

/// Counts a token or comment that ends at `end`; returns true if reading continues.
fn count_token(b: &mut Builder<'_>, end: usize) -> bool {
    b.tokens += 1;
    if b.tokens > MAX_TOKENS {
        let message = format!("the text has more than {MAX_TOKENS} tokens and comments");
        b.report_last_error(
            SyntaxError::new(Code::TooLarge, Span::new(end, end), message)
                .with_note("split the file: each container is a separate program"),
        );
    }
    !b.stopped
}

/// The width of an indentation; a tab reaches to the next multiple of eight.
fn indent_width(blanks: &[u8]) -> u32 {
    if !blanks.contains(&b'\t') {
        return blanks.len() as u32;
    }
    blanks.iter().fold(0, |column, &b| if b == b'\t' { (column / 8 + 1) * 8 } else { column + 1 })
}

/// The digits of the smallest 64-bit integer, which only fit with their minus: the token has the number with its sign,
/// and [`Builder::prefix_expr`](crate::builder::Builder::prefix_expr) joins the two.
const SMALLEST: &str = "9223372036854775808";

fn lex_integer(b: &mut Builder<'_>, text: &str, span: Span) -> Tok {
    match text.parse() {
        Ok(value) => Tok::Int(value),
        Err(_) => report_large_number(b, text, span, "64 bits including the sign"),
    }
}

fn lex_float(b: &mut Builder<'_>, text: &str, span: Span) -> Tok {
    match misfit_of_float(text, "double", span) {
        Some(error) => {
            b.report_error(error);
            Tok::Error
        }
        None => Tok::Float(b.ast.strings.intern(text)),
    }
}

fn report_large_number(b: &mut Builder<'_>, text: &str, span: Span, bits: &str) -> Tok {
    let message = format!("the number `{}` is too large", shorten_text(text));
    b.report_error(
        SyntaxError::new(Code::Number, span, message).with_note(format!("write a number that fits into {bits}")),
    );
    Tok::Error
}

/// Reports a name or number that is too long: every message about it would contain it.
fn report_long_token(b: &mut Builder<'_>, text: &str, span: Span) -> Tok {
    let message = format!("`{}` has {} characters", shorten_text(text), text.len());
    b.report_error(
        SyntaxError::new(Code::TooLarge, span, message)
            .with_note(format!("the limit for names and numbers is {MAX_WORD} characters")),
    );
    Tok::Error
}

/// `float(0)`: the type and the text between the parentheses, which is a value of the type.
fn lex_typed_literal(b: &mut Builder<'_>, text: &str, span: Span) -> Tok {
    let open = text.find('(').unwrap_or(0);
    let inner = text[open..].strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or("");
    let (name, inner) = (&text[..open], inner.trim());
    if let Some(error) = misfit_of_literal(name, name, inner, span) {
        b.report_error(error);
        return Tok::Error;
    }
    let dtype: Symbol = b.ast.strings.intern(name);
    let inner = match inner.contains([' ', '\t', '\r', '\n']) {
        true => b.ast.strings.intern(&without_blanks_around_parts(inner)),
        false => b.ast.strings.intern(inner),
    };
    Tok::Typed(dtype, inner)
}

/// `( 1, 2.5 )` as nvFuser prints it: `(1,2.5)`.
fn without_blanks_around_parts(text: &str) -> String {
    let parts = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let parts: Vec<&str> = parts.split(',').map(str::trim).collect();
    format!("({})", parts.join(","))
}
