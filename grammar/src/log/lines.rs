//! The lines of a log. A line that ends a program and continues with another one is two.

use crate::unfold::{CLOSE, OPEN};
use memchr::memmem;

/// One line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLine {
    pub(super) start: usize,
    /// In front of the line break.
    pub(super) end: usize,
    /// The start of the next line.
    pub(super) next: usize,
    /// True if the line continues where a program ends.
    pub(super) is_rest: bool,
    /// The start of a program's header.
    pub(super) open: Option<usize>,
    /// The end of the program that starts and ends on the line.
    pub(super) close: Option<usize>,
}

impl LogLine {
    pub(super) fn line_text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start..self.end]
    }

    /// The line break.
    pub(super) fn ending<'t>(&self, text: &'t str) -> &'t str {
        &text[self.end..self.next]
    }
}

/// The lines of a text.
pub(super) fn split_log_lines(text: &str) -> Vec<LogLine> {
    let mut lines = Vec::new();
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while start < text.len() {
        let next = memchr::memchr(b'\n', &text.as_bytes()[start..]).map_or(text.len(), |at| start + at + 1);
        push_line(text, start, next, &mut lines);
        start = next;
    }
    lines
}

fn push_line(text: &str, mut start: usize, next: usize, lines: &mut Vec<LogLine>) {
    let end = start + text[start..next].trim_end_matches(['\n', '\r']).len();
    let first = start;
    while let Some(cut) = find_cut(&text[start..end]) {
        lines.push(read_line(text, start, start + cut, start + cut, start > first));
        start += cut;
    }
    lines.push(read_line(text, start, end, next, start > first));
}

/// The end of a program that is followed by another one on the same line.
fn find_cut(line: &str) -> Option<usize> {
    let close = memmem::find(line.as_bytes(), CLOSE.as_bytes())? + CLOSE.len();
    let is_comment = line[close..].trim_start().starts_with("//");
    (!is_comment && line[close..].contains(OPEN)).then_some(close)
}

fn read_line(text: &str, start: usize, end: usize, next: usize, is_rest: bool) -> LogLine {
    let line = &text[start..end];
    let open = memmem::find(line.as_bytes(), OPEN.as_bytes());
    let close = open.and_then(|open| line[open..].find(CLOSE).map(|at| start + open + at + CLOSE.len()));
    LogLine { start, end, next, is_rest, open: open.map(|open| start + open), close }
}
