//! Reads iteration domains: `iS0{i0}`, `ideviceIdx.x1{2}rf`, `bS3{1 ex i5}`.
//!
//! Most extents are a number or a name and are read here; the grammar reads the others.

use crate::ast::{DomainSyntax, ExprId};
use crate::builder::{Builder, GrammarOutput};
use crate::error::{Code, SyntaxError};
use crate::hir::TopParser;
use crate::lex::TokenWindow;
use crate::message;
use crate::nesting;
use crate::plain;
use crate::scan;
use crate::span::Span;
use crate::spelling::{nearest_note, shorten_text};
use crate::token::{Start, Tok};

/// Iteration types, one letter each.
const ITERS: &[u8] = b"irbsnv?";

/// Parallel types as they are printed.
pub const PARALLELS: [&str; 19] = [
    "S",
    "V",
    "UR",
    "US",
    "MMA",
    "G",
    "B",
    "StreamIdx",
    "streamIdx",
    "Stream",
    "deviceIdx.x",
    "deviceIdx.y",
    "deviceIdx.z",
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
];

/// A place in a reference.
pub(crate) struct ReferenceCursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) bytes: &'t [u8],
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// True if everything so far was spaced as nvFuser prints it, and without inner expressions.
    pub(crate) tidy: bool,
}

impl<'t> ReferenceCursor<'t> {
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        Self { text, bytes: text.as_bytes(), at: span.start as usize, end: span.end as usize, tidy: true }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        (self.at < self.end).then(|| self.bytes[self.at])
    }

    /// Skips white space, of which the printed form has none here.
    pub(crate) fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.tidy = false;
            self.at += 1;
        }
    }

    /// Skips the one blank that the printed form has here.
    pub(crate) fn skip_blank(&mut self) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        } else {
            self.tidy = false;
        }
    }

    pub(crate) fn take_digits(&mut self) -> Span {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Span::new(start, self.at)
    }

    fn eat_text(&mut self, text: &str) -> bool {
        let found = self.bytes[self.at..self.end].starts_with(text.as_bytes());
        if found {
            self.at += text.len();
        }
        found
    }
}

/// Reads the domain at the cursor and moves past it; `None` after an error.
pub(crate) fn read_domain(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Option<DomainSyntax> {
    let start = cursor.at;
    let iter = iter_type(b, cursor)?;
    let parallel = parallel_type(b, cursor);
    let digits = cursor.take_digits();
    let id = &b.text[digits.as_usize_range()];
    let number = if id.is_empty() { None } else { Some(b.reference_number(id, digits)) };
    let ragged = cursor.eat_text("Ragged");
    cursor.skip_whitespace();
    if cursor.peek() != Some(b'{') {
        return report_malformed(b, start, cursor.at);
    }
    let scan::ReferenceEnd::Closed(close) = scan::scan_braces(&cursor.bytes[..cursor.end], cursor.at) else {
        return report_malformed(b, start, cursor.at);
    };
    let inner = Span::new(cursor.at + 1, close - 1);
    cursor.at = close;
    let parts = if ragged { ragged_extent(b, inner)? } else { read_extents(b, inner)? };
    cursor.tidy &= parts.simple;
    let [start_bound, stop_bound, extent] = parts.bounds;
    let (rfactor, padded, clustered) = (cursor.eat_text("rf"), cursor.eat_text("_p"), cursor.eat_text("_c"));
    Some(DomainSyntax {
        span: Span::new(start, cursor.at),
        iter,
        parallel,
        number,
        start: start_bound,
        stop: stop_bound,
        extent: extent?,
        expanded: parts.expanded,
        rfactor,
        padded,
        clustered,
    })
}

fn report_malformed(b: &mut Builder<'_>, start: usize, at: usize) -> Option<DomainSyntax> {
    let end = b.text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    let text = &b.text[start..end];
    b.report_error(
        SyntaxError::new(
            Code::Tensor,
            Span::new(start, end),
            format!("`{}` is not an iteration domain", shorten_text(text.trim())),
        )
        .with_note("write a domain as `iS0{i0}`: iteration type, parallel type, number, extent"),
    );
    None
}

fn iter_type(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Option<u8> {
    let at = cursor.at;
    let first = cursor.peek()?;
    if !first.is_ascii_alphabetic() && first != b'?' {
        return report_malformed(b, at, at).map(|domain| domain.iter);
    }
    cursor.at += 1;
    if !ITERS.contains(&first) {
        let text = (first as char).to_string();
        let span = Span::new(at, at + 1);
        b.report_error(
            SyntaxError::new(Code::IterType, span, format!("unknown iteration type `{text}`"))
                .with_note("valid iteration types are i (iteration), r (reduction), b (broadcast), s (stride), n (gather, scatter), v (vector component) and ? (symbolic)"),
        );
    }
    Some(first)
}

fn parallel_type(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> crate::ast::Symbol {
    let start = cursor.at;
    while let Some(byte) = cursor.peek() {
        let ragged = byte == b'R' && cursor.bytes[cursor.at..cursor.end].starts_with(b"Ragged");
        if ragged || !(byte.is_ascii_alphabetic() || byte == b'.') {
            break;
        }
        cursor.at += 1;
    }
    let span = Span::new(start, cursor.at);
    let text = &b.text[span.as_usize_range()];
    if text != "S" && !PARALLELS.contains(&text) {
        b.report_error(
            SyntaxError::new(Code::ParallelType, span, format!("unknown parallel type `{text}`"))
                .with_note(nearest_note(text, &PARALLELS)),
        );
    }
    b.ast.strings.intern(text)
}

/// The expressions between a domain's braces.
struct DomainExtents {
    /// Start, stop, extent.
    bounds: [Option<ExprId>; 3],
    expanded: Option<ExprId>,
    /// True if the extent is a lone number or name.
    simple: bool,
}

/// `extents=T1_g_int64_t[...]` of a ragged domain, as a call of `Ragged`.
fn ragged_extent(b: &mut Builder<'_>, inner: Span) -> Option<DomainExtents> {
    let Some(GrammarOutput::List(list)) = run_grammar_on_part(b, inner, Start::List) else {
        return None;
    };
    let name = b.ast.strings.intern("Ragged");
    let call = b.call_expr(name, list, inner.start, inner.end);
    Some(DomainExtents { bounds: [None, None, Some(call)], expanded: None, simple: false })
}

fn read_extents(b: &mut Builder<'_>, inner: Span) -> Option<DomainExtents> {
    if let Some(extent) = read_simple_extent(b, inner) {
        return Some(DomainExtents { bounds: [None, None, Some(extent)], expanded: None, simple: true });
    }
    let cuts = find_separators(b.text.as_bytes(), inner);
    let mut bounds = [None; 3];
    let mut start = inner.start;
    let stop = cuts.ex.unwrap_or(inner.end);
    for (at, &colon) in cuts.colons.iter().take(2).enumerate() {
        bounds[at] = Some(parse_expression(b, Span { start, end: colon })?);
        start = colon + 1;
    }
    bounds[2] = Some(parse_expression(b, Span { start, end: stop })?);
    let expanded = match cuts.ex {
        Some(ex) => Some(parse_expression(b, Span { start: ex + 2, end: inner.end })?),
        None => None,
    };
    Some(DomainExtents { bounds, expanded, simple: false })
}

/// A number or a name.
fn read_simple_extent(b: &mut Builder<'_>, span: Span) -> Option<ExprId> {
    let text = &b.text[span.as_usize_range()];
    let first = *text.as_bytes().first()?;
    if first.is_ascii_digit() {
        if text.len() > 18 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        return text.parse().ok().map(|n| b.int_expr(n, span.start, span.end));
    }
    let tail = text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if !first.is_ascii_lowercase() || !tail {
        return None;
    }
    let name = b.ast.strings.intern(text);
    Some(b.plain_name(name, span.start, span.end))
}

/// Top-level `:` and the word `ex`.
struct ExtentSeparators {
    colons: Vec<u32>,
    ex: Option<u32>,
}

fn find_separators(bytes: &[u8], inner: Span) -> ExtentSeparators {
    let mut found = ExtentSeparators { colons: Vec::new(), ex: None };
    let mut depth = 0usize;
    let (start, end) = (inner.start as usize, inner.end as usize);
    for at in start..end {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                let double = bytes[at + 1] == b':' || (at > start && bytes[at - 1] == b':');
                if !double {
                    found.colons.push(at as u32);
                }
            }
            b'e' if depth == 0 && found.ex.is_none() => {
                let alone =
                    at > start && !scan::is_word(bytes[at - 1]) && at + 2 < end && !scan::is_word(bytes[at + 2]);
                if alone && bytes[at + 1] == b'x' {
                    found.ex = Some(at as u32);
                }
            }
            _ => {}
        }
    }
    found
}

fn parse_expression(b: &mut Builder<'_>, span: Span) -> Option<ExprId> {
    let text = &b.text[span.as_usize_range()];
    let start = span.start + (text.len() - text.trim_start().len()) as u32;
    let span = Span { start, end: start + text.trim().len() as u32 };
    if let Some(id) = read_simple_extent(b, span) {
        return Some(id);
    }
    match run_grammar_on_part(b, span, Start::Expr) {
        Some(GrammarOutput::Expr(id)) => Some(id),
        _ => None,
    }
}

/// Runs the grammar over a part of the text, and records its errors.
pub(crate) fn run_grammar_on_part(b: &mut Builder<'_>, span: Span, start: Start) -> Option<GrammarOutput> {
    let before = b.errors.len();
    let tokens = TokenWindow::new(b.text, span).into_all_tokens(b);
    if tokens.iter().any(|token| token.tok == Tok::Error) {
        debug_assert!(b.errors.len() > before);
        return None;
    }
    if nesting::is_too_deep(&tokens) {
        b.report_error(
            SyntaxError::new(Code::TooDeep, span, "the extent is nested too deeply").with_note(nesting::depth_note()),
        );
        return None;
    }
    if start == Start::Expr
        && !b.by_grammar
        && let Some(expr) = plain::read_plain_expression(b, &tokens)
    {
        return Some(GrammarOutput::Expr(expr));
    }
    let length = b.open_element_count();
    let first = (span.start, Tok::Start(start), span.start);
    let rest = tokens.iter().map(|token| (token.span.start, token.tok, token.span.end));
    match TopParser::new().parse(b, std::iter::once(first).chain(rest).map(Ok)) {
        Ok(node) => Some(node),
        Err(error) => {
            b.unwind_lists(length);
            let error = message::describe_error(b, error, &tokens, span);
            b.report_error(SyntaxError { code: Code::Tensor.text(), ..error });
            None
        }
    }
}
