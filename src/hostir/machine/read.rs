//! Reads the file of a machine: TOML in which every field is known and every number within its bounds.

use super::Machine;
use crate::diag::message;
use crate::diag::{Diag, Span, codes};

impl Machine {
    /// Reads a machine from the text of its file.
    ///
    /// # Errors
    /// [`codes::MACHINE`] at the place of a text that is not TOML, a field that is unknown, missing or given twice, or a
    /// number out of its bounds.
    pub fn from_toml(text: &str) -> Result<Self, Diag> {
        toml::from_str(text).map_err(|error| describe_error(text, &error))
    }
}

fn describe_error(text: &str, error: &toml::de::Error) -> Diag {
    let what = error.message().lines().next().unwrap_or_default();
    let message = message!("the file is not a machine: {}", what);
    let diag = match error.span() {
        // A missing field has the place of its table, whose first line is shown.
        Some(span) if !span.is_empty() => {
            let place = first_line(text, span);
            return with_number(text, &place, Diag::error(codes::MACHINE, span_of(place.clone()), message));
        }
        // A missing bracket has no text.
        Some(span) => {
            let place = line_before(text, span.start);
            let line = text.get(place.clone()).unwrap_or_default();
            let diag = Diag::error(codes::MACHINE, span_of(place), message);
            match line.starts_with('[') && !line.contains(']') {
                true => diag.with_note(message!("write `{}]`", line)),
                false => diag,
            }
        }
        None => Diag::error(codes::MACHINE, span_of(first_line(text, 0..text.len())), message),
    };
    diag.with_note(FIELDS_NOTE)
}

const FIELDS_NOTE: &str = "docs/machines.md lists the fields, and `hir-run --calibrate FILE` writes a file";

/// The error about a value; a text with a number in it is meant as that number.
fn with_number(text: &str, place: &std::ops::Range<usize>, diag: Diag) -> Diag {
    let value = text.get(place.clone()).unwrap_or_default();
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let number = quoted.filter(|inner| inner.starts_with(|c: char| c.is_ascii_digit()));
    let line = text.get(..place.start).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    let field = line.split('=').next().unwrap_or_default().trim();
    match number.filter(|_| !field.is_empty()) {
        Some(_) => Diag {
            message: message!("the file is not a machine: `{}` needs a number, but has the text {}", field, value),
            ..diag.with_note("numbers have no quotes and no units: the unit is part of the field's name")
        },
        None => diag.with_note(FIELDS_NOTE),
    }
}

/// The line that ends at a place, or has it.
fn line_before(text: &str, place: usize) -> std::ops::Range<usize> {
    let before = text.get(..place.min(text.len())).unwrap_or_default();
    let before = before.strip_suffix('\n').unwrap_or(before);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(start..).unwrap_or_default();
    start..start + rest.lines().next().map_or(0, str::len)
}

/// The first line of a part of a text.
fn first_line(text: &str, span: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let part = text.get(span.clone()).unwrap_or_default();
    span.start..span.start + part.lines().next().map_or(0, str::len)
}

fn span_of(span: std::ops::Range<usize>) -> Span {
    Span::new(span.start, span.end)
}
