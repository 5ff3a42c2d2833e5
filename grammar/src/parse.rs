//! Drives lexer, layout and grammar: blocks, statements, containers, comments and errors.
//!
//! Blocks are an explicit stack of frames, so that neither reading nor dropping a deeply nested
//! text recurses.

use crate::ast::{BlockId, BlockSyntax, CommentPlaceSyntax, ContainerSyntax, StmtId, StmtShape};
use crate::builder::{Builder, GrammarOutput};
use crate::comments::PendingComments;
use crate::error::{Code, SyntaxError};
use crate::hir::TopParser;
use crate::layout::{ExtentLimit, LayoutScanner, StmtExtent};
use crate::lex::TokenWindow;
use crate::message;
use crate::plain;
use crate::span::Span;
use crate::tensor;
use crate::token::{Start, Tok, Token};

/// The largest number of blocks that may be open at once.
pub const MAX_BLOCKS: usize = 200;
/// The maximum number of statements for one run of the grammar; small, so that their tokens stay in a cache.
const MAX_RUN: usize = 32;

/// The section or statement that a frame is the body of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    Container,
    Kernel,
    Index,
    Nested,
}

/// An open block.
pub(crate) struct BlockFrame {
    pub(crate) kind: BlockKind,
    pub(crate) block: BlockId,
    pub(crate) stmts: Vec<StmtId>,
    /// Column of the line that opened it.
    header_column: u32,
    /// Column of its statements, once one was seen.
    column: Option<u32>,
    /// The `{` that opened it.
    pub(crate) brace: Option<Span>,
    span: Option<Span>,
}

/// The state of a parse.
pub(crate) struct TextParser<'t> {
    pub(crate) b: Builder<'t>,
    pub(crate) src: TokenWindow<'t>,
    pub(crate) comments: PendingComments,
    pub(crate) frames: Vec<BlockFrame>,
    /// The owner of a comment at the end of the current line.
    pub(crate) last: CommentPlaceSyntax,
    /// Indentation of the current line.
    pub(crate) line_column: u32,
    /// Up to here more programs start inside of one another than in a log of a run.
    pub(crate) nested_until: usize,
    layout: LayoutScanner,
    grammar: TopParser,
    /// Memory for [`Self::run_grammar`].
    extents: Vec<StmtExtent>,
    /// The required end of this part of a text.
    pub(crate) cut: PartEnd,
}

/// The required end of the parser's part of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartEnd {
    /// It does.
    None,
    /// A statement at this column follows, which should be in a container's body.
    Follows(u32),
    /// The part ends in the body of a container with this column: the two parts fit.
    Reached,
}

/// The tokens of several statements, with a mark between two and the parenthesis that nvFuser
/// forgets.
struct StmtBatch<'r> {
    tokens: &'r [Token],
    extents: &'r [StmtExtent],
    at: usize,
    /// Tokens left of the first extent.
    left: usize,
    /// True once the forgotten parenthesis of the first extent was supplied.
    closed: bool,
}

impl Iterator for StmtBatch<'_> {
    type Item = (u32, Tok, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left > 0 {
            let token = &self.tokens[self.at];
            self.at += 1;
            self.left -= 1;
            return Some((token.span.start, token.tok, token.span.end));
        }
        let (extent, rest) = self.extents.split_first()?;
        let end = self.at.checked_sub(1).map_or(0, |last| self.tokens[last].span.end);
        if extent.open_end && !self.closed {
            self.closed = true;
            return Some((end, Tok::RParen, end));
        }
        self.left = rest.first()?.len;
        self.extents = rest;
        self.closed = false;
        Some((end, Tok::Next, end))
    }
}

impl<'t> TextParser<'t> {
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        Self::with_room(text, span, span.as_usize_range().len())
    }

    /// The same, with room for the tree of `room` bytes of text.
    pub(crate) fn with_room(text: &'t str, span: Span, room: usize) -> Self {
        Self {
            b: Builder::new(text, room, tensor::READER),
            src: TokenWindow::new(text, span),
            comments: PendingComments::default(),
            frames: Vec::new(),
            last: CommentPlaceSyntax::File,
            line_column: 0,
            nested_until: 0,
            layout: LayoutScanner::default(),
            grammar: TopParser::new(),
            extents: Vec::new(),
            cut: PartEnd::None,
        }
    }

    // ---- tokens ----

    pub(crate) fn peek(&mut self, ahead: usize) -> Token {
        self.src.peek(&mut self.b, ahead)
    }

    /// Consumes the next token if it is `tok`.
    pub(crate) fn eat_token(&mut self, tok: Tok) -> Option<Token> {
        let next = self.peek(0);
        (next.tok == tok).then(|| {
            self.src.advance(1);
            next
        })
    }

    pub(crate) fn statement_extent(&mut self, until: ExtentLimit) -> StmtExtent {
        self.layout.statement_extent(&mut self.src, &mut self.b, until)
    }

    /// The span of the next `count` tokens; empty in front of the next token if there are none.
    pub(crate) fn span_of_next(&mut self, count: usize) -> Span {
        let first = self.peek(0).span;
        match self.src.peeked_tokens(count).last() {
            Some(last) => first.join(last.span),
            None => Span { start: first.start, end: first.start },
        }
    }

    /// Runs the grammar over the next tokens, without consuming them.
    pub(crate) fn run_grammar(&mut self, start: Start, extent: StmtExtent) -> Option<GrammarOutput> {
        if extent.bad {
            return None;
        }
        let tokens = self.src.peeked_tokens(extent.len);
        let first = tokens.first().map_or(0, |token| token.span.start);
        let end = tokens.last().map_or(0, |token| token.span.end);
        let length = self.b.open_element_count();
        let result = self.grammar.parse(
            &mut self.b,
            std::iter::once((first, Tok::Start(start), first))
                .chain(tokens.iter().map(|token| (token.span.start, token.tok, token.span.end)))
                .map(Ok),
        );
        match result {
            Ok(node) => Some(node),
            Err(error) => {
                self.b.unwind_lists(length);
                let whole = Span { start: first, end };
                let error = message::describe_error(&self.b, error, tokens, whole);
                self.b.report_error(error);
                None
            }
        }
    }

    /// Reads the statements of `run`, the next tokens, without consuming them. The batch then holds the statements up
    /// to the first with an error, which is recorded.
    fn parse_batch(&mut self, run: &[StmtExtent]) {
        self.b.batch.clear();
        let (mut left, mut skipped) = (run, 0);
        while let Some(extent) = left.first() {
            let tokens = &self.src.peeked_tokens(skipped + extent.len)[skipped..];
            let is_plain = !self.b.by_grammar && !extent.open_end;
            let found = if is_plain { plain::read_plain_statement(&mut self.b, tokens) } else { None };
            let count = match found {
                Some(stmt) => {
                    self.b.finish_statement(stmt);
                    1
                }
                None => {
                    let count = if self.b.by_grammar { left.len() } else { 1 };
                    if !self.run_grammar_on_statements(&left[..count], skipped) {
                        return;
                    }
                    count
                }
            };
            skipped += left[..count].iter().map(|extent| extent.len).sum::<usize>();
            left = &left[count..];
        }
    }

    /// Runs the grammar over the statements of `run`, which start after the next `skipped` tokens. Their statements
    /// are added to the batch, up to the first with an error, which is recorded; returns true if there is none.
    fn run_grammar_on_statements(&mut self, run: &[StmtExtent], skipped: usize) -> bool {
        let count: usize = run.iter().map(|extent| extent.len).sum();
        let tokens = &self.src.peeked_tokens(skipped + count)[skipped..];
        let first = tokens.first().map_or(0, |token| token.span.start);
        let length = self.b.open_element_count();
        let known = self.b.batch.len();
        let input =
            StmtBatch { tokens, extents: run, at: 0, left: run.first().map_or(0, |one| one.len), closed: false };
        let start = std::iter::once((first, Tok::Start(Start::Stmts), first));
        let Err(error) = self.grammar.parse(&mut self.b, start.chain(input).map(Ok)) else {
            return true;
        };
        self.b.unwind_lists(length);
        let failed = (self.b.batch.len() - known).min(run.len() - 1);
        let before: usize = run[..failed].iter().map(|extent| extent.len).sum();
        let tokens = &tokens[before..before + run[failed].len];
        let whole = tokens.first().map_or(Span::default(), |token| token.span);
        let error = message::describe_error(&self.b, error, tokens, whole);
        self.b.report_error(error);
        false
    }

    // ---- frames ----

    pub(crate) fn push_frame(&mut self, kind: BlockKind, header_column: u32, brace: Option<Span>) -> BlockId {
        let block = BlockId(self.b.ast.blocks.len() as u32);
        self.b.ast.blocks.push(BlockSyntax::default());
        let stmts = Vec::new();
        let frame = BlockFrame { kind, block, stmts, header_column, column: None, brace, span: None };
        self.frames.push(frame);
        block
    }

    /// Closes the innermost block; comments indented like its statements are its own, all that wait
    /// if it ends in a brace.
    pub(crate) fn pop_frame(&mut self, by_brace: bool) -> Option<BlockKind> {
        let frame = self.frames.pop()?;
        let column = if by_brace { 0 } else { frame.column.unwrap_or(frame.header_column + 1) };
        self.comments.end_block(frame.block, column, &mut self.b.ast);
        let block = &mut self.b.ast.blocks[frame.block.index()];
        block.stmts = frame.stmts;
        let empty = frame.brace.map_or(Span::default(), |brace| Span { start: brace.end, end: brace.end });
        block.span = frame.span.unwrap_or(empty);
        if let Some(outer) = self.frames.last_mut()
            && let (Some(outer), Some(inner)) = (&mut outer.span, frame.span)
        {
            *outer = outer.join(inner);
        }
        Some(frame.kind)
    }

    pub(crate) fn take_comments(&mut self, before: u32) {
        self.comments.take_before(&self.src.comments, before, self.last, &mut self.b.ast);
    }

    /// Closes the indented blocks that do not reach to the column of `token`, the first of its line.
    fn close_dedented_blocks(&mut self, token: Token) {
        self.line_column = token.column;
        loop {
            let Some(frame) = self.frames.last_mut() else { return };
            let braced = frame.brace.is_some() && frame.kind == BlockKind::Nested;
            if braced {
                return;
            }
            let fixed = frame.kind != BlockKind::Nested && frame.kind != BlockKind::Index;
            let inside = fixed || token.column > frame.header_column;
            match frame.column {
                _ if !inside => {}
                None => return frame.column = Some(token.column),
                Some(column) if column == token.column => return,
                Some(column) => return self.report_misaligned(token, column),
            }
            self.pop_frame(false);
        }
    }

    fn report_misaligned(&mut self, token: Token, column: u32) {
        if token.column < column || !self.block_of_error(token) {
            self.report_bad_indentation(token, column);
        }
    }

    /// Reads the block of a statement with an error, its deeper lines: the error was reported there.
    fn block_of_error(&mut self, token: Token) -> bool {
        let last = self.frames.last().and_then(|frame| frame.stmts.last().copied());
        let Some(stmt) = last.filter(|stmt| {
            let stmt = &self.b.ast.stmts[stmt.index()];
            stmt.shape == StmtShape::Error && stmt.body.is_none()
        }) else {
            return false;
        };
        if self.frames.len() > MAX_BLOCKS {
            return false;
        }
        let column = self.frames.last().and_then(|frame| frame.column).unwrap_or(0);
        let block = self.push_frame(BlockKind::Nested, column, None);
        if let Some(frame) = self.frames.last_mut() {
            frame.column = Some(token.column);
        }
        self.b.ast.stmts[stmt.index()].body = Some(block);
        true
    }

    fn report_bad_indentation(&mut self, token: Token, column: u32) {
        let before = &self.b.text[..token.span.start as usize];
        let blanks = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        let own = match blanks.matches('\t').count() {
            0 => format!("{} blanks", token.column),
            _ if blanks.contains(' ') => format!("blanks and tabs, up to column {}", token.column),
            1 => format!("a tab, which counts as {} blanks", token.column),
            tabs => format!("{tabs} tabs, which count as {} blanks", token.column),
        };
        let message = format!("this line is indented by {own}, but the statements of its block by {column}");
        let mut error = SyntaxError::new(Code::Indentation, token.span, message)
            .with_note("align the statements of the block, or enclose the block in `{` and `}`");
        if self.b.text.contains("\n\t") || blanks.contains('\t') {
            error = error.with_note("a tab advances to the next multiple of 8 columns; use spaces instead");
        }
        self.b.report_error(error);
    }

    // ---- statements ----

    /// Reads statements until the frame at depth `base` is closed.
    pub(crate) fn parse_block(&mut self, base: usize) {
        while self.frames.len() > base {
            let token = self.peek(0);
            self.take_comments(token.span.start);
            match token.tok {
                Tok::End if self.reaches_cut(token) => return,
                Tok::End | Tok::Container => return self.report_cut_short(base, token),
                Tok::RBrace => self.parse_closing_brace(base, token),
                Tok::OldEnd if base == 0 => return self.parse_old_end(),
                Tok::OldEnd => return self.report_cut_short(base, token),
                _ => {
                    if token.starts_line() {
                        if self.parse_unit_section(token) {
                            continue;
                        }
                        self.close_dedented_blocks(token);
                        if self.frames.len() <= base {
                            return;
                        }
                    }
                    self.parse_statement(token);
                }
            }
        }
    }

    /// Checks that the part ends here in the body of a container, as the next part assumes.
    fn reaches_cut(&mut self, end: Token) -> bool {
        let PartEnd::Follows(column) = self.cut else { return false };
        self.close_dedented_blocks(Token { column, ..end });
        let [frame] = &mut self.frames[..] else { return false };
        let fits = frame.kind == BlockKind::Container && frame.column == Some(column);
        if !fits || self.comments.has_pending() {
            return false;
        }
        self.pop_frame(false);
        self.cut = PartEnd::Reached;
        true
    }

    /// Opens the body of a container that starts in an earlier part of the text.
    pub(crate) fn resume_body(&mut self, column: u32) {
        let body = self.push_frame(BlockKind::Container, 0, Some(Span::default()));
        if let Some(frame) = self.frames.last_mut() {
            frame.column = Some(column);
        }
        self.b.ast.containers.push(ContainerSyntax::new(Span::default(), body));
        self.last = CommentPlaceSyntax::EndOf(body);
    }

    fn parse_statement(&mut self, token: Token) {
        match token.tok {
            Tok::Semi => self.src.advance(1),
            Tok::For | Tok::If => self.parse_block_header(),
            Tok::Else => self.parse_else_branch(token),
            _ => self.parse_statement_run(),
        }
    }

    /// Reads the statements up to the next block, brace or change of indentation at once: starting the grammar costs as
    /// much as a short statement.
    fn parse_statement_run(&mut self) {
        let mut run = std::mem::take(&mut self.extents);
        run.clear();
        let mut total = 0;
        loop {
            let mut extent = self.statement_extent(ExtentLimit::Statement);
            if extent.len == 0 && self.peek(0).tok != Tok::End {
                extent = StmtExtent { len: 1, bad: extent.bad || self.peek(0).tok == Tok::Error, ..extent };
            }
            run.push(extent);
            total += extent.len;
            self.src.step_ahead(extent.len);
            if extent.bad || run.len() >= MAX_RUN || !self.continues_run() {
                break;
            }
        }
        self.src.step_back(total);
        let mut left = &run[..];
        while !left.is_empty() {
            left = &left[self.consume_parsed(left)..];
        }
        self.extents = run;
    }

    /// True if the next token starts a simple statement of the same block.
    fn continues_run(&mut self) -> bool {
        let token = self.peek(0);
        let simple =
            !matches!(token.tok, Tok::For | Tok::If | Tok::Else | Tok::RBrace | Tok::Semi | Tok::End | Tok::Container);
        if !token.starts_line() {
            return simple;
        }
        let aligned = self.frames.last().is_some_and(|frame| {
            frame.column == Some(token.column) || frame.brace.is_some() && frame.kind == BlockKind::Nested
        });
        let section = matches!(token.tok, Tok::Word(_)) && self.peek(1).tok == Tok::Colon;
        simple && aligned && !section
    }

    /// Parses statements up to the first one with an error and consumes them; returns their number.
    fn consume_parsed(&mut self, run: &[StmtExtent]) -> usize {
        let good = run.iter().take_while(|extent| !extent.bad).count();
        self.b.batch.clear();
        if good > 0 {
            self.parse_batch(&run[..good]);
        }
        let batch = std::mem::take(&mut self.b.batch);
        let mut count = 0;
        for (at, extent) in run.iter().enumerate().take(batch.len() + 1) {
            let span = self.span_of_next(extent.len);
            let stmt = match batch.get(at) {
                Some(&stmt) => stmt,
                None => self.b.push_bad_stmt(span),
            };
            self.take_comments(span.start);
            let first = self.peek(0);
            if first.starts_line() {
                self.line_column = first.column;
            } else {
                self.note_joined_post(stmt);
            }
            self.src.advance(extent.len);
            self.add_statement(stmt, span);
            count += 1;
        }
        self.b.batch = batch;
        count
    }

    /// Records a `Wait Communication 1` on the line of another statement.
    fn note_joined_post(&mut self, stmt: StmtId) {
        let stmt = &self.b.ast.stmts[stmt.index()];
        let is_wait = stmt.shape == StmtShape::Words && self.b.ast.symbol_text(stmt.name) == "Wait";
        if let Some(container) = self.b.ast.containers.last_mut().filter(|_| is_wait) {
            container.has_joined_posts = true;
        }
    }

    /// Parses the next tokens as one statement of the innermost block and consumes them.
    fn parse_simple_statement(&mut self, extent: StmtExtent) -> StmtId {
        self.consume_parsed(&[extent]);
        match self.frames.last().and_then(|frame| frame.stmts.last()) {
            Some(&stmt) => stmt,
            None => self.b.push_bad_stmt(Span::default()),
        }
    }

    fn add_statement(&mut self, stmt: StmtId, span: Span) {
        self.comments.attach_pending(CommentPlaceSyntax::Above(stmt), &mut self.b.ast);
        self.last = CommentPlaceSyntax::Trailing(stmt);
        self.comments.take_all(&self.src.comments, span.end, self.last, &mut self.b.ast);
        if let Some(frame) = self.frames.last_mut() {
            frame.stmts.push(stmt);
            frame.span = Some(frame.span.map_or(span, |whole| whole.join(span)));
        }
    }

    /// `FOR ...:` or `IF ...:`.
    fn parse_block_header(&mut self) {
        let extent = self.statement_extent(ExtentLimit::Block);
        let stmt = self.parse_simple_statement(extent);
        self.open_block(stmt, None);
    }

    /// The `:` and `{` after a header, and the frame of its block.
    fn open_block(&mut self, stmt: StmtId, else_end: Option<u32>) {
        let header = self.b.ast.stmts[stmt.index()];
        let is_else = else_end.is_some();
        let colon = self.eat_token(Tok::Colon);
        let next = self.peek(0);
        let brace = if next.starts_line() { None } else { self.eat_token(Tok::LBrace) };
        if colon.is_none() && brace.is_none() && (is_else || header.shape != StmtShape::Error) {
            let at = else_end.unwrap_or(header.span.end);
            let name = if is_else { "ELSE" } else { "this header" };
            self.b.report_error(
                SyntaxError::new(
                    Code::NoBlock,
                    Span { start: at, end: at },
                    format!("expected `:` or `{{` after {name}"),
                )
                .with_note("write a block as `HEADER:` and indented lines, or as `HEADER {` ... `}`"),
            );
        }
        if self.frames.len() > MAX_BLOCKS {
            return self.report_too_deep(header.span);
        }
        let block = self.push_frame(BlockKind::Nested, self.line_column, brace.map(|token| token.span));
        let stmt = &mut self.b.ast.stmts[stmt.index()];
        if is_else {
            stmt.else_body = Some(block);
        } else {
            stmt.body = Some(block);
        }
    }

    fn parse_else_branch(&mut self, token: Token) {
        let ast = &self.b.ast;
        let owner = self.frames.last().and_then(|frame| frame.stmts.last().copied()).filter(|stmt| {
            let stmt = &ast.stmts[stmt.index()];
            let word = self.b.text[stmt.span.as_usize_range()].get(..2).unwrap_or_default();
            let failed_if = stmt.shape == StmtShape::Error && word.eq_ignore_ascii_case("if");
            (stmt.shape == StmtShape::If || failed_if) && stmt.else_body.is_none()
        });
        self.src.advance(1);
        if let Some(stmt) = owner {
            self.open_block(stmt, Some(token.span.end));
            if let Some(block) = self.b.ast.stmts[stmt.index()].else_body {
                self.last = CommentPlaceSyntax::StartOf(block);
            }
            return;
        }
        self.b.report_error(
            SyntaxError::new(Code::LoneElse, token.span, "this `ELSE` has no `IF`")
                .with_note("write `ELSE:` in the column of its `IF`, directly after the block of the `IF`"),
        );
        let stmt = self.b.push_bad_stmt(token.span);
        self.add_statement(stmt, token.span);
        self.open_block(stmt, None);
    }

    /// Gives up on a container whose blocks are nested too deeply.
    fn report_too_deep(&mut self, span: Span) {
        self.b.report_error(
            SyntaxError::new(Code::TooDeep, span, "blocks are nested too deeply")
                .with_note(format!("the limit is {MAX_BLOCKS} nested blocks")),
        );
        while !matches!(self.peek(0).tok, Tok::End | Tok::Container) {
            self.src.advance(1);
        }
        while self.pop_frame(true).is_some() {}
    }

    // ---- ends ----

    /// Reports that the text ends, or the next container starts, before the blocks are closed.
    fn report_cut_short(&mut self, base: usize, token: Token) {
        while self.frames.len() > base {
            let Some(frame) = self.frames.last() else { return };
            if let Some(brace) = frame.brace {
                let (what, label) = match frame.kind {
                    BlockKind::Container => ("the container has no closing `}`", "} // %HostIrContainer"),
                    BlockKind::Kernel => ("the kernel has no closing `}`", "} // %kernel"),
                    BlockKind::Nested | BlockKind::Index => ("the `{` of this block is never closed", "}"),
                };
                let code = if frame.kind == BlockKind::Nested { Code::Unclosed } else { Code::OpenSection };
                self.b.report_error(
                    SyntaxError::new(code, brace, what)
                        .with_label("opened here")
                        .with_second_label(
                            Span { start: token.span.start, end: token.span.start },
                            "it must end before this",
                        )
                        .with_note(format!("write `{label}`")),
                );
            }
            let braced = self.frames.last().is_some_and(|frame| frame.brace.is_some());
            self.pop_frame(braced);
        }
    }

    /// A `}`: it closes the innermost braces, or with its label the section of that name.
    fn parse_closing_brace(&mut self, base: usize, token: Token) {
        self.src.advance(1);
        if token.starts_line() {
            self.line_column = token.column;
        }
        let label = self.section_label(token.span.end);
        while self.frames.len() > base {
            let Some(frame) = self.frames.last() else { return };
            let (kind, brace) = (frame.kind, frame.brace);
            let skipped = match kind {
                BlockKind::Nested => label.is_some(),
                BlockKind::Kernel => label == Some(BlockKind::Container),
                BlockKind::Container | BlockKind::Index => false,
            };
            if brace.is_some() {
                if !skipped {
                    self.after_brace();
                    self.pop_frame(true);
                    return;
                }
                self.report_open_block(brace, token);
            }
            self.pop_frame(brace.is_some());
        }
    }

    /// `END.`: it closes the container.
    fn parse_old_end(&mut self) {
        self.src.advance(1);
        while let Some(frame) = self.frames.last() {
            let braced = frame.brace.is_some();
            self.pop_frame(braced);
        }
        self.last = CommentPlaceSyntax::File;
    }

    fn report_open_block(&mut self, brace: Option<Span>, token: Token) {
        let Some(brace) = brace else { return };
        self.b.report_error(
            SyntaxError::new(Code::Unclosed, brace, "this `{` is never closed")
                .with_label("opened here")
                .with_second_label(token.span, "the enclosing section ends here")
                .with_note("write `}` at the end of the block"),
        );
    }

    /// The section that the label after a closing brace names.
    pub(crate) fn section_label(&self, at: u32) -> Option<BlockKind> {
        let rest = self.b.text[at as usize..].lines().next().unwrap_or("").trim();
        match rest {
            "// %HostIrContainer" => Some(BlockKind::Container),
            "// %kernel" => Some(BlockKind::Kernel),
            _ => None,
        }
    }

    /// Sets the owner of a comment after the closing brace of a section.
    fn after_brace(&mut self) {
        self.last = match self.frames.last() {
            Some(frame) if frame.kind == BlockKind::Nested => self.last,
            Some(frame) => CommentPlaceSyntax::EndOf(frame.block),
            None => self.last,
        };
    }
}
