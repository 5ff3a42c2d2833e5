//! Texts with a name: canonical whitespace, positions, and quoting a line with a caret.

use crate::paint::{Paint, Style};
use std::ops::Range;

/// A text as directives and matches see it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    name: String,
    content: Vec<u8>,
    /// Starts of the lines.
    line_starts: Vec<usize>,
}

/// A position in one of the texts of a check file: the file itself, or the command line's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The number of the text.
    pub(crate) source: usize,
    /// The byte.
    pub(crate) offset: usize,
}

/// The kind of a rendered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The reason for the failure.
    Error,
    /// Something that is likely a mistake.
    Warning,
    /// Something that went well.
    Remark,
    /// More about the message before it.
    Note,
}

impl Severity {
    fn label(self) -> (&'static str, Style) {
        match self {
            Severity::Error => ("error: ", Style::RED),
            Severity::Warning => ("warning: ", Style::MAGENTA),
            Severity::Remark => ("remark: ", Style::BLUE),
            Severity::Note => ("note: ", Style::BLACK),
        }
    }
}

/// A message about a place in a text.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    /// The part of the text, of which the first byte is the place.
    pub(crate) range: Range<usize>,
    /// Its kind.
    pub(crate) severity: Severity,
    /// One sentence.
    pub(crate) text: &'a str,
}

impl Source {
    /// A text whose `\r\n` become `\n` and, unless `strict`, whose runs of spaces and tabs become one space.
    pub(crate) fn new(name: &str, text: &[u8], strict: bool) -> Source {
        Source::verbatim(name, canonical_text(text, strict))
    }

    /// A text as it is.
    pub(crate) fn verbatim(name: &str, content: Vec<u8>) -> Source {
        let breaks = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        Source { name: name.to_owned(), content, line_starts }
    }

    /// The name of the text in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text in which directives and matches are searched.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// The number of the line that holds the byte `offset`, from one.
    pub(crate) fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// The line and the column of the byte `offset`, both from one; columns count bytes.
    pub(crate) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.line_number(offset);
        (line, offset - self.line_starts[line - 1] + 1)
    }

    /// The bytes of a line, without its line break.
    fn line_range(&self, line: usize) -> Range<usize> {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).map_or(self.content.len(), |next| next - 1);
        start..end
    }

    /// Renders a message: position, text, the line, and a caret with the rest of the range on this line.
    pub(crate) fn render(&self, message: &Message<'_>, paint: Paint) -> String {
        let Range { start, end } = message.range;
        let (line, column) = self.line_and_column(start);
        let line_range = self.line_range(line);
        let (label, style) = message.severity.label();
        let position = paint.text(Style::BOLD, &format!("{}:{line}:{column}: ", self.name));
        let label = paint.text(style, label);
        let text = paint.text(Style::BOLD, message.text);
        let quoted = expand_tabs(&String::from_utf8_lossy(&self.content[line_range.clone()]));
        let before = expand_tabs(&String::from_utf8_lossy(&self.content[line_range.start..start]));
        let marked = String::from_utf8_lossy(&self.content[start..end.clamp(start, line_range.end.max(start))]);
        let padding = " ".repeat(before.chars().count());
        let tail = "~".repeat(marked.chars().count().saturating_sub(1));
        let caret = paint.text(Style::GREEN, &format!("{padding}^{tail}"));
        format!("{position}{label}{text}\n{quoted}\n{caret}\n")
    }
}

/// The line with spaces up to the next multiple of eight in the place of each tab.
fn expand_tabs(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for c in line.chars() {
        let width = if c == '\t' { 8 - column % 8 } else { 1 };
        if c == '\t' {
            out.extend(std::iter::repeat_n(' ', width));
        } else {
            out.push(c);
        }
        column += width;
    }
    out
}

/// True if `byte` is a space or a tab.
pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The text without spaces and tabs at its end.
pub(crate) fn trim_blanks(text: &[u8]) -> &[u8] {
    let length = text.iter().rposition(|&byte| !is_blank(byte)).map_or(0, |last| last + 1);
    &text[..length]
}

fn canonical_text(text: &[u8], strict: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut after_blank = false;
    for (at, &byte) in text.iter().enumerate() {
        if byte == b'\r' && text.get(at + 1) == Some(&b'\n') {
            continue;
        }
        let blank = !strict && is_blank(byte);
        if !blank {
            out.push(byte);
        } else if !after_blank {
            out.push(b' ');
        }
        after_blank = blank;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_marks_its_range_on_the_line() {
        let source = Source::new("f", b"x\r\na \t b\tc\r\n", false);
        assert_eq!(source.content(), b"x\na b c\n");
        let message = Message { range: 4..9, severity: Severity::Error, text: "here" };
        assert_eq!(source.render(&message, Paint::Plain), "f:2:3: error: here\na b c\n  ^~~\n");
    }

    #[test]
    fn tabs_of_strict_texts_are_expanded() {
        let source = Source::new("f", "é\tb\n".as_bytes(), true);
        let message = Message { range: 3..4, severity: Severity::Note, text: "here" };
        assert_eq!(source.render(&message, Paint::Plain), "f:1:4: note: here\né       b\n        ^\n");
    }
}
