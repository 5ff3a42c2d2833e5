//! Communications of a text that no name is given to, and the name that a `wait` asks for.

use super::lines::line_number;
use crate::diag::{Applicability, Fix, Span};
use crate::ir::COMMUNICATION_WORDS;

/// A communication without a name.
pub(super) struct UnnamedPost {
    /// The text in front of it that a name replaces: `wait `, or nothing.
    head: Span,
    /// The communication.
    text: String,
}

/// The communications without a name of the program around a place, the nearest before it first.
pub(super) fn posts_without_name(text: &str, at: usize) -> Vec<UnnamedPost> {
    let mut found: Vec<UnnamedPost> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        found.extend(unnamed_post(line, start));
        if start > at && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        if start <= at && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            found.clear();
        }
        start += line.len();
    }
    found.sort_by_key(|post| (post.head.start as usize).abs_diff(at));
    found
}

/// The communication of a line, which begins at an offset.
fn unnamed_post(line: &str, start: usize) -> Option<UnnamedPost> {
    let code = line.split("//").next()?.trim_end();
    let own = code.len() - code.trim_start().len();
    let begin = match code[own..].starts_with("if ") || code[own..].starts_with("else:") {
        true => code.find(": ")? + 2,
        false => own,
    };
    let statement = &code[begin..];
    let bare = statement.strip_prefix("wait ").unwrap_or(statement);
    let head = Span::new(start + begin, start + begin + statement.len() - bare.len());
    is_post(bare).then(|| UnnamedPost { head, text: bare.to_owned() })
}

/// Returns true for a statement that begins as a communication or a group of them.
fn is_post(statement: &str) -> bool {
    let word = statement.split_once('(').map_or("", |(word, _)| word);
    let is_collective = COMMUNICATION_WORDS.iter().any(|(known, _)| *known == word);
    statement.starts_with('{') || is_collective || ["send", "recv", "permute"].contains(&word)
}

/// The edit that gives a communication a name.
pub(super) fn take_name(text: &str, post: &UnnamedPost, name: &str) -> Fix {
    let number = line_number(text, post.head.start) + 1;
    let message = format!("give the communication of line {number} this name, `{name} = {}`", post.text);
    let fix = Fix::replacement(message, post.head, format!("{name} = "));
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}
