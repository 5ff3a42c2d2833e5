//! Escaping of text for terminals: characters that would act on the terminal or be invisible appear as `\u{1b}`.
//!
//! Programs, file names, names in files and messages of other processes are untrusted. A terminal interprets control
//! characters in them as commands (set the title, clear the screen, answer as if typed), a bidirectional override shows
//! a line in another order than it is read in, and a zero-width character makes two names look the same. All text for
//! people goes through [`escape_line()`] or [`escape_block()`]; printed programs and JSON do not, because they are
//! data.

use super::{Diag, DiagLabel, Fix};
use codespan_reporting::files::{Error, Files, SimpleFile};
use std::borrow::Cow;
use std::ops::Range;

/// Returns true if a character is shown as its number: control characters except the tab, directional marks, line and
/// paragraph separators, and characters without width that are no part of a letter.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\t' | ' '..='~' => false,
        _ if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Escapes a text without layout of its own, such as a name or a sentence, with its line breaks.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_unless(text, |_, _| false)
}

/// A text of several lines.
pub fn escape_block(text: &str) -> Cow<'_, str> {
    escape_unless(text, is_break)
}

/// Returns true if a character is a line break, or the first of the two of Windows.
fn is_break(c: char, rest: &str) -> bool {
    c == '\n' || (c == '\r' && rest.starts_with('\n'))
}

/// Escapes a line of another program: sequences that colour or underline are kept, and end with the line.
pub fn escape_colored(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    let mut styled = false;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, sequence) = rest.split_at(at);
        out.push_str(&escape_line(before));
        let length = style_length(sequence);
        styled |= length > 0;
        match length {
            0 => out.push_str(&escape_line(&sequence[..1])),
            _ => out.push_str(&sequence[..length]),
        }
        rest = &sequence[length.max(1)..];
    }
    out.push_str(&escape_line(rest));
    if styled {
        out.push_str("\u{1b}[0m");
    }
    Cow::Owned(out)
}

/// Bytes of `ESC [ 1 ; 31 m` at the start of a text; 0 if there is no such sequence.
fn style_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let numbers = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    let ends = rest.as_bytes().get(numbers) == Some(&b'm');
    if ends && is_style(&rest[..numbers]) { numbers + 3 } else { 0 }
}

/// Returns true if numbers (ECMA-48, select graphic rendition) set or reset colours, bold or underlined letters, and
/// nothing that hides or moves: `1;38;5;196` is bold and colour 196 of a table.
fn is_style(numbers: &str) -> bool {
    let mut numbers = numbers.split(';').map(|number| match number {
        "" => Some(0u16),
        number => number.parse().ok(),
    });
    while let Some(number) = numbers.next() {
        let arguments = match number {
            // A colour of a table, or of red, green and blue.
            Some(38 | 48) => match numbers.next() {
                Some(Some(5)) => 1,
                Some(Some(2)) => 3,
                _ => return false,
            },
            Some(0 | 1 | 4 | 22 | 24 | 30..=37 | 39..=47 | 49 | 90..=97 | 100..=107) => 0,
            _ => return false,
        };
        for _ in 0..arguments {
            if !matches!(numbers.next(), Some(Some(0..=255))) {
                return false;
            }
        }
    }
    true
}

/// Escapes a text. `keep` gets each hidden character with the text that follows it, and returns true for those to keep.
fn escape_unless(text: &str, keep: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        if is_hidden(c) && !keep(c, &text[at + c.len_utf8()..]) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Escapes a JSON text: such characters become `\u001b`, which means the same, since they occur in strings only.
pub fn escape_json(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_hidden(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Escapes all words of a diagnostic.
pub fn escape_diag(diag: &Diag) -> Diag {
    Diag {
        severity: diag.severity,
        code: diag.code,
        message: escape_line(&diag.message).into(),
        primary: diag.primary.as_ref().map(escape_label),
        labels: diag.labels.iter().map(escape_label).collect(),
        notes: diag.notes.iter().map(|note| escape_block(note).into()).collect(),
        fixes: diag.fixes.iter().map(escape_fix).collect(),
        focus: diag.focus.clone(),
        cause: diag.cause.clone(),
    }
}

/// The edits are data.
fn escape_fix(fix: &Fix) -> Fix {
    Fix { message: escape_line(&fix.message).into(), ..fix.clone() }
}

fn escape_label(label: &DiagLabel) -> DiagLabel {
    DiagLabel { span: label.span, text: escape_line(&label.text).into() }
}

/// A whole escaped text. Places refer to the original text.
pub(super) struct ShownFile<'a> {
    text: &'a str,
    shown: SimpleFile<String, Cow<'a, str>>,
}

impl<'a> ShownFile<'a> {
    pub(super) fn new(name: &str, text: &'a str) -> Self {
        Self { text, shown: SimpleFile::new(escape_line(name).into_owned(), escape_block(text)) }
    }
    /// Bytes of what is shown.
    pub(super) fn len(&self) -> usize {
        self.shown.source().len()
    }
    /// The column of the escaped text for a place of the original.
    pub(super) fn shown_column(&self, offset: u32) -> usize {
        let before = (0..=self.text.len().min(offset as usize)).rev();
        let before = before.filter_map(|end| self.text.get(..end)).next().unwrap_or_default();
        let after = &self.text[before.len()..];
        escape_unless(before, |c, rest| is_break(c, if rest.is_empty() { after } else { rest })).len()
    }
}

impl<'a> Files<'a> for ShownFile<'a> {
    type FileId = ();
    type Name = String;
    type Source = &'a str;

    fn name(&'a self, (): ()) -> Result<String, Error> {
        Ok(self.shown.name().clone())
    }
    fn source(&'a self, (): ()) -> Result<&'a str, Error> {
        Ok(self.shown.source())
    }
    fn line_index(&'a self, (): (), byte: usize) -> Result<usize, Error> {
        self.shown.line_index((), byte)
    }
    fn column_number(&'a self, (): (), index: usize, byte: usize) -> Result<usize, Error> {
        let start = self.shown.line_range((), index)?.start;
        let line = self.text.split('\n').nth(index).unwrap_or_default();
        let ends = line.chars().scan(start, |end, c| {
            *end += if is_hidden(c) { c.escape_unicode().count() } else { c.len_utf8() };
            Some(*end)
        });
        Ok(ends.take_while(|end| *end <= byte).count() + 1)
    }
    fn line_range(&'a self, (): (), index: usize) -> Result<Range<usize>, Error> {
        self.shown.line_range((), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_or_hides_is_shown_by_its_number() {
        for (text, shown) in [
            ("a\u{1b}]0;title\u{7}b", "a\\u{1b}]0;title\\u{7}b"),
            ("\u{1b}[2J\u{9b}31m\u{7f}\u{0}\u{8}", "\\u{1b}[2J\\u{9b}31m\\u{7f}\\u{0}\\u{8}"),
            ("if \u{202e}x\u{2066}y\u{200f}\u{61c}", "if \\u{202e}x\\u{2066}y\\u{200f}\\u{61c}"),
            ("T\u{200b}0\u{feff}\u{ad}\u{2060}", "T\\u{200b}0\\u{feff}\\u{ad}\\u{2060}"),
            ("a\u{2028}b\u{2029}c\u{85}d", "a\\u{2028}b\\u{2029}c\\u{85}d"),
            ("\u{e0041}\u{3164}", "\\u{e0041}\\u{3164}"),
        ] {
            assert_eq!((escape_line(text), escape_block(text)), (shown.into(), shown.into()));
            assert!(!shown.contains(is_hidden));
        }
        for text in ["", "plain ~\ttext", "größe 張量 e\u{301} ❤\u{fe0f} \u{fffd} \\u{1b}"] {
            assert!(matches!(escape_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn layout_is_that_of_texts_of_several_lines() {
        assert_eq!(escape_line("a\nb\r\nc\rd"), "a\\u{a}b\\u{d}\\u{a}c\\u{d}d");
        assert_eq!(escape_block("a\nb\r\nc\rd"), "a\nb\r\nc\\u{d}d");
    }

    #[test]
    fn colours_end_with_their_line() {
        assert_eq!(escape_colored("\u{1b}[1;31mred\u{1b}[0m"), "\u{1b}[1;31mred\u{1b}[0m\u{1b}[0m");
        assert_eq!(escape_colored("a\u{1b}[mb"), "a\u{1b}[mb\u{1b}[0m");
        assert_eq!(escape_colored("plain"), "plain");
        for style in ["", "0", "01;31", "4;24;22", "39;49", "38;5;8;1", "48;2;1;2;8;97", "107", ";1"] {
            let text = format!("\u{1b}[{style}ma");
            assert_eq!(escape_colored(&text), format!("{text}\u{1b}[0m"));
        }
        for text in [
            "\u{1b}[2J",
            "\u{1b}[8m",
            "\u{1b}[1;8m",
            "\u{1b}[38;8m",
            "\u{1b}[38;5;1;8m",
            "\u{1b}[5m",
            "\u{1b}[108m",
            "\u{1b}[98m",
            "\u{1b}[38;5;256m",
            "\u{1b}[38;2;1;2m",
            "\u{1b}[65544m",
            "\u{1b}]0;m",
            "\u{1b}[31",
            "\u{1b}",
            "\u{9b}31m",
            "a\rb",
            "\u{1b}[?1m",
        ] {
            assert!(!escape_colored(text).contains(is_hidden), "{text:?}");
        }
    }

    #[test]
    fn json_means_the_same() {
        assert_eq!(
            escape_json("{\"a\": \"\u{9b}\u{202e}\u{e0041}\"}\n"),
            "{\"a\": \"\\u009b\\u202e\\udb40\\udc41\"}\n"
        );
    }
}
