//! Statements and blocks.

use super::ast::{
    BlockId, BlockSyntax, ExprId, ExprNode, LoopDomain, NameSyntax, NodeRange, StatementNode, StmtForm, StmtId,
    TargetSyntax,
};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineTok, LineToken};
use crate::ast::{CommentPlaceSyntax, CommentSyntax};
use crate::error::{Code, SyntaxError};
use crate::span::Span;

impl Parser<'_> {
    fn add_stmt(&mut self, span: Span, form: StmtForm) -> StmtId {
        self.file.stmts.push(StatementNode { span, form });
        StmtId(self.file.stmts.len() as u32 - 1)
    }

    /// The block behind a header: on the same line, or indented by more than `column` on the next ones. Comments at the
    /// end of the header's line belong to `header`.
    pub(super) fn parse_suite(&mut self, column: u32, header: CommentPlaceSyntax) -> Parsed<BlockId> {
        if !self.skip(LineTok::Colon) {
            let failed = self.unexpected("`:`", "a header ends in `:`, and its block is indented on the next lines");
            if !self.peek().starts_line() {
                self.skip_lines(u32::MAX - 1);
            }
            self.take_trailing(header);
            return if self.peek().column > column && self.peek().starts_line() {
                self.parse_block(column)
            } else {
                Err(failed)
            };
        }
        if !self.peek().starts_line() && self.peek().tok != LineTok::End {
            return self.parse_line_suite(header);
        }
        self.take_trailing(header);
        self.parse_block(column)
    }

    /// `if c: wait h`.
    fn parse_line_suite(&mut self, header: CommentPlaceSyntax) -> Parsed<BlockId> {
        let start = self.peek().span;
        self.enter()?;
        let stmt = self.parse_simple(u32::MAX);
        self.leave();
        self.end_simple();
        self.take_trailing(header);
        let span = start.join(self.last_span());
        Ok(self.add_block(BlockSyntax { stmts: vec![stmt], span }))
    }

    /// The statements that are indented by more than `outer`.
    fn parse_block(&mut self, outer: u32) -> Parsed<BlockId> {
        let first = self.peek();
        let mut block =
            BlockSyntax { stmts: Vec::new(), span: Span { start: first.span.start, end: first.span.start } };
        let id = self.add_block(BlockSyntax::default());
        let column = self.block_column(outer);
        if column <= outer {
            // The verifier warns about a block without statements.
            self.file.blocks[id.index()] = block;
            return Ok(id);
        }
        self.enter()?;
        let mut first;
        loop {
            first = self.file.comments.len();
            self.take_block_comments(column, &block);
            let token = self.peek();
            if token.tok == LineTok::End || token.column <= outer {
                break;
            }
            if token.column != column {
                let error = SyntaxError::new(
                    Code::Indentation,
                    token.span,
                    format!(
                        "this line is indented by {} blanks, the statements of its block by {column}",
                        token.column
                    ),
                );
                self.report(error.with_note("statements of one block begin in one column"));
            }
            if token.after_blank && !block.stmts.is_empty() && self.file.comments.len() == first {
                self.add_blank_line(token);
            }
            let waiting = first..self.file.comments.len();
            let stmt = self.parse_statement(token.column);
            self.place_waiting_comments(waiting, stmt);
            block.stmts.push(stmt);
            block.span = block.span.join(self.last_span());
        }
        self.leave();
        self.end_block_comments(first, id);
        self.file.blocks[id.index()] = block;
        Ok(id)
    }

    /// The column of a block's first statement, or of a comment that is its only content.
    fn block_column(&self, outer: u32) -> u32 {
        let token = self.peek();
        if token.tok != LineTok::End && token.column > outer {
            return token.column;
        }
        outer
    }

    fn add_blank_line(&mut self, token: LineToken) {
        let span = Span { start: token.span.start, end: token.span.start };
        let place = CommentPlaceSyntax::Above(StmtId(u32::MAX));
        self.file.comments.push(CommentSyntax { span, place });
    }

    /// Comments above the next statement of a block in this column; they wait for the statement's number.
    fn take_block_comments(&mut self, column: u32, block: &BlockSyntax) {
        let first = self.file.comments.len();
        let mut any = !block.stmts.is_empty();
        while let Some(comment) = self.comment_above() {
            if comment.column.is_some_and(|found| found < column) {
                break;
            }
            if comment.after_blank && any {
                self.add_blank_line(LineToken { tok: LineTok::End, span: comment.span, column: 0, after_blank: true });
            }
            any = true;
            self.take_comment(comment, CommentPlaceSyntax::Above(StmtId(u32::MAX)));
        }
        let token = self.peek();
        let waits = self.file.comments.len() > first;
        if token.after_blank && waits && token.tok != LineTok::End && token.column >= column {
            self.add_blank_line(token);
        }
    }

    /// Gives comments that wait for a statement's number that number.
    fn place_waiting_comments(&mut self, waiting: std::ops::Range<usize>, stmt: StmtId) {
        for comment in &mut self.file.comments[waiting] {
            comment.place = CommentPlaceSyntax::Above(stmt);
        }
    }

    /// Comments from number `first` on waited for a statement that did not come.
    fn end_block_comments(&mut self, first: usize, block: BlockId) {
        for comment in &mut self.file.comments[first..] {
            comment.place = CommentPlaceSyntax::EndOf(block);
        }
    }

    /// A statement with its blocks; it begins in `column`.
    fn parse_statement(&mut self, column: u32) -> StmtId {
        let (depth, brackets) = (self.depth, self.brackets);
        let token = self.peek();
        let word = self.word(token);
        let parsed = match word {
            "for" => self.parse_for(column),
            "if" => self.parse_if(column),
            "define" if self.peek_at(1).tok == LineTok::Colon => self.parse_define(column),
            "stream" if self.is_stream_block() => self.parse_stream_block(column),
            _ => {
                let stmt = self.parse_simple(column);
                self.end_simple();
                self.take_trailing(CommentPlaceSyntax::Trailing(stmt));
                return stmt;
            }
        };
        parsed.unwrap_or_else(|Failed| {
            (self.depth, self.brackets) = (depth, brackets);
            self.recover(token, column)
        })
    }

    /// Skips a statement with an error; a block behind it is read for its own errors.
    fn recover(&mut self, first: LineToken, column: u32) -> StmtId {
        self.brackets = 0;
        let mut last = first.tok;
        while !(self.peek().starts_line() && self.peek().span.start > first.span.start)
            && self.peek().tok != LineTok::End
        {
            last = self.next().tok;
        }
        let span = first.span.join(self.last_span());
        let stmt = self.add_stmt(span, StmtForm::Error);
        self.take_trailing(CommentPlaceSyntax::Trailing(stmt));
        let next = self.peek();
        if next.tok != LineTok::End && next.column > column && next.column != u32::MAX {
            if last == LineTok::Colon {
                let _ = self.parse_block(column);
            } else {
                self.skip_lines(column);
            }
        }
        stmt
    }

    /// What follows a simple statement on its line.
    fn end_simple(&mut self) {
        let token = self.peek();
        if token.starts_line() || token.tok == LineTok::End {
            return;
        }
        let (message, note) = match token.tok {
            LineTok::Semicolon => (
                "a line has one statement",
                "write the next statement on a line of its own; only groups `{ a; b }` have several",
            ),
            _ => ("expected the end of the statement", "a line has one statement"),
        };
        let found = self.token_text(token);
        let is_last =
            token.tok == LineTok::Semicolon && (self.peek_at(1).starts_line() || self.peek_at(1).tok == LineTok::End);
        let message = if is_last {
            "a statement ends with its line, without `;`".to_owned()
        } else {
            format!("{message}, found {found}")
        };
        let note = if is_last { "remove the `;`" } else { note };
        self.report(SyntaxError::new(Code::Unexpected, token.span, message).with_note(note));
        while !self.peek().starts_line() && self.peek().tok != LineTok::End {
            self.next();
        }
    }

    /// A statement without a block.
    pub(super) fn parse_simple(&mut self, column: u32) -> StmtId {
        let (depth, brackets) = (self.depth, self.brackets);
        let token = self.peek();
        match self.parse_form(token) {
            Ok(form) => {
                let span = token.span.join(self.last_span());
                self.add_stmt(span, form)
            }
            Err(Failed) => {
                (self.depth, self.brackets) = (depth, brackets);
                if column == u32::MAX {
                    return self.skip_in_line(token);
                }
                self.recover(token, column)
            }
        }
    }

    /// Skips the rest of a statement in a group or on a header's line.
    fn skip_in_line(&mut self, first: LineToken) -> StmtId {
        let mut open = 0u32;
        loop {
            let token = self.peek();
            match token.tok {
                LineTok::End => break,
                LineTok::LBrace => open += 1,
                LineTok::RBrace | LineTok::Semicolon if open == 0 => break,
                LineTok::RBrace => open -= 1,
                _ => {}
            }
            if token.starts_line() && token.span.start > first.span.start {
                break;
            }
            self.next();
        }
        self.add_stmt(first.span.join(self.last_span()), StmtForm::Error)
    }

    fn parse_form(&mut self, token: LineToken) -> Parsed<StmtForm> {
        let follows = self.peek_at(1);
        if token.tok == LineTok::LBrace {
            return Ok(StmtForm::Call(self.parse_value()?));
        }
        let is_alone = !matches!(
            follows.tok,
            LineTok::Equals | LineTok::Colon | LineTok::LBracket | LineTok::LParen | LineTok::Comma
        ) || follows.starts_line();
        match self.word(token) {
            "wait" if is_alone || follows.tok == LineTok::LParen => {
                self.next();
                Ok(StmtForm::Wait(self.parse_value()?))
            }
            "free" if is_alone => self.parse_free(),
            "sync" if is_alone || follows.tok == LineTok::LParen => {
                self.next();
                Ok(StmtForm::Sync(self.parse_expr()?))
            }
            "stream" if is_alone || follows.tok == LineTok::LParen => self.parse_stream(),
            "share" if follows.tok == LineTok::LBrace => {
                self.next();
                Ok(StmtForm::Share(self.parse_group()?))
            }
            "alias" if is_alone => self.parse_alias(),
            word => match foreign_statement(word) {
                Some((message, note)) if !matches!(follows.tok, LineTok::Equals | LineTok::Comma) => {
                    let error = SyntaxError::new(Code::Foreign, token.span, message);
                    Err(self.report(error.with_note(note)))
                }
                _ => self.parse_assignment(),
            },
        }
    }

    fn parse_free(&mut self) -> Parsed<StmtForm> {
        self.next();
        let mut tensors = vec![self.parse_expr()?];
        while self.skip(LineTok::Comma) {
            tensors.push(self.parse_expr()?);
        }
        Ok(StmtForm::Free(self.add_list(&tensors)))
    }

    fn parse_stream(&mut self) -> Parsed<StmtForm> {
        self.next();
        let stream = self.parse_expr()?;
        if self.continues() && self.skip(LineTok::Equals) {
            if !self.skip_word("current") {
                return Err(self.unexpected("`current`", "`stream main = current` gives the current stream a name"));
            }
            return Ok(StmtForm::BindStream(stream));
        }
        Ok(StmtForm::Stream(stream, None))
    }

    fn parse_alias(&mut self) -> Parsed<StmtForm> {
        self.next();
        let new = self.name("the name of a tensor")?;
        self.expect(LineTok::Arrow, "`->`", "write `alias B -> A`: B is another name of A")?;
        let original = self.name("the name of a tensor")?;
        Ok(StmtForm::Alias(new, original))
    }

    /// A declaration, an assignment, a call or verbatim text.
    fn parse_assignment(&mut self) -> Parsed<StmtForm> {
        let token = self.peek();
        if let LineTok::Verbatim(text) = token.tok
            && (self.peek_at(1).starts_line()
                || matches!(self.peek_at(1).tok, LineTok::End | LineTok::Semicolon | LineTok::RBrace))
        {
            self.next();
            return Ok(StmtForm::Verbatim(text));
        }
        let first = self.parse_target()?;
        if self.at_statement_end() {
            return self.finish_alone(first);
        }
        let mut targets = vec![first];
        while self.continues() && self.skip(LineTok::Comma) {
            targets.push(self.parse_target()?);
        }
        if let Some(operator) = self.augmented_operator() {
            let name = self.text[self.file.expr_span(targets[0].value).as_usize_range()].to_owned();
            let span = self.peek().span;
            let error = SyntaxError::new(Code::Foreign, span, format!("`{operator}=` is no assignment"));
            return Err(self.report(error.with_note(format!("write `{name} = {name} {operator} ..`"))));
        }
        if !self.continues() || !self.skip(LineTok::Equals) {
            return Err(self.unexpected("`=`", "a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`"));
        }
        let value = self.parse_value()?;
        let start = self.file.targets.len() as u32;
        self.file.targets.extend(targets);
        let targets = NodeRange { start, end: self.file.targets.len() as u32 };
        Ok(StmtForm::Assign { targets, value })
    }

    /// `+` of `x += 1`.
    fn augmented_operator(&self) -> Option<String> {
        let (token, next) = (self.peek(), self.peek_at(1));
        let is_operator =
            matches!(token.tok, LineTok::Op(_)) && next.tok == LineTok::Equals && token.span.end == next.span.start;
        is_operator.then(|| self.word(token).to_owned())
    }

    fn parse_target(&mut self) -> Parsed<TargetSyntax> {
        let token = self.peek();
        if !matches!(token.tok, LineTok::Name(_)) {
            return Err(self.unexpected("a statement", "a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`"));
        }
        let value = self.parse_expr()?;
        let is_typed = self.continues() && self.is(LineTok::Colon);
        let ty = if is_typed {
            self.next();
            Some(self.parse_type()?)
        } else {
            None
        };
        Ok(TargetSyntax { value, ty })
    }

    /// A call, or a declaration alone.
    fn finish_alone(&mut self, target: TargetSyntax) -> Parsed<StmtForm> {
        let span = self.file.expr_span(target.value);
        match (*self.file.expr(target.value), target.ty) {
            (ExprNode::Name(name), Some(ty)) => Ok(StmtForm::Declare(NameSyntax { name, span }, ty)),
            (ExprNode::Call(..), None) => Ok(StmtForm::Call(target.value)),
            _ => {
                let text = self.text[span.as_usize_range()].to_owned();
                let error = SyntaxError::new(
                    Code::Unexpected,
                    span,
                    format!("`{}` is no statement", crate::spelling::shorten_text(&text)),
                );
                Err(self.report(error.with_note("a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`")))
            }
        }
    }

    /// The right side of an assignment, or what `wait` waits for.
    fn parse_value(&mut self) -> Parsed<ExprId> {
        if !self.is(LineTok::LBrace) || !self.is_group() {
            return self.parse_expr();
        }
        let start = self.peek().span;
        let block = self.parse_group()?;
        Ok(self.add_expr(ExprNode::Group(block), start.join(self.last_span())))
    }

    /// Whether a brace opens a group: posts and assignments follow, no list of numbers.
    fn is_group(&self) -> bool {
        match self.peek_at(1).tok {
            LineTok::RBrace | LineTok::Verbatim(_) => true,
            LineTok::Name(_) => {
                matches!(self.peek_at(2).tok, LineTok::LParen | LineTok::Equals | LineTok::Colon | LineTok::LBracket)
            }
            _ => false,
        }
    }

    /// `{ a; b }`, also with a statement a line.
    fn parse_group(&mut self) -> Parsed<BlockId> {
        self.enter()?;
        let open = self.expect(LineTok::LBrace, "`{`", "a group is `{ send(..); recv(..) }`")?;
        let brackets = std::mem::replace(&mut self.brackets, 0);
        let mut block = BlockSyntax { stmts: Vec::new(), span: open };
        let id = self.add_block(BlockSyntax::default());
        self.take_trailing(CommentPlaceSyntax::StartOf(id));
        let mut first;
        loop {
            first = self.file.comments.len();
            self.take_group_comments();
            if matches!(self.peek().tok, LineTok::RBrace | LineTok::End) {
                break;
            }
            let waiting = first..self.file.comments.len();
            let stmt = self.parse_simple(u32::MAX);
            self.place_waiting_comments(waiting, stmt);
            block.stmts.push(stmt);
            if !self.skip(LineTok::Semicolon) && !self.peek().starts_line() && !self.is(LineTok::RBrace) {
                return Err(self.unexpected(
                    "`;` or `}`",
                    "statements of a group are separated by `;` or stand on lines of their own",
                ));
            }
            self.take_trailing(CommentPlaceSyntax::Trailing(stmt));
        }
        self.end_block_comments(first, id);
        self.brackets = brackets;
        if !self.is(LineTok::RBrace) {
            let error = SyntaxError::new(Code::Unclosed, open, "this `{` is never closed");
            return Err(self.report(error.with_note("add `}`")));
        }
        self.next();
        block.span = open.join(self.last_span());
        self.file.blocks[id.index()] = block;
        self.leave();
        Ok(id)
    }

    fn take_group_comments(&mut self) {
        while let Some(comment) = self.comment_above() {
            self.take_comment(comment, CommentPlaceSyntax::Above(StmtId(u32::MAX)));
        }
    }

    fn parse_define(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.next();
        let stmt = self.add_stmt(token.span, StmtForm::Error);
        let block = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        self.file.stmts[stmt.index()].form = StmtForm::Define(block);
        Ok(stmt)
    }

    /// Whether `stream e` is followed by a colon on its line.
    fn is_stream_block(&self) -> bool {
        let mut open = 0i32;
        for ahead in 1.. {
            let token = self.peek_at(ahead);
            match token.tok {
                LineTok::End => return false,
                _ if token.starts_line() && open == 0 => return false,
                LineTok::LParen | LineTok::LBracket | LineTok::LBrace => open += 1,
                LineTok::RParen | LineTok::RBracket | LineTok::RBrace => open -= 1,
                LineTok::Equals if open == 0 => return false,
                LineTok::Colon if open == 0 => return ahead > 1,
                _ => {}
            }
        }
        false
    }

    fn parse_stream_block(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.next();
        let stream = self.parse_expr()?;
        let stmt = self.add_stmt(token.span.join(self.last_span()), StmtForm::Stream(stream, None));
        let block = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        self.file.stmts[stmt.index()].form = StmtForm::Stream(stream, Some(block));
        Ok(stmt)
    }

    fn parse_if(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.next();
        let mut predicate = None;
        if self.is(LineTok::LBracket) {
            let open = self.next().span;
            predicate = Some(self.name("a kind of predicate")?);
            self.close(LineTok::RBracket, "]", open)?;
        }
        let condition = if self.is(LineTok::Colon) { None } else { Some(self.parse_expr()?) };
        if self.is(LineTok::Equals) {
            let span = self.peek().span;
            let error = SyntaxError::new(Code::Foreign, span, "`=` compares nothing");
            return Err(self.report(error.with_note("write `==`")));
        }
        let stmt = self.add_stmt(token.span.join(self.last_span()), StmtForm::Error);
        let then = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        let otherwise = self.parse_else(column)?;
        self.file.stmts[stmt.index()].form = StmtForm::If { predicate, condition, then, otherwise };
        Ok(stmt)
    }

    fn parse_else(&mut self, column: u32) -> Parsed<Option<BlockId>> {
        let token = self.peek();
        let word = self.word(token);
        if token.column != column || !matches!(word, "else" | "elif") {
            return Ok(None);
        }
        if word == "elif" {
            let error = SyntaxError::new(Code::Foreign, token.span, "there is no `elif`");
            return Err(self.report(error.with_note("write `else:`, and an `if` in its block")));
        }
        self.take_comments_before_else(column);
        self.next();
        let placeholder = CommentPlaceSyntax::StartOf(BlockId(u32::MAX));
        let start = self.file.comments.len();
        let block = self.parse_suite(column, placeholder)?;
        for comment in &mut self.file.comments[start..] {
            if comment.place == placeholder {
                comment.place = CommentPlaceSyntax::StartOf(block);
            }
        }
        Ok(Some(block))
    }

    /// Comments on lines of their own above `else:` end the block before it.
    fn take_comments_before_else(&mut self, _column: u32) {
        let last = BlockId(self.file.blocks.len() as u32 - 1);
        while let Some(comment) = self.comment_above() {
            self.take_comment(comment, CommentPlaceSyntax::EndOf(last));
        }
    }

    fn parse_for(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.next();
        let index = self.name("the name of the loop's index")?;
        if !self.skip_word("in") {
            return Err(self.unexpected("`in`", "write `for i in 4:`, or `for i in 1..4:`"));
        }
        let domain = self.parse_domain()?;
        let has_range = domain == LoopDomain::Bounds || self.skip(LineTok::Comma);
        let (mut start, mut stop, mut step) = (None, None, None);
        if has_range {
            let first = self.parse_expr()?;
            if self.skip(LineTok::DotDot) {
                start = Some(first);
                stop = Some(self.parse_expr()?);
            } else {
                stop = Some(first);
            }
            if self.skip_word("step") {
                step = Some(self.parse_expr()?);
            }
            self.check_python_range(first, domain)?;
        }
        let mut on_streams = false;
        if self.skip_word("on") {
            if !self.skip_word("streams") {
                return Err(self.unexpected("`streams`", "write `for i in 4 on streams:`"));
            }
            on_streams = true;
        }
        let span = token.span.join(self.last_span());
        let stmt = self.add_stmt(span, StmtForm::Error);
        let body = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        self.file.stmts[stmt.index()].form = StmtForm::For { index, domain, start, stop, step, on_streams, body };
        Ok(stmt)
    }

    fn check_python_range(&mut self, first: ExprId, domain: LoopDomain) -> Parsed<()> {
        let ExprNode::Call(name, args) = *self.file.expr(first) else { return Ok(()) };
        if domain != LoopDomain::Bounds || self.symbol_text(name.name) != "range" {
            return Ok(());
        }
        let parts = self.file.args[args.indices()].iter().map(|arg| self.text[arg.span.as_usize_range()].to_owned());
        let note = match parts.collect::<Vec<_>>().as_slice() {
            [stop] => format!("write `in {stop}:`"),
            [start, stop] => format!("write `in {start}..{stop}:`"),
            [start, stop, step] => format!("write `in {start}..{stop} step {step}:`"),
            _ => "write `in 4:`, or `in 1..4:`".to_owned(),
        };
        let span = self.file.expr_span(first);
        let error = SyntaxError::new(Code::Foreign, span, "`range` is not needed");
        Err(self.report(error.with_note(note)))
    }

    /// `G.0`, `[st:4]`, or bounds alone.
    fn parse_domain(&mut self) -> Parsed<LoopDomain> {
        let token = self.peek();
        if let (LineTok::Name(_), Some((tensor, axis))) = (token.tok, self.word(token).rsplit_once('.')) {
            let (length, axis) = (tensor.len(), axis.parse().ok());
            if let Some(axis) = axis {
                self.next();
                let start = token.span.start as usize;
                let span = Span::new(start, start + length);
                let name = self.file.strings.intern(&self.text[start..start + length]);
                return Ok(LoopDomain::TensorAxis(NameSyntax { name, span }, axis));
            }
        }
        if token.tok == LineTok::LBracket {
            let open = self.next().span;
            self.brackets += 1;
            let axis = self.parse_axis()?;
            self.close(LineTok::RBracket, "]", open)?;
            self.brackets -= 1;
            self.file.axes.push(axis);
            return Ok(LoopDomain::Axis(self.file.axes.len() as u32 - 1));
        }
        Ok(LoopDomain::Bounds)
    }
}

/// Statements of other languages and of the printed form, with the spelling here.
fn foreign_statement(word: &str) -> Option<(String, &'static str)> {
    let note = match word {
        "FOR" => "write `for i in 4:`",
        "IF" => "write `if c:`",
        "ELSE" => "write `else:`",
        "while" => "loops have a fixed number of steps: `for i in 4:`",
        "return" => "outputs stand in the header, behind `->`",
        "import" | "from" => "a file holds all that a program needs",
        "def" => "kernels and programs stand in column 1: `kernel f(..) -> (..):`",
        "pass" => "leave the statement out",
        "elif" => "write `else:`, and an `if` in its block",
        "else" => "an `else:` stands in the column of its `if`, directly behind the block of that",
        "SetCurrentStream" => "write `stream e`, or `stream e:` with a block",
        "GetCurrentStream" => "write `stream 0 = current`",
        "Synchronize" => "write `sync e`",
        "Wait" => "write `wait h`, or `wait allgather(A -> G)`",
        "Deallocate" => "write `free T`",
        "Communication" => "write `allgather(A -> G)`, `allreduce(A -> B)` and so on",
        "P2PCommunication" => "write `send(A, to=p)` or `recv(B, from=p)`",
        "StartCoalescing" | "EndCoalescing" => "write `h = { send(..); recv(..) }`",
        "PostOnStream" => "write `C = f(A, B)` with the name of the kernel",
        _ => return None,
    };
    Some((format!("`{word}` begins no statement of `hir 2`"), note))
}
