//! Joins lines that a terminal or `fold` broke at a fixed width.

use crate::unfold::CLOSE;

/// The smallest width that lines are wrapped at.
const MIN_WIDTH: usize = 20;

/// The place of a line in the log, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePart {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Returns true if some of the longest lines end where no statement, list or line of nvFuser ends.
pub(super) fn may_be_wrapped<'t>(lines: impl Iterator<Item = &'t str> + Clone) -> bool {
    let width = lines.clone().map(str::len).max().unwrap_or(0);
    width >= MIN_WIDTH && lines.into_iter().any(|line| line.len() == width && !is_whole(line) || line.ends_with(' '))
}

/// Returns true if a line ends where a line that nvFuser printed may end.
fn is_whole(line: &str) -> bool {
    line.ends_with([')', ',', ']', '}', ';', ':', '{', '='])
}

/// The lines of a program with wrapped lines joined, if that leaves fewer errors.
pub(super) fn join_wrapped(text: &str, lines: &[LinePart]) -> Option<Vec<Vec<LinePart>>> {
    let plain: Vec<Vec<LinePart>> = lines.iter().map(|line| vec![*line]).collect();
    let before = count_errors(text, &plain);
    if before == 0 {
        return None;
    }
    let mut best = None;
    for at_blanks in [false, true] {
        let joined = join_at_width(text, lines, at_blanks);
        let errors = count_errors(text, &joined);
        if errors < best.as_ref().map_or(before, |(errors, _)| *errors) {
            best = Some((errors, joined));
        }
    }
    best.map(|(_, joined)| joined)
}

fn count_errors(text: &str, lines: &[Vec<LinePart>]) -> usize {
    let mut whole = String::new();
    for line in lines {
        line.iter().for_each(|part| whole.push_str(&text[part.start..part.end]));
        whole.push('\n');
    }
    crate::parse(&whole).errors.len()
}

/// Joins lines of the full width with the next one; with `at_blanks` also those that end in a blank.
fn join_at_width(text: &str, lines: &[LinePart], at_blanks: bool) -> Vec<Vec<LinePart>> {
    let width = lines.iter().map(|line| line.end - line.start).max().unwrap_or(0);
    let mut joined: Vec<Vec<LinePart>> = Vec::new();
    let mut depth = 0i64;
    let mut goes_on = false;
    for (at, part) in lines.iter().enumerate() {
        let line = &text[part.start..part.end];
        match joined.last_mut().filter(|_| goes_on) {
            Some(last) => last.push(*part),
            None => {
                joined.push(vec![*part]);
                depth = 0;
            }
        }
        depth += bracket_balance(line);
        let is_cut = line.len() == width || at_blanks && line.ends_with(' ');
        let next = lines.get(at + 1).map(|next| &text[next.start..next.end]);
        goes_on = width >= MIN_WIDTH && is_cut && next.is_some_and(|next| continues(line, depth, next));
    }
    joined
}

/// The opening brackets of a line less the closing ones, without the brace of a section.
fn bracket_balance(line: &str) -> i64 {
    let section = ["%HostIrContainer {", "%kernel {"].iter().any(|word| line.contains(word));
    let count = |brackets: &[u8]| line.bytes().filter(|byte| brackets.contains(byte)).count() as i64;
    count(b"([{") - count(b")]}") - i64::from(section)
}

/// Returns true if a line of the full width, with a depth of brackets at its end, continues in the next line.
fn continues(line: &str, depth: i64, next: &str) -> bool {
    if next.starts_with(CLOSE) || next.trim().is_empty() {
        return false;
    }
    if depth > 0 {
        return true;
    }
    let own_line = ["  ", "}", "HostUnit", "Inputs:", "Outputs:", "%kernel", "%HostIrContainer"];
    let is_closed = line.trim_end().ends_with([';', ')', '}', '{', ':']);
    let starts_own = own_line.iter().any(|start| next.starts_with(start));
    !starts_own && (!is_closed || !next.starts_with(char::is_alphanumeric))
}
