//! The state of the parser: tokens, errors, arenas and comments.

use super::ast::{BlockId, BlockSyntax, ExprId, ExprNode, FileSyntax, NameSyntax, NodeRange};
use super::known::{KnownWord, intern_known_texts, known_word};
use super::part_context::PartContext;
use super::stream::{ErrorList, LexerSinks, TokenStream};
use super::token::{LineComment, LineTok, LineToken};
use crate::ast::{CommentPlaceSyntax, CommentSyntax, Symbol};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::nesting::{MAX_BRACKETS, depth_note};
use crate::span::Span;
use crate::spelling::shorten_text;

/// A statement could not be read; the error was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed;

/// The result of a part of a statement.
pub(super) type Parsed<T> = Result<T, Failed>;

/// The statement that is read.
#[derive(Clone, Copy, Default)]
pub(super) struct StatementState {
    /// The start of its first token.
    pub(super) start: u32,
    /// The column of its line.
    pub(super) column: u32,
    /// The number of open brackets, inside of which its lines continue.
    pub(super) brackets: u32,
    /// True if it is in a group.
    pub(super) in_group: bool,
    /// The first line inside of its brackets that looks like a statement of its own.
    pub(super) resume: Option<LineToken>,
}

/// Reads one text.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) file: FileSyntax,
    pub(super) errors: ErrorList,
    pub(super) stream: TokenStream<'t>,
    pub(super) stmt: StatementState,
    /// Brackets and prefix operators around the next token.
    pub(super) depth: usize,
    /// Blocks around the next token.
    pub(super) block_depth: usize,
    /// Blocks in braces that are not closed yet.
    pub(super) braces: u32,
    /// Lists that are being read; empty at the start of a statement.
    pub(super) scratch: ScratchLists,
    /// The tree around the part of a text that is read again.
    pub(super) part: Option<PartContext<'t>>,
    /// Comments that have their place.
    placed: usize,
}

/// Parts of lists that are not complete.
#[derive(Default)]
pub(super) struct ScratchLists {
    pub(super) exprs: Vec<ExprId>,
    pub(super) args: Vec<super::ast::ArgNode>,
    pub(super) items: Vec<super::ast::IndexItem>,
    pub(super) axes: Vec<super::ast::AxisSyntax>,
}

impl ScratchLists {
    fn clear_all(&mut self) {
        self.exprs.clear();
        self.args.clear();
        self.items.clear();
        self.axes.clear();
    }
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut file = FileSyntax::default();
        file.reserve_arenas(text.len());
        intern_known_texts(&mut file.strings);
        Self::over_part(text, 0, file, ErrorList::default())
    }

    /// Reads the text from `start` on into a file that holds what was read before it.
    pub(super) fn over_part(text: &'t str, start: usize, mut file: FileSyntax, mut errors: ErrorList) -> Self {
        let stream = TokenStream::new(text, start, LexerSinks { strings: &mut file.strings, errors: &mut errors });
        Self {
            text,
            file,
            errors,
            stream,
            stmt: StatementState::default(),
            depth: 0,
            block_depth: 0,
            braces: 0,
            scratch: ScratchLists::default(),
            part: None,
            placed: 0,
        }
    }

    // Tokens.

    /// The next token, on whichever line it is.
    pub(super) fn peek(&self) -> LineToken {
        self.stream.window[0]
    }

    /// The next token of the statement.
    pub(super) fn here(&self) -> LineTok {
        if self.at_line_end() { LineTok::LineEnd } else { self.peek().tok }
    }

    /// The token of the statement after the next one.
    pub(super) fn lookahead(&self) -> LineTok {
        let token = self.stream.window[1];
        if self.stmt.brackets == 0 && token.starts_line() { LineTok::LineEnd } else { token.tok }
    }

    /// Returns true if the statement has no more tokens on its lines.
    pub(super) fn at_line_end(&self) -> bool {
        let token = self.peek();
        self.stmt.brackets == 0 && token.starts_line() && token.span.start != self.stmt.start || self.errors.is_full
    }

    pub(super) fn next(&mut self) -> LineToken {
        let token = self.peek();
        if self.stmt.brackets > 0 && token.starts_line() {
            self.note_line_inside(token);
        }
        self.stream.advance(LexerSinks { strings: &mut self.file.strings, errors: &mut self.errors });
        token
    }

    /// Records a line inside of brackets: if they turn out not to close, reading continues at the first line that is
    /// not indented more than the statement.
    fn note_line_inside(&mut self, token: LineToken) {
        let is_outside = token.column <= self.stmt.column && token.tok != LineTok::End && !token.tok.is_closing();
        if is_outside && self.stmt.resume.is_none() && token.span.start != self.stmt.start {
            self.stmt.resume = Some(token);
        }
    }

    /// Goes back to a line that was read as a part of the statement.
    pub(super) fn step_back(&mut self, token: LineToken) {
        self.stream.step_back(token, LexerSinks { strings: &mut self.file.strings, errors: &mut self.errors });
    }

    /// The span of the token before.
    pub(super) fn last_span(&self) -> Span {
        self.stream.last
    }

    /// From a place to the end of the token before.
    pub(super) fn span_from(&self, start: u32) -> Span {
        Span { start, end: self.stream.last.end.max(start) }
    }

    /// The symbol of a text that is no token.
    pub(super) fn add_string(&mut self, text: &str) -> Symbol {
        let known = self.file.strings.len();
        let symbol = self.file.strings.intern(text);
        if self.part.is_some() || self.file.strings.len() > known {
            self.file.restarts.note_string(symbol);
        }
        symbol
    }

    pub(super) fn symbol_text(&self, symbol: Symbol) -> &str {
        self.file.strings.get(symbol)
    }

    /// The text of a place, for a message.
    pub(super) fn quote(&self, span: Span) -> String {
        shorten_text(&self.text[span.as_usize_range()])
    }

    /// The text of an expression, for a message.
    pub(super) fn quote_expr(&self, expr: ExprId) -> String {
        self.quote(self.file.expr_span(expr))
    }

    /// The meaning of the next word.
    pub(super) fn word_here(&self) -> Option<KnownWord> {
        match self.here() {
            LineTok::Name(symbol) => known_word(symbol),
            _ => None,
        }
    }

    /// Skips the next token if it is this one.
    pub(super) fn skip(&mut self, tok: LineTok) -> bool {
        let found = self.here() == tok;
        if found {
            self.next();
        }
        found
    }

    pub(super) fn skip_word(&mut self, word: KnownWord) -> bool {
        let found = self.word_here() == Some(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect_tok(&mut self, tok: LineTok, wanted: &str, note: &str) -> Parsed<Span> {
        if self.here() == tok {
            return Ok(self.next().span);
        }
        Err(self.report_unexpected(wanted, note))
    }

    pub(super) fn parse_name(&mut self, what: &str) -> Parsed<NameSyntax> {
        match self.here() {
            LineTok::Name(name) => Ok(NameSyntax { name, span: self.next().span }),
            _ => Err(self.report_unexpected(
                what,
                "a name is a word of letters, digits and `_` that does not begin with a digit",
            )),
        }
    }

    /// A text in double quotes, without them.
    pub(super) fn parse_text(&mut self, note: &str) -> Parsed<(Symbol, Span)> {
        let (whole, span) = (self.text, self.peek().span);
        let inside = whole[span.as_usize_range()].strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match inside.filter(|_| self.here() == LineTok::Quoted) {
            Some(text) => {
                let symbol = self.add_string(text);
                self.next();
                Ok((symbol, span))
            }
            None if self.here() == LineTok::Quoted => {
                Err(self.report_noted(Code::Unexpected, span, "a text is in double quotes", note))
            }
            None => Err(self.report_unexpected("a text in double quotes", note)),
        }
    }

    pub(super) fn parse_integer(&mut self, what: &str) -> Parsed<(i64, Span)> {
        match self.here() {
            LineTok::Int(value) => {
                let span = self.next().span;
                if value < 0 {
                    return Err(self.report_large_number(span));
                }
                Ok((value, span))
            }
            _ => Err(self.report_unexpected(what, "write a number")),
        }
    }

    // Errors.

    pub(super) fn report(&mut self, error: SyntaxError) -> Failed {
        self.errors.add_error(error);
        if self.errors.is_full {
            self.stream.stop();
        }
        Failed
    }

    #[cold]
    pub(super) fn report_noted(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        note: impl Into<String>,
    ) -> Failed {
        self.report(SyntaxError::new(code, span, message).with_note(note))
    }

    /// Reports a spelling of another language, with the one here.
    #[cold]
    pub(super) fn report_foreign(&mut self, span: Span, message: impl Into<String>, note: impl Into<String>) -> Failed {
        self.report_noted(Code::Foreign, span, message, note)
    }

    #[cold]
    pub(super) fn report_large_number(&mut self, span: Span) -> Failed {
        let message = format!("the number `{}` does not fit 64 bits", self.quote(span));
        self.report_noted(Code::Number, span, message, "the largest integer is 9223372036854775807")
    }

    /// `expected X, found Y`.
    #[cold]
    pub(super) fn report_unexpected(&mut self, wanted: &str, note: impl Into<String>) -> Failed {
        let token = self.peek();
        match self.here() {
            // An error was recorded for it.
            LineTok::Error => return Failed,
            LineTok::LineEnd | LineTok::End => {
                let end = self.last_span().end;
                let message = format!("expected {wanted} at the end of this line");
                return self.report_noted(Code::Unexpected, Span { start: end, end }, message, note);
            }
            LineTok::Quoted => return self.report_quoted(token.span),
            _ => {}
        }
        let message = format!("expected {wanted}, found `{}`", self.quote(token.span));
        self.report_noted(Code::Unexpected, token.span, message, note)
    }

    /// `expected X, found Y`, with the edit that repairs it.
    #[cold]
    pub(super) fn report_unexpected_with(&mut self, wanted: &str, note: impl Into<String>, edit: SyntaxEdit) -> Failed {
        let known = self.errors.items.len();
        let failed = self.report_unexpected(wanted, note);
        if let Some(error) = self.errors.items.get_mut(known).filter(|error| error.message.starts_with("expected ")) {
            error.edit = Some(edit);
        }
        failed
    }

    fn report_quoted(&mut self, span: Span) -> Failed {
        let text = &self.text[span.as_usize_range()];
        let inner = shorten_text(text.trim_matches(['"', '\'']));
        let is_alone = span.start == self.stmt.start || inner.is_empty();
        let line = self.text.get(self.stmt.start as usize..span.start as usize).unwrap_or_default();
        let note = if is_alone {
            "a comment starts with `//`".to_owned()
        } else if line.starts_with("print ") {
            "`print` shows tensors and scalars, each with its name: leave the text out".to_owned()
        } else {
            format!("words are written without quotes: `{inner}`")
        };
        self.report_foreign(span, "texts in quotes are no values", note)
    }

    /// Skips the closing bracket of one that [`Self::open_bracket`] skipped.
    pub(super) fn close(&mut self, tok: LineTok, open: Span) -> Parsed<Span> {
        if self.here() != tok {
            return Err(self.report_unclosed(tok, open));
        }
        let span = self.next().span;
        self.stmt.brackets -= 1;
        if self.stmt.brackets == 0 {
            self.stmt.resume = None;
        }
        self.leave();
        Ok(span)
    }

    /// The numbers of `(0 1 2 3)`, separated by commas.
    fn bare_numbers(&self, open: Span) -> Option<String> {
        let inside = self.text[open.end as usize..].split([')', '\n']).next()?;
        let numbers: Vec<&str> = inside.split_whitespace().collect();
        let is_list =
            numbers.len() > 1 && numbers.iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        is_list.then(|| numbers.join(", "))
    }

    #[cold]
    fn report_unclosed(&mut self, tok: LineTok, open: Span) -> Failed {
        let text = match tok {
            LineTok::RParen => ")",
            LineTok::RBracket => "]",
            _ => "}",
        };
        let (token, second) = (self.peek(), self.stream.window[1]);
        let is_open = token.starts_line()
            || matches!(token.tok, LineTok::Arrow | LineTok::Semicolon)
            || token.tok == LineTok::Colon && second.starts_line()
            || token.tok == LineTok::Equals && tok == LineTok::RBracket
            || token.tok.is_closing();
        if token.tok == LineTok::Colon
            && let Some(failed) = self.report_slice_colon()
        {
            return failed;
        }
        if !is_open {
            let wanted = format!("`,` or `{text}`");
            if token.tok == LineTok::DotDot {
                return self.report_unexpected(&wanted, "a range stands without brackets: `0..p`");
            }
            if let Some(numbers) = self.bare_numbers(open) {
                return self.report_unexpected(&wanted, format!("write a list as `[{numbers}]`"));
            }
            return match self.is_next_item(token) {
                true => {
                    let (last, next) = (self.quote(self.last_span()), self.quote(token.span));
                    let at = self.last_span().end;
                    let edit = SyntaxEdit { span: Span { start: at, end: at }, text: ",".to_owned() };
                    self.report_unexpected_with(&wanted, format!("write `,` between `{last}` and `{next}`"), edit)
                }
                false => {
                    let note = format!("write `,` between items, and `{text}` after the last one");
                    self.report_unexpected(&wanted, note)
                }
            };
        }
        let message = format!("this `{}` is never closed", self.quote(open));
        let error = SyntaxError::new(Code::Unclosed, open, message).with_label("opened here");
        let (at, last) = self.end_of_items(token);
        let note = match last.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            true => format!("add `{text}` after `{last}`"),
            false => format!("add `{text}`"),
        };
        let edit = SyntaxEdit { span: Span { start: at, end: at }, text: text.to_owned() };
        self.report(error.with_note(note).with_edit(edit))
    }

    /// The end of the items of an open bracket and the last word in front of it: what follows in `G[1, from=0)`, whose
    /// `=` is next, is an argument of the call around it.
    fn end_of_items(&self, token: LineToken) -> (u32, String) {
        let last = self.last_span();
        let before = self.text[..last.start as usize].trim_end().strip_suffix(',').map(str::trim_end);
        match before.filter(|_| token.tok == LineTok::Equals && self.stmt.brackets > 1) {
            Some(before) => {
                let word = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
                (before.len() as u32, word.to_owned())
            }
            None => (last.end, self.quote(last)),
        }
    }

    /// Returns true if a token begins an item of a list after a complete one.
    fn is_next_item(&self, token: LineToken) -> bool {
        let last = &self.text[self.last_span().as_usize_range()];
        let is_value = matches!(token.tok, LineTok::Name(_) | LineTok::Int(_) | LineTok::LBracket | LineTok::LParen);
        let is_apart = self.last_span().end < token.span.start;
        is_value && is_apart && last.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ')' | ']'))
    }

    /// Enters a bracket or the operand of a prefix operator.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_BRACKETS {
            return Err(self.report_depth());
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    #[cold]
    pub(super) fn report_depth(&mut self) -> Failed {
        let span = self.peek().span;
        self.report_noted(Code::TooDeep, span, "this statement is nested too deeply", depth_note())
    }

    // Statements.

    /// Begins a statement at the next token.
    pub(super) fn begin_statement(&mut self, column: u32) {
        self.stmt = StatementState { start: self.peek().span.start, column, ..StatementState::default() };
    }

    /// Forgets what was half read of a statement.
    pub(super) fn abandon_lists(&mut self) {
        self.scratch.clear_all();
    }

    /// Skips to the first token of the next line. Gives the last token before it, if there is one.
    pub(super) fn skip_line(&mut self) -> Option<LineTok> {
        self.stmt.brackets = 0;
        let mut last = None;
        while !self.at_line_end() && self.peek().tok != LineTok::End {
            last = Some(self.next().tok);
        }
        last
    }

    /// Skips lines that are indented by more than `column`.
    pub(super) fn skip_deeper_lines(&mut self, column: u32) {
        while self.peek().tok != LineTok::End && self.peek().column > column {
            self.next();
        }
    }

    // Arenas.

    pub(super) fn add_expr(&mut self, expr: ExprNode, span: Span) -> ExprId {
        self.file.exprs.push((expr, span));
        ExprId(self.file.exprs.len() as u32 - 1)
    }

    /// Makes a list of the expressions that were collected from `first` on.
    pub(super) fn finish_list(&mut self, first: usize) -> NodeRange {
        let start = self.file.expr_lists.len() as u32;
        self.file.expr_lists.extend(self.scratch.exprs.drain(first..));
        NodeRange { start, end: self.file.expr_lists.len() as u32 }
    }

    pub(super) fn add_block(&mut self, block: BlockSyntax) -> BlockId {
        self.file.blocks.push(block);
        BlockId(self.file.blocks.len() as u32 - 1)
    }

    // Comments.

    /// The next comment before the next token.
    pub(super) fn waiting_comment(&self) -> Option<LineComment> {
        let comment = *self.stream.comments.get(self.placed)?;
        (comment.span.start < self.peek().span.start || self.peek().tok == LineTok::End).then_some(comment)
    }

    /// The next comment before the next token, if it has a line of its own.
    pub(super) fn comment_above(&self) -> Option<LineComment> {
        self.waiting_comment().filter(|comment| comment.column.is_some())
    }

    pub(super) fn place_comment(&mut self, comment: LineComment, place: CommentPlaceSyntax) {
        self.placed += 1;
        self.file.comments.push(CommentSyntax { span: comment.span, place });
    }

    /// The comments that end the line of the token before, and those inside of what was read.
    pub(super) fn take_trailing(&mut self, place: CommentPlaceSyntax) {
        let end = self.last_span().end;
        while let Some(comment) = self.waiting_comment() {
            if comment.column.is_some() && comment.span.start > end {
                break;
            }
            self.place_comment(comment, place);
        }
    }

    /// All comments before the next token.
    pub(super) fn take_all_comments(&mut self, place: CommentPlaceSyntax) {
        while let Some(comment) = self.waiting_comment() {
            self.place_comment(comment, place);
        }
    }
}
