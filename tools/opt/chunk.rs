//! Splits the input into texts that are run on their own, and moves diagnostics back.

use hostir::diag::{Diag, Diags, Span, syntax_error};
use hostir_grammar::{PlaceMap, read_log};
use hostir_tool_support::source::move_into_log;
use std::borrow::Cow;

/// One text of the input.
pub(super) struct InputChunk<'a> {
    /// The text; the programs of a log follow each other in it.
    pub(super) text: Cow<'a, str>,
    /// The places of the text in its part of the input, if that is a log.
    places: Option<PlaceMap>,
    /// Warnings about the log.
    pub(super) notices: Diags,
    /// The start of that part.
    start: usize,
}

/// The parts of an input: one, or those between lines `// -----`.
pub(super) fn split_input(text: &str, at_separators: bool) -> Vec<InputChunk<'_>> {
    let parts = if at_separators { hostir_grammar::split_input(text) } else { vec![(0, text)] };
    let read_part = |(start, part)| {
        let log = read_log(part);
        let notices = log.notices.into_iter().map(|notice| syntax_error(notice).into_warning()).collect();
        InputChunk { text: log.text, places: log.places, notices: Diags { items: notices }, start }
    };
    parts.into_iter().map(read_part).collect()
}

impl<'a> InputChunk<'a> {
    /// A text that is no part of another one, and no log.
    pub(super) fn whole(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), places: None, notices: Diags::default(), start: 0 }
    }
}

impl InputChunk<'_> {
    /// The error for bytes that were not UTF-8, if there were any (they are U+FFFD in the text).
    pub(super) fn not_utf8(&self, somewhere: bool) -> Option<Diag> {
        if !somewhere {
            return None;
        }
        let at = self.text.find('\u{fffd}')?;
        let span = Span::new(at, at + '\u{fffd}'.len_utf8());
        Some(Diag::error("H0019", span, "bytes that are not UTF-8").with_note("save the file as UTF-8"))
    }

    /// Converts diagnostics about the chunk to diagnostics about the input.
    pub(super) fn offset_diags(&self, mut diags: Diags) -> Diags {
        if let Some(places) = &self.places {
            diags.items.iter_mut().for_each(|diag| move_into_log(diag, places));
        }
        for diag in &mut diags.items {
            diag.spans_mut().for_each(|span| *span = shift_span(*span, self.start));
        }
        diags
    }
}

fn shift_span(span: Span, by: usize) -> Span {
    Span::new(span.start as usize + by, span.end as usize + by)
}
