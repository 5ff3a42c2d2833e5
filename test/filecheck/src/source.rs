//! Texts with a name: canonical whitespace, positions, and quoting a line with a caret.

use std::fmt::Write as _;

/// A text as it was given, and as directives and matches see it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    name: String,
    original: String,
    canonical: String,
    /// Starts of the lines of the canonical text.
    line_starts: Vec<usize>,
    strict: bool,
}

/// The kind of a rendered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The reason for the failure.
    Error,
    /// More about the error before it.
    Note,
}

impl Source {
    /// A text whose `\r\n` become `\n` and, unless `strict`, whose runs of spaces and tabs become
    /// one space.
    pub(crate) fn new(name: &str, text: &str, strict: bool) -> Source {
        let lines = text.split_inclusive('\n').map(|line| canonical_line(line, strict));
        let canonical: String = lines.collect();
        let breaks = canonical.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        Source { name: name.to_owned(), original: text.to_owned(), canonical, line_starts, strict }
    }

    /// The text in which directives and matches are searched.
    pub(crate) fn text(&self) -> &str {
        &self.canonical
    }

    /// The number of the line that holds the byte `offset`, from one.
    pub(crate) fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// Renders a message about the byte `offset`: position, text, the line and a caret.
    pub(crate) fn render(&self, offset: usize, severity: Severity, message: &str) -> String {
        let number = self.line_number(offset);
        let line = self.original.split('\n').nth(number - 1).unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let start = self.line_starts.get(number - 1).copied().unwrap_or_default();
        let before = self.original_prefix(line, self.canonical[start..offset].chars().count());
        let severity = match severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        let column = before.chars().count() + 1;
        let padding: String = before.chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
        let mut out = format!("{}:{number}:{column}: {severity}: {message}\n", self.name);
        let written = write!(out, "{line}\n{padding}^\n");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        out
    }

    /// The part of an original line that became its first `columns` canonical characters.
    fn original_prefix<'a>(&self, line: &'a str, columns: usize) -> &'a str {
        let mut seen = 0;
        let mut after_blank = false;
        for (at, c) in line.char_indices() {
            let blank = !self.strict && is_blank(c);
            let continues = blank && after_blank;
            if seen == columns && !continues {
                return &line[..at];
            }
            seen += usize::from(!continues);
            after_blank = blank;
        }
        line
    }
}

/// Whether `c` is a space or a tab.
pub(crate) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn canonical_line(line: &str, strict: bool) -> String {
    let (body, end) = match line.strip_suffix('\n') {
        Some(body) => (body.strip_suffix('\r').unwrap_or(body), "\n"),
        None => (line, ""),
    };
    let mut out = String::with_capacity(line.len());
    let mut after_blank = false;
    for c in body.chars() {
        let blank = !strict && is_blank(c);
        if !blank {
            out.push(c);
        } else if !after_blank {
            out.push(' ');
        }
        after_blank = blank;
    }
    out.push_str(end);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_original() {
        let source = Source::new("f", "x\na \t b\tc\r\n", false);
        assert_eq!(source.text(), "x\na b c\n");
        let rendered = source.render(6, Severity::Error, "here");
        assert_eq!(rendered, "f:2:7: error: here\na \t b\tc\n  \t  \t^\n");
    }
}
