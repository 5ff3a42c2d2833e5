//! The part of a text that one diagnostic shows.
//!
//! A [`SourceExcerpt`] is a small text of its own: the lines that have labels, wide ones cut around them, with the
//! positions each piece has in the whole text. Its line and column numbers are the whole text's. Characters that would
//! act on the terminal are pieces of their own, shown as their numbers.

use super::fit::{self, LabelPart};
use codespan_reporting::files::{Error, Files};
use hostir::diag::visible::{self, is_hidden};
use hostir::diag::{Diag, DiagLabel, Span};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a line that is shown uncut.
const WIDE: usize = 200;
/// Bytes shown on either side of a label in a line that is cut.
const MARGIN: usize = 40;
/// Bytes shown of a label in a line that is cut.
const LABEL: usize = 100;
/// Lines shown at the start of a label of several lines, and at its end.
pub(super) const HEAD: usize = 3;
pub(super) const TAIL: usize = 1;
/// The sign for text that was cut.
pub(super) const CUT: &str = "…";

/// The starts of the lines of a text.
pub fn line_starts(text: &str) -> Vec<u32> {
    let breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    // Texts are shorter than 4 GiB; one of line ends alone has as many starts as bytes.
    let mut starts = Vec::with_capacity(breaks.clone().count() + 1);
    starts.push(0);
    starts.extend(breaks.map(|at| at as u32 + 1));
    starts
}

/// A text by its lines.
pub(super) struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<u32>,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, starts: line_starts(text) }
    }
    /// The whole text.
    pub(super) fn whole_text(&self) -> &'a str {
        self.text
    }
    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= offset).saturating_sub(1)
    }
    /// The line without its line break.
    fn line_range(&self, line: usize) -> Range<usize> {
        let start = self.starts[line] as usize;
        let end = self.starts.get(line + 1).map_or(self.text.len(), |&start| start as usize);
        start..start + self.text[start..end].trim_end_matches(['\n', '\r']).len()
    }
    /// Whether the line of a place shows nothing.
    pub(super) fn is_blank(&self, offset: usize) -> bool {
        self.text[self.line_range(self.index(floor_char_boundary(self.text, offset)))].trim().is_empty()
    }
    /// Line and column in characters, both from 0.
    pub(super) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let offset = floor_char_boundary(self.text, offset);
        let line = self.index(offset);
        (line, self.text[self.starts[line] as usize..offset].chars().count())
    }
}

/// The last character boundary at or before `at`.
pub(super) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A run of the whole text inside the view: unchanged, or one character as its number.
struct TextPiece {
    whole: Range<usize>,
    here: Range<usize>,
}

impl TextPiece {
    /// The column of a place of the whole text; a place inside of a number counts as its end.
    fn shown_offset(&self, offset: usize) -> usize {
        let into = offset.clamp(self.whole.start, self.whole.end) - self.whole.start;
        if into == self.whole.len() { self.here.end } else { self.here.start + into }
    }
    /// The place of the whole text that is shown at `here`.
    fn source_offset(&self, here: usize) -> usize {
        if here >= self.here.end {
            return self.whole.end;
        }
        (self.whole.start + here.saturating_sub(self.here.start)).min(self.whole.end)
    }
}

/// One line of the view.
struct ExcerptLine {
    number: usize,
    start: usize,
}

/// The visible text.
pub(super) struct SourceExcerpt<'a> {
    name: Cow<'a, str>,
    whole: &'a LineIndex<'a>,
    /// Columns for lines; `None` without a terminal.
    columns: Option<usize>,
    text: String,
    lines: Vec<ExcerptLine>,
    pieces: Vec<TextPiece>,
}

impl<'a> SourceExcerpt<'a> {
    /// The view of a diagnostic, and the diagnostic with its places in the view. On a terminal of `columns` the lines
    /// fit.
    pub(super) fn new(name: &'a str, whole: &'a LineIndex<'a>, diag: &Diag, columns: Option<usize>) -> (Self, Diag) {
        let (name, (text, lines, pieces)) = (visible::escape_line(name), Default::default());
        let mut view = Self { name, whole, columns: None, text, lines, pieces };
        let mut last = None;
        let wanted = view.wanted_lines(diag);
        let number = wanted.last_key_value().map_or(0, |(line, _)| line + 1);
        view.columns = columns.map(|columns| fit::columns_for_text(columns, number, diag));
        for (line, labels) in wanted {
            if last.is_some_and(|last| line > last + 1) {
                // For two empty lines codespan would print its mark for omitted lines.
                view.open_line(line);
                view.open_line(line);
            }
            view.push_line(line, &labels);
            last = Some(line);
        }
        let mut mapped = visible::escape_diag(diag);
        for label in mapped.labels_mut() {
            label.span = view.map_span(label.span);
        }
        (view, mapped)
    }
    /// Bytes of the view.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The lines to show, with the parts of labels in each.
    fn wanted_lines(&self, diag: &Diag) -> BTreeMap<usize, Vec<LabelPart>> {
        let mut wanted: BTreeMap<usize, Vec<LabelPart>> = BTreeMap::new();
        for DiagLabel { span, text } in diag.primary.iter().chain(&diag.labels) {
            let start = floor_char_boundary(self.whole.text, span.start as usize);
            let end = floor_char_boundary(self.whole.text, span.end as usize).max(start);
            let (first, last) = (self.whole.index(start), self.whole.index(end));
            for line in first..=last {
                if line >= first + HEAD && line + TAIL < last {
                    continue;
                }
                let range = self.whole.line_range(line);
                let range = start.clamp(range.start, range.end)..end.clamp(range.start, range.end);
                let words = if first == last { fit::text_columns(text) } else { 0 };
                wanted.entry(line).or_default().push(LabelPart { range, words });
            }
        }
        wanted
    }
    fn open_line(&mut self, number: usize) {
        if !self.lines.is_empty() {
            self.text.push('\n');
        }
        self.lines.push(ExcerptLine { number, start: self.text.len() });
    }
    fn push_line(&mut self, number: usize, labels: &[LabelPart]) {
        self.open_line(number);
        let range = self.whole.line_range(number);
        let mut at = range.start;
        let windows = match self.columns {
            Some(columns) => fit::line_windows(self.whole.text, &range, labels, columns),
            None => self.shown_windows(&range, labels),
        };
        for window in windows {
            if window.start > at {
                self.text.push_str(CUT);
            }
            at = window.end;
            self.push_pieces(window);
        }
        if at < range.end {
            self.text.push_str(CUT);
        }
    }
    /// Adds a part of a line, with hidden characters as their numbers.
    fn push_pieces(&mut self, window: Range<usize>) {
        let mut push = |whole: Range<usize>, shown: &str| {
            let start = self.text.len();
            self.text.push_str(shown);
            self.pieces.push(TextPiece { whole, here: start..self.text.len() });
        };
        let text = &self.whole.text[window.clone()];
        let mut at = window.start;
        for hidden in text.matches(is_hidden) {
            let start = hidden.as_ptr() as usize - text.as_ptr() as usize + window.start;
            push(at..start, &self.whole.text[at..start]);
            at = start + hidden.len();
            push(start..at, &visible::escape_line(hidden));
        }
        push(at..window.end, &self.whole.text[at..window.end]);
    }
    /// The parts of a line to show: all of it, or the surroundings of its labels.
    fn shown_windows(&self, line: &Range<usize>, labels: &[LabelPart]) -> Vec<Range<usize>> {
        if line.len() <= WIDE && visible::escape_line(&self.whole.text[line.clone()]).len() <= WIDE {
            return vec![line.clone()];
        }
        let text = self.whole.text;
        let around: Vec<Range<usize>> = labels
            .iter()
            .map(|LabelPart { range: label, .. }| {
                let start = floor_char_boundary(text, label.start.saturating_sub(MARGIN).max(line.start));
                let end = label.end.min(label.start + LABEL) + MARGIN;
                start..floor_char_boundary(text, end.min(line.end))
            })
            .collect();
        fit::merge_ranges(around)
    }
    /// A place of the whole text as one of the view; a place in an omitted part moves to the nearest edge.
    fn map_span(&self, span: Span) -> Span {
        let start = self.map_offset(span.start as usize);
        Span::new(start, self.map_offset(span.end as usize).max(start))
    }
    fn map_offset(&self, offset: usize) -> usize {
        let offset = floor_char_boundary(self.whole.text, offset);
        let next = self.pieces.partition_point(|piece| piece.whole.start <= offset);
        self.pieces.get(next.saturating_sub(1)).map_or(0, |piece| piece.shown_offset(offset))
    }
    /// The place of the whole text that is shown at `here`.
    fn unmap_offset(&self, here: usize) -> usize {
        let next = self.pieces.partition_point(|piece| piece.here.start <= here);
        self.pieces.get(next.saturating_sub(1)).map_or(0, |piece| piece.source_offset(here))
    }
}

impl<'a> Files<'a> for SourceExcerpt<'_> {
    type FileId = ();
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, (): ()) -> Result<&'a str, Error> {
        Ok(&self.name)
    }
    fn source(&'a self, (): ()) -> Result<&'a str, Error> {
        Ok(&self.text)
    }
    fn line_index(&'a self, (): (), byte: usize) -> Result<usize, Error> {
        Ok(self.lines.partition_point(|line| line.start <= byte).saturating_sub(1))
    }
    fn line_number(&'a self, (): (), index: usize) -> Result<usize, Error> {
        Ok(self.lines.get(index).map_or(0, |line| line.number) + 1)
    }
    fn column_number(&'a self, (): (), _: usize, byte: usize) -> Result<usize, Error> {
        Ok(self.whole.line_and_column(self.unmap_offset(byte)).1 + 1)
    }
    fn line_range(&'a self, (): (), index: usize) -> Result<Range<usize>, Error> {
        let missing = Error::LineTooLarge { given: index, max: self.lines.len().saturating_sub(1) };
        let start = self.lines.get(index).ok_or(missing)?.start;
        let end = self.lines.get(index + 1).map_or(self.text.len(), |next| next.start);
        Ok(start..end)
    }
}
