//! Statements of `hir 2` that are left out of a text, so that the rest can be judged.

use crate::ir::COMMUNICATION_WORDS;
use std::ops::Range;

/// Words that begin statements other than `name = value`.
const OTHER_STATEMENTS: &[&str] =
    &["wait", "sync", "stream", "free", "share", "alias", "define", "assert", "print", "for", "if", "else", "launch"];

/// Ops that communicate without an arrow among their arguments.
const COMMUNICATIONS: &[&str] = &["send", "recv", "Dispatch", "Combine", "launch", "alloc"];

/// A statement without effect.
pub(super) const NO_EFFECT: &str = "assert 1 == 1";

/// A line whose statement computes, and what stands there in its place.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct PoisonedLine {
    /// The statement's bytes of the line.
    pub(super) place: Range<usize>,
    /// The text in its place: the declaration of its result, or a statement without effect.
    pub(super) text: String,
    /// The name that it defines or writes.
    pub(super) target: String,
    /// True if it writes a part of a tensor, which another statement declares.
    pub(super) is_part: bool,
    /// The name of a communication that is left out.
    pub(super) handle: Option<String>,
}

impl PoisonedLine {
    /// The statement of a line of `hir 2`; `None` if it does not only compute: ranks or streams that expect a
    /// communication would wait for ever. With `keeps_result` the result of `A + B` is a copy of `A`.
    pub(super) fn of_line(line: &str, keeps_result: bool) -> Option<Self> {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let start = statement_start(code)?;
        let statement = &code[start..];
        let equals = find_outside(statement, '=')?;
        let (target, value) = (statement[..equals].trim_end(), statement[equals + 1..].trim_start());
        let name_length = target.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (name, rest) = (&target[..name_length], target[name_length..].trim_start());
        let called = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let computes = !value.contains("->") && !value.starts_with('{') && !COMMUNICATIONS.contains(&called);
        let is_plain = !name.is_empty() && !OTHER_STATEMENTS.contains(&name) && find_outside(rest, ',').is_none();
        if !computes || !is_plain {
            return None;
        }
        let text = match rest.starts_with(':') {
            true => format!("{target} = alloc"),
            // What uses the result can be read, and is not about it.
            false if rest.is_empty() && keeps_result => match infix_operand(value) {
                Some(operand) => format!("{target} = Set({operand})"),
                None => NO_EFFECT.to_owned(),
            },
            false => NO_EFFECT.to_owned(),
        };
        Some(Self {
            place: start..code.len(),
            text,
            target: name.to_owned(),
            is_part: rest.starts_with('['),
            handle: None,
        })
    }

    /// The collective of a line: all of its ranks leave it out. `None` if it is in a group, or no collective.
    pub(super) fn of_collective(line: &str) -> Option<Self> {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let start = statement_start(code)?;
        let (head, arguments) = code[start..].split_once('(')?;
        let word = head.rsplit(' ').next()?;
        let target = arguments.split_once(" -> ")?.1;
        let length = target.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let handle = head.split_once(" = ").map(|(name, _)| name.split('[').next().unwrap_or(name).to_owned());
        let is_known = COMMUNICATION_WORDS.iter().any(|(known, _)| *known == word) && !head.contains('{');
        let target = target[..length].to_owned();
        is_known.then(|| Self { place: start..code.len(), text: NO_EFFECT.to_owned(), target, is_part: false, handle })
    }

    /// The same for the output of a program, which needs a declaration.
    pub(super) fn of_output(self) -> Self {
        match self.text.ends_with(" = alloc") || self.is_part || self.handle.is_some() {
            true => self,
            false => Self { text: format!("{} = alloc", self.target), ..self },
        }
    }
}

/// The first operand of `A + B` with two names: the result mostly has its type.
fn infix_operand(value: &str) -> Option<&str> {
    let parts: Vec<&str> = value.split_whitespace().collect();
    let [left, operator, right] = parts[..] else { return None };
    let are_names = [left, right].iter().all(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    (are_names && matches!(operator, "+" | "-" | "*" | "/")).then_some(left)
}

/// The first byte of the statement after the headers on its line; `None` if there is none.
fn statement_start(code: &str) -> Option<usize> {
    let mut start = code.len() - code.trim_start().len();
    while ["if ", "for ", "else"].iter().any(|word| code[start..].starts_with(word)) {
        let colon = start + find_outside(&code[start..], ':')?;
        let rest = &code[colon + 1..];
        start = colon + 1 + (rest.len() - rest.trim_start().len());
    }
    (start < code.len()).then_some(start)
}

/// The first place of a character outside of brackets; `=` is no part of a comparison.
fn find_outside(text: &str, wanted: char) -> Option<usize> {
    let mut depth = 0;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let next = text[at + character.len_utf8()..].chars().next();
        let is_comparison = character == '=' && ("=<>!".contains(before) || next == Some('='));
        match character {
            _ if character == wanted && depth == 0 && !is_comparison => return Some(at),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        before = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line without what computes, and the name that it would have written.
    fn left_out(line: &str) -> Option<(String, String)> {
        let poisoned = PoisonedLine::of_line(line, false)?;
        Some((format!("{}{}", &line[..poisoned.place.start], poisoned.text), poisoned.target))
    }

    #[test]
    fn only_what_computes_is_left_out() {
        let typed = left_out("  S: f32[a:2, n] = relu(A) // x");
        assert_eq!(typed, Some(("  S: f32[a:2, n] = alloc".to_owned(), "S".to_owned())));
        let part = left_out("  if s == 0: C[s, own] = matmul(A, B)");
        assert_eq!(part, Some(("  if s == 0: assert 1 == 1".to_owned(), "C".to_owned())));
        let kept = ["  h = allgather(A -> G)", "  h = { send(A, to=1) }", "  A, L = sdpa(Q, K, V)", "  for i in 4:"];
        assert!(kept.iter().all(|line| left_out(line).is_none()));
        assert_eq!(left_out("  wait h"), None);
        assert_eq!(left_out("f(A: f32[n]) -> (B: f32[n]):"), None);
    }
}
