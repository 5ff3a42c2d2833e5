//! Finds the ends of statements: lines, brackets and continuations, without the grammar.
//!
//! A statement ends at its line's end unless a bracket is open or one of the two lines continues in the other. A
//! bracket that is never closed must not swallow the rest of the file: the first line that looks like a statement of
//! its own is remembered, and the statement is cut there if its brackets turn out not to close.

use crate::builder::Builder;
use crate::error::{Code, SyntaxError};
use crate::lex::TokenWindow;
use crate::nesting::{self, MAX_BRACKETS, NestingTracker};
use crate::span::Span;
use crate::token::{Tok, Token};

/// The largest number of tokens of one statement.
const MAX_TOKENS: usize = 1 << 20;
/// The number of tokens past a suspicious line among which a closing bracket is searched.
const MAX_LOOK: usize = 4000;

/// The tokens that end the extent besides those that end a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtentLimit {
    /// Those of a statement only.
    Statement,
    /// The `:` or `{` that opens a block.
    Block,
    /// The `:` after a container's lists.
    Colon,
}

/// The tokens of one statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StmtExtent {
    /// The number of its tokens (with its `;`).
    pub(crate) len: usize,
    /// True if an error was recorded, so that the grammar need not see it.
    pub(crate) bad: bool,
    /// True if nothing closes its last parenthesis (`ShareMemHandles(.., `).
    pub(crate) open_end: bool,
}

/// The scanner and the memory it reuses.
#[derive(Default)]
pub(crate) struct LayoutScanner {
    /// Open brackets.
    open: Vec<Token>,
    /// The nesting depth of the statement.
    nesting: NestingTracker,
    /// True once a closing bracket without an opening one or a token with an error was met.
    bad: bool,
}

/// The reason that a scan stopped.
enum ScanStop {
    /// The statement ends in front of this token.
    At(usize),
    /// It ends there, with an open parenthesis that nvFuser never closes.
    OpenEnd(usize),
    /// An open bracket contains something that cannot be inside it.
    Unclosed(usize),
    /// Too many brackets or operators.
    TooDeep(usize),
    /// Too many tokens.
    TooLong(usize),
}

impl LayoutScanner {
    /// The extent of the statement that starts at the next token.
    pub(crate) fn statement_extent<'t>(
        &mut self,
        src: &mut TokenWindow<'t>,
        b: &mut Builder<'t>,
        until: ExtentLimit,
    ) -> StmtExtent {
        let mut cut = None;
        self.open.clear();
        self.nesting.clear();
        self.bad = false;
        let stop = self.scan_tokens(src, b, until, &mut cut);
        let (len, open_end, failed) = match stop {
            ScanStop::At(len) => (len, false, false),
            ScanStop::OpenEnd(len) => (len, true, false),
            ScanStop::Unclosed(at) => {
                self.report_unclosed(b);
                (cut.unwrap_or_else(|| line_end(src, b, at)), false, true)
            }
            ScanStop::TooDeep(at) => {
                let span = src.peek(b, at).span;
                b.report_error(
                    SyntaxError::new(Code::TooDeep, span, "the statement is nested too deeply")
                        .with_note(nesting::depth_note()),
                );
                (self.resync_after_nesting(src, b, at), false, true)
            }
            ScanStop::TooLong(at) => {
                report_long_statement(src, b);
                (at, false, true)
            }
        };
        StmtExtent { len, bad: failed || self.bad, open_end }
    }

    fn scan_tokens<'t>(
        &mut self,
        src: &mut TokenWindow<'t>,
        b: &mut Builder<'t>,
        until: ExtentLimit,
        cut: &mut Option<usize>,
    ) -> ScanStop {
        let first = src.peek(b, 0);
        let mut before = Tok::End;
        let mut at = 0;
        loop {
            let token = src.peek(b, at);
            // Most tokens neither end a statement nor change its nesting.
            let is_inner = before != Tok::RParen && !token.starts_line() && cut.is_none() && at < MAX_TOKENS;
            if is_inner && token.tok.keeps_nesting() {
                before = token.tok;
                at += 1;
                continue;
            }
            if at > 0 && token.starts_line() {
                if let Some(stop) = self.ends_before_line(src, b, at, before, cut, first) {
                    return stop;
                }
            } else if before == Tok::RParen && self.open.is_empty() && is_joined_wait(src, b, at) {
                return ScanStop::At(at);
            } else if token.tok == Tok::End {
                return if self.open.is_empty() { ScanStop::At(at) } else { ScanStop::Unclosed(at) };
            }
            if let Some(stop) = self.follow_bracket(b, token, at, until) {
                return stop;
            }
            if !self.nesting.follow_token(token.tok, before) {
                return ScanStop::TooDeep(at);
            }
            if at == MAX_TOKENS {
                return ScanStop::TooLong(at);
            }
            if cut.is_some_and(|cut| at > cut + MAX_LOOK) {
                return ScanStop::Unclosed(at);
            }
            before = token.tok;
            at += 1;
        }
    }

    /// Ends the statement before the line that starts with token `at`, if it ends there.
    fn ends_before_line<'t>(
        &mut self,
        src: &mut TokenWindow<'t>,
        b: &mut Builder<'t>,
        at: usize,
        before: Tok,
        cut: &mut Option<usize>,
        first: Token,
    ) -> Option<ScanStop> {
        let token = src.peek(b, at);
        let joined = before.wants_more() || token.tok.continues_line();
        if self.open.is_empty() {
            return (!joined || token.tok == Tok::End).then_some(ScanStop::At(at));
        }
        if self.has_open_end(src, b, at, before) {
            return Some(ScanStop::OpenEnd(at));
        }
        let block =
            matches!(token.tok, Tok::For | Tok::If | Tok::Else | Tok::Container | Tok::Kernel | Tok::OldEnd | Tok::End);
        let block = block || token.tok == Tok::RBrace && is_labelled(b.text, token.span.end);
        let opened = before.matching_closer().is_some();
        let outside = !first.starts_line() || token.column <= first.column;
        if cut.is_none() && (block || outside && !joined && !opened && !token.tok.is_closer()) {
            *cut = Some(at);
        }
        block.then_some(ScanStop::Unclosed(at))
    }

    /// `ShareMemHandles(P2PCommunication 37 (...), ` ends without a `)`. A post in the next line is one more
    /// of the list if a comma or the `)` follows it, else a statement.
    fn has_open_end<'t>(&self, src: &mut TokenWindow<'t>, b: &mut Builder<'t>, at: usize, before: Tok) -> bool {
        let Tok::Word(head) = src.peek(b, 0).tok else { return false };
        let next = src.peek(b, at).tok;
        self.open.len() == 1
            && before == Tok::Comma
            && b.ast.symbol_text(head) == "ShareMemHandles"
            && next != Tok::RParen
            && !(matches!(next, Tok::Word(word) if b.ast.symbol_text(word) == "P2PCommunication")
                && matches!(token_after_brackets(src, b, at), Tok::Comma | Tok::RParen))
    }

    /// Follows brackets; ends the statement at `;`, at a `}` that is not its own and at `until`.
    fn follow_bracket(&mut self, b: &mut Builder<'_>, token: Token, at: usize, until: ExtentLimit) -> Option<ScanStop> {
        let outside = self.open.is_empty();
        match token.tok {
            Tok::Colon if outside && until != ExtentLimit::Statement => {
                return Some(ScanStop::At(at));
            }
            Tok::LBrace if outside && until == ExtentLimit::Block => return Some(ScanStop::At(at)),
            Tok::Semi if outside => return Some(ScanStop::At(at + 1)),
            Tok::Semi => return Some(ScanStop::Unclosed(at)),
            tok if tok.matching_closer().is_some() => {
                if self.open.len() == MAX_BRACKETS {
                    return Some(ScanStop::TooDeep(at));
                }
                self.open.push(token);
            }
            Tok::RBrace if outside => return Some(ScanStop::At(at)),
            tok if tok.is_closer() => match self.open.pop() {
                Some(open) if open.tok.matching_closer() == Some(tok) => {}
                Some(open) => {
                    self.open.push(open);
                    return Some(ScanStop::Unclosed(at));
                }
                None => {
                    self.bad = true;
                    report_unmatched(b, token.span);
                }
            },
            Tok::Error => self.bad = true,
            _ => {}
        }
        None
    }

    fn report_unclosed(&self, b: &mut Builder<'_>) {
        let Some(open) = self.open.last() else { return };
        let text = &b.text[open.span.as_usize_range()];
        let error = SyntaxError::new(Code::Unclosed, open.span, format!("this `{text}` is never closed"))
            .with_label("opened here")
            .with_note("close it before the next statement");
        b.report_error(error);
    }

    /// The place at which reading continues after a statement that is nested too deeply: the line after its brackets.
    fn resync_after_nesting<'t>(&mut self, src: &mut TokenWindow<'t>, b: &mut Builder<'t>, mut at: usize) -> usize {
        let mut depth = self.open.len();
        loop {
            let token = src.peek(b, at);
            let block = matches!(token.tok, Tok::For | Tok::If | Tok::Else | Tok::Container | Tok::Kernel);
            if token.tok == Tok::End || at > 0 && token.starts_line() && (depth == 0 || block) {
                return at;
            }
            if depth == 0 && token.tok == Tok::RBrace {
                return at;
            }
            if at > MAX_TOKENS {
                report_long_statement(src, b);
                return at;
            }
            depth += usize::from(token.tok.matching_closer().is_some());
            depth = depth.saturating_sub(usize::from(token.tok.is_closer()));
            at += 1;
        }
    }
}

/// Returns true if a `Wait Communication 1` starts at token `at`: in texts of 2024 it is on the line of its
/// communication.
fn is_joined_wait<'t>(src: &mut TokenWindow<'t>, b: &mut Builder<'t>, at: usize) -> bool {
    let (Tok::Word(wait), Tok::Word(word)) = (src.peek(b, at).tok, src.peek(b, at + 1).tok) else { return false };
    b.ast.symbol_text(wait) == "Wait" && b.ast.symbol_text(word) == "Communication"
}

/// Ends the reading at a statement of very many tokens.
fn report_long_statement<'t>(src: &mut TokenWindow<'t>, b: &mut Builder<'t>) {
    let span = src.peek(b, 0).span;
    let message = format!("the statement that starts here has more than {MAX_TOKENS} tokens");
    b.report_last_error(
        SyntaxError::new(Code::TooLarge, span, message)
            .with_note("close its brackets, or split it into several statements"),
    );
}

/// The token after the brackets that follow token `at`.
fn token_after_brackets<'t>(src: &mut TokenWindow<'t>, b: &mut Builder<'t>, at: usize) -> Tok {
    let mut depth = 0usize;
    for at in at..at + MAX_LOOK {
        let tok = src.peek(b, at).tok;
        depth += usize::from(tok.matching_closer().is_some());
        if tok.is_closer() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return src.peek(b, at + 1).tok;
            }
        } else if tok == Tok::End {
            break;
        }
    }
    Tok::End
}

/// Returns true if a `}` ends a section: `} // %HostIrContainer`.
fn is_labelled(text: &str, end: u32) -> bool {
    let line = text[end as usize..].lines().next().unwrap_or("").trim();
    matches!(line, "// %HostIrContainer" | "// %kernel")
}

fn report_unmatched(b: &mut Builder<'_>, span: Span) {
    let text = &b.text[span.as_usize_range()];
    let error = SyntaxError::new(Code::Unmatched, span, format!("this `{text}` has no opening bracket"))
        .with_note("remove it, or write the opening bracket before it");
    b.report_error(error);
}

/// The first token of the line after token `at`, or `at` if it starts a line itself.
fn line_end<'t>(src: &mut TokenWindow<'t>, b: &mut Builder<'t>, at: usize) -> usize {
    let mut end = at.max(1);
    loop {
        let token = src.peek(b, end);
        if token.starts_line() || token.tok == Tok::End {
            return end;
        }
        end += 1;
    }
}
