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
        Some(span) if !span.is_empty() => Diag::error(codes::MACHINE, span_of(first_line(text, span)), message),
        _ => Diag::error(codes::MACHINE, span_of(first_line(text, 0..text.len())), message),
    };
    diag.with_note("docs/machines.md lists the fields, and `hir-run --calibrate FILE` writes a file")
}

/// The first line of a part of a text.
fn first_line(text: &str, span: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let part = text.get(span.clone()).unwrap_or_default();
    span.start..span.start + part.lines().next().map_or(0, str::len)
}

fn span_of(span: std::ops::Range<usize>) -> Span {
    Span::new(span.start, span.end)
}
