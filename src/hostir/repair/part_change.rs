//! A part of a line with another text, and the parts of calls and lists.

use std::ops::Range;

/// A part of a line and the text that may have been meant there.
pub(super) struct PartChange {
    pub(super) part: Range<usize>,
    pub(super) text: String,
    pub(super) doubt: u32,
}

impl PartChange {
    pub(super) fn new(part: Range<usize>, text: impl Into<String>, doubt: u32) -> Self {
        Self { part, text: text.into(), doubt }
    }
}

/// The value of an argument: up to a comma or the bracket that closes the call.
pub(super) fn argument_value(code: &str, key: &str) -> Option<Range<usize>> {
    let begin = code.find(key)? + key.len();
    let mut depth = 0;
    for (at, letter) in code[begin..].char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' | ',' if depth == 0 => return Some(begin..begin + at),
            ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The parts of a list that `, ` separates.
pub(super) fn comma_parts(code: &str, list: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut begin, mut depth) = (list.start, 0);
    for (at, letter) in code[list.clone()].char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(begin..list.start + at);
                begin = (list.start + at + 2).min(list.end);
            }
            _ => {}
        }
    }
    parts.push(begin..list.end);
    parts
}

/// The operands of a call.
pub(super) fn split_operands(list: &str) -> Vec<&str> {
    let (mut begin, mut depth) = (0, 0);
    let mut found = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(list[begin..].trim());
    found
}
