//! Cuts the input into texts that are run on their own, and moves diagnostics back.

use hostir::diag::{Applicability, Diag, Diags, Span};
use hostir_tool_support::render::line_starts;
use std::borrow::Cow;

/// One text of the input.
pub(super) struct InputChunk<'a> {
    /// The text; containers of a log stand on their own lines.
    pub(super) text: Cow<'a, str>,
    /// The part of the input it was made from.
    part: &'a str,
    /// The start of that part.
    start: usize,
}

/// The parts of an input: one, or those between lines `// -----`.
pub(super) fn split_input(text: &str, at_marks: bool) -> Vec<InputChunk<'_>> {
    let parts = if at_marks { hostir_grammar::split_input(text) } else { vec![(0, text)] };
    parts
        .into_iter()
        .map(|(start, part)| InputChunk { text: hostir_grammar::containers_in_log(part), part, start })
        .collect()
}

impl<'a> InputChunk<'a> {
    /// A text that is no part of another one, and no log.
    pub(super) fn whole(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), part: text, start: 0 }
    }
}

impl InputChunk<'_> {
    /// The error for bytes that were not UTF-8, if some were anywhere (they stand as U+FFFD in the text).
    pub(super) fn not_utf8(&self, somewhere: bool) -> Option<Diag> {
        if !somewhere {
            return None;
        }
        let at = self.text.find('\u{fffd}')?;
        let span = Span::new(at, at + '\u{fffd}'.len_utf8());
        Some(Diag::error("H0019", span, "bytes that are not UTF-8").with_note("save the file as UTF-8"))
    }

    /// Diagnostics about the chunk as diagnostics about the input.
    pub(super) fn offset_diags(&self, mut diags: Diags) -> Diags {
        let mut lines = None;
        for diag in &mut diags.items {
            let labels = diag.primary.iter_mut().chain(&mut diag.labels).map(|label| &mut label.span);
            let edits = diag.fixes.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.span);
            for span in labels.chain(edits) {
                *span = match self.text {
                    Cow::Borrowed(_) => shift_span(*span, self.start),
                    // Every line of a log keeps its number but may have lost a prefix.
                    Cow::Owned(_) => {
                        let lines = lines.get_or_insert_with(|| (line_starts(&self.text), line_starts(self.part)));
                        shift_span(self.offset_log(*span, &lines.0, &lines.1), self.start)
                    }
                };
            }
            if matches!(self.text, Cow::Owned(_)) {
                // The lines that come would lack the prefix.
                let edited = diag.fixes.iter_mut().filter(|fix| !fix.edits.is_empty());
                edited.for_each(|fix| fix.applicability = Applicability::MaybeIncorrect);
            }
        }
        diags
    }

    fn place_in_log(&self, offset: usize, here: &[u32], there: &[u32]) -> usize {
        let line = here.partition_point(|start| *start as usize <= offset).saturating_sub(1);
        let (Some(&from), Some(&to)) = (here.get(line), there.get(line)) else { return offset };
        let (from, to) = (from as usize, to as usize);
        let prefix = line_length(self.part, to).saturating_sub(line_length(&self.text, from));
        to + prefix + (offset - from)
    }

    fn offset_log(&self, span: Span, here: &[u32], there: &[u32]) -> Span {
        let start = self.place_in_log(span.start as usize, here, there);
        Span::new(start, self.place_in_log(span.end as usize, here, there).max(start))
    }
}

/// The length of the line that begins there.
fn line_length(text: &str, start: usize) -> usize {
    text[start..].lines().next().unwrap_or("").len()
}

fn shift_span(span: Span, by: usize) -> Span {
    Span::new(span.start as usize + by, span.end as usize + by)
}
