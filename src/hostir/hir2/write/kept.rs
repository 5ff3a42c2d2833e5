//! Statements that a text spells in another way than the writer: a layout keeps them.
//!
//! A statement may become several ops (operands repeat along axes that they do not have, slices, casts), and the writer
//! has a spelling of its own for each op. When it writes the layout of a text, it compares what it wrote for a statement
//! with the words of that: if they differ, it takes the statement's own, with the spaces of the layout.

use super::ProgramWriter;
use super::contract::{StatementMatcher, StatementRun};
use super::statements::BlockShape;
use crate::diag::Span;
use crate::ir::{CommentPlace, OpId, Program};
use hostir_grammar::hir2::ast::{FileSyntax, StmtForm};
use rustc_hash::FxHashMap;

/// The statements without blocks of a text that is laid out.
pub(super) struct SourceStatements<'t> {
    text: &'t str,
    /// Their places, in order.
    spans: Vec<Span>,
}

impl<'t> SourceStatements<'t> {
    pub(super) fn new(text: &'t str, file: &FileSyntax) -> Self {
        let simple = file.stmts.iter().filter(|stmt| {
            matches!(
                stmt.form,
                StmtForm::Assign { .. } | StmtForm::Call(_) | StmtForm::Wait(_) | StmtForm::Assert { .. }
            )
        });
        let mut spans: Vec<Span> = simple.map(|stmt| stmt.span).collect();
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
        // Those of a group are inside of its statement.
        let mut end = 0;
        spans.retain(|span| {
            let is_outer = span.start >= end;
            end = end.max(span.end);
            is_outer
        });
        Self { text, spans }
    }

    /// The statement that contains a place.
    fn statement_at(&self, place: Span) -> Option<Span> {
        let after = self.spans.partition_point(|span| span.start <= place.start);
        let span = *self.spans.get(after.checked_sub(1)?)?;
        (place.start < place.end && place.end <= span.end).then_some(span)
    }
}

/// The statements of a text, with the numbers of ops that a program has of them.
pub(super) struct KeptStatements<'t> {
    source: &'t SourceStatements<'t>,
    /// By the start of a statement.
    counts: FxHashMap<u32, usize>,
}

impl<'t> KeptStatements<'t> {
    pub(super) fn new(source: &'t SourceStatements<'t>, program: &Program) -> Self {
        let mut counts = FxHashMap::default();
        program.walk_with_units(&mut |op| {
            if let Some(statement) = source.statement_at(program.op_span(op)) {
                *counts.entry(statement.start).or_default() += 1;
            }
        });
        Self { source, counts }
    }

    /// The statement of which some ops are all ops, or the first.
    fn statement_of(&self, program: &Program, ops: &[OpId]) -> Option<Span> {
        let statement = self.source.statement_at(program.op_span(*ops.first()?))?;
        let are_inside = ops.iter().all(|op| self.source.statement_at(program.op_span(*op)) == Some(statement));
        are_inside.then_some(statement)
    }

    /// The words of a statement in the writer's layout, if they are others than those that the writer found.
    fn other_words(&self, statement: Span, written: &str) -> Option<String> {
        let source = self.source.text.get(statement.as_usize_range())?;
        // Groups have a layout of lines, and texts no spaces to change.
        if source.contains(['{', '"', '`']) || source.contains("//") {
            return None;
        }
        let lines = written.lines().map(|line| line.split("//").next().unwrap_or_default());
        let found: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
        let meant: String = source.chars().filter(|c| !c.is_whitespace()).collect();
        let is_same = meant == found || without_type(&meant).is_some_and(|plain| plain == found);
        (!is_same).then(|| spaced_words(source))
    }
}

/// A statement without blanks and without the type of its result: inferred types are left out.
fn without_type(statement: &str) -> Option<String> {
    let (name, rest) = statement.split_once(':')?;
    let end = rest.find("]=")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    is_name.then(|| format!("{name}{}", &rest[end + 1..]))
}

impl ProgramWriter<'_> {
    /// Writes the statement of a text that begins with a run of ops, and returns the place after its last op; `None` if
    /// it is to be written from its ops.
    pub(super) fn write_kept(&mut self, ops: &[OpId], run: StatementRun, shape: &mut BlockShape) -> Option<usize> {
        let kept = self.kept?;
        let statement = kept.statement_of(self.program, &ops[run.first..run.end])?;
        let end = self.kept_end(ops, run, statement)?;
        let (before, declared) = (*shape, self.declare_run(ops, run));
        let begin = self.out.len();
        let (mut at, mut declared_inside) = (run.first, 0);
        while at < end {
            let next = StatementMatcher::new(self.tables, &self.streams).next_statement(ops, at);
            declared_inside += self.declare_run(ops, next);
            self.write_run(ops, next, shape);
            at = next.end;
        }
        let trailing = CommentPlace::Trailing(ops[end - 1]);
        if declared_inside > 0 {
            return Some(at);
        }
        if let Some(words) = kept.other_words(statement, &self.out[begin..]) {
            self.out.truncate(begin);
            self.begin_line();
            self.push(&words);
            self.end_line(trailing);
        }
        *shape = before.with_statements(1 + declared, self.has_comments(trailing));
        Some(end)
    }

    /// The place after the last op of a statement, if these are all of its ops and no comment is among them.
    fn kept_end(&self, ops: &[OpId], run: StatementRun, statement: Span) -> Option<usize> {
        let kept = self.kept?;
        let mut end = run.end;
        while end < ops.len() && kept.statement_of(self.program, &ops[end..=end]) == Some(statement) {
            end += 1;
        }
        let between = run.first + 1..end;
        let has_comments = between.clone().any(|at| self.has_comments(CommentPlace::Above(ops[at])))
            || between.clone().any(|at| self.has_comments(CommentPlace::Trailing(ops[at - 1])));
        (!has_comments && kept.counts.get(&statement.start) == Some(&(end - run.first))).then_some(end)
    }
}

/// A word or a sign of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece<'t> {
    text: &'t str,
    is_word: bool,
}

/// Signs of two characters.
const PAIRS: &[&str] = &["->", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", ".."];

/// The next word or sign of a text that begins with one.
fn first_piece(text: &str) -> Piece<'_> {
    if let Some(pair) = PAIRS.iter().find(|pair| text.starts_with(**pair)) {
        return Piece { text: &text[..pair.len()], is_word: false };
    }
    let bytes = text.as_bytes();
    let is_number = bytes[0].is_ascii_digit() || bytes[0] == b'.';
    let mut end = 0;
    while end < bytes.len() {
        let is_point = bytes[end] == b'.' && bytes.get(end + 1) != Some(&b'.');
        let is_exponent =
            is_number && end > 0 && matches!(bytes[end], b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        if !(bytes[end].is_ascii_alphanumeric() || bytes[end] == b'_' || is_point || is_exponent) {
            break;
        }
        end += 1;
    }
    match end {
        0 => Piece { text: &text[..text.chars().next().map_or(1, char::len_utf8)], is_word: false },
        _ => Piece { text: &text[..end], is_word: true },
    }
}

/// The words of a statement with the spaces of the layout.
fn spaced_words(statement: &str) -> String {
    let mut out = String::with_capacity(statement.len());
    let (mut rest, mut depth) = (statement.trim_start(), 0usize);
    let mut last: Option<Piece<'_>> = None;
    while !rest.is_empty() {
        let piece = first_piece(rest);
        rest = rest[piece.text.len()..].trim_start();
        match piece.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends_operand = last.is_some_and(|last| last.is_word || matches!(last.text, ")" | "]"));
        let [before, after] = match piece.text {
            _ if piece.is_word => [last.is_some_and(|last| last.is_word), false],
            "," | ";" => [false, true],
            ":" => [false, depth == 0],
            "=" => [depth == 0, depth == 0],
            "(" | "[" | ")" | "]" | ".." => [false, false],
            "->" => [true, true],
            _ => [ends_operand, ends_operand],
        };
        let is_open = out.is_empty() || out.ends_with([' ', '(', '[']);
        out.push_str(if before && !is_open { " " } else { "" });
        out.push_str(piece.text);
        out.push_str(if after && !rest.is_empty() { " " } else { "" });
        last = Some(piece);
    }
    // A trailing comma of a list ends with a bracket.
    out.replace(", )", ")").replace(", ]", "]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_of_the_layout() {
        let cases = [
            ("Y[ :,own ]=W+B[own]", "Y[:, own] = W + B[own]"),
            ("a=-1 + b*( -c )", "a = -1 + b * (-c)"),
            (
                "S:f32[t,r.h]=reduction( X,op = add,init=f32(-1e-3) )",
                "S: f32[t, r.h] = reduction(X, op=add, init=f32(-1e-3))",
            ),
            ("wait  allgather(A[ i%2 ]->G)", "wait allgather(A[i % 2] -> G)"),
            ("ok=!a&&b<=0x1f", "ok = !a && b <= 0x1f"),
            ("C = matmul(A,\n    B,)", "C = matmul(A, B)"),
        ];
        for (text, spaced) in cases {
            assert_eq!(spaced_words(text), spaced);
            assert_eq!(spaced_words(spaced), spaced);
        }
    }

    #[test]
    fn an_inferred_type_is_left_out() {
        assert_eq!(without_type("C:f32[m,n]=matmul(A,B)").as_deref(), Some("C=matmul(A,B)"));
        assert_eq!(without_type("C[i]=A[:,i]"), None);
    }
}
