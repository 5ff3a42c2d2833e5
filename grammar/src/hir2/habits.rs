//! Answers to habits of other languages and of the printed form: the found spelling, and the one here.

use super::ast::{ExprId, ExprNode, ItemSyntax, NameSyntax, NodeRange, TargetSyntax, TypeId};
use super::element_types::element_type;
use super::habit_notes::{accumulation_note, has_operator, list_loop_note, written_range_note};
use super::known::{KnownWord, known_word};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineTok, LineToken};
use crate::ast::Symbol;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use crate::spelling::{nearest_candidate, shorten_text};

pub(super) const STATEMENT_NOTE: &str =
    "a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`";

/// Words that begin statements.
const STATEMENT_WORDS: &[&str] =
    &["for", "if", "else", "wait", "free", "sync", "stream", "share", "alias", "define", "assert", "print"];

/// Words of collectives.
pub(super) const COLLECTIVE_WORDS: &[&str] = &[
    "allgather",
    "allreduce",
    "reduce_scatter",
    "broadcast",
    "send_recv",
    "reduce",
    "scatter",
    "gather",
    "all_to_all",
    "permute",
];

/// The spelling here of a statement of another language or of the printed form, which begins with `word`.
pub fn foreign_statement_note(word: &str) -> Option<&'static str> {
    Some(match word {
        "while" => "loops have a fixed number of steps: `for i in 4:`",
        "return" | "yield" => {
            "leave the statement out: outputs stand in the header, after `->`, and are written by name"
        }
        "import" | "from" => "imports are in column 1, above the program: `import axpy from \"kernels.hir\"`",
        "def" | "class" | "func" | "fn" => "kernels and programs stand in column 1: `kernel f(..) -> (..):`",
        "pass" => "leave the statement out: a block may be empty",
        "break" | "continue" => "loops run to their end: write `if c:` around what is left out",
        "with" => "a block on a stream is written `stream e:`",
        "del" => "memory is given back by `free T`",
        "await" => "write `wait h`",
        "print" => "write `print X`, or `print X, i` for several values",
        "raise" | "try" | "except" | "global" | "lambda" => "leave the statement out",
        "elif" => "write `else:`, and an `if` in its block",
        "else" | "ELSE" => "an `else:` stands in the column of its `if`, directly after the block of that",
        "SetCurrentStream" => "write `stream e`, or `stream e:` with a block",
        "GetCurrentStream" => "write `stream 0 = current`",
        "Synchronize" => "write `sync e`",
        "Wait" => "write `wait h`, or `wait allgather(A -> G)`",
        "Deallocate" => "write `free T`",
        "Communication" => "write `allgather(A -> G)`, `allreduce(A -> B)` and so on",
        "P2PCommunication" => "write `send(A, to=p)` or `recv(B, from=p)`",
        "CollectivePermute" => "write `permute(A -> B, to=p, from=q)`",
        "StartCoalescing" | "EndCoalescing" => "write `h = { send(..); recv(..) }`",
        "ShareMemHandles" => "write `share { send(..); recv(..) }`",
        "PostOnStream" => "write `C = f(A, B)` with the name of the kernel",
        _ => return None,
    })
}

/// Number and element type of a tensor in the printed form: `T3_g_float`.
fn split_printed_tensor(text: &str) -> Option<(&str, &'static str)> {
    let (name, rest) = text.split_once('_')?;
    let digits = name.strip_prefix('T')?;
    let (memory, dtype) = rest.split_once('_')?;
    let is_printed = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(memory, "g" | "l" | "s" | "t" | "sym");
    let dtype = element_type(dtype).unwrap_or("f32");
    is_printed.then_some((name, dtype))
}

/// The header of a block and the text after its colon.
fn split_header(line: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, character) in line.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ':' if depth <= 0 => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    (line.trim_end_matches(['{', ' ']), "")
}

/// True if a text ends with a name and a colon.
fn ends_with_declared(text: &str, name: &str) -> bool {
    let rest = text.trim_end().strip_suffix(':').and_then(|rest| rest.trim_end().strip_suffix(name));
    rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
}

/// A sum of an expression and a number.
fn text_plus(text: &str, more: i64) -> String {
    match text.parse::<i64>() {
        Ok(number) => number.wrapping_add(more).to_string(),
        Err(_) => format!("{text} + {more}"),
    }
}

/// A place on an axis that may be counted from its end, as in Python: `m - 1` of `-1`.
fn place_from_start(text: &str, extent: &str) -> Option<String> {
    let Some(back) = text.strip_prefix('-') else { return Some(text.to_owned()) };
    let back = back.trim().parse::<i64>().ok()?;
    match extent.parse::<i64>() {
        Ok(extent) => Some(extent.checked_sub(back)?.to_string()),
        Err(_) if has_operator(extent) => Some(format!("({extent}) - {back}")),
        Err(_) => Some(format!("{extent} - {back}")),
    }
}

/// Arguments of `alloc` that are one word.
const ALLOCATION_WORDS: &[&str] = &["keep", "fresh", "zero", "resets"];

impl Parser<'_> {
    /// The rest of the line from the next token on, without a comment.
    pub(super) fn rest_of_line(&self) -> &str {
        let line = self.text[self.peek().span.start as usize..].lines().next().unwrap_or_default();
        line.split("//").next().unwrap_or_default().trim_end()
    }

    // Statements.

    /// Reports the text after a complete statement.
    #[cold]
    pub(super) fn report_rest(&mut self) {
        let token = self.peek();
        let found = self.quote(token.span);
        let is_last = matches!(self.lookahead(), LineTok::LineEnd | LineTok::End);
        match token.tok {
            LineTok::Semicolon if is_last => {
                let message = "a statement ends with its line, without `;`";
                let error = SyntaxError::new(Code::Unexpected, token.span, message).with_note("remove the `;`");
                self.report(error.with_edit(SyntaxEdit { span: token.span, text: String::new() }));
            }
            LineTok::Semicolon => {
                let note = "write the next statement on a line of its own; only groups `{ a; b }` have several";
                self.report_noted(Code::Unexpected, token.span, "a line has one statement", note);
            }
            tok if tok.is_closing() => {
                let message = format!("this `{found}` has no opening bracket");
                self.report_noted(
                    Code::Unmatched,
                    token.span,
                    message,
                    "remove it, or write the opening bracket before it",
                );
            }
            LineTok::Name(_) if self.misplaced_argument(token).is_some() => {
                let word = self.misplaced_argument(token).unwrap_or_default().to_owned();
                let note = format!("write `alloc({word})`");
                self.report_noted(Code::Unexpected, token.span, format!("`{word}` is an argument of `alloc`"), note);
            }
            LineTok::Name(_) if self.suffixed_number(token).is_some() => {
                let (number, dtype) = self.suffixed_number(token).unwrap_or_default();
                let note = format!("a number of a type is written `{dtype}({number})`");
                let edit = SyntaxEdit { span: self.last_span().join(token.span), text: format!("{dtype}({number})") };
                let message = format!("a number has no suffix `{found}`");
                self.report(SyntaxError::new(Code::Foreign, token.span, message).with_note(note).with_edit(edit));
            }
            LineTok::Name(symbol) if known_word(symbol) == Some(KnownWord::If) => {
                self.report_foreign(
                    token.span,
                    "a statement has no condition after it",
                    "write `if c:` in front of it, or the value as `where(c, a, b)`",
                );
            }
            LineTok::Equals if self.begins_with_assert() => {
                let edit = SyntaxEdit { span: token.span, text: "==".to_owned() };
                let error = SyntaxError::new(Code::Unexpected, token.span, "`=` compares nothing in a condition");
                self.report(error.with_note("did you mean `==`?").with_edit(edit));
            }
            LineTok::Colon => {
                self.report_unexpected("the end of the statement", "only the header of a block ends in `:`");
            }
            _ => {
                self.report_unexpected("the end of the statement", "a line has one statement");
            }
        }
    }

    /// Reports `%C` as MLIR has it, `&C` as C has it, if that is next; the rest of the line is not read.
    #[cold]
    pub(super) fn report_sigil(&mut self) -> Option<Failed> {
        let (token, next) = (self.peek(), self.stream.window[1]);
        let sigil = self.quote(token.span);
        let LineTok::Name(_) = next.tok else { return None };
        if !matches!(sigil.as_str(), "%" | "&" | "@") || next.span.start != token.span.end {
            return None;
        }
        let name = self.quote(next.span);
        let message = format!("a name has no `{sigil}` in front of it");
        let error = SyntaxError::new(Code::Foreign, token.span, message).with_note(format!("write `{name}`"));
        Some(self.report(error.with_edit(SyntaxEdit { span: token.span, text: String::new() })))
    }

    /// The number and the element type of `0.25f`, where `token` is the suffix.
    fn suffixed_number(&self, token: LineToken) -> Option<(String, &'static str)> {
        let last = self.last_span();
        let number = self.text.get(last.as_usize_range())?;
        let dtype = match self.text.get(token.span.as_usize_range())? {
            "f" | "F" => "f32",
            "h" | "H" => "f16",
            "L" | "LL" | "l" | "ll" => "i64",
            "u" | "U" => "u32",
            _ => return None,
        };
        let is_number = number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        (is_number && last.end == token.span.start).then(|| (number.to_owned(), dtype))
    }

    /// Reports `f32[4][m]`: the second bracket is next.
    #[cold]
    pub(super) fn report_more_brackets(&mut self, dtype: Span) -> Failed {
        let whole = self.text.get(dtype.start as usize..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let mut end = 0;
        while let Some(close) = whole.get(end..).and_then(|rest| rest.find(']')) {
            end += close + 1;
            if !whole[end..].starts_with('[') {
                break;
            }
        }
        let meant = whole.get(..end).unwrap_or_default().replace("][", ", ");
        let message = "the axes of a type stand in one pair of brackets";
        let error = SyntaxError::new(Code::Foreign, self.peek().span, message).with_note(format!("write `{meant}`"));
        let span = Span { start: dtype.start, end: dtype.start + end as u32 };
        self.report(error.with_edit(SyntaxEdit { span, text: meant }))
    }

    /// Reports `slice(X, [0:4, :])`, if the colon that is next is there.
    #[cold]
    pub(super) fn report_slice_colon(&mut self) -> Option<Failed> {
        let token = self.peek();
        let line = self.text[..token.span.start as usize].rfind('\n').map_or(0, |at| at + 1);
        let call = line + self.text.get(line..token.span.start as usize)?.rfind("slice(")?;
        let operand = call + "slice(".len();
        let (name, list) = self.text.get(operand..)?.lines().next()?.split_once(',')?;
        let index = list.trim_start().trim_start_matches("ranges").trim_start_matches([' ', '=']);
        let index = index.strip_prefix('[')?.split(']').next()?;
        let base = self.file.exprs.iter().position(|(_, span)| span.start as usize == operand);
        let ranges = base.and_then(|base| self.slice_ranges(ExprId(base as u32), index));
        let form = match ranges {
            Some(ranges) => format!("write `slice({name}, [{ranges}])`, with start, end and step for each axis"),
            None => format!("write `slice({name}, [[start, end, step], ..])`, with one such list for each axis"),
        };
        Some(self.report_foreign(token.span, "a range of `slice` is a list", form))
    }

    /// Returns true if the line of this token begins with `assert`.
    fn begins_with_assert(&self) -> bool {
        let before = &self.text[..self.peek().span.start as usize];
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.trim_start().strip_prefix("assert").is_some_and(|rest| rest.starts_with([' ', '\t', '(']))
    }

    /// The argument in `alloc keep` and in `keep alloc`, where `token` is the second word.
    fn misplaced_argument(&self, token: LineToken) -> Option<&str> {
        let found = &self.text[token.span.as_usize_range()];
        let before = self.text[..token.span.start as usize].trim_end();
        let before = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        match (before, found) {
            ("alloc", word) if ALLOCATION_WORDS.contains(&word) => Some(word),
            (word, "alloc") if ALLOCATION_WORDS.contains(&word) => Some(word),
            _ => None,
        }
    }

    /// Reports an expression in the place of a statement.
    #[cold]
    pub(super) fn report_lone_expression(&mut self, node: ExprNode, span: Span) -> Failed {
        let message = format!("`{}` is no statement", self.quote(span));
        if let ExprNode::Binary(operator, left, right) = node
            && self.symbol_text(operator) == "=="
        {
            let note = format!("`==` compares; write `{} = {}`", self.quote_expr(left), self.quote_expr(right));
            return self.report_foreign(span, message, note);
        }
        if let Some(note) = self.left_arrow_note(node) {
            return self.report_foreign(span, message, note);
        }
        let near = nearest_candidate(&self.text[span.as_usize_range()], STATEMENT_WORDS);
        let note = match (near, node) {
            (Some(near), ExprNode::Name(_)) => format!("did you mean `{near}`?"),
            (_, ExprNode::Binary(..) | ExprNode::Unary(..)) => {
                format!("a value needs a name: `X = {}`", self.quote(span))
            }
            _ => STATEMENT_NOTE.to_owned(),
        };
        self.report_noted(Code::Unexpected, span, message, note)
    }

    /// The statement here for `G <- allgather(A)`, which reads as a comparison with a negative number.
    #[cold]
    fn left_arrow_note(&self, node: ExprNode) -> Option<String> {
        let ExprNode::Binary(less, left, right) = node else { return None };
        let ExprNode::Unary(minus, value) = *self.file.expr(right) else { return None };
        let start = self.file.expr_span(right).start as usize;
        if self.symbol_text(less) != "<" || self.symbol_text(minus) != "-" || !self.text[..start].ends_with('<') {
            return None;
        }
        let (target, value) = (self.quote_expr(left), self.quote_expr(value));
        let call = value.split_once('(').and_then(|(word, operands)| Some((word, operands.strip_suffix(')')?)));
        Some(match call.filter(|(word, _)| COLLECTIVE_WORDS.contains(word)) {
            Some((word, operand)) => format!("a collective names both sides: `wait {word}({operand} -> {target})`"),
            None => format!("write `{target} = {value}`"),
        })
    }

    /// A statement without `=` where it needs one.
    #[cold]
    pub(super) fn report_no_assignment(&mut self, first: TargetSyntax) -> Failed {
        let target = self.quote_expr(first.value);
        let token = self.peek();
        let next = self.stream.window[1];
        let is_joined = next.tok == LineTok::Equals && next.span.start == token.span.end;
        if let (LineTok::Op(operator), true) = (self.here(), is_joined) {
            let operator = self.symbol_text(operator).to_owned();
            let value = self.rest_of_line()[operator.len() + 1..].trim_start();
            let (note, new_name) = accumulation_note(&target, &operator, value);
            let message = format!("`{operator}=` is no assignment");
            let error = SyntaxError::new(Code::Foreign, token.span.join(next.span), message).with_note(&note);
            let start = self.file.expr_span(first.value).start;
            let end = token.span.start + self.rest_of_line().len() as u32;
            let meant = note.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`'));
            let meant = meant.filter(|meant| new_name.is_none() && !meant.contains('`') && !meant.contains("..."));
            let edit = meant.map(|meant| SyntaxEdit { span: Span { start, end }, text: meant.to_owned() });
            let error = error.with_new_name(new_name);
            return self.report(match edit {
                Some(edit) => error.with_edit(edit),
                None => error,
            });
        }
        if let LineTok::Name(_) = self.here() {
            let rest = self.rest_of_line();
            let note = match self.lookahead() {
                _ if ALLOCATION_WORDS.contains(&target.as_str()) => {
                    let declared = rest.split('=').next().unwrap_or_default().trim_end();
                    format!("`{target}` is an argument: write `{} = alloc({target})`", shorten_text(declared))
                }
                LineTok::LBracket | LineTok::Dot => format!("write `{target}: {}`", shorten_text(rest)),
                LineTok::Equals => {
                    let note = format!("write `{}`", shorten_text(rest));
                    let start = self.file.expr_span(first.value).start;
                    let edit = SyntaxEdit { span: Span { start, end: token.span.start }, text: String::new() };
                    let message = format!("expected `=`, found `{}`", self.quote(token.span));
                    let error = SyntaxError::new(Code::Unexpected, token.span, message);
                    return self.report(error.with_note(note).with_edit(edit));
                }
                _ => match nearest_candidate(&target, STATEMENT_WORDS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => STATEMENT_NOTE.to_owned(),
                },
            };
            return self.report_unexpected("`=`", note);
        }
        self.report_unexpected("`=`", STATEMENT_NOTE)
    }

    /// The type after the colon of a declaration.
    pub(super) fn parse_declared_type(&mut self, name: ExprId) -> Parsed<TypeId> {
        if matches!(self.here(), LineTok::Name(_) | LineTok::Verbatim(_)) {
            return self.parse_type();
        }
        let name = self.quote_expr(name);
        let token = self.peek();
        match self.here() {
            LineTok::Equals if token.span.start == self.last_span().end => {
                let span = self.last_span().join(token.span);
                let value = self.rest_of_line().trim_start_matches(['=', ' ']).to_owned();
                Err(self.report_foreign(
                    span,
                    "`:=` is no assignment",
                    format!("write `{name} = {}`", shorten_text(&value)),
                ))
            }
            LineTok::Int(_) => {
                let found = self.quote(token.span);
                let note = format!(
                    "`{name}:{found}` is an axis of a type, `f32[{name}:{found}, m]`; a value is given by `{name} = {found}`"
                );
                Err(self.report_noted(Code::Unexpected, token.span, format!("`{found}` is no type"), note))
            }
            _ => Err(self.report_unexpected("an element type such as `f32`", format!("write `{name}: f32[m, n]`"))),
        }
    }

    /// `if a = b:`.
    #[cold]
    pub(super) fn report_comparison(&mut self) -> Failed {
        let span = self.peek().span;
        let error = SyntaxError::new(Code::Foreign, span, "`=` compares nothing").with_note("write `==`");
        self.report(error.with_edit(SyntaxEdit { span, text: "==".to_owned() }))
    }

    /// `FOR i from 0 to 4:`; the loop is read after that.
    #[cold]
    pub(super) fn report_capital_for(&mut self) {
        let line = self.rest_of_line().trim_end_matches([':', '{', ' ']);
        let words: Vec<&str> = line.split_whitespace().collect();
        let note = match words.as_slice() {
            ["FOR", index, "from", start, "to", stop] => format!("write `for {index} in {start}..{stop}:`"),
            ["FOR", index, "from", start, "to", stop, "step", step] => {
                format!("write `for {index} in {start}..{stop} step {step}:`")
            }
            ["FOR", index, "in", range @ ..] if !range.is_empty() && !line.contains('{') => {
                format!("write `for {index} in {}:`", shorten_text(&range.join(" ")))
            }
            _ => "write `for i in 4:`, or `for i in 1..4:`".to_owned(),
        };
        let span = self.peek().span;
        self.report_foreign(span, "`FOR` is a word of the printed form", note);
    }

    /// The items of a list, `[1, 2]` or `(1, 2)`, that is next in the place of a loop's range.
    pub(super) fn listed_items(&self) -> Option<Vec<String>> {
        if !matches!(self.here(), LineTok::LBracket | LineTok::LParen) {
            return None;
        }
        let inner = self.rest_of_line().get(1..)?.split([']', ')', '(', '[']).next()?;
        let items: Vec<String> = inner.split(',').map(|item| item.trim().to_owned()).collect();
        (items.len() > 1 && items.iter().all(|item| !item.is_empty() && !item.contains(':'))).then_some(items)
    }

    /// `for i in [1, 2, 4]:`.
    #[cold]
    pub(super) fn report_list_loop(&mut self, index: NameSyntax, items: &[String]) -> Failed {
        let index = self.quote(index.span);
        let start = self.peek().span.start as usize;
        let shown = self.rest_of_line().split_inclusive([']', ')']).next().unwrap_or_default().len();
        let span = Span { start: start as u32, end: (start + shown) as u32 };
        let message = "a loop runs over a range of integers, not over a list";
        self.report_foreign(span, message, list_loop_note(&index, items))
    }

    /// `IF Manual ( c ):`; the branch is read after that.
    #[cold]
    pub(super) fn report_capital_if(&mut self) {
        let line = self.rest_of_line();
        let (head, rest) = split_header(line);
        let rest = shorten_text(rest.trim());
        let rest = if rest.is_empty() { rest } else { format!(" {rest}") };
        let condition = head.trim_start_matches("IF").trim_start().trim_start_matches("Manual").trim();
        let inner = condition.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let condition = inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(condition).trim();
        let note = match condition.is_empty() {
            true => "write `if c:`".to_owned(),
            false => bracket_lists(&format!("write `if {}:{rest}`", shorten_text(condition))),
        };
        let span = self.peek().span;
        self.report_foreign(span, "`IF` is a word of the printed form", note);
    }

    // Expressions.

    /// The infix operator that is meant by one of another language.
    pub(super) fn foreign_infix(&self, token: LineToken) -> Option<&'static str> {
        match token.tok {
            LineTok::At => Some("*"),
            LineTok::Name(symbol) => match known_word(symbol) {
                Some(KnownWord::And) => Some("&&"),
                Some(KnownWord::Or) => Some("||"),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error of an operator of another language between two operands.
    #[cold]
    pub(super) fn report_infix(&mut self, token: LineToken, left: ExprId, right: ExprId) {
        let found = self.quote(token.span);
        let end = self.file.expr_span(right).end;
        let (a, b) = (self.quote_expr(left), self.quote(Span { start: token.span.end, end }));
        let b = match b.trim().strip_prefix("not ") {
            Some(rest) => format!("!{}", rest.trim()),
            None => b.trim().to_owned(),
        };
        let meant = match token.tok {
            LineTok::Power => format!("pow({a}, {b})"),
            LineTok::At => format!("matmul({a}, {b})"),
            _ if found == "and" => format!("{a} && {b}"),
            _ => format!("{a} || {b}"),
        };
        let note = match token.tok {
            LineTok::At => format!("a product of matrices is written `{meant}`"),
            _ => format!("write `{meant}`"),
        };
        let error = SyntaxError::new(Code::Foreign, token.span, format!("`{found}` is no operator")).with_note(note);
        let span = Span { start: self.file.expr_span(left).start, end };
        // The text in a long message is cut.
        let is_whole = !meant.contains("...");
        self.report(if is_whole { error.with_edit(SyntaxEdit { span, text: meant }) } else { error });
    }

    /// Reports `0 < rank < 3`, and the probable meaning; tools may write it if it is certain.
    #[cold]
    pub(super) fn report_chain(&mut self, meant: &str, is_sure: bool, span: Span) {
        let message = "comparisons have no chains: the second one would compare a truth value";
        let error =
            SyntaxError::new(Code::Foreign, span, message).with_note(format!("write `{}`", shorten_text(meant)));
        self.report(match is_sure {
            true => error.with_edit(SyntaxEdit { span, text: meant.to_owned() }),
            false => error,
        });
    }

    /// `(1, 0)`, and the tuples in it.
    #[cold]
    pub(super) fn report_tuple(&mut self, items: NodeRange, span: Span) {
        const MESSAGE: &str = "a list stands in square brackets";
        let meant = self.list_text(items);
        // The text has the inner ones, too.
        self.errors.items.retain(|error| {
            error.message != MESSAGE || !(span.start <= error.span.start && error.span.end <= span.end)
        });
        let error = SyntaxError::new(Code::Foreign, span, MESSAGE);
        let error = error.with_note(format!("write `{}`", shorten_text(&meant)));
        self.report(error.with_edit(SyntaxEdit { span, text: meant }));
    }

    /// The text of a list in square brackets, with its inner lists.
    fn list_text(&self, items: NodeRange) -> String {
        let items = self.file.expr_lists[items.indices()].iter().map(|item| self.item_text(*item));
        format!("[{}]", items.collect::<Vec<String>>().join(", "))
    }

    /// An item of a list: brackets around one that is a number are left out.
    fn item_text(&self, item: ExprId) -> String {
        match *self.file.expr(item) {
            ExprNode::List(items) => self.list_text(items),
            ExprNode::Paren(inner) if matches!(self.file.expr(inner), ExprNode::Int(_) | ExprNode::List(_)) => {
                self.item_text(inner)
            }
            _ => self.text[self.file.expr_span(item).as_usize_range()].to_owned(),
        }
    }

    /// The extents of the axes in a name's last declaration in this program or kernel; `None` if an axis has more than
    /// an extent, as reductions do.
    pub(super) fn declared_extents(&self, name: ExprId) -> Option<Vec<&str>> {
        let ExprNode::Name(_) = self.file.expr(name) else { return None };
        let name = &self.text[self.file.expr_span(name).as_usize_range()];
        let items = self.part.as_ref().map_or(self.file.items.as_slice(), |part| part.items_before());
        let begin = items.iter().rev().find_map(|item| match item {
            ItemSyntax::Program(item) | ItemSyntax::Kernel(item) => Some(item.span.end as usize),
            ItemSyntax::Mesh(_) | ItemSyntax::Import(_) => None,
        });
        let own = std::iter::once((self.file.types.as_slice(), &self.file));
        let all = own.chain(self.part.as_ref().map(|part| part.types_before()));
        let mut types = all.flat_map(|(types, file)| types.iter().rev().map(move |ty| (ty, file)));
        let (ty, file) = types.find(|(ty, _)| {
            ends_with_declared(self.text.get(begin.unwrap_or(0)..ty.span.start as usize).unwrap_or_default(), name)
        })?;
        let axes = file.axes[ty.axes.indices()].iter().map(|axis| {
            let text = &self.text[file.expr_span(axis.extent).as_usize_range()];
            (axis.iter.is_none() && axis.expanded.is_none() && !text.starts_with('`')).then_some(text)
        });
        axes.collect()
    }

    /// The ranges of an index `[0:4, i]` as `slice` takes them: one for each axis.
    fn slice_ranges(&self, base: ExprId, index: &str) -> Option<String> {
        let extents = self.declared_extents(base)?;
        let items: Vec<&str> = index.split(',').collect();
        if items.len() > extents.len() || index.contains(['(', '[', '.', '`']) {
            return None;
        }
        let ranges = extents.iter().enumerate().map(|(at, extent)| {
            let parts: Vec<&str> = items.get(at).map_or(":", |item| *item).split(':').map(str::trim).collect();
            let (start, end) = match parts.as_slice() {
                [index] => {
                    let start = place_from_start(index, extent)?;
                    let end = text_plus(&start, 1);
                    (start, end)
                }
                [start, end, ..] => (
                    if start.is_empty() { "0".to_owned() } else { place_from_start(start, extent)? },
                    if end.is_empty() { (*extent).to_owned() } else { place_from_start(end, extent)? },
                ),
                [] => return None,
            };
            let step = parts.get(2).copied().filter(|step| !step.is_empty()).unwrap_or("1");
            (!step.starts_with('-')).then(|| format!("[{start}, {end}, {step}]"))
        });
        let ranges: Option<Vec<String>> = ranges.collect();
        Some(ranges?.join(", "))
    }

    /// `A[0:4]`, `A[1:]`: the colon is next.
    #[cold]
    pub(super) fn report_index_range(&mut self, base: ExprId, span: Span) -> Failed {
        let name = self.quote_expr(base);
        let after = self.text[self.file.expr_span(base).end as usize..].lines().next().unwrap_or_default();
        let index = after.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or_default();
        let is_negative = index.split([',', ':']).any(|part| part.trim_start().starts_with('-'));
        let counted = if is_negative { ", counted from the start" } else { "" };
        let form = match self.slice_ranges(base, index) {
            Some(ranges) => {
                format!("`slice({name}, ranges=[{ranges}])`, with start, end and step for each axis{counted}")
            }
            None => {
                format!("`slice({name}, ranges=[[start, end, step], ..])`, with one such list for each axis{counted}")
            }
        };
        let is_target = self.file.expr_span(base).start == self.stmt.start;
        if let Some(note) = is_target.then(|| written_range_note(&name, index)).flatten() {
            return self.report_foreign(span, "an index is one number, not a range", note);
        }
        let note = format!(
            "`{name}[i]` is slice i, `{name}[:, i]` slice i of the second axis; a range is an op: {form}; its result needs a type"
        );
        self.report_foreign(span, "an index is one number, not a range", note)
    }

    /// Reports the index `A[..` without an end: a tensor of the printed form gets an answer of its own.
    #[cold]
    pub(super) fn report_open_index(&mut self, base: ExprId, open: Span) -> Failed {
        if self.here() == LineTok::LBrace {
            return self.report_printed_tensor(base);
        }
        match self.close(LineTok::RBracket, open) {
            Ok(_) => Failed,
            Err(failed) => failed,
        }
    }

    /// `T3_g_float[iS0{i0}]`.
    #[cold]
    pub(super) fn report_printed_tensor(&mut self, base: ExprId) -> Failed {
        let span = self.file.expr_span(base);
        let text = &self.text[span.as_usize_range()];
        let note = match split_printed_tensor(text) {
            Some((name, dtype)) => format!(
                "declare it once, `{name}: {dtype}[m, n]`, and write `{name}`; or put the whole statement in backquotes"
            ),
            None => {
                "no domain stands after an axis: `A: f32[m, n]`; or put the whole statement in backquotes".to_owned()
            }
        };
        let message = format!("`{}[..]` is the printed form of a tensor", shorten_text(text));
        self.report_foreign(span, message, note)
    }

    /// Returns true if the name of an expression is that of a tensor of the printed form.
    pub(super) fn is_printed_tensor(&self, base: ExprId) -> bool {
        split_printed_tensor(&self.text[self.file.expr_span(base).as_usize_range()]).is_some()
    }

    /// `True`, `False`: an error, and the value that is meant.
    #[cold]
    pub(super) fn report_truth_value(&mut self, name: Symbol, span: Span) {
        let word = self.symbol_text(name).to_owned();
        let meant = word.to_lowercase();
        let error = SyntaxError::new(Code::Foreign, span, format!("`{word}` is no truth value"));
        let error = error.with_note(format!("write `{meant}`"));
        self.report(error.with_edit(SyntaxEdit { span, text: meant }));
    }
}

/// A text with the lists of the printed form, `(0 1 2)`, as `[0, 1, 2]`.
fn bracket_lists(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, part) in text.split('(').enumerate() {
        let list = part.split_once(')').filter(|(inner, _)| number > 0 && inner.contains(' '));
        let list = list.filter(|(inner, _)| inner.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '));
        match list {
            Some((inner, after)) => out += &format!("[{}]{after}", inner.replace(' ', ", ")),
            None if number > 0 => out += &format!("({part}"),
            None => out += part,
        }
    }
    out
}
