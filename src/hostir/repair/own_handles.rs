//! Names for communications that share one.

use super::lines::{indent_width, line_number};
use crate::diag::{Applicability, Diag, Fix, Span, TextEdit};

/// The edit that gives the second of two communications in a row a name and a `wait` of its own. `places` are those of
/// the name that both have.
pub(super) fn name_second(text: &str, diag: &Diag, places: &[Span]) -> Option<Fix> {
    let (first, second) = (diag.labels.first()?.span, diag.primary.as_ref()?.span);
    if !are_beside(text, first, second) {
        return None;
    }
    let start = *places.iter().find(|place| place.start == second.start)?;
    let name = text.get(start.as_usize_range())?;
    let other = unused_name(text, name)?;
    let waits: Vec<Span> = places.iter().copied().filter(|&place| !is_start(text, place)).collect();
    let between = waits.iter().any(|wait| first.end <= wait.start && wait.start < second.start);
    let later: Vec<Span> = waits.into_iter().filter(|wait| wait.start >= second.end).collect();
    let rename = |span: Span| TextEdit { span, text: other.clone() };
    let mut edits = vec![rename(start)];
    match (between, later.as_slice()) {
        (_, []) => return None,
        (true, all) => edits.extend(all.iter().copied().map(rename)),
        (false, [wait]) => edits.push(wait_after(text, *wait, &other)?),
        (false, [.., last]) => edits.push(rename(*last)),
    }
    let post = text.get(start.end as usize..second.end as usize)?;
    let message = format!("write `{other}{post}` and `wait {other}`");
    Some(Fix { message: message.into(), edits, applicability: Applicability::Untried })
}

/// Returns true if two statements begin lines of one block.
fn are_beside(text: &str, first: Span, second: Span) -> bool {
    let [one, other] = [first, second].map(|span| line_number(text, span.start));
    let lines: Vec<&str> = text.lines().skip(one).take(other.saturating_sub(one) + 1).collect();
    let Some(indent) = lines.first().map(|line| indent_width(line)) else { return false };
    let is_inside = |line: &&str| line.trim().is_empty() || indent_width(line) >= indent;
    let begins = |span: Span| text[..span.start as usize].ends_with(&format!("\n{}", " ".repeat(indent)));
    lines.iter().all(is_inside) && begins(first) && begins(second)
}

/// Returns true if a communication is given the name at a place.
fn is_start(text: &str, place: Span) -> bool {
    text.get(place.end as usize..).is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// `h2` for `h`.
fn unused_name(text: &str, name: &str) -> Option<String> {
    let code = || text.lines().filter_map(|line| line.split("//").next());
    let words = || code().flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let mut names = (2..=MOST_NAMES).map(|number| format!("{name}{number}"));
    names.find(|other| words().all(|word| word != other))
}

/// Inserts a `wait` on a line after that of another one.
fn wait_after(text: &str, wait: Span, name: &str) -> Option<TextEdit> {
    let start = text[..wait.start as usize].rfind('\n')? + 1;
    let line = text.get(start..)?.split_inclusive('\n').next()?;
    let added = format!("{}wait {name}", " ".repeat(indent_width(line)));
    let added = if line.ends_with('\n') { added + "\n" } else { format!("\n{added}") };
    let end = start + line.len();
    line.trim_start().strip_prefix("wait ")?;
    Some(TextEdit { span: Span::new(end, end), text: added })
}

/// The number of names that are tried.
const MOST_NAMES: usize = 100;
