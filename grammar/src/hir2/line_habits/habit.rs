//! The finding of a rule in a line.

use super::line::CodeLine;
use crate::error::Code;
use std::ops::Range;

/// The finding of a rule in a line.
pub(super) struct Habit {
    /// One sentence.
    pub(super) message: String,
    /// The bytes of the line that show it.
    pub(super) place: Range<usize>,
    /// The line, or several, in its place.
    pub(super) meant: String,
    /// Lines to write above it.
    pub(super) above: Vec<String>,
    /// [`Code::Foreign`], or that of a slip of the pen.
    pub(super) code: Code,
}

impl Habit {
    /// A part of a line that is written in another way.
    pub(super) fn replace_part(
        line: &CodeLine<'_>,
        place: Range<usize>,
        part: &str,
        message: impl Into<String>,
    ) -> Self {
        let meant = format!("{}{part}{}", &line.code[..place.start], &line.code[place.end..]);
        Self { message: message.into(), place, meant, above: Vec::new(), code: Code::Foreign }
    }

    /// A line that is written in another way.
    pub(super) fn rewrite_line(place: Range<usize>, meant: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), place, meant: meant.into(), above: Vec::new(), code: Code::Foreign }
    }

    /// The same as a slip of the pen, which no other language has.
    pub(super) fn into_slip(self) -> Self {
        Self { code: Code::Unexpected, ..self }
    }
}
