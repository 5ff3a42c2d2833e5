//! Reads iteration domains: `iS0{i0}`, `ideviceIdx.x1{2}rf`, `bS3{1 ex i5}`.
//!
//! Most extents are a number or a name and are read here; any other goes through the grammar.

use crate::ast::{Domain, ExprId};
use crate::builder::{Builder, Node};
use crate::error::{Code, SyntaxError};
use crate::hir::TopParser;
use crate::lex::Source;
use crate::message;
use crate::nesting;
use crate::scan;
use crate::span::Span;
use crate::spelling::{nearest_note, shorten};
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
pub(crate) struct Cursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) bytes: &'t [u8],
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// True if everything so far was spaced as nvFuser prints it, and without inner expressions.
    pub(crate) tidy: bool,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: span.start as usize,
            end: span.end as usize,
            tidy: true,
        }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        (self.at < self.end).then(|| self.bytes[self.at])
    }

    /// Skips white space, of which the printed form has none here.
    pub(crate) fn white(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.tidy = false;
            self.at += 1;
        }
    }

    /// Skips the one blank that the printed form has here.
    pub(crate) fn blank(&mut self) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        } else {
            self.tidy = false;
        }
    }

    pub(crate) fn digits(&mut self) -> Span {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Span::new(start, self.at)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.bytes[self.at..self.end].starts_with(text.as_bytes());
        if found {
            self.at += text.len();
        }
        found
    }
}

/// Reads the domain at the cursor and moves behind it; `None` after an error.
pub(crate) fn read(b: &mut Builder<'_>, cursor: &mut Cursor<'_>) -> Option<Domain> {
    let start = cursor.at;
    let iter = iter_type(b, cursor)?;
    let parallel = parallel_type(b, cursor);
    let digits = cursor.digits();
    let id = &b.text[digits.range()];
    let number = if id.is_empty() { None } else { Some(b.reference_number(id, digits)) };
    let ragged = cursor.eat("Ragged");
    cursor.white();
    if cursor.peek() != Some(b'{') {
        return malformed(b, start, cursor.at);
    }
    let scan::Reach::Closed(close) = scan::braces(&cursor.bytes[..cursor.end], cursor.at) else {
        return malformed(b, start, cursor.at);
    };
    let inner = Span::new(cursor.at + 1, close - 1);
    cursor.at = close;
    let parts = if ragged { ragged_extent(b, inner)? } else { extents(b, inner)? };
    cursor.tidy &= parts.simple;
    let [start_bound, stop_bound, extent] = parts.bounds;
    let (rfactor, padded, clustered) = (cursor.eat("rf"), cursor.eat("_p"), cursor.eat("_c"));
    Some(Domain {
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

fn malformed(b: &mut Builder<'_>, start: usize, at: usize) -> Option<Domain> {
    let end = b.text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    let text = &b.text[start..end];
    b.error(
        SyntaxError::new(
            Code::Tensor,
            Span::new(start, end),
            format!("`{}` is not an iteration domain", shorten(text.trim())),
        )
        .note("a domain is written `iS0{i0}`: iteration type, parallel type, number, extent"),
    );
    None
}

fn iter_type(b: &mut Builder<'_>, cursor: &mut Cursor<'_>) -> Option<u8> {
    let at = cursor.at;
    let first = cursor.peek()?;
    if !first.is_ascii_alphabetic() && first != b'?' {
        return malformed(b, at, at).map(|domain| domain.iter);
    }
    cursor.at += 1;
    if !ITERS.contains(&first) {
        let text = (first as char).to_string();
        let span = Span::new(at, at + 1);
        b.error(
            SyntaxError::new(Code::IterType, span, format!("unknown iteration type `{text}`"))
                .note("iteration types are i (iteration), r (reduction), b (broadcast), s (stride), n (gather, scatter), v (vector component) and ? (symbolic)"),
        );
    }
    Some(first)
}

fn parallel_type(b: &mut Builder<'_>, cursor: &mut Cursor<'_>) -> crate::ast::Symbol {
    let start = cursor.at;
    while let Some(byte) = cursor.peek() {
        let ragged = byte == b'R' && cursor.bytes[cursor.at..cursor.end].starts_with(b"Ragged");
        if ragged || !(byte.is_ascii_alphabetic() || byte == b'.') {
            break;
        }
        cursor.at += 1;
    }
    let span = Span::new(start, cursor.at);
    let text = &b.text[span.range()];
    if text != "S" && !PARALLELS.contains(&text) {
        b.error(
            SyntaxError::new(Code::ParallelType, span, format!("unknown parallel type `{text}`"))
                .note(nearest_note(text, &PARALLELS)),
        );
    }
    b.ast.strings.intern(text)
}

/// The expressions between a domain's braces.
struct Extents {
    /// Start, stop, extent.
    bounds: [Option<ExprId>; 3],
    expanded: Option<ExprId>,
    /// True if the extent is a lone number or name.
    simple: bool,
}

/// `extents=T1_g_int64_t[...]` of a ragged domain, as a call of `Ragged`.
fn ragged_extent(b: &mut Builder<'_>, inner: Span) -> Option<Extents> {
    let Some(Node::List(list)) = parse_part(b, inner, Start::List) else { return None };
    let name = b.ast.strings.intern("Ragged");
    let call = b.call(name, list, inner.start, inner.end);
    Some(Extents { bounds: [None, None, Some(call)], expanded: None, simple: false })
}

fn extents(b: &mut Builder<'_>, inner: Span) -> Option<Extents> {
    if let Some(extent) = simple(b, inner) {
        return Some(Extents { bounds: [None, None, Some(extent)], expanded: None, simple: true });
    }
    let cuts = cuts(b.text.as_bytes(), inner);
    let mut bounds = [None; 3];
    let mut start = inner.start;
    let stop = cuts.ex.unwrap_or(inner.end);
    for (at, &colon) in cuts.colons.iter().take(2).enumerate() {
        bounds[at] = Some(expression(b, Span { start, end: colon })?);
        start = colon + 1;
    }
    bounds[2] = Some(expression(b, Span { start, end: stop })?);
    let expanded = match cuts.ex {
        Some(ex) => Some(expression(b, Span { start: ex + 2, end: inner.end })?),
        None => None,
    };
    Some(Extents { bounds, expanded, simple: false })
}

/// A number or a name.
fn simple(b: &mut Builder<'_>, span: Span) -> Option<ExprId> {
    let text = &b.text[span.range()];
    let first = *text.as_bytes().first()?;
    if first.is_ascii_digit() {
        if text.len() > 18 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        return text.parse().ok().map(|n| b.int(n, span.start, span.end));
    }
    let tail = text.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if !first.is_ascii_lowercase() || !tail {
        return None;
    }
    let name = b.ast.strings.intern(text);
    Some(b.plain_name(name, span.start, span.end))
}

/// Top-level `:` and the word `ex`.
struct Cuts {
    colons: Vec<u32>,
    ex: Option<u32>,
}

fn cuts(bytes: &[u8], inner: Span) -> Cuts {
    let mut found = Cuts { colons: Vec::new(), ex: None };
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
                let alone = at > start
                    && !scan::is_word(bytes[at - 1])
                    && at + 2 < end
                    && !scan::is_word(bytes[at + 2]);
                if alone && bytes[at + 1] == b'x' {
                    found.ex = Some(at as u32);
                }
            }
            _ => {}
        }
    }
    found
}

fn expression(b: &mut Builder<'_>, span: Span) -> Option<ExprId> {
    let text = &b.text[span.range()];
    let start = span.start + (text.len() - text.trim_start().len()) as u32;
    let span = Span { start, end: start + text.trim().len() as u32 };
    if let Some(id) = simple(b, span) {
        return Some(id);
    }
    match parse_part(b, span, Start::Expr) {
        Some(Node::Expr(id)) => Some(id),
        _ => None,
    }
}

/// Runs the grammar over a part of the text, with its errors recorded.
pub(crate) fn parse_part(b: &mut Builder<'_>, span: Span, start: Start) -> Option<Node> {
    let before = b.errors.len();
    let tokens = Source::new(b.text, span).all(b);
    if tokens.iter().any(|token| token.tok == Tok::Error) {
        debug_assert!(b.errors.len() > before);
        return None;
    }
    if nesting::too_deep(&tokens) {
        b.error(
            SyntaxError::new(Code::TooDeep, span, "this extent is nested too deeply")
                .note(nesting::note()),
        );
        return None;
    }
    let mark = b.mark();
    let first = (span.start, Tok::Start(start), span.start);
    let rest = tokens.iter().map(|token| (token.span.start, token.tok, token.span.end));
    match TopParser::new().parse(b, std::iter::once(first).chain(rest).map(Ok)) {
        Ok(node) => Some(node),
        Err(error) => {
            b.unwind(mark);
            let error = message::describe(b, error, &tokens, span);
            b.error(SyntaxError { code: Code::Tensor.text(), ..error });
            None
        }
    }
}
