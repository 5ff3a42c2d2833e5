//! The tokens of a text, a few at a time.

use super::token::{LineComment, LineTok, LineToken, RawLineTok};
use crate::ast::StringInterner;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::limits::{MAX_ERRORS, MAX_TOKENS};
use crate::number::{NumberTail, broken_number, misfit_of_float};
use crate::span::Span;
use crate::spelling::shorten_text;
use logos::{Lexer, Logos};

/// Columns that a tab counts as.
const TAB_WIDTH: u32 = 8;

/// Errors of a text, up to a limit.
#[derive(Default)]
pub(super) struct ErrorList {
    pub(super) items: Vec<SyntaxError>,
    /// True once the limit was met: the rest of the text is not read.
    pub(super) is_full: bool,
}

impl ErrorList {
    pub(super) fn add_error(&mut self, error: SyntaxError) {
        if self.items.len() < MAX_ERRORS {
            self.items.push(error);
        } else if !self.is_full {
            self.is_full = true;
            let message = format!("more than {MAX_ERRORS} errors; the rest of the text is not checked");
            self.items.push(SyntaxError::new(Code::TooManyErrors, error.span, message));
        }
    }
}

/// The strings and errors that the lexer adds to.
pub(super) struct LexerSinks<'a> {
    pub(super) strings: &'a mut StringInterner,
    pub(super) errors: &'a mut ErrorList,
}

/// The line that is read.
#[derive(Clone, Copy)]
struct LineState {
    start: usize,
    /// True if it has no token yet.
    is_at_start: bool,
    has_tab: bool,
    /// True if a blank line was above it.
    blank: bool,
    /// Columns that tabs add.
    column: u32,
}

/// A window of three tokens over a text, and the comments before them.
pub(super) struct TokenStream<'t> {
    text: &'t str,
    lexer: Lexer<'t, RawLineTok>,
    /// The start of the lexer's text.
    base: usize,
    /// The next tokens.
    pub(super) window: [LineToken; 3],
    /// The place of the token before.
    pub(super) last: Span,
    line: LineState,
    /// True if the line before was indented by a tab.
    tab_above: bool,
    /// Comments in order, up to the end of the window.
    pub(super) comments: Vec<LineComment>,
    /// The end of the text that was read once: after a step back it is not reported again.
    lexed_to: u32,
    /// The end of the last run of characters that begin no token.
    garbage_end: u32,
    /// False once a `/*` without an end was met.
    pub(super) has_block_end: bool,
    count: usize,
}

impl<'t> TokenStream<'t> {
    /// The tokens from `start` on, after a byte order mark.
    pub(super) fn new(text: &'t str, start: usize, sinks: LexerSinks<'_>) -> Self {
        let base = start + if text[start..].starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let end = Span::new(text.len(), text.len());
        let none = LineToken { tok: LineTok::End, span: end, column: 0, after_blank: false };
        let mut stream = Self {
            text,
            lexer: RawLineTok::lexer(&text[base..]),
            base,
            window: [none; 3],
            last: Span::default(),
            line: LineState { start: base, is_at_start: true, has_tab: false, blank: false, column: 0 },
            tab_above: false,
            comments: Vec::new(),
            lexed_to: 0,
            garbage_end: 0,
            has_block_end: true,
            count: 0,
        };
        stream.fill_window(0, sinks);
        stream
    }

    /// Moves on by one token; the last one stays.
    pub(super) fn advance(&mut self, sinks: LexerSinks<'_>) {
        if self.window[0].tok == LineTok::End {
            return;
        }
        self.last = self.window[0].span;
        self.window[0] = self.window[1];
        self.window[1] = self.window[2];
        self.fill_window(2, sinks);
    }

    /// Goes back to a token that began a line.
    pub(super) fn step_back(&mut self, token: LineToken, sinks: LexerSinks<'_>) {
        self.base = token.span.end as usize;
        self.lexer = RawLineTok::lexer(&self.text[self.base..]);
        self.line = LineState { start: self.base, is_at_start: false, has_tab: false, blank: false, column: 0 };
        self.window[0] = token;
        self.fill_window(1, sinks);
    }

    /// Ends the reading: nothing follows.
    pub(super) fn stop(&mut self) {
        let start = self.window[0].span.start;
        let end = Span { start, end: start };
        self.window = [LineToken { tok: LineTok::End, span: end, column: 0, after_blank: false }; 3];
    }

    fn fill_window(&mut self, from: usize, sinks: LexerSinks<'_>) {
        for place in from..self.window.len() {
            self.window[place] = self.next_token(sinks.strings, sinks.errors);
        }
    }

    fn next_token(&mut self, strings: &mut StringInterner, errors: &mut ErrorList) -> LineToken {
        loop {
            let Some(found) = self.lexer.next().filter(|_| !errors.is_full && self.count < MAX_TOKENS) else {
                let end = Span::new(self.text.len(), self.text.len());
                return LineToken { tok: LineTok::End, span: end, column: 0, after_blank: false };
            };
            let found_at = self.lexer.span();
            let mut span = Span::new(self.base + found_at.start, self.base + found_at.end);
            let sinks = &mut LexerSinks { strings, errors };
            let tok = match found {
                Ok(RawLineTok::Int) => Some(self.convert_number(&mut span, sinks)),
                Ok(RawLineTok::Float) if self.text[..span.start as usize + 1].ends_with("..") => {
                    Some(self.split_point(&mut span))
                }
                _ => self.convert_match(found, span, sinks),
            };
            self.lexed_to = self.lexed_to.max(span.end);
            if let Some(tok) = tok {
                self.count_token(span, errors);
                return self.make_token(tok, span);
            }
        }
    }

    fn count_token(&mut self, span: Span, errors: &mut ErrorList) {
        self.count += 1;
        if self.count == MAX_TOKENS {
            let message = format!("the text has more than {MAX_TOKENS} tokens");
            errors.add_error(
                SyntaxError::new(Code::TooLarge, span, message)
                    .with_note("split the file: each program can stand in a file of its own"),
            );
        }
    }

    /// The token of a match; `None` for blanks, comments and text that was joined with the token before.
    fn convert_match(
        &mut self,
        found: Result<RawLineTok, ()>,
        span: Span,
        sinks: &mut LexerSinks<'_>,
    ) -> Option<LineTok> {
        let text = &self.text[span.as_usize_range()];
        Some(match found {
            Ok(RawLineTok::Name) => LineTok::Name(sinks.strings.intern(text)),
            Ok(RawLineTok::Hex) => self.convert_hexadecimal(text, span, sinks),
            Ok(RawLineTok::Float) => self.convert_float(text, span, sinks),
            Ok(RawLineTok::Verbatim) => LineTok::Verbatim(sinks.strings.intern(&text[1..text.len() - 1])),
            Ok(RawLineTok::LParen) => LineTok::LParen,
            Ok(RawLineTok::RParen) => LineTok::RParen,
            Ok(RawLineTok::LBracket) => LineTok::LBracket,
            Ok(RawLineTok::RBracket) => LineTok::RBracket,
            Ok(RawLineTok::LBrace) => LineTok::LBrace,
            Ok(RawLineTok::RBrace) => LineTok::RBrace,
            Ok(RawLineTok::Comma) => LineTok::Comma,
            Ok(RawLineTok::Semicolon) => LineTok::Semicolon,
            Ok(RawLineTok::Colon) => LineTok::Colon,
            Ok(RawLineTok::Equals) => LineTok::Equals,
            Ok(RawLineTok::Arrow) => LineTok::Arrow,
            Ok(RawLineTok::DotDot) => LineTok::DotDot,
            Ok(RawLineTok::Dot) => LineTok::Dot,
            Ok(RawLineTok::At) => LineTok::At,
            Ok(RawLineTok::Power) => LineTok::Power,
            Ok(RawLineTok::Op) => LineTok::Op(sinks.strings.intern(text)),
            Ok(RawLineTok::Quoted) => LineTok::Quoted,
            Ok(_) => return self.skip_match(found, span, sinks),
            Err(()) => return self.report_garbage(span, sinks),
        })
    }

    /// Blanks and comments.
    fn skip_match(&mut self, found: Result<RawLineTok, ()>, span: Span, sinks: &mut LexerSinks<'_>) -> Option<LineTok> {
        match found {
            Ok(RawLineTok::Newline) => self.end_line(span),
            Ok(RawLineTok::Tab) => self.add_tab(span, sinks),
            Ok(RawLineTok::Comment) => {
                self.count_token(span, sinks.errors);
                self.add_comment(span);
            }
            Ok(RawLineTok::Hash) => self.report_hash(span, sinks),
            Ok(RawLineTok::BlockComment) => self.skip_block_comment(span, sinks),
            _ => {}
        }
        None
    }

    fn make_token(&mut self, tok: LineTok, span: Span) -> LineToken {
        if !self.line.is_at_start {
            return LineToken { tok, span, column: u32::MAX, after_blank: false };
        }
        let token = LineToken { tok, span, column: self.column_of(span), after_blank: self.line.blank };
        (self.line.is_at_start, self.line.blank) = (false, false);
        token
    }

    fn column_of(&self, span: Span) -> u32 {
        span.start - self.line.start as u32 + self.line.column
    }

    fn end_line(&mut self, span: Span) {
        if !self.line.is_at_start {
            self.tab_above = self.line.has_tab;
        }
        self.line.blank |= self.line.is_at_start;
        self.line.start = span.end as usize;
        self.line.column = 0;
        self.line.has_tab = false;
        self.line.is_at_start = true;
    }

    /// A tab in front of a line's first token; only the first of several lines with one is reported.
    fn add_tab(&mut self, span: Span, sinks: &mut LexerSinks<'_>) {
        if !self.line.is_at_start {
            return;
        }
        let here = self.column_of(span);
        self.line.column += (here / TAB_WIDTH + 1) * TAB_WIDTH - here - 1;
        let is_first = !std::mem::replace(&mut self.line.has_tab, true);
        let rest = &self.text.as_bytes()[span.end as usize..];
        let is_empty = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')).is_none_or(|byte| *byte == b'\n');
        if is_first && !is_empty && !self.tab_above {
            let error = SyntaxError::new(Code::Indentation, span, "this line is indented by a tab");
            self.report_once(
                error.with_note(format!("indent by blanks, two for each block; a tab counts as {TAB_WIDTH} here")),
                sinks,
            );
        }
    }

    fn add_comment(&mut self, span: Span) {
        let is_new = span.start >= self.lexed_to;
        let column = self.line.is_at_start.then(|| self.column_of(span));
        let end = self.text[span.as_usize_range()].trim_end().len();
        let span = Span::new(span.start as usize, span.start as usize + end);
        let after_blank = self.line.is_at_start && self.line.blank;
        if is_new {
            self.comments.push(LineComment { span, column, after_blank });
        }
        self.fill_line();
    }

    /// A line with a comment is no blank line.
    fn fill_line(&mut self) {
        if self.line.is_at_start {
            self.line.blank = false;
            self.line.is_at_start = false;
        }
    }

    /// Records an error unless the text was read before.
    fn report_once(&self, error: SyntaxError, sinks: &mut LexerSinks<'_>) {
        if error.span.start >= self.lexed_to {
            sinks.errors.add_error(error);
        }
    }

    fn report_hash(&mut self, span: Span, sinks: &mut LexerSinks<'_>) {
        let text = self.text[span.as_usize_range()].trim_end();
        let sign = Span { start: span.start, end: span.start + 1 };
        let error = SyntaxError::new(Code::Foreign, sign, "comments start with `//`, not with `#`");
        let note = format!("write `//{}`", shorten_text(text.trim_start_matches('#')));
        let edit = SyntaxEdit { span: sign, text: "//".to_owned() };
        self.report_once(error.with_note(note).with_edit(edit), sinks);
        self.fill_line();
    }

    fn skip_block_comment(&mut self, span: Span, sinks: &mut LexerSinks<'_>) {
        let rest = &self.text[span.end as usize..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let found = if self.has_block_end { rest.find("*/") } else { None };
        self.has_block_end = found.is_some();
        let length = found.map_or(line, |found| found + 2);
        let inner = &rest[..length];
        if let Some(newline) = inner.rfind('\n') {
            self.line.start = span.end as usize + newline + 1;
        }
        let error = SyntaxError::new(Code::Foreign, span, "comments start with `//`, not with `/*`");
        let words = inner.trim_end_matches("*/").trim().lines().next().unwrap_or_default();
        let error = error.with_note(format!("write `// {}`", shorten_text(words)));
        let rest = rest[length..].lines().next().unwrap_or_default();
        let is_whole = found.is_some() && rest.trim().is_empty();
        let edit = is_whole.then(|| self.line_comments(span, inner)).flatten();
        self.report_once(SyntaxError { edit, ..error }, sinks);
        self.lexer.bump(length);
    }

    /// The edit that writes a comment in `/* .. */` as comments of lines; it begins its line if it has several.
    fn line_comments(&self, open: Span, inner: &str) -> Option<SyntaxEdit> {
        let before = self.text[..open.start as usize].rsplit('\n').next().unwrap_or_default();
        let lines: Vec<&str> =
            inner.strip_suffix("*/")?.lines().map(|line| line.trim().trim_start_matches('*').trim()).collect();
        let lines: Vec<&str> = match lines.as_slice() {
            [one] => vec![*one],
            several => several.iter().copied().filter(|line| !line.is_empty()).collect(),
        };
        if lines.len() > 1 && !before.trim().is_empty() {
            return None;
        }
        let written: Vec<String> = lines.iter().map(|line| format!("// {line}")).collect();
        let span = Span { start: open.start, end: open.end + inner.len() as u32 };
        Some(SyntaxEdit { span, text: written.join(&format!("\n{before}")) })
    }

    fn convert_integer(&self, text: &str, span: Span, sinks: &mut LexerSinks<'_>) -> LineTok {
        // The smallest integer has a larger magnitude than the largest.
        let value = text.parse::<u64>().ok().filter(|&value| value <= 1 << 63);
        if value.is_none() {
            self.report_number(text, span, sinks);
        }
        LineTok::Int(value.unwrap_or(0) as i64)
    }

    /// An integer, or a float that has no digit after its point, which the span is made to hold.
    fn convert_number(&mut self, span: &mut Span, sinks: &mut LexerSinks<'_>) -> LineTok {
        let tail = NumberTail::of_text(self.lexer.remainder());
        if let NumberTail::Float(length) | NumberTail::Broken(length) = tail {
            self.lexer.bump(length);
            span.end += length as u32;
        }
        let text = &self.text[span.as_usize_range()];
        match tail {
            NumberTail::None => self.convert_integer(text, *span, sinks),
            NumberTail::Float(_) => self.convert_float(text, *span, sinks),
            NumberTail::Broken(_) => {
                self.report_once(broken_number(text, *span), sinks);
                LineTok::Error
            }
        }
    }

    /// The third point of `0...4`, which begins no float.
    fn split_point(&mut self, span: &mut Span) -> LineTok {
        span.end = span.start + 1;
        self.base = span.end as usize;
        self.lexer = RawLineTok::lexer(&self.text[self.base..]);
        LineTok::Dot
    }

    fn convert_float(&self, text: &str, span: Span, sinks: &mut LexerSinks<'_>) -> LineTok {
        match misfit_of_float(text, "f64", span) {
            Some(error) => {
                self.report_once(error, sinks);
                LineTok::Error
            }
            None => LineTok::Float(sinks.strings.intern(text)),
        }
    }

    fn convert_hexadecimal(&self, text: &str, span: Span, sinks: &mut LexerSinks<'_>) -> LineTok {
        let value = u64::from_str_radix(&text[2..], 16).ok();
        if value.is_none() {
            self.report_number(text, span, sinks);
        }
        LineTok::Hex(value.unwrap_or(0))
    }

    fn report_number(&self, text: &str, span: Span, sinks: &mut LexerSinks<'_>) {
        let message = format!("the number `{}` does not fit 64 bits", shorten_text(text));
        let note = "integers have 64 bits; a float is written with a point or exponent: `1e20`";
        self.report_once(SyntaxError::new(Code::Number, span, message).with_note(note), sinks);
    }

    /// Characters that begin no token: one error and one token for a run of them.
    fn report_garbage(&mut self, span: Span, sinks: &mut LexerSinks<'_>) -> Option<LineTok> {
        let joins = self.garbage_end == span.start && span.start > 0;
        self.garbage_end = span.end;
        if joins {
            return None;
        }
        let text = &self.text[span.as_usize_range()];
        let found = text.chars().next().unwrap_or(' ');
        let unexpected = format!("unexpected character {found:?}");
        let (message, note) = match found {
            '`' => ("this backquote has no partner".to_owned(), "what stands in backquotes ends on the same line"),
            '"' | '\'' => ("texts in quotes are no values".to_owned(), "words are written without quotes: `via=CUDA`"),
            '?' => (unexpected, "a choice is written `where(c, a, b)`"),
            '$' | '%' => (unexpected, "names have no sign in front of them"),
            '\\' => (unexpected, "a statement goes on in the next line inside of brackets"),
            '→' => (unexpected, "write `->`"),
            '−' | '–' | '—' => (unexpected, "write `-`"),
            '×' | '·' => (unexpected, "write `*`"),
            '≤' => (unexpected, "write `<=`"),
            '≥' => (unexpected, "write `>=`"),
            '≠' => (unexpected, "write `!=`"),
            _ => (unexpected, "remove it"),
        };
        let choice = if found == '?' { choice_note(self.text, span.start as usize) } else { None };
        let note = choice.unwrap_or_else(|| note.to_owned());
        self.report_once(SyntaxError::new(Code::Character, span, message).with_note(note), sinks);
        Some(LineTok::Error)
    }
}

/// The choice here for `c ? a : b` around a `?`, if it is the whole value of a statement.
fn choice_note(text: &str, at: usize) -> Option<String> {
    let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let (_, condition) = text.get(line_start..at)?.rsplit_once(" = ")?;
    let rest = text.get(at + 1..)?.lines().next()?.split("//").next()?;
    let (yes, no) = rest.split_once(" : ")?;
    let [condition, yes, no] = [condition, yes, no].map(str::trim);
    let is_whole = [condition, yes, no].iter().all(|part| !part.is_empty() && !part.contains(['?', ';']));
    is_whole.then(|| format!("write `where({condition}, {yes}, {})`", no.trim_end_matches(';')))
}
