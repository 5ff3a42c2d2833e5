//! Statements with blocks: loops, branches, index definitions.

use super::ast::{BlockId, BlockSyntax, ExprId, ExprNode, LoopDomain, NameSyntax, StatementNode, StmtForm, StmtId};
use super::element_types::is_element_type;
use super::elif_chain::flat_chain;
use super::known::KnownWord;
use super::parser::{Failed, Parsed, Parser};
use super::token::LineTok;
use crate::ast::CommentPlaceSyntax;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::parse::MAX_BLOCKS;
use crate::span::Span;

/// The range of a loop.
#[derive(Clone, Copy, Default)]
struct LoopBounds {
    start: Option<ExprId>,
    stop: Option<ExprId>,
    step: Option<ExprId>,
}

impl Parser<'_> {
    pub(super) fn add_stmt(&mut self, span: Span, form: StmtForm) -> StmtId {
        self.file.stmts.push(StatementNode { span, form });
        StmtId(self.file.stmts.len() as u32 - 1)
    }

    pub(super) fn parse_define(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.next();
        let stmt = self.add_stmt(token.span, StmtForm::Error);
        let block = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        self.file.stmts[stmt.index()].form = StmtForm::Define(block);
        Ok(stmt)
    }

    // Branches.

    pub(super) fn parse_if(&mut self, column: u32) -> Parsed<StmtId> {
        let is_printed = self.word_here() == Some(KnownWord::CapitalIf);
        if is_printed {
            self.report_capital_if();
        }
        let token = self.next();
        let word = &self.text[self.peek().span.as_usize_range()];
        if is_printed && word == "Manual" && self.lookahead() == LineTok::LParen {
            // Reported with the `IF` in front of it.
            self.next();
        }
        let mut predicate = None;
        if self.here() == LineTok::LBracket {
            let open = self.open_bracket()?;
            predicate = Some(self.parse_name("a kind of predicate")?);
            self.close(LineTok::RBracket, open)?;
        }
        let condition = if self.here() == LineTok::Colon { None } else { Some(self.parse_expr()?) };
        if self.here() == LineTok::Equals {
            return Err(self.report_comparison());
        }
        let stmt = self.add_stmt(self.span_from(token.span.start), StmtForm::Error);
        let then = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        let otherwise = self.parse_else(column, then)?;
        self.file.stmts[stmt.index()].form = StmtForm::If { predicate, condition, then, otherwise };
        Ok(stmt)
    }

    fn parse_else(&mut self, column: u32, then: BlockId) -> Parsed<Option<BlockId>> {
        let token = self.peek();
        let LineTok::Name(symbol) = token.tok else { return Ok(None) };
        let word = super::known::known_word(symbol);
        let is_else = matches!(word, Some(KnownWord::Else | KnownWord::Elif | KnownWord::CapitalElse));
        if token.column != column || !is_else {
            return Ok(None);
        }
        self.take_comments_before_else(then);
        self.begin_statement(column);
        if word == Some(KnownWord::Elif) {
            return self.parse_elif(column).map(Some);
        }
        if word == Some(KnownWord::CapitalElse) {
            self.report_foreign(token.span, "`ELSE` is a word of the printed form", "write `else:`");
        }
        self.next();
        if self.word_here() == Some(KnownWord::If) {
            return self.parse_elif(column).map(Some);
        }
        let placeholder = CommentPlaceSyntax::StartOf(BlockId(u32::MAX));
        let start = self.file.comments.len();
        let block = self.parse_suite(column, placeholder);
        let place = CommentPlaceSyntax::StartOf(block.unwrap_or(then));
        for comment in &mut self.file.comments[start..] {
            if comment.place == placeholder {
                comment.place = place;
            }
        }
        block.map(Some)
    }

    /// `elif c:` and `else if c:` are errors, and read as an `if` in the `else`.
    fn parse_elif(&mut self, column: u32) -> Parsed<BlockId> {
        let start = self.stmt.start;
        let rest = self.text[self.peek().span.end as usize..].lines().next().unwrap_or_default();
        let condition = rest.split("//").next().unwrap_or_default().trim().to_owned();
        let word = self.quote(self.span_from(start).join(self.peek().span));
        let span = Span { start, end: self.peek().span.end };
        let note = match condition.is_empty() {
            true => "write `else:`".to_owned(),
            false => format!("write `else:`, and in its block `if {}`", crate::spelling::shorten_text(&condition)),
        };
        let error = SyntaxError::new(Code::Foreign, span, format!("there is no `{word}`"));
        self.report(match flat_chain(self.text, start as usize) {
            Some(chain) => {
                let note = match &chain.last {
                    Some(last) => format!("write `{}`, and `{last}` for the `else:`", chain.header),
                    None => format!("write `{}`", chain.header),
                };
                let edit = SyntaxEdit { span: Span::new(start as usize, chain.end), text: chain.text };
                error.with_note(note).with_edit(edit)
            }
            None => error.with_note(note),
        });
        if self.block_depth == MAX_BLOCKS {
            return Err(self.report_depth());
        }
        self.block_depth += 1;
        let stmt = self.parse_if(column);
        self.block_depth -= 1;
        let stmt = stmt?;
        let span = self.file.stmts[stmt.index()].span;
        Ok(self.add_block(BlockSyntax { stmts: vec![stmt], span }))
    }

    /// Comments on lines of their own above `else:` end the block before it.
    fn take_comments_before_else(&mut self, then: BlockId) {
        while let Some(comment) = self.comment_above() {
            self.place_comment(comment, CommentPlaceSyntax::EndOf(then));
        }
    }

    // Loops.

    /// The loop here for `(int i = 0; i < n; i++)`, which is next.
    #[cold]
    fn counted_loop_note(&self) -> Option<String> {
        let head = self.rest_of_line().strip_prefix('(')?.split(')').next()?;
        Some(format!("write `{}:`", counted_loop(head)?))
    }

    pub(super) fn parse_for(&mut self, column: u32) -> Parsed<StmtId> {
        let token = self.peek();
        if self.word_here() == Some(KnownWord::CapitalFor) {
            self.report_capital_for();
        }
        self.next();
        if self.word_here() == Some(KnownWord::In) || self.here() == LineTok::LParen {
            let note = self.counted_loop_note().unwrap_or_else(|| "write `for i in 4:`".to_owned());
            return Err(self.report_unexpected("the name of the loop's index", note));
        }
        let index = self.parse_name("the name of the loop's index")?;
        let (domain, bounds) = match self.word_here() {
            Some(KnownWord::In) => {
                self.next();
                self.parse_loop_range(index)?
            }
            Some(KnownWord::From) => (LoopDomain::Bounds, self.parse_printed_range(index)?),
            _ => return Err(self.report_missing_in(index)),
        };
        let mut on_streams = false;
        if self.skip_word(KnownWord::On) {
            if !self.skip_word(KnownWord::Streams) {
                let header = self.quote(self.span_from(token.span.start));
                let number = matches!(self.here(), LineTok::Int(_)).then(|| self.quote(self.peek().span));
                let note = match (number, self.word_here()) {
                    (Some(number), _) => format!(
                        "write `{header} streams:`; their number is in a line above the programs, `streams {number}`, or \
                         `--streams {number}`"
                    ),
                    (None, Some(KnownWord::Stream)) => format!(
                        "write `{header} streams:`; one stream for a block is `stream 1:`, a line of its own with the \
                         block below it"
                    ),
                    _ => format!("write `{header} streams:`"),
                };
                return Err(self.report_unexpected("`streams`", note));
            }
            on_streams = true;
        }
        let stmt = self.add_stmt(self.span_from(token.span.start), StmtForm::Error);
        let body = self.parse_suite(column, CommentPlaceSyntax::Trailing(stmt))?;
        let LoopBounds { start, stop, step } = bounds;
        self.file.stmts[stmt.index()].form = StmtForm::For { index, domain, start, stop, step, on_streams, body };
        Ok(stmt)
    }

    fn report_missing_in(&mut self, index: NameSyntax) -> Failed {
        let index = self.quote(index.span);
        let start = self.peek().span.start as usize;
        let rest = self.text[start..].lines().next().unwrap_or_default();
        let rest = rest.split("//").next().unwrap_or_default();
        let range = rest.trim_start_matches(['=', ' ']).trim_end().trim_end_matches(':');
        let note = match range.is_empty() || range.starts_with(',') {
            true => format!("write `for {index} in 4:`, or `for {index} in 1..4:`"),
            false => {
                let range = range.replacen(" to ", "..", 1);
                format!("write `for {index} in {}:`", crate::spelling::shorten_text(&range))
            }
        };
        self.report_unexpected("`in`", note)
    }

    fn parse_loop_range(&mut self, index: NameSyntax) -> Parsed<(LoopDomain, LoopBounds)> {
        if let Some(items) = self.listed_items() {
            return Err(self.report_list_loop(index, &items));
        }
        let domain = self.parse_domain()?;
        let mut bounds = LoopBounds::default();
        if domain != LoopDomain::Bounds && !self.skip(LineTok::Comma) {
            return Ok((domain, bounds));
        }
        let first = self.parse_expr()?;
        if let Some(range) = self.read_range_call(index, first, domain) {
            return Ok((domain, range));
        }
        if self.skip(LineTok::DotDot) {
            let dots = self.last_span().join(self.peek().span);
            let has_three = self.skip(LineTok::Dot);
            let end = self.parse_expr()?;
            if has_three {
                let note = format!("write `{}..{}`", self.quote_expr(first), self.quote_expr(end));
                let error = SyntaxError::new(Code::Foreign, dots, "a range has two dots").with_note(note);
                self.report(error.with_edit(SyntaxEdit { span: dots, text: "..".to_owned() }));
            }
            (bounds.start, bounds.stop) = (Some(first), Some(end));
        } else if self.is_colon_range() {
            bounds = self.parse_colon_range(first)?;
        } else {
            bounds.stop = Some(first);
        }
        if self.skip_word(KnownWord::Step) {
            bounds.step = Some(self.parse_expr()?);
        }
        Ok((domain, bounds))
    }

    /// True if a colon is part of a range, as in `0:p - 1:`, and does not end the header.
    fn is_colon_range(&self) -> bool {
        if self.here() != LineTok::Colon {
            return false;
        }
        let Some((end, after)) = self.rest_of_line().get(1..).and_then(|rest| rest.split_once(':')) else {
            return false;
        };
        let is_end = !end.trim_start().is_empty()
            && !end.contains(['=', '"', '{'])
            && end.matches(['[', '(']).count() == end.matches([']', ')']).count();
        let is_header = matches!(end.split_whitespace().next(), Some("for" | "if" | "stream" | "else"));
        // `for i in p: X: f32[m] = alloc` declares a tensor.
        is_end && !is_header && !after.trim_start().split('[').next().is_some_and(is_element_type)
    }

    /// `0:p:2` of NumPy, whose first colon is next: an error, and read as `0..p step 2`.
    fn parse_colon_range(&mut self, first: ExprId) -> Parsed<LoopBounds> {
        let span = self.next().span;
        let end = self.parse_expr()?;
        let step = match self.is_colon_range() {
            true => {
                self.next();
                Some(self.parse_expr()?)
            }
            false => None,
        };
        let by = step.map_or_else(String::new, |step| format!(" step {}", self.quote_expr(step)));
        let meant = format!("{}..{}{by}", self.quote_expr(first), self.quote_expr(end));
        let edit = match step {
            None => SyntaxEdit { span, text: "..".to_owned() },
            Some(_) => SyntaxEdit { span: self.file.expr_span(first).join(self.last_span()), text: meant.clone() },
        };
        let error = SyntaxError::new(Code::Foreign, span, "a range is written with `..`");
        self.report(error.with_note(format!("write `{meant}`")).with_edit(edit));
        Ok(LoopBounds { start: Some(first), stop: Some(end), step })
    }

    /// `range(1, 4)`: an error, and read as `1..4`.
    fn read_range_call(&mut self, index: NameSyntax, first: ExprId, domain: LoopDomain) -> Option<LoopBounds> {
        let ExprNode::Call(name, args) = *self.file.expr(first) else { return None };
        let is_range = super::known::known_word(name.name) == Some(KnownWord::Range);
        if domain != LoopDomain::Bounds || !is_range {
            return None;
        }
        let values: Vec<ExprId> = self.file.args[args.indices()].iter().map(|arg| arg.value).collect();
        let along = values.first().and_then(|value| self.measured_tensor(*value));
        let texts: Vec<String> = values.iter().map(|value| self.bound_text(*value)).collect();
        let range = match (texts.as_slice(), along) {
            ([_], Some(tensor)) => Some(format!("{}.0", self.quote_expr(tensor))),
            ([stop], None) => Some(stop.clone()),
            ([start, stop], _) => Some(format!("{start}..{stop}")),
            ([start, stop, step], _) => Some(format!("{start}..{stop} step {step}")),
            _ => None,
        };
        // Nothing else measures a tensor.
        let range = range.filter(|range| !range.contains("len("));
        let span = self.file.expr_span(first);
        let after = self.text[span.end as usize..].lines().next().unwrap_or_default();
        let streams = if after.trim_start().starts_with("on streams") { " on streams" } else { "" };
        let index = self.quote(index.span);
        let note = match &range {
            Some(range) => format!("write `for {index} in {range}{streams}:`"),
            None => format!(
                "write the number of iterations, `for {index} in 4:`, or a start and an end, `for {index} in 1..4:`; the \
                 extent of an axis has its name, as `m` of `f32[m, 8]`"
            ),
        };
        if let Some(failed) = self.report_downward_range(&texts, span) {
            self.report(failed);
            return Some(LoopBounds { start: None, stop: values.first().copied(), step: None });
        }
        let error = SyntaxError::new(Code::Foreign, span, "`range` is not needed").with_note(note);
        self.report(match range.filter(|range| !range.contains("...")) {
            Some(text) => error.with_edit(SyntaxEdit { span, text }),
            None => error,
        });
        let (start, stop) = match values.as_slice() {
            values if values.iter().any(|value| self.is_length(*value)) => (None, None),
            [stop] => (None, Some(*stop)),
            _ => (values.first().copied(), values.get(1).copied()),
        };
        Some(LoopBounds { start, stop, step: values.get(2).copied() })
    }

    /// The error for `range(l - 1, -1, -1)` after `for j in`: loops count upwards.
    #[cold]
    fn report_downward_range(&self, bounds: &[String], span: Span) -> Option<SyntaxError> {
        let [start, stop, step] = bounds else { return None };
        if step != "-1" {
            return None;
        }
        let count = match (start.strip_suffix(" - 1"), stop.as_str()) {
            (Some(count), "-1") => count.to_owned(),
            (None, "-1") => format!("{start} + 1"),
            (_, "0") => start.clone(),
            _ => format!("{start} - {stop}"),
        };
        let line = self.text[..span.start as usize].rfind('\n').map_or(0, |at| at + 1);
        let head = &self.text[line..span.start as usize];
        let index = head.trim_start().strip_prefix("for ")?.split(' ').next()?;
        let counter = ["i", "s", "t", "u"]
            .into_iter()
            .find(|name| *name != index && !self.text.contains(&format!(" {name} ")))?;
        let value = format!("{index} = {start} - {counter}");
        let note = format!("write `for {counter} in {count}:` with `{value}` as its first line");
        let error = SyntaxError::new(Code::Foreign, span, "loops count upwards").with_note(note);
        let rest = self.text[span.end as usize..].lines().next().unwrap_or_default();
        let below = self.text[span.end as usize..].lines().nth(1).filter(|_| rest.trim_end() == ":");
        Some(match below.map(|line| &line[..line.len() - line.trim_start().len()]) {
            Some(indent) => {
                let begin = line + head.len() - head.trim_start().len() + "for ".len();
                let edit = Span::new(begin, span.end as usize + rest.len());
                error.with_edit(SyntaxEdit { span: edit, text: format!("{counter} in {count}:\n{indent}{value}") })
            }
            None => error,
        })
    }

    /// `G` of `len(G)`.
    fn measured_tensor(&self, value: ExprId) -> Option<ExprId> {
        let ExprNode::Call(name, args) = *self.file.expr(value) else { return None };
        match self.file.args[args.indices()] {
            [arg] if self.symbol_text(name.name) == "len" => {
                matches!(self.file.expr(arg.value), ExprNode::Name(_)).then_some(arg.value)
            }
            _ => None,
        }
    }

    /// True for a call of `len`.
    fn is_length(&self, value: ExprId) -> bool {
        matches!(*self.file.expr(value), ExprNode::Call(name, _) if self.symbol_text(name.name) == "len")
    }

    /// A bound of a loop, for a message: the extent that `len(G)` means, if it is known.
    fn bound_text(&self, value: ExprId) -> String {
        let extents = self.measured_tensor(value).and_then(|tensor| self.declared_extents(tensor));
        match extents.as_deref() {
            Some([first, ..]) => (*first).to_owned(),
            _ => self.quote_expr(value),
        }
    }

    /// `from 0 to 4 step 2` of the printed form: an error, unless `FOR` in front of it was one.
    fn parse_printed_range(&mut self, index: NameSyntax) -> Parsed<LoopBounds> {
        let from = self.next().span;
        let start = self.parse_expr()?;
        if !self.skip_word(KnownWord::To) {
            return Err(self.report_unexpected("`to`", "write `for i in 0..4:`"));
        }
        let stop = self.parse_expr()?;
        let step = if self.skip_word(KnownWord::Step) { Some(self.parse_expr()?) } else { None };
        let is_new = self.errors.items.last().is_none_or(|error| error.span.start != self.stmt.start);
        if is_new {
            let (index, first, end) = (self.quote(index.span), self.quote_expr(start), self.quote_expr(stop));
            let step = step.map_or_else(String::new, |step| format!(" step {}", self.quote_expr(step)));
            let note = format!("write `for {index} in {first}..{end}{step}:`");
            self.report_foreign(from, "a range is written with `..`", note);
        }
        Ok(LoopBounds { start: Some(start), stop: Some(stop), step })
    }

    /// `G.0`, `[st:4]`, or bounds alone.
    fn parse_domain(&mut self) -> Parsed<LoopDomain> {
        match self.here() {
            LineTok::Name(symbol) => {
                let found = self.symbol_text(symbol).rsplit_once('.');
                let Some((length, axis)) = found.map(|(name, axis)| (name.len(), axis.parse())) else {
                    return Ok(LoopDomain::Bounds);
                };
                let Ok(axis) = axis else { return Ok(LoopDomain::Bounds) };
                let start = self.next().span.start as usize;
                let span = Span::new(start, start + length);
                let name = self.add_string(&self.text[span.as_usize_range()]);
                Ok(LoopDomain::TensorAxis(NameSyntax { name, span }, axis))
            }
            LineTok::LBracket => {
                let open = self.open_bracket()?;
                let axis = self.parse_axis()?;
                self.close(LineTok::RBracket, open)?;
                self.file.axes.push(axis);
                Ok(LoopDomain::Axis(self.file.axes.len() as u32 - 1))
            }
            _ => Ok(LoopDomain::Bounds),
        }
    }
}

/// The loop here for `int i = 0; i < n; i++`, without its colon.
pub(super) fn counted_loop(head: &str) -> Option<String> {
    let [first, condition, step] = head.split(';').collect::<Vec<&str>>()[..] else { return None };
    let (declared, start) = first.split_once('=')?;
    let index = declared.split_whitespace().last()?;
    let (bounded, end) = condition.split_once('<')?;
    if bounded.trim() != index || !step.contains("++") && !step.contains("+=") {
        return None;
    }
    let end = match end.strip_prefix('=') {
        Some(last) => format!("{} + 1", last.trim()),
        None => end.trim().to_owned(),
    };
    let by = step.split_once("+=").map(|(_, by)| format!(" step {}", by.trim())).unwrap_or_default();
    Some(match start.trim() {
        "0" if by.is_empty() => format!("for {index} in {end}"),
        start => format!("for {index} in {start}..{end}{by}"),
    })
}
