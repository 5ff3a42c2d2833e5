//! Fixes: edits of the text that repair the cause of a diagnostic.

use super::{Message, Span};
use std::fmt::Write as _;

/// The certainty that a fix is what the author wants, as rustc grades its suggestions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applicability {
    /// Tools may apply it: it removes the diagnostic, and breaks nothing that was right before.
    MachineApplicable,
    /// It may be what the author wants.
    MaybeIncorrect,
    /// A rewording that has not been tried yet: if it works, tools may apply it.
    Untried,
    /// The repair is described in words only; there are no edits.
    InWords,
}

impl Applicability {
    /// The word for it in JSON, as in rustc's.
    pub fn word(self) -> &'static str {
        match self {
            Applicability::MachineApplicable => "MachineApplicable",
            Applicability::MaybeIncorrect | Applicability::Untried => "MaybeIncorrect",
            Applicability::InWords => "Unspecified",
        }
    }
}

/// The replacement of a part of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextEdit {
    /// The text that is replaced; empty for an insertion.
    pub span: Span,
    /// The text in its place; empty for a deletion.
    pub text: String,
}

/// A repair of what a diagnostic is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// The effect of the edits in a few words, without a full stop.
    pub message: Message,
    /// The edits, in the order of the text; they do not overlap.
    pub edits: Vec<TextEdit>,
    /// The certainty that it is right.
    pub applicability: Applicability,
}

impl Fix {
    /// A repair that is only described.
    pub fn in_words(message: impl Into<Message>) -> Self {
        Self { message: message.into(), edits: Vec::new(), applicability: Applicability::InWords }
    }

    /// A fix of one edit that has not been tried yet.
    pub fn replacement(message: impl Into<Message>, span: Span, text: impl Into<String>) -> Self {
        let edits = vec![TextEdit { span, text: text.into() }];
        Self { message: message.into(), edits, applicability: Applicability::MaybeIncorrect }
    }

    /// Whether tools may apply it.
    pub fn is_machine_applicable(&self) -> bool {
        self.applicability == Applicability::MachineApplicable
    }

    /// Applies the edits to the text; `None` if they overlap or do not fit it.
    pub fn apply_to(&self, text: &str) -> Option<String> {
        apply_edits(text, &self.edits)
    }
}

/// Applies edits in the order of the text; `None` if they overlap or do not fit it.
pub fn apply_edits(text: &str, edits: &[TextEdit]) -> Option<String> {
    let mut out = String::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut done = 0;
    for edit in edits {
        out.push_str(text.get(done..edit.span.start as usize)?);
        out.push_str(&edit.text);
        done = edit.span.end.max(edit.span.start) as usize;
    }
    out.push_str(text.get(done..)?);
    Some(out)
}

/// The maximum product of the line counts of two texts that are compared line by line.
const MOST_COMPARED: usize = 1 << 22;

/// The edits of whole lines that turn one text into another: the minimum number of lines, unless the texts are very
/// long.
///
/// ```
/// use hostir::diag::fix::{apply_edits, line_edits};
///
/// let edits = line_edits("a\nb\nc\n", "a\nx\nb\n");
/// assert_eq!(edits.len(), 2);
/// assert_eq!(apply_edits("a\nb\nc\n", &edits).as_deref(), Some("a\nx\nb\n"));
/// ```
pub fn line_edits(old: &str, new: &str) -> Vec<TextEdit> {
    let (old_lines, new_lines) = (split_lines(old), split_lines(new));
    let mut aligned = aligned_lines(&old_lines, &new_lines);
    aligned.push((old_lines.len(), new_lines.len()));
    let mut edits = Vec::new();
    // The first lines after those that were aligned last, and the place of that in the old text.
    let (mut i, mut j, mut at) = (0, 0, 0);
    for (old_line, new_line) in aligned {
        let end = at + old_lines[i..old_line].iter().map(|line| line.len()).sum::<usize>();
        if (i, j) != (old_line, new_line) {
            edits.push(TextEdit { span: Span::new(at, end), text: new_lines[j..new_line].concat() });
        }
        at = end + old_lines.get(old_line).map_or(0, |line| line.len());
        (i, j) = (old_line + 1, new_line + 1);
    }
    edits
}

/// Lines of two texts that are equal, in the order of both: the maximum number, unless the texts are very long.
pub(crate) fn aligned_lines<T: PartialEq>(old: &[T], new: &[T]) -> Vec<(usize, usize)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut aligned: Vec<(usize, usize)> = (0..head).map(|line| (line, line)).collect();
    if old_rest.len().saturating_mul(new_rest.len()) <= MOST_COMPARED {
        let common = common_lengths(old_rest, new_rest);
        let (mut i, mut j) = (0, 0);
        while i < old_rest.len() && j < new_rest.len() {
            if old_rest[i] == new_rest[j] {
                aligned.push((head + i, head + j));
                (i, j) = (i + 1, j + 1);
            } else if common[i][j + 1] >= common[i + 1][j] {
                j += 1;
            } else {
                i += 1;
            }
        }
    }
    aligned.extend((0..tail).rev().map(|line| (old.len() - 1 - line, new.len() - 1 - line)));
    aligned
}

/// The lines of a text with their line breaks.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// By position in two lists of lines: the number of lines that their rests have in common, in order.
fn common_lengths<T: PartialEq>(old: &[T], new: &[T]) -> Vec<Vec<u32>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    common
}

/// The maximum number of columns that an edit shows.
const SHOWN: usize = 160;

/// The lines that edits change, one a line: the number, `-` for a removed line and `+` for an added one, and the line.
/// After a mere insertion comes the line that follows it.
pub fn edited_lines(text: &str, edits: &[TextEdit]) -> String {
    let rows = list_edited(text, edits);
    let width = rows.iter().map(|row| row.number.to_string().len()).max().unwrap_or(0);
    let mut out = String::new();
    for row in &rows {
        let line = row.line.trim_end();
        let cut = line.char_indices().nth(SHOWN).map_or(line.len(), |(at, _)| at);
        let more = if cut < line.len() { "…" } else { "" };
        let _ = writeln!(out, "{:>width$} {} {}{more}", row.number, row.sign, &line[..cut]);
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// A line that an edit changes, or a neighbour of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EditedLine {
    /// From 1: in the old text for a removed line, else in the new one.
    pub number: usize,
    /// `-` if it is removed, `+` if it is added, else a blank.
    pub sign: char,
    /// The line with its line break.
    pub line: String,
}

/// The lines that edits change, in order.
pub fn list_edited(text: &str, edits: &[TextEdit]) -> Vec<EditedLine> {
    let mut listed = EditedLines { text, shift: 0, rows: Vec::new() };
    joined_edits(text, edits).iter().for_each(|edit| listed.add_edit(edit));
    listed.rows
}

/// The edits, those within one line as one.
fn joined_edits(text: &str, edits: &[TextEdit]) -> Vec<TextEdit> {
    let mut joined: Vec<TextEdit> = Vec::new();
    for edit in edits {
        let last = joined.last_mut().filter(|last| !last.text.ends_with('\n'));
        let between = last.as_ref().and_then(|last| text.get(last.span.end as usize..edit.span.start as usize));
        match (last, between.filter(|between| !between.contains('\n'))) {
            (Some(last), Some(between)) => {
                last.text = format!("{}{between}{}", last.text, edit.text);
                last.span = last.span.join(edit.span);
            }
            _ => joined.push(edit.clone()),
        }
    }
    joined
}

/// Collects the lines that edits change.
struct EditedLines<'a> {
    text: &'a str,
    /// The lines that edits have added so far, less those that they have removed.
    shift: isize,
    rows: Vec<EditedLine>,
}

impl EditedLines<'_> {
    fn add_edit(&mut self, edit: &TextEdit) {
        let text = self.text;
        let (start, end) = (edit.span.start as usize, edit.span.end.max(edit.span.start) as usize);
        let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else { return };
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let is_whole = line_start == start && (edit.text.is_empty() || edit.text.ends_with('\n'));
        let ends_line = is_whole && (end == line_start || text[..end].ends_with('\n'));
        let line_end = if ends_line { end } else { end + after.find('\n').map_or(after.len(), |at| at + 1) };
        let old = &text[line_start..line_end];
        let new = format!("{}{}{}", &text[line_start..start], edit.text, &text[end..line_end]);
        if !is_whole && self.add_parts(line_start, old, &new) {
            return;
        }
        let number = text[..line_start].matches('\n').count() + 1;
        let new_number = number.saturating_add_signed(self.shift);
        self.push_lines(number, '-', old);
        self.push_lines(new_number, '+', &new);
        let (gone, come) = (old.split_inclusive('\n').count(), new.split_inclusive('\n').count());
        self.shift += come as isize - gone as isize;
        if gone == 0 {
            let next = text[line_end..].split_inclusive('\n').next();
            self.push_lines(new_number + come, ' ', next.unwrap_or_default());
        }
    }

    /// Adds the lines that differ of a text from `start` on; false if all of them do.
    fn add_parts(&mut self, start: usize, old: &str, new: &str) -> bool {
        let parts = line_edits(old, new);
        let kept = old.len() - parts.iter().map(|part| (part.span.end - part.span.start) as usize).sum::<usize>();
        if kept == 0 {
            return false;
        }
        for part in parts {
            let span = Span::new(start + part.span.start as usize, start + part.span.end as usize);
            self.add_edit(&TextEdit { span, text: part.text });
        }
        true
    }

    fn push_lines(&mut self, first: usize, sign: char, lines: &str) {
        let lines = lines.split_inclusive('\n').zip(first..);
        self.rows.extend(lines.map(|(line, number)| EditedLine { number, sign, line: line.to_owned() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(old: &str, new: &str) -> String {
        let edits = line_edits(old, new);
        assert_eq!(apply_edits(old, &edits).as_deref(), Some(new));
        edited_lines(old, &edits)
    }

    #[test]
    fn edits_turn_one_text_into_the_other() {
        assert_eq!(edited("a\nb\nc\n", "a\nx\nb\nc\n"), "2 + x\n3   b");
        assert_eq!(edited("a\nb\nc\n", "b\nc\na\n"), "1 - a\n3 + a");
        assert_eq!(edited("a\nb", "a\nc"), "2 - b\n2 + c");
        assert_eq!(edited("", "a\n"), "1 + a");
        assert_eq!(line_edits("a\n", "a\n"), []);
    }

    #[test]
    fn a_word_is_shown_in_its_line() {
        let fix = Fix::replacement("replace it", Span { start: 6, end: 10 }, "relu");
        assert_eq!(edited_lines("T1 = \nrelo(T0);\n", &fix.edits), "2 - relo(T0);\n2 + relu(T0);");
        assert_eq!(fix.apply_to("T1 = \nrelo(T0);\n").as_deref(), Some("T1 = \nrelu(T0);\n"));
        assert_eq!(fix.apply_to("short"), None);
    }
}
