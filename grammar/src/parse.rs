//! Drives lexer, layout and grammar: blocks, statements, containers, comments and errors.
//!
//! Blocks are an explicit stack of frames, so that neither reading nor dropping a deeply nested
//! text recurses.

use crate::ast::{Block, BlockId, CommentPlace, Container, Shape, StmtId};
use crate::builder::{Builder, Node};
use crate::comments::Comments;
use crate::error::{Code, SyntaxError};
use crate::hir::TopParser;
use crate::layout::{Extent, Layout, Until};
use crate::lex::Source;
use crate::message;
use crate::span::Span;
use crate::tensor;
use crate::token::{Start, Tok, Token};

/// The largest number of blocks that may be open at once.
pub(crate) const MAX_BLOCKS: usize = 200;
/// The largest number of statements given to the grammar at once; few, for their tokens to stay in a cache.
const MAX_RUN: usize = 32;

/// The section or statement that a frame is the body of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Container,
    Kernel,
    Index,
    Nested,
}

/// An open block.
pub(crate) struct Frame {
    pub(crate) kind: Kind,
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
pub(crate) struct Parser<'t> {
    pub(crate) b: Builder<'t>,
    pub(crate) src: Source<'t>,
    pub(crate) comments: Comments,
    pub(crate) frames: Vec<Frame>,
    /// The owner of a comment at the end of the current line.
    pub(crate) last: CommentPlace,
    /// Indentation of the current line.
    pub(crate) line_column: u32,
    layout: Layout,
    grammar: TopParser,
    /// Memory for [`Self::run`].
    extents: Vec<Extent>,
    /// The way in which this part of a text has to end.
    pub(crate) cut: Cut,
}

/// The way in which the parser's part of a text has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// It does.
    None,
    /// A statement at this column follows, which is said to be one of a container's body.
    Follows(u32),
    /// The end was reached in the body of a container with this column: the two parts fit.
    Reached,
}

/// The tokens of several statements, with a mark between two and the parenthesis that nvFuser
/// forgets.
struct Run<'r> {
    tokens: &'r [Token],
    extents: &'r [Extent],
    at: usize,
    /// Tokens left of the first extent.
    left: usize,
    /// True once the forgotten parenthesis of the first extent was given out.
    closed: bool,
}

impl Iterator for Run<'_> {
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

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        Self {
            b: Builder::new(text, span.range().len(), tensor::READER),
            src: Source::new(text, span),
            comments: Comments::default(),
            frames: Vec::new(),
            last: CommentPlace::File,
            line_column: 0,
            layout: Layout::default(),
            grammar: TopParser::new(),
            extents: Vec::new(),
            cut: Cut::None,
        }
    }

    // ---- tokens ----

    pub(crate) fn peek(&mut self, ahead: usize) -> Token {
        self.src.peek(&mut self.b, ahead)
    }

    /// Consumes the next token if it is `tok`.
    pub(crate) fn eat(&mut self, tok: Tok) -> Option<Token> {
        let next = self.peek(0);
        (next.tok == tok).then(|| {
            self.src.advance(1);
            next
        })
    }

    pub(crate) fn extent(&mut self, until: Until) -> Extent {
        self.layout.extent(&mut self.src, &mut self.b, until)
    }

    /// The span of the next `count` tokens; empty in front of the next token if there are none.
    pub(crate) fn span(&mut self, count: usize) -> Span {
        let first = self.peek(0).span;
        match self.src.slice(count).last() {
            Some(last) => first.join(last.span),
            None => Span { start: first.start, end: first.start },
        }
    }

    /// Runs the grammar over the next tokens, without consuming them.
    pub(crate) fn grammar(&mut self, start: Start, extent: Extent) -> Option<Node> {
        if extent.bad {
            return None;
        }
        let tokens = self.src.slice(extent.len);
        let first = tokens.first().map_or(0, |token| token.span.start);
        let end = tokens.last().map_or(0, |token| token.span.end);
        let mark = self.b.mark();
        let result = self.grammar.parse(
            &mut self.b,
            std::iter::once((first, Tok::Start(start), first))
                .chain(tokens.iter().map(|token| (token.span.start, token.tok, token.span.end)))
                .map(Ok),
        );
        match result {
            Ok(node) => Some(node),
            Err(error) => {
                self.b.unwind(mark);
                let whole = Span { start: first, end };
                let error = message::describe(&self.b, error, tokens, whole);
                self.b.error(error);
                None
            }
        }
    }

    /// Runs the grammar over the statements of `run`, the next tokens, without consuming them. The
    /// batch then holds the statements up to the first with an error, which is recorded.
    fn statements(&mut self, run: &[Extent]) {
        self.b.batch.clear();
        let count = run.iter().map(|extent| extent.len).sum();
        let tokens = self.src.slice(count);
        let first = tokens.first().map_or(0, |token| token.span.start);
        let mark = self.b.mark();
        let input = Run {
            tokens,
            extents: run,
            at: 0,
            left: run.first().map_or(0, |one| one.len),
            closed: false,
        };
        let start = std::iter::once((first, Tok::Start(Start::Stmts), first));
        let Err(error) = self.grammar.parse(&mut self.b, start.chain(input).map(Ok)) else {
            return;
        };
        self.b.unwind(mark);
        let failed = self.b.batch.len().min(run.len() - 1);
        let before: usize = run[..failed].iter().map(|extent| extent.len).sum();
        let tokens = &tokens[before..before + run[failed].len];
        let whole = tokens.first().map_or(Span::default(), |token| token.span);
        let error = message::describe(&self.b, error, tokens, whole);
        self.b.error(error);
    }

    // ---- frames ----

    pub(crate) fn push_frame(
        &mut self,
        kind: Kind,
        header_column: u32,
        brace: Option<Span>,
    ) -> BlockId {
        let block = BlockId(self.b.ast.blocks.len() as u32);
        self.b.ast.blocks.push(Block::default());
        let stmts = Vec::new();
        let frame = Frame { kind, block, stmts, header_column, column: None, brace, span: None };
        self.frames.push(frame);
        block
    }

    /// Closes the innermost block; comments indented like its statements are its own, all that wait
    /// if it ends in a brace.
    pub(crate) fn pop_frame(&mut self, by_brace: bool) -> Option<Kind> {
        let frame = self.frames.pop()?;
        let column = if by_brace { 0 } else { frame.column.unwrap_or(frame.header_column + 1) };
        self.comments.end_block(frame.block, column, &mut self.b.ast);
        let block = &mut self.b.ast.blocks[frame.block.index()];
        block.stmts = frame.stmts;
        let empty =
            frame.brace.map_or(Span::default(), |brace| Span { start: brace.end, end: brace.end });
        block.span = frame.span.unwrap_or(empty);
        if let Some(outer) = self.frames.last_mut()
            && let (Some(outer), Some(inner)) = (&mut outer.span, frame.span)
        {
            *outer = outer.join(inner);
        }
        Some(frame.kind)
    }

    pub(crate) fn take_comments(&mut self, before: u32) {
        self.comments.take(&self.src.comments, before, self.last, &mut self.b.ast);
    }

    /// Closes the indented blocks that do not reach to the column of `token`, the first of its line.
    fn dedent(&mut self, token: Token) {
        self.line_column = token.column;
        loop {
            let Some(frame) = self.frames.last_mut() else { return };
            let braced = frame.brace.is_some() && frame.kind == Kind::Nested;
            if braced {
                return;
            }
            let fixed = frame.kind != Kind::Nested && frame.kind != Kind::Index;
            let inside = fixed || token.column > frame.header_column;
            match frame.column {
                _ if !inside => {}
                None => return frame.column = Some(token.column),
                Some(column) if column == token.column => return,
                Some(column) => return self.misaligned(token, column),
            }
            self.pop_frame(false);
        }
    }

    fn misaligned(&mut self, token: Token, column: u32) {
        if token.column < column || !self.block_of_error(token) {
            self.bad_indentation(token, column);
        }
    }

    /// Deeper lines behind a statement with an error are its block: what is wrong was said there.
    fn block_of_error(&mut self, token: Token) -> bool {
        let last = self.frames.last().and_then(|frame| frame.stmts.last().copied());
        let Some(stmt) = last.filter(|stmt| {
            let stmt = &self.b.ast.stmts[stmt.index()];
            stmt.shape == Shape::Error && stmt.body.is_none()
        }) else {
            return false;
        };
        if self.frames.len() > MAX_BLOCKS {
            return false;
        }
        let column = self.frames.last().and_then(|frame| frame.column).unwrap_or(0);
        let block = self.push_frame(Kind::Nested, column, None);
        if let Some(frame) = self.frames.last_mut() {
            frame.column = Some(token.column);
        }
        self.b.ast.stmts[stmt.index()].body = Some(block);
        true
    }

    fn bad_indentation(&mut self, token: Token, column: u32) {
        let before = &self.b.text[..token.span.start as usize];
        let blanks = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        let own = match blanks.matches('\t').count() {
            0 => format!("{} blanks", token.column),
            1 => format!("a tab, up to column {}", token.column),
            tabs => format!("{tabs} tabs, up to column {}", token.column),
        };
        let message =
            format!("this line is indented by {own}, the statements of its block by {column}");
        let mut error = SyntaxError::new(Code::Indentation, token.span, message)
            .note("align the statements of a block, or put the block into `{` and `}`");
        if self.b.text.contains("\n\t") || blanks.contains('\t') {
            error = error.note("a tab goes to the next multiple of 8 columns: rather use blanks");
        }
        self.b.error(error);
    }

    // ---- statements ----

    /// Reads statements until the frame at depth `base` is closed.
    pub(crate) fn block(&mut self, base: usize) {
        while self.frames.len() > base {
            let token = self.peek(0);
            self.take_comments(token.span.start);
            match token.tok {
                Tok::End if self.reaches_cut(token) => return,
                Tok::End | Tok::Container => return self.cut_short(base, token),
                Tok::RBrace => self.closing_brace(base, token),
                _ => {
                    if token.starts_line() {
                        if self.section_starts(token) {
                            continue;
                        }
                        self.dedent(token);
                        if self.frames.len() <= base {
                            return;
                        }
                    }
                    self.statement(token);
                }
            }
        }
    }

    /// Checks that the part ends here in the body of a container, as the next part takes for granted.
    fn reaches_cut(&mut self, end: Token) -> bool {
        let Cut::Follows(column) = self.cut else { return false };
        self.dedent(Token { column, ..end });
        let [frame] = &mut self.frames[..] else { return false };
        let fits = frame.kind == Kind::Container && frame.column == Some(column);
        if !fits || self.comments.wait() {
            return false;
        }
        self.pop_frame(false);
        self.cut = Cut::Reached;
        true
    }

    /// Opens the body of a container whose start is in an earlier part of the text.
    pub(crate) fn resume(&mut self, column: u32) {
        let body = self.push_frame(Kind::Container, 0, Some(Span::default()));
        if let Some(frame) = self.frames.last_mut() {
            frame.column = Some(column);
        }
        self.b.ast.containers.push(Container::new(Span::default(), body));
        self.last = CommentPlace::EndOf(body);
    }

    fn statement(&mut self, token: Token) {
        match token.tok {
            Tok::Semi => self.src.advance(1),
            Tok::For | Tok::If => self.block_header(),
            Tok::Else => self.else_branch(token),
            _ => self.run(),
        }
    }

    /// Reads the statements up to the next block, brace or change of indentation in one go: starting
    /// the grammar costs as much as a short statement.
    fn run(&mut self) {
        let mut run = std::mem::take(&mut self.extents);
        run.clear();
        let mut total = 0;
        loop {
            let mut extent = self.extent(Until::Statement);
            if extent.len == 0 && self.peek(0).tok != Tok::End {
                extent =
                    Extent { len: 1, bad: extent.bad || self.peek(0).tok == Tok::Error, ..extent };
            }
            run.push(extent);
            total += extent.len;
            self.src.look(extent.len);
            if extent.bad || run.len() >= MAX_RUN || !self.run_goes_on() {
                break;
            }
        }
        self.src.back(total);
        let mut left = &run[..];
        while !left.is_empty() {
            left = &left[self.finish(left)..];
        }
        self.extents = run;
    }

    /// True if the next token starts a simple statement of the same block.
    fn run_goes_on(&mut self) -> bool {
        let token = self.peek(0);
        let simple = !matches!(
            token.tok,
            Tok::For | Tok::If | Tok::Else | Tok::RBrace | Tok::Semi | Tok::End | Tok::Container
        );
        if !token.starts_line() {
            return simple;
        }
        let aligned = self.frames.last().is_some_and(|frame| {
            frame.column == Some(token.column)
                || frame.brace.is_some() && frame.kind == Kind::Nested
        });
        let section = matches!(token.tok, Tok::Word(_)) && self.peek(1).tok == Tok::Colon;
        simple && aligned && !section
    }

    /// Parses statements up to the first one with an error and consumes them; how many that were.
    fn finish(&mut self, run: &[Extent]) -> usize {
        let good = run.iter().take_while(|extent| !extent.bad).count();
        self.b.batch.clear();
        if good > 0 {
            self.statements(&run[..good]);
        }
        let batch = std::mem::take(&mut self.b.batch);
        let mut count = 0;
        for (at, extent) in run.iter().enumerate().take(batch.len() + 1) {
            let span = self.span(extent.len);
            let stmt = match batch.get(at) {
                Some(&stmt) => stmt,
                None => self.b.bad(span),
            };
            self.take_comments(span.start);
            let first = self.peek(0);
            if first.starts_line() {
                self.line_column = first.column;
            }
            self.src.advance(extent.len);
            self.add(stmt, span);
            count += 1;
        }
        self.b.batch = batch;
        count
    }

    /// Parses the next tokens as one statement of the innermost block and consumes them.
    fn simple(&mut self, extent: Extent) -> StmtId {
        self.finish(&[extent]);
        match self.frames.last().and_then(|frame| frame.stmts.last()) {
            Some(&stmt) => stmt,
            None => self.b.bad(Span::default()),
        }
    }

    fn add(&mut self, stmt: StmtId, span: Span) {
        self.comments.place(CommentPlace::Above(stmt), &mut self.b.ast);
        self.last = CommentPlace::Trailing(stmt);
        self.comments.take_all(&self.src.comments, span.end, self.last, &mut self.b.ast);
        if let Some(frame) = self.frames.last_mut() {
            frame.stmts.push(stmt);
            frame.span = Some(frame.span.map_or(span, |whole| whole.join(span)));
        }
    }

    /// `FOR ...:` or `IF ...:`.
    fn block_header(&mut self) {
        let extent = self.extent(Until::Block);
        let stmt = self.simple(extent);
        self.open_block(stmt, None);
    }

    /// The `:` and `{` behind a header, and the frame of its block.
    fn open_block(&mut self, stmt: StmtId, else_end: Option<u32>) {
        let header = self.b.ast.stmts[stmt.index()];
        let is_else = else_end.is_some();
        let colon = self.eat(Tok::Colon);
        let next = self.peek(0);
        let brace = if next.starts_line() { None } else { self.eat(Tok::LBrace) };
        if colon.is_none() && brace.is_none() && (is_else || header.shape != Shape::Error) {
            let at = else_end.unwrap_or(header.span.end);
            let name = if is_else { "ELSE" } else { "this header" };
            self.b.error(
                SyntaxError::new(
                    Code::NoBlock,
                    Span { start: at, end: at },
                    format!("expected `:` or `{{` behind {name}"),
                )
                .note("a block is `HEADER:` with deeper lines under it, or `HEADER {` ... `}`"),
            );
        }
        if self.frames.len() > MAX_BLOCKS {
            return self.too_deep(header.span);
        }
        let block = self.push_frame(Kind::Nested, self.line_column, brace.map(|token| token.span));
        let stmt = &mut self.b.ast.stmts[stmt.index()];
        if is_else {
            stmt.else_body = Some(block);
        } else {
            stmt.body = Some(block);
        }
    }

    fn else_branch(&mut self, token: Token) {
        let ast = &self.b.ast;
        let owner =
            self.frames.last().and_then(|frame| frame.stmts.last().copied()).filter(|stmt| {
                let stmt = &ast.stmts[stmt.index()];
                let failed_if =
                    stmt.shape == Shape::Error && self.b.text[stmt.span.range()].starts_with("IF");
                (stmt.shape == Shape::If || failed_if) && stmt.else_body.is_none()
            });
        self.src.advance(1);
        if let Some(stmt) = owner {
            self.open_block(stmt, Some(token.span.end));
            if let Some(block) = self.b.ast.stmts[stmt.index()].else_body {
                self.last = CommentPlace::StartOf(block);
            }
            return;
        }
        self.b.error(
            SyntaxError::new(Code::LoneElse, token.span, "this `ELSE` follows no `IF`")
                .note("an `ELSE:` stands at the column of its `IF`, right behind the `IF`'s block"),
        );
        let stmt = self.b.bad(token.span);
        self.add(stmt, token.span);
        self.open_block(stmt, None);
    }

    /// Gives up on a container whose blocks are nested too deeply.
    fn too_deep(&mut self, span: Span) {
        self.b.error(
            SyntaxError::new(Code::TooDeep, span, "blocks are nested too deeply")
                .note(format!("at most {MAX_BLOCKS} blocks may stand inside each other")),
        );
        while !matches!(self.peek(0).tok, Tok::End | Tok::Container) {
            self.src.advance(1);
        }
        while self.pop_frame(true).is_some() {}
    }

    // ---- ends ----

    /// The text or the next container starts before the blocks are closed.
    fn cut_short(&mut self, base: usize, token: Token) {
        while self.frames.len() > base {
            let Some(frame) = self.frames.last() else { return };
            if let Some(brace) = frame.brace {
                let (what, label) = match frame.kind {
                    Kind::Container => {
                        ("this container has no closing `}`", "} // %HostIrContainer")
                    }
                    Kind::Kernel => ("this kernel has no closing `}`", "} // %kernel"),
                    Kind::Nested | Kind::Index => ("the `{` of this block is never closed", "}"),
                };
                let code =
                    if frame.kind == Kind::Nested { Code::Unclosed } else { Code::OpenSection };
                self.b.error(
                    SyntaxError::new(code, brace, what)
                        .label("opened here")
                        .other(
                            Span { start: token.span.start, end: token.span.start },
                            "it has to end before this",
                        )
                        .note(format!("write `{label}`")),
                );
            }
            let braced = self.frames.last().is_some_and(|frame| frame.brace.is_some());
            self.pop_frame(braced);
        }
    }

    /// A `}`: it closes the innermost braces, or with its label the section of that name.
    fn closing_brace(&mut self, base: usize, token: Token) {
        self.src.advance(1);
        if token.starts_line() {
            self.line_column = token.column;
        }
        let label = self.label(token.span.end);
        while self.frames.len() > base {
            let Some(frame) = self.frames.last() else { return };
            let (kind, brace) = (frame.kind, frame.brace);
            let skipped = match kind {
                Kind::Nested => label.is_some(),
                Kind::Kernel => label == Some(Kind::Container),
                Kind::Container | Kind::Index => false,
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

    fn report_open_block(&mut self, brace: Option<Span>, token: Token) {
        let Some(brace) = brace else { return };
        self.b.error(
            SyntaxError::new(Code::Unclosed, brace, "this `{` is never closed")
                .label("opened here")
                .other(token.span, "the section around it ends here")
                .note("write a `}` at the end of the block"),
        );
    }

    /// The section that the label behind a closing brace names.
    pub(crate) fn label(&self, at: u32) -> Option<Kind> {
        let rest = self.b.text[at as usize..].lines().next().unwrap_or("").trim();
        match rest {
            "// %HostIrContainer" => Some(Kind::Container),
            "// %kernel" => Some(Kind::Kernel),
            _ => None,
        }
    }

    /// Sets the owner of a comment behind the closing brace of a section.
    fn after_brace(&mut self) {
        self.last = match self.frames.last() {
            Some(frame) if frame.kind == Kind::Nested => self.last,
            Some(frame) => CommentPlace::EndOf(frame.block),
            None => self.last,
        };
    }
}
