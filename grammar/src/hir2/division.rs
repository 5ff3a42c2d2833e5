//! `//`, which begins a comment, where the quotient of other languages is meant: `p = rank // 2`.

use super::parser::Parser;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;

/// The code of a `//` that is meant as an operator.
pub const DIVISION_CODE: &str = "H0026";

/// The repair in words.
pub const DIVISION_NOTE: &str = "integers are divided by `/`, which truncates toward zero";

/// Brackets and signs around an operand that are read.
const MAX_DEPTH: u32 = 32;

/// Infix operators; the longer ones stand first.
const INFIX: &[&str] =
    &["||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "+", "-", "*", "//", "/", "%", "|", "^", "&"];

/// The expression that a comment begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommentedDivisor<'t> {
    /// The expression.
    pub text: &'t str,
    /// The names in it, without those of functions.
    pub names: Vec<&'t str>,
    /// True if it is a number, a name, a call or an expression in brackets, or begins with a number.
    pub is_plain: bool,
    /// True if it is one number.
    pub is_number: bool,
    /// The rest of the comment, without blanks at its start.
    pub after: &'t str,
}

impl<'t> CommentedDivisor<'t> {
    /// Reads the expression after the `//` of a comment; `None` if the comment begins with something else, or with 0,
    /// which divides nothing.
    ///
    /// ```
    /// use hostir_grammar::hir2::division::CommentedDivisor;
    ///
    /// let divisor = CommentedDivisor::of_comment("// 2 * n) % 4").unwrap();
    /// assert_eq!((divisor.names, divisor.after), (vec!["n"], ") % 4"));
    /// assert!(CommentedDivisor::of_comment("// of 2 ranks").unwrap().after.starts_with("2 ranks"));
    /// assert_eq!(CommentedDivisor::of_comment("// 2.5 ms"), None);
    /// assert_eq!(CommentedDivisor::of_comment("// 0"), None);
    /// ```
    pub fn of_comment(comment: &'t str) -> Option<Self> {
        let rest = comment.strip_prefix("//")?;
        let mut reader = DivisorReader { rest, names: Vec::new() };
        reader.read_operand(0)?;
        let first = rest[..rest.len() - reader.rest.len()].trim();
        if !first.is_empty() && first.bytes().all(|byte| byte == b'0') {
            return None;
        }
        let after_first = reader.rest.trim_start();
        reader.read_operators(0);
        let after = reader.rest.trim_start();
        let starts_with_digit = rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let is_single = after_first.len() == after.len();
        let is_number = is_single && starts_with_digit;
        let text = rest[..rest.len() - after.len()].trim();
        Some(Self { text, names: reader.names, is_plain: is_single || starts_with_digit, is_number, after })
    }

    /// True if a name of it, or the number that it is, stands in an expression: the comment may speak of that.
    ///
    /// ```
    /// use hostir_grammar::hir2::division::CommentedDivisor;
    ///
    /// let divisor = CommentedDivisor::of_comment("// 4").unwrap();
    /// assert!(divisor.repeats_part_of("rank % 4") && !divisor.repeats_part_of("rank % 44"));
    /// ```
    pub fn repeats_part_of(&self, expression: &str) -> bool {
        let number = self.is_number.then_some(self.text);
        let mut words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        words.any(|word| self.names.contains(&word) || number == Some(word))
    }
}

/// Reads an expression from the start of a text.
struct DivisorReader<'t> {
    rest: &'t str,
    names: Vec<&'t str>,
}

impl<'t> DivisorReader<'t> {
    fn skip_sign(&mut self, sign: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(sign)?;
        Some(())
    }

    fn read_operand(&mut self, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.rest = self.rest.trim_start_matches(' ');
        if self.rest.starts_with(['-', '!']) {
            self.rest = &self.rest[1..];
            return self.read_operand(depth + 1);
        }
        if self.rest.starts_with('(') {
            self.rest = &self.rest[1..];
            return self.read_list(depth);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let (word, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.rest = after;
            return word.bytes().all(|byte| byte.is_ascii_digit()).then_some(());
        }
        if word.is_empty() || word.starts_with('.') || word.ends_with('.') {
            return None;
        }
        self.rest = after;
        if self.skip_opening() {
            return self.read_list(depth);
        }
        self.names.push(word);
        Some(())
    }

    fn skip_opening(&mut self) -> bool {
        let after = self.rest.strip_prefix('(');
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Expressions up to a closing bracket.
    fn read_list(&mut self, depth: u32) -> Option<()> {
        loop {
            self.read_operand(depth + 1)?;
            self.read_operators(depth + 1);
            if self.skip_sign(",").is_none() {
                return self.skip_sign(")");
            }
        }
    }

    /// Operators and their right sides, as far as they go.
    fn read_operators(&mut self, depth: u32) {
        loop {
            let (before, known) = (self.rest, self.names.len());
            let rest = before.trim_start_matches(' ');
            let Some(operator) = INFIX.iter().find(|operator| rest.starts_with(**operator)) else { return };
            self.rest = &rest[operator.len()..];
            if self.read_operand(depth).is_none() {
                self.rest = before;
                self.names.truncate(known);
                return;
            }
        }
    }
}

/// The bracket that a text closes and does not open.
fn closed_bracket(text: &str) -> Option<char> {
    let mut open = 0u32;
    text.chars().find(|character| {
        match character {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' if open == 0 => return true,
            ')' | ']' | '}' => open -= 1,
            _ => {}
        }
        false
    })
}

impl<'t> Parser<'t> {
    /// The comment directly after the token before.
    fn comment_after(&self) -> Option<&'t str> {
        let line = self.text[self.last_span().end as usize..].lines().next()?;
        Some(line.trim_start_matches(' ').trim_end()).filter(|rest| rest.starts_with("//"))
    }

    /// The expression that the comment after the token before begins with, if all its names are in the text.
    fn divisor_after(&self) -> Option<CommentedDivisor<'t>> {
        let divisor = CommentedDivisor::of_comment(self.comment_after()?)?;
        let is_known = |name: &&str| self.file.strings.find_symbol(name.split('.').next().unwrap_or(name)).is_some();
        divisor.names.iter().all(is_known).then_some(divisor)
    }

    /// Reports a `//` after an operand in brackets, `G[rank // 2]`, that has their end in its comment. The next token
    /// is on another line.
    #[cold]
    pub(super) fn report_division_in_brackets(&mut self) -> bool {
        let Some(comment) = self.comment_after() else { return false };
        let ends = [")", "]", "}", ",", ";", ":", "->", "..", "ex "];
        let found = self.divisor_after().is_some_and(|divisor| ends.iter().any(|end| divisor.after.starts_with(end)));
        // A comment may close a bracket that the next line closes, too.
        let next = self.text[self.peek().span.start as usize..].chars().next();
        let closed = closed_bracket(comment).filter(|closed| Some(*closed) != next && next != Some(','));
        let is_meant = found && closed.is_some();
        if is_meant {
            self.report_division(comment);
        }
        is_meant
    }

    /// Reports a `//` in a header, `if rank // 2 == 0:`, whose colon is in the comment.
    #[cold]
    pub(super) fn report_division_in_header(&mut self) -> bool {
        let Some(comment) = self.comment_after() else { return false };
        let ends = [":", "..", "step ", "on streams"];
        let found = self.divisor_after().is_some_and(|divisor| ends.iter().any(|end| divisor.after.starts_with(end)));
        let is_meant = found && comment.contains(':');
        if is_meant {
            self.report_division(comment);
        }
        is_meant
    }

    /// True if the last error is a `//` after this place.
    pub(super) fn has_division_from(&self, start: u32) -> bool {
        let last = self.errors.items.last();
        last.is_some_and(|error| error.code == DIVISION_CODE && error.span.start >= start)
    }

    fn report_division(&mut self, comment: &str) {
        let line = &self.text[self.last_span().end as usize..];
        let start = self.last_span().end as usize + line.find(comment).unwrap_or(0);
        let sign = Span::new(start, start + 2);
        let error = SyntaxError::new(Code::Division, sign, "`//` begins a comment").with_note(DIVISION_NOTE);
        self.report(error.with_edit(SyntaxEdit { span: sign, text: "/".to_owned() }));
    }
}
