//! Statements without blocks of their own, and groups of them.

use super::ast::{BlockId, BlockSyntax, ExprId, ExprNode, NameSyntax, NodeRange, StmtForm, StmtId, TargetSyntax};
use super::habits::{STATEMENT_NOTE, foreign_statement_note};
use super::known::KnownWord;
use super::parser::{Failed, Parsed, Parser, StatementState};
use super::token::{LineTok, LineToken};
use crate::ast::CommentPlaceSyntax;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use crate::spelling::shorten_text;

const ASSERT_NOTE: &str = "write a condition and what it means: `assert m % p == 0, \"rows divide\"`";

/// Lines in which the start of a loop's index is looked for.
const MOST_LINES_ABOVE: usize = 20;

/// The value that a line gives a name: `2 * far` of `far = 2 * far`.
fn assigned_value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.trim().strip_prefix(name)?.trim_start().strip_prefix('=').map(str::trim)
}

/// Returns true for the double of a name: `2 * far`, `far * 2`, `far + far`, `far << 1`.
fn is_doubled(name: &str, value: &str) -> bool {
    let value: String = value.chars().filter(|c| *c != ' ').collect();
    [format!("2*{name}"), format!("{name}*2"), format!("{name}+{name}"), format!("{name}<<1")].contains(&value)
}

/// Returns true for the number after a name: `i + 1`.
fn is_next_number(name: &str, value: &str) -> bool {
    let value: String = value.chars().filter(|c| *c != ' ').collect();
    [format!("{name}+1"), format!("1+{name}")].contains(&value)
}

impl Parser<'_> {
    /// Ends the line of a simple statement: anything else on it is an error.
    pub(super) fn end_simple(&mut self) {
        if self.here() != LineTok::LineEnd && self.peek().tok != LineTok::End {
            self.report_rest();
            self.skip_line();
        }
    }

    /// A statement in a group or on a header's line.
    pub(super) fn parse_simple(&mut self, in_group: bool) -> StmtId {
        let token = self.peek();
        let outer = self.stmt;
        self.stmt = StatementState { start: token.span.start, brackets: 0, in_group, ..outer };
        let depth = self.depth;
        let form = self.parse_form(token).unwrap_or_else(|Failed| {
            self.abandon_lists();
            self.depth = depth;
            self.skip_in_line(token);
            StmtForm::Error
        });
        let stmt = self.add_stmt(self.span_from(token.span.start), form);
        self.stmt = StatementState { resume: self.stmt.resume, ..outer };
        stmt
    }

    /// Skips the rest of a statement in a group or on a header's line.
    fn skip_in_line(&mut self, first: LineToken) {
        self.stmt.brackets = 0;
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
    }

    pub(super) fn parse_form(&mut self, token: LineToken) -> Parsed<StmtForm> {
        let follows = self.lookahead();
        let is_named = matches!(follows, LineTok::Equals | LineTok::Colon | LineTok::LBracket | LineTok::Comma);
        let is_alone = !is_named && follows != LineTok::LParen;
        match self.word_here() {
            Some(word @ (KnownWord::Wait | KnownWord::Sync | KnownWord::Stream | KnownWord::Assert))
                if follows == LineTok::LineEnd =>
            {
                Err(self.report_lone_word(word))
            }
            Some(KnownWord::Wait) if !is_named => {
                self.next();
                self.parse_wait()
            }
            Some(KnownWord::Sync) if !is_named => {
                self.next();
                Ok(StmtForm::Sync(self.parse_expr()?))
            }
            Some(KnownWord::Stream) if !is_named => self.parse_stream(),
            Some(KnownWord::Free) if is_alone => self.parse_free(),
            Some(KnownWord::Alias) if is_alone => self.parse_alias(),
            Some(KnownWord::Assert) if !is_named => self.parse_assert(),
            Some(KnownWord::Print) if is_alone && follows != LineTok::LineEnd => self.parse_print(),
            Some(KnownWord::Share) if follows == LineTok::LBrace => {
                self.next();
                Ok(StmtForm::Share(self.parse_group()?))
            }
            Some(KnownWord::Launch) if follows == LineTok::Quoted => self.parse_launch(),
            Some(KnownWord::For | KnownWord::If) if is_alone || follows == LineTok::LParen => {
                Err(self.report_inner_block(token))
            }
            _ if token.tok == LineTok::LBrace && self.is_group() => Ok(StmtForm::Call(self.parse_value()?)),
            _ if matches!(follows, LineTok::Equals | LineTok::Comma | LineTok::LBracket) => self.parse_assignment(),
            Some(KnownWord::Print) => Err(self.report_print_call(token)),
            _ => match foreign_statement_note(&self.text[token.span.as_usize_range()]) {
                Some(note) => {
                    let message = format!("`{}` begins no statement of `hir 2`", self.quote(token.span));
                    let counted = self.counted_while_note();
                    let note = counted.as_deref().unwrap_or(note);
                    let error = SyntaxError::new(Code::Foreign, token.span, message).with_note(note);
                    Err(self.report(match self.statement_edit(token) {
                        Some(edit) => error.with_edit(edit),
                        None => error,
                    }))
                }
                None => self.parse_assignment(),
            },
        }
    }

    /// The loop here for `while i < p:`, which is next.
    #[cold]
    fn counted_while_note(&self) -> Option<String> {
        let condition = self.rest_of_line().strip_prefix("while")?.trim().trim_end_matches([':', '{']).trim();
        let condition = condition.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(condition);
        let (index, end) = condition.split_once('<')?;
        let (index, end) = (index.trim(), end.trim());
        let is_name = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_range = is_name && !end.is_empty() && !end.contains(['<', '>', '=', '&', '|', '!']);
        if !is_range {
            return None;
        }
        let steps = "loops have a fixed number of steps";
        let start = self.value_above(index).unwrap_or("0");
        Some(match self.next_value_in_block(index) {
            Some(next) if is_doubled(index, next) && start == "1" => format!(
                "{steps}: write `for s in {end}:` with `{index} = 1 << s` as its first line, and leave out `{index} = {next}`"
            ),
            Some(next) if !is_next_number(index, next) => {
                format!("{steps}: write `for s in N:` with the number of steps, and compute `{index}` of `s` in it")
            }
            _ if start == "0" => format!("{steps}: write `for {index} in {end}:`, which counts `{index}` itself"),
            _ => format!("{steps}: write `for {index} in {start}..{end}:`, which counts `{index}` itself"),
        })
    }

    /// The value that a name last gets not far above the statement that is next.
    #[cold]
    fn value_above(&self, name: &str) -> Option<&str> {
        let before = self.text.get(..self.stmt.start as usize)?;
        before.lines().rev().take(MOST_LINES_ABOVE).find_map(|line| assigned_value(line, name))
    }

    /// The value that a name gets in the block of the statement that is next: `2 * far` of `far = 2 * far`.
    #[cold]
    fn next_value_in_block(&self, name: &str) -> Option<&str> {
        let start = self.stmt.start as usize;
        let before = self.text.get(..start)?;
        let column = start - before.rfind('\n').map_or(0, |end| end + 1);
        let inner = self.text.get(start..)?.lines().skip(1).take_while(|line| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            line.trim().is_empty() || indent > column
        });
        inner.filter_map(|line| assigned_value(line, name)).last()
    }

    /// The edit for a statement of another language that is left out, or begins with another word here.
    #[cold]
    fn statement_edit(&self, token: LineToken) -> Option<SyntaxEdit> {
        let meant = match &self.text[token.span.as_usize_range()] {
            "return" | "yield" | "pass" => None,
            "await" => Some("wait"),
            "del" => Some("free"),
            _ => return None,
        };
        let end = token.span.start + self.rest_of_line().len() as u32;
        Some(match meant {
            Some(word) => SyntaxEdit { span: token.span, text: word.to_owned() },
            None => SyntaxEdit { span: Span { start: token.span.start, end }, text: String::new() },
        })
    }

    /// `wait`, `sync`, `stream` or `assert` without anything after it.
    fn report_lone_word(&mut self, word: KnownWord) -> Failed {
        self.next();
        match word {
            KnownWord::Wait => {
                self.report_unexpected("a post or handle", "write `wait h`, or `wait allgather(A -> G)`")
            }
            KnownWord::Sync => self.report_unexpected("a stream", "write `sync main`, or `sync 0`"),
            KnownWord::Assert => self.report_unexpected("a condition", ASSERT_NOTE),
            _ => self.report_unexpected("a stream", "write `stream main`, or `stream 0 = current`"),
        }
    }

    /// True if the last error says the same about this group.
    fn is_said_in_group(&self, message: &str, span: Span) -> bool {
        self.errors.items.last().is_some_and(|last| {
            let between = self.text.get(last.span.end as usize..span.start as usize);
            last.message == message && between.is_some_and(|between| !between.contains('}'))
        })
    }

    /// A `for` or `if` in a group or on a header's line.
    fn report_inner_block(&mut self, token: LineToken) -> Failed {
        let word = self.quote(token.span);
        let (message, note) = match (self.stmt.in_group, word.as_str()) {
            (true, "if") => (
                "a group has no `if` in it".to_owned(),
                "write the `if` around a group: `if rank > 0: h = { send(..); recv(..) }`, with a group for each \
                 condition; the groups of one communicator run in the order in which a rank starts them"
                    .to_owned(),
            ),
            (true, _) => (format!("a group has no `{word}` in it"), format!("write the `{word}` around the group")),
            (false, _) => {
                (format!("`{word}` stands on a line of its own"), "write it on the next line, indented".to_owned())
            }
        };
        if self.stmt.in_group && self.is_said_in_group(&message, token.span) {
            return Failed;
        }
        self.report_noted(Code::Unexpected, token.span, message, note)
    }

    fn parse_wait(&mut self) -> Parsed<StmtForm> {
        let value = self.parse_value()?;
        if self.here() == LineTok::Comma {
            let (first, second) = (self.quote_expr(value), self.quote(self.stream.window[1].span));
            let note = format!("write `wait {first}` and `wait {second}` on lines of their own");
            return Err(self.report_noted(Code::Unexpected, self.peek().span, "`wait` waits for one post", note));
        }
        Ok(StmtForm::Wait(value))
    }

    fn parse_free(&mut self) -> Parsed<StmtForm> {
        self.next();
        let first = self.scratch.exprs.len();
        loop {
            let tensor = self.parse_expr()?;
            self.scratch.exprs.push(tensor);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        Ok(StmtForm::Free(self.finish_list(first)))
    }

    fn parse_stream(&mut self) -> Parsed<StmtForm> {
        self.next();
        let stream = self.parse_expr()?;
        if self.skip(LineTok::Equals) {
            if !self.skip_word(KnownWord::Current) {
                let name = self.quote_expr(stream);
                let note = format!("`stream {name} = current` gives the current stream this name");
                return Err(self.report_unexpected("`current`", note));
            }
            return Ok(StmtForm::BindStream(stream));
        }
        Ok(StmtForm::Stream(stream, None))
    }

    fn parse_alias(&mut self) -> Parsed<StmtForm> {
        self.next();
        let new = self.parse_name("the name of a tensor")?;
        self.expect_tok(LineTok::Arrow, "`->`", "write `alias B -> A`: B is another name of A")?;
        let original = self.parse_name("the name of a tensor")?;
        Ok(StmtForm::Alias(new, original))
    }

    fn parse_assert(&mut self) -> Parsed<StmtForm> {
        let word = self.next().span;
        self.check_minor_version(word, "`assert`");
        let condition = self.parse_expr()?;
        if self.here() == LineTok::Quoted {
            let span = self.peek().span;
            let message = "a `,` is between a condition and its text";
            return Err(self.report_noted(Code::Unexpected, span, message, ASSERT_NOTE));
        }
        let text = if self.skip(LineTok::Comma) { Some(self.parse_text(ASSERT_NOTE)?.0) } else { None };
        Ok(StmtForm::Assert { condition, text })
    }

    /// Reports `print(A, B)`, and `print` alone.
    #[cold]
    fn report_print_call(&mut self, token: LineToken) -> Failed {
        let rest = self.rest_of_line();
        let values = rest.strip_prefix("print(").and_then(|rest| rest.strip_suffix(')'));
        let Some(values) = values.filter(|values| !values.is_empty() && !values.contains(['(', '=', '"'])) else {
            let message = format!("`{}` begins no statement of `hir 2`", self.quote(token.span));
            let note = foreign_statement_note("print").unwrap_or_default();
            return self.report_foreign(token.span, message, note);
        };
        let span = Span { start: token.span.start, end: token.span.start + rest.len() as u32 };
        let edit = SyntaxEdit { span, text: format!("print {values}") };
        let error = SyntaxError::new(Code::Foreign, span, "`print` is a statement, whose values have no brackets");
        self.report(error.with_note(format!("write `print {}`", shorten_text(values))).with_edit(edit))
    }

    fn parse_print(&mut self) -> Parsed<StmtForm> {
        let word = self.next().span;
        self.check_minor_version(word, "`print`");
        let first = self.scratch.exprs.len();
        loop {
            let value = self.parse_expr()?;
            self.scratch.exprs.push(value);
            if !self.skip(LineTok::Comma) {
                return Ok(StmtForm::Print(self.finish_list(first)));
            }
        }
    }

    // Assignments.

    /// A declaration, an assignment, a call or verbatim text.
    fn parse_assignment(&mut self) -> Parsed<StmtForm> {
        if let LineTok::Verbatim(text) = self.here()
            && matches!(self.lookahead(), LineTok::LineEnd | LineTok::End | LineTok::Semicolon | LineTok::RBrace)
        {
            self.next();
            return Ok(StmtForm::Verbatim(text));
        }
        let first = self.parse_target()?;
        let ends = matches!(self.here(), LineTok::LineEnd | LineTok::End | LineTok::Semicolon | LineTok::RBrace);
        let is_call = matches!(self.file.expr(first.value), ExprNode::Call(..));
        if ends || is_call && matches!(self.here(), LineTok::Comma | LineTok::Name(_)) {
            return self.finish_alone(first);
        }
        let targets = self.parse_targets(first)?;
        if !self.skip(LineTok::Equals) {
            return Err(self.report_no_assignment(first));
        }
        let value = self.parse_value()?;
        Ok(StmtForm::Assign { targets, value })
    }

    fn parse_targets(&mut self, first: TargetSyntax) -> Parsed<NodeRange> {
        let start = self.file.targets.len() as u32;
        self.file.targets.push(first);
        while self.skip(LineTok::Comma) {
            let target = self.parse_target()?;
            self.file.targets.push(target);
        }
        Ok(NodeRange { start, end: self.file.targets.len() as u32 })
    }

    pub(super) fn parse_target(&mut self) -> Parsed<TargetSyntax> {
        if !matches!(self.here(), LineTok::Name(_) | LineTok::Verbatim(_)) {
            return Err(self.report_no_statement());
        }
        let value = self.parse_expr()?;
        let ty = if self.skip(LineTok::Colon) { Some(self.parse_declared_type(value)?) } else { None };
        Ok(TargetSyntax { value, ty })
    }

    fn report_no_statement(&mut self) -> Failed {
        let token = self.peek();
        if self.here() == LineTok::LineEnd {
            return self.report_unexpected("a statement", STATEMENT_NOTE);
        }
        if matches!(token.tok, LineTok::Error | LineTok::Quoted) {
            return self.report_unexpected("a statement", STATEMENT_NOTE);
        }
        if let Some(failed) = self.report_sigil() {
            return failed;
        }
        let message = format!("expected a statement, found `{}`", self.quote(token.span));
        self.report_noted(Code::Unexpected, token.span, message, STATEMENT_NOTE)
    }

    /// A call, or a declaration alone.
    fn finish_alone(&mut self, target: TargetSyntax) -> Parsed<StmtForm> {
        let span = self.file.expr_span(target.value);
        match (*self.file.expr(target.value), target.ty) {
            (ExprNode::Name(name), Some(ty)) => Ok(StmtForm::Declare(NameSyntax { name, span }, ty)),
            (ExprNode::Call(..), None) => Ok(StmtForm::Call(target.value)),
            (node, _) => Err(self.report_lone_expression(node, span)),
        }
    }

    /// The right side of an assignment, or the operand of `wait`.
    fn parse_value(&mut self) -> Parsed<ExprId> {
        if self.here() != LineTok::LBrace || !self.is_group() {
            return self.parse_expr();
        }
        let start = self.peek().span;
        let block = self.parse_group()?;
        Ok(self.add_expr(ExprNode::Group(block), start.join(self.last_span())))
    }

    // Groups.

    /// Returns true if a brace opens a group: communications and assignments follow, no list of numbers.
    fn is_group(&self) -> bool {
        match self.stream.window[1].tok {
            LineTok::RBrace | LineTok::Verbatim(_) => true,
            LineTok::Name(_) => matches!(
                self.stream.window[2].tok,
                LineTok::LParen | LineTok::Equals | LineTok::Colon | LineTok::LBracket | LineTok::Name(_)
            ),
            _ => false,
        }
    }

    /// `{ a; b }`, also with a statement a line.
    fn parse_group(&mut self) -> Parsed<BlockId> {
        self.enter()?;
        let open = self.next().span;
        let id = self.add_block(BlockSyntax { stmts: Vec::new(), span: open });
        self.take_trailing(CommentPlaceSyntax::StartOf(id));
        let mut stmts = Vec::new();
        let closed = self.read_group(open, id, &mut stmts);
        self.leave();
        self.file.blocks[id.index()] = BlockSyntax { stmts, span: self.span_from(open.start) };
        closed.map(|()| id)
    }

    /// The statements of a group and its closing brace.
    fn read_group(&mut self, open: Span, id: BlockId, stmts: &mut Vec<StmtId>) -> Parsed<()> {
        let mut column = None;
        loop {
            let first = self.file.comments.len();
            while let Some(comment) = self.comment_above() {
                self.place_comment(comment, CommentPlaceSyntax::EndOf(id));
            }
            let token = self.peek();
            if token.tok == LineTok::RBrace {
                self.next();
                return Ok(());
            }
            if token.starts_line() && column.is_none() {
                column = Some(token.column);
            }
            let is_outside = token.column <= self.stmt.column && column.is_some_and(|column| token.column < column);
            if token.tok == LineTok::End || token.starts_line() && is_outside {
                return Err(self.report_open_group(open));
            }
            let waiting = first..self.file.comments.len();
            let stmt = self.parse_simple(true);
            self.place_waiting_comments(waiting, stmt);
            stmts.push(stmt);
            if column.is_none() && self.has_division_from(token.span.start) {
                // The group's brace is in the comment.
                return Err(Failed);
            }
            self.end_group_statement(stmt);
            self.take_trailing(CommentPlaceSyntax::Trailing(stmt));
        }
    }

    fn report_open_group(&mut self, open: Span) -> Failed {
        let error = SyntaxError::new(Code::Unclosed, open, "this `{` is never closed").with_label("opened here");
        self.report(error.with_note("add `}` after the last statement of the group"))
    }

    /// Skips the sign between two statements of a group.
    fn end_group_statement(&mut self, stmt: StmtId) {
        let token = self.peek();
        match token.tok {
            LineTok::Semicolon => {
                self.next();
            }
            LineTok::RBrace | LineTok::End => {}
            _ if token.starts_line() => {}
            LineTok::Comma => {
                let note = "write `{ send(A, to=1); recv(B, from=3) }`, or each statement on a line of its own";
                let error =
                    SyntaxError::new(Code::Unexpected, token.span, "statements of a group are separated by `;`");
                self.report(error.with_note(note).with_edit(SyntaxEdit { span: token.span, text: ";".to_owned() }));
                self.next();
            }
            _ => {
                if self.file.stmts[stmt.index()].form != StmtForm::Error {
                    let note = "statements of a group are separated by `;` or stand on lines of their own";
                    self.report_unexpected("`;` or `}`", note);
                }
                self.skip_in_line(token);
                if self.peek().tok == LineTok::Semicolon {
                    self.next();
                }
            }
        }
    }
}
