//! Excerpts that fit the terminal.

use hostir::diag::Diag;
use hostir::diag::visible::is_hidden;
use std::ops::Range;
use unicode_width::UnicodeWidthChar as _;

/// A terminal that is narrower breaks lines.
const LEAST: usize = 24;
/// Columns that a tab takes at most.
const TAB: usize = 4;
/// Columns shown before a label, however long its words are.
const BEFORE: usize = 8;

/// The part of one line that a label marks.
pub(super) struct LabelPart {
    pub(super) range: Range<usize>,
    /// Columns of the text that follows the mark.
    pub(super) words: usize,
}

/// Columns of a character, at least one: many combining marks on one letter must not be shown without end.
fn char_columns(c: char) -> usize {
    match c {
        '\t' => TAB,
        _ if is_hidden(c) => c.escape_unicode().count(),
        _ => c.width().unwrap_or(1).max(1),
    }
}

/// Columns of a text.
pub(super) fn text_columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Columns for the text of a line: those of the terminal without the line's number, which has at most as many digits as
/// `number`, its rule, and a rule for each label of several lines.
pub(super) fn columns_for_text(terminal: usize, number: usize, diag: &Diag) -> usize {
    let digits = number.max(1).ilog10() as usize + 1;
    // The number of labels with several lines is not known here; more than two are rare.
    let rules = 2 * diag.primary.iter().chain(&diag.labels).count().min(2);
    // A cursor after the last column breaks the line on some terminals.
    terminal.saturating_sub(digits + 3 + rules + 1).max(LEAST)
}

/// The parts of a line to show in so many columns: all of it, or the surroundings of its labels.
pub(super) fn line_windows(text: &str, line: &Range<usize>, labels: &[LabelPart], room: usize) -> Vec<Range<usize>> {
    let words = labels.iter().map(|label| text_columns(&text[line.start..label.range.end]) + 1 + label.words);
    if text_columns(&text[line.clone()]).max(words.max().unwrap_or(0)) <= room {
        return vec![line.clone()];
    }
    // Each with a sign on either side for omitted text.
    let share = (room / labels.len().max(1)).saturating_sub(2).max(1);
    merge_ranges(labels.iter().map(|label| label_window(text, line, label, share)).collect())
}

/// The part of a line around a label that fits so many columns: half of the remaining columns on either side, less
/// before the label if its words need the room, and more after it then.
fn label_window(text: &str, line: &Range<usize>, label: &LabelPart, room: usize) -> Range<usize> {
    let marked = text_head(&text[label.range.clone()], room);
    let left = room - text_columns(marked);
    let for_words = left.saturating_sub(label.words + 1).max(BEFORE.min(left));
    let before = text_tail(&text[line.start..label.range.start], (left / 2).min(for_words));
    let start = label.range.start - before.len();
    let end = label.range.start + marked.len();
    let after = text_head(&text[end..line.end], left - text_columns(before));
    // Room that is not needed after the label shows more of the text before it.
    let unused = left - text_columns(before) - text_columns(after);
    let room_for_words = unused.min(for_words.saturating_sub(text_columns(before)));
    let more = text_tail(&text[line.start..start], room_for_words);
    start - more.len()..end + after.len()
}

/// The start of a text, of at most so many columns.
fn text_head(text: &str, room: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += char_columns(*c);
        used > room
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// The end of a text, of at most so many columns.
fn text_tail(text: &str, room: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += char_columns(*c);
        used > room
    });
    &text[start.map_or(0, |(at, c)| at + c.len_utf8())..]
}

/// Ranges in order, those that touch as one.
pub(super) fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
