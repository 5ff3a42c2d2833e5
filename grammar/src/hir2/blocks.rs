//! Blocks: the statements after a header, on its line or indented below it.

use super::ast::{BlockId, BlockSyntax, StmtForm, StmtId};
use super::known::KnownWord;
use super::parser::{Failed, Parsed, Parser};
use super::restarts::RestartPoint;
use super::token::{LineTok, LineToken};
use crate::ast::{CommentPlaceSyntax, CommentSyntax};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::parse::MAX_BLOCKS;
use crate::span::Span;

/// The statements from one restart to the next, at least.
const SPACING: u32 = 8;

/// `1 blank`, `4 blanks`.
fn count_blanks(count: u32) -> String {
    if count == 1 { "1 blank".to_owned() } else { format!("{count} blanks") }
}

impl Parser<'_> {
    /// The block after a header: on the same line, or indented by more than `column` on the next ones. Comments at the
    /// end of the header's line belong to `header`.
    pub(super) fn parse_suite(&mut self, column: u32, header: CommentPlaceSyntax) -> Parsed<BlockId> {
        if !self.skip(LineTok::Colon) {
            self.report_missing_colon();
            self.skip_line();
            return self.parse_deeper_block(column, header);
        }
        if self.here() != LineTok::LineEnd {
            return self.parse_line_suite(header);
        }
        self.take_trailing(header);
        self.parse_block(column)
    }

    /// The block of a header with an error, if the next line is indented by more than `column`.
    pub(super) fn parse_deeper_block(&mut self, column: u32, header: CommentPlaceSyntax) -> Parsed<BlockId> {
        self.take_trailing(header);
        let token = self.peek();
        if token.tok != LineTok::End && token.column > column { self.parse_block(column) } else { Err(Failed) }
    }

    fn report_missing_colon(&mut self) {
        let header = self.quote(self.span_from(self.stmt.start));
        match self.here() {
            LineTok::LineEnd | LineTok::End if self.report_division_in_header() => {}
            LineTok::LineEnd | LineTok::End => {
                let at = self.last_span().end;
                let edit = SyntaxEdit { span: Span { start: at, end: at }, text: ":".to_owned() };
                let note = format!("write `{header}:`; its block is indented on the next lines");
                self.report_unexpected_with("`:`", note, edit);
            }
            LineTok::LBrace => {
                self.braces += 1;
                let span = self.peek().span;
                let note = format!("write `{header}:`, and indent the block");
                self.report_foreign(span, "blocks are indented, and have no braces", note);
            }
            _ => {
                let start = self.peek().span.start as usize;
                let rest = self.text[start..].lines().next().unwrap_or_default().trim_end();
                let at = self.last_span().end;
                if rest.ends_with(':') {
                    self.report_unexpected("`:`", "a header ends after its condition or range");
                    return;
                }
                let note = format!("write `{header}: {}`", crate::spelling::shorten_text(rest));
                let edit = SyntaxEdit { span: Span { start: at, end: at }, text: ":".to_owned() };
                self.report_unexpected_with("`:`", note, edit);
            }
        }
    }

    /// `if c: wait h`.
    fn parse_line_suite(&mut self, header: CommentPlaceSyntax) -> Parsed<BlockId> {
        let start = self.peek().span;
        let stmt = self.parse_simple(false);
        if self.file.stmts[stmt.index()].form == StmtForm::Error {
            self.skip_line();
        }
        self.end_simple();
        self.take_trailing(header);
        let span = start.join(self.last_span());
        Ok(self.add_block(BlockSyntax { stmts: vec![stmt], span }))
    }

    /// The statements that are indented by more than `outer`.
    pub(super) fn parse_block(&mut self, outer: u32) -> Parsed<BlockId> {
        let start = self.peek().span.start;
        let id = self.add_block(BlockSyntax { stmts: Vec::new(), span: Span { start, end: start } });
        let token = self.peek();
        if token.tok == LineTok::End || token.column <= outer {
            // The verifier warns about a block without statements. Comments may be indented as its statements would be.
            let first = self.file.comments.len();
            self.take_block_comments(outer + 1, false);
            self.end_block_comments(first, id);
            return Ok(id);
        }
        if self.block_depth == MAX_BLOCKS {
            self.skip_deeper_lines(outer);
            let note = format!("the limit is {MAX_BLOCKS}");
            return Err(self.report_noted(Code::TooDeep, token.span, "blocks are nested too deeply", note));
        }
        self.block_depth += 1;
        let block = self.read_statements(outer, id);
        self.block_depth -= 1;
        self.file.blocks[id.index()] = block;
        Ok(id)
    }

    /// The statements of a block that are indented by more than `outer`.
    pub(super) fn read_statements(&mut self, outer: u32, id: BlockId) -> BlockSyntax {
        let mut block = BlockSyntax { stmts: Vec::new(), span: self.file.blocks[id.index()].span };
        let first_column = self.peek().column;
        let (mut column, mut odd_column) = (first_column, first_column);
        loop {
            let first = self.file.comments.len();
            let token = self.peek();
            let ends = token.tok == LineTok::End || token.column <= outer;
            let is_even = [token.column, odd_column, column].iter().all(|column| *column == first_column);
            if !ends && is_even && self.pass_restart(&block, id, token) {
                return block;
            }
            self.take_block_comments(if ends { column } else { 0 }, !block.stmts.is_empty());
            if ends {
                self.end_block_comments(first, id);
                return block;
            }
            let last = block.stmts.last().copied().filter(|_| token.column > column + 1);
            if let Some(stream) = last.and_then(|last| self.stream_without_colon(last)) {
                self.report_stream_without_colon(stream);
                self.place_waiting_comments(first..self.file.comments.len(), stream);
                let body = self.parse_block(column).ok();
                self.file.stmts[stream.index()].form = match self.file.stmts[stream.index()].form {
                    StmtForm::Stream(value, None) => StmtForm::Stream(value, body),
                    other => other,
                };
                continue;
            }
            if token.column != column {
                if token.column != odd_column && token.column != first_column {
                    self.report_indentation(token, first_column, outer);
                }
                odd_column = token.column;
                column = column.min(token.column);
            }
            if token.after_blank && !block.stmts.is_empty() && self.file.comments.len() == first {
                self.add_blank_line(token.span.start);
            }
            let waiting = first..self.file.comments.len();
            let stmt = self.parse_statement(token.column);
            self.place_waiting_comments(waiting, stmt);
            block.stmts.push(stmt);
            block.span = block.span.join(self.last_span());
        }
    }

    /// The statement, if it is `stream e` without a block.
    fn stream_without_colon(&self, stmt: StmtId) -> Option<StmtId> {
        matches!(self.file.stmts[stmt.index()].form, StmtForm::Stream(_, None)).then_some(stmt)
    }

    /// Reports a `stream e` above lines that are indented more.
    #[cold]
    fn report_stream_without_colon(&mut self, stmt: StmtId) {
        let span = self.file.stmts[stmt.index()].span;
        let header = self.quote(span);
        let end = Span { start: span.end, end: span.end };
        let error = SyntaxError::new(Code::Unexpected, span, format!("`{header}` has a block below it, but no `:`"))
            .with_note(format!("write `{header}:`"))
            .with_edit(SyntaxEdit { span: end, text: ":".to_owned() });
        self.report(error);
    }

    fn report_indentation(&mut self, token: LineToken, column: u32, outer: u32) {
        let line = self.text[..token.span.start as usize].rsplit('\n').next().unwrap_or_default();
        let start = token.span.start - line.len() as u32;
        let is_here = |error: &&mut SyntaxError| error.span.start >= start && error.code == Code::Indentation.text();
        if line.contains('\t')
            && let Some(error) = self.errors.items.last_mut().filter(is_here)
        {
            // One error for the tab and for the column that it leads to.
            let counted = token.column;
            error.message = match line {
                "\t" => format!("this line is indented by a tab, which counts as {counted} blanks"),
                _ => format!("this line is indented by blanks and tabs up to column {counted}"),
            };
            error.message.push_str(&format!(", the statements of its block by {column}"));
            return;
        }
        let message =
            format!("this line is indented by {} blanks, the statements of its block by {column}", token.column);
        let note = match token.column > column {
            true => "only the block of a header that ends in `:` is indented more",
            false => "statements of one block begin in one column",
        };
        let note = match line.trim().is_empty() && !line.contains('\t') {
            true => format!("{note}: write {} in front of it", count_blanks(column)),
            false => note.to_owned(),
        };
        let error = SyntaxError::new(Code::Indentation, token.span, message).with_note(note);
        let is_blank = line.bytes().all(|byte| byte == b' ');
        let is_meant = is_blank && self.is_meant_column(token, column, outer);
        self.report(match is_meant {
            true => error.with_edit(SyntaxEdit {
                span: Span { start, end: token.span.start },
                text: " ".repeat(column as usize),
            }),
            false => error,
        });
    }

    /// Returns true if a line belongs to the block of a column: it is nearer to that than to the column of the block's
    /// header, or the next line is in the block.
    fn is_meant_column(&self, token: LineToken, column: u32, outer: u32) -> bool {
        let mut below = self.text[token.span.start as usize..].lines().skip(1).filter(|line| !line.trim().is_empty());
        let next = below.next().map(|line| (line.len() - line.trim_start().len()) as u32);
        next == Some(column) || token.column.abs_diff(column) < token.column.abs_diff(outer)
    }

    // Comments and blank lines of a block. They wait for the number of the statement below them.

    fn add_blank_line(&mut self, start: u32) {
        let place = CommentPlaceSyntax::Above(StmtId(u32::MAX));
        self.file.comments.push(CommentSyntax { span: Span { start, end: start }, place });
    }

    /// Comments above the next statement of a block; at its end, those that are indented at least to `column`.
    fn take_block_comments(&mut self, column: u32, has_statements: bool) {
        let first = self.file.comments.len();
        let mut any = has_statements;
        while let Some(comment) = self.comment_above() {
            if comment.column.is_some_and(|found| found < column) {
                break;
            }
            if comment.after_blank && any {
                self.add_blank_line(comment.span.start);
            }
            any = true;
            self.place_comment(comment, CommentPlaceSyntax::Above(StmtId(u32::MAX)));
        }
        let token = self.peek();
        let waits = self.file.comments.len() > first;
        if token.after_blank && waits && token.tok != LineTok::End && token.column >= column {
            self.add_blank_line(token.span.start);
        }
    }

    pub(super) fn place_waiting_comments(&mut self, waiting: std::ops::Range<usize>, stmt: StmtId) {
        for comment in &mut self.file.comments[waiting] {
            comment.place = CommentPlaceSyntax::Above(stmt);
        }
    }

    /// Comments from number `first` on waited for a statement that did not come.
    pub(super) fn end_block_comments(&mut self, first: usize, block: BlockId) {
        for comment in &mut self.file.comments[first..] {
            comment.place = CommentPlaceSyntax::EndOf(block);
        }
    }

    // Statements of a block.

    /// A statement with its blocks; it begins in `column`.
    fn parse_statement(&mut self, column: u32) -> StmtId {
        let token = self.peek();
        self.begin_statement(column);
        self.depth = 0;
        let parsed = match self.word_here() {
            Some(KnownWord::For | KnownWord::CapitalFor) => self.parse_for(column),
            Some(KnownWord::If | KnownWord::CapitalIf) => self.parse_if(column),
            Some(KnownWord::Define) if self.lookahead() == LineTok::Colon => self.parse_define(column),
            _ => return self.parse_unheaded(token, column),
        };
        parsed.unwrap_or_else(|Failed| self.recover(token, column, true))
    }

    /// A statement that no word of a block begins. `stream e` may have one.
    fn parse_unheaded(&mut self, token: LineToken, column: u32) -> StmtId {
        if token.tok == LineTok::RBrace {
            return self.skip_closing_brace(token, column);
        }
        let Ok(form) = self.parse_form(token) else { return self.recover(token, column, false) };
        let span = self.span_from(token.span.start);
        let stmt = self.add_stmt(span, form);
        if let (StmtForm::Stream(stream, None), LineTok::Colon) = (form, self.here()) {
            let Ok(block) = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt)) else {
                return self.recover(token, column, true);
            };
            self.file.stmts[stmt.index()].form = StmtForm::Stream(stream, Some(block));
            return stmt;
        }
        self.end_simple();
        self.take_trailing(CommentPlaceSyntax::Trailing(stmt));
        stmt
    }

    /// The `}` of a block in braces, which was reported at its `{`, or one without a partner.
    fn skip_closing_brace(&mut self, token: LineToken, column: u32) -> StmtId {
        if self.braces > 0 {
            self.braces -= 1;
        } else {
            let note = "remove it: blocks are indented, and have no braces";
            self.report_noted(Code::Unmatched, token.span, "this `}` has no opening bracket", note);
        }
        self.recover(token, column, true)
    }

    /// Skips a statement with an error; a block after it is read for its own errors.
    pub(super) fn recover(&mut self, first: LineToken, column: u32, is_header: bool) -> StmtId {
        self.abandon_lists();
        let mut last = self.text[self.last_span().as_usize_range()].ends_with(':').then_some(LineTok::Colon);
        match self.stmt.resume.take() {
            Some(line) => self.step_back(line),
            None => last = self.skip_line().or(last),
        }
        if last == Some(LineTok::LBrace) && !is_header {
            self.braces += 1;
        }
        let stmt = self.add_stmt(self.span_from(first.span.start), StmtForm::Error);
        let place = CommentPlaceSyntax::Trailing(stmt);
        if is_header || last == Some(LineTok::Colon) {
            // Its statements are read for their errors only.
            let _unused = self.parse_deeper_block(column, place);
        } else {
            self.skip_deeper_lines(column);
            self.take_trailing(place);
        }
        stmt
    }
}

impl Parser<'_> {
    /// At a statement of a body whose lines have one column: makes it a restart, unless one is near. Returns true if it
    /// is one of the text before an edit: the tree goes on as it was.
    fn pass_restart(&mut self, block: &BlockSyntax, body: BlockId, token: LineToken) -> bool {
        let is_open = self.braces > 0 || !self.stream.has_block_end;
        if self.block_depth != 1 || is_open || token.after_blank || self.waiting_comment().is_some() {
            return false;
        }
        let (start, stmt) = (token.span.start.wrapping_sub(token.column), block.stmts.len() as u32);
        if let Some(part) = &mut self.part {
            let old = start.wrapping_sub(part.growth);
            let found = part.points.binary_search_by_key(&old, |point| point.start).ok();
            part.met = found.filter(|found| part.points[*found].column == token.column);
            if part.met.is_some() {
                return true;
            }
        }
        let last = self.file.restarts.points.last().filter(|last| last.body == body);
        if last.is_none_or(|last| last.stmt + SPACING <= stmt)
            && self
                .text
                .as_bytes()
                .get(start as usize..token.span.start as usize)
                .is_some_and(|line| line.iter().all(|byte| *byte == b' '))
        {
            let (item, sizes) = (self.file.items.len() as u32, self.file.arena_sizes());
            let point = RestartPoint { start, column: token.column, item, body, stmt, sizes };
            self.file.restarts.points.push(point);
        }
        false
    }
}
