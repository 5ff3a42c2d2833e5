//! Renders diagnostics for users and for programs.
//!
//! Lines of nvFuser's printed form run to 400 columns and more, so a line that is too wide is cut around its labels
//! (`view`): on a terminal to its width, in files to about 200 characters. Positions in the output are always those of
//! the uncut text.

mod fit;
mod json;
mod view;

use crate::source::{NamedText, move_into_log};
use codespan_reporting::term;
use hostir::diag::files::{PlacedDiag, TextFiles};
use hostir::diag::focus::narrow_places;
use hostir::diag::{Diag, Severity};
use hostir::hir2::notation_of;
pub use json::write_verdict;
use std::io::{self, Write};
pub use view::line_starts;
use view::{HEAD, LineIndex, SourceExcerpt, TAIL};

/// The maximum number of diagnostics of one text that are shown to a user; the rest is counted.
pub const LIMIT: usize = 100;

/// The form of diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DiagFormat {
    /// Excerpts with labels.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// The look of what a stream shows people.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OutputStyle {
    /// Colours are used.
    pub color: bool,
    /// Columns of the terminal; `None` if it is none.
    pub columns: Option<usize>,
}

/// Writes diagnostics about `source`. Ignores write errors: there is nobody to report them to.
pub fn write_diags(out: &mut dyn Write, look: OutputStyle, format: DiagFormat, source: &NamedText, diags: &[Diag]) {
    let text = source.decoded_text();
    let notation = notation_of(&text);
    let mut diags: Vec<Diag> = diags.iter().map(|diag| diag.in_notation(notation)).collect();
    narrow_places(&text, &mut diags);
    if let Some(log) = &source.log {
        diags.iter_mut().for_each(|diag| move_into_log(diag, &log.places));
    }
    let (text, diags) = (source.shown_text(), diags.as_slice());
    let _ = match format {
        DiagFormat::Human => write_human(out, look, &source.name, &text, diags),
        DiagFormat::Json => json::write_json(out, &source.name, &text, diags),
    };
}

/// Writes the first [`LIMIT`] diagnostics with excerpts of `text`, then how many there are.
///
/// # Errors
/// Those of the writer.
pub fn write_human(out: &mut dyn Write, look: OutputStyle, name: &str, text: &str, diags: &[Diag]) -> io::Result<()> {
    if diags.is_empty() {
        return Ok(());
    }
    let files = TextFiles::new(name, text);
    let mut lines: Option<LineIndex<'_>> = None;
    for diag in diags.iter().take(LIMIT) {
        let PlacedDiag { name, text, diag } = files.place_diag(diag);
        // Most diagnostics are about one file.
        let lines = match lines.take().filter(|lines| std::ptr::eq(lines.whole_text(), text)) {
            Some(same) => lines.insert(same),
            None => lines.insert(LineIndex::new(text)),
        };
        write_diag(out, look, &name, lines, &diag)?;
    }
    if diags.len() > LIMIT {
        let errors = diags.iter().filter(|diag| diag.severity == Severity::Error).count();
        writeln!(out, "{} diagnostics ({errors} errors), of which the first {LIMIT} are shown", diags.len())?;
    }
    Ok(())
}

/// A diagnostic at an empty line, which has no excerpt, with its place in words.
fn without_line(name: &str, lines: &LineIndex<'_>, diag: &Diag) -> Option<Diag> {
    let span = diag.primary.as_ref().filter(|label| label.text.is_empty())?.span;
    if !diag.labels.is_empty() || span.start != span.end || !lines.is_blank(span.start as usize) {
        return None;
    }
    let (line, column) = lines.line_and_column(span.start as usize);
    let mut plain = Diag { primary: None, ..diag.clone() };
    plain.notes.insert(0, format!("at {name}:{}:{}", line + 1, column + 1).into());
    Some(plain)
}

fn write_diag(
    out: &mut dyn Write,
    look: OutputStyle,
    name: &str,
    lines: &LineIndex<'_>,
    diag: &Diag,
) -> io::Result<()> {
    let plain = without_line(name, lines, diag);
    let diag = plain.as_ref().unwrap_or(diag);
    // The excerpt has so many lines of a long label; those for omitted lines must not count among them.
    let config = term::Config { start_context_lines: HEAD - 1, end_context_lines: TAIL, ..term::Config::default() };
    let diag = &hostir::diag::render::with_fix_notes(lines.whole_text(), diag);
    let (view, mapped) = SourceExcerpt::new(name, lines, diag, look.columns);
    let shown = hostir::diag::render::to_codespan(&mapped, view.len());
    let result = if look.color {
        let mut ansi = term::termcolor::Ansi::new(&mut *out);
        let styles = term::Styles::default();
        let mut styled = term::StylesWriter::new(&mut ansi, &styles);
        term::emit_to_write_style(&mut styled, &config, &view, &shown)
    } else {
        term::emit_to_io_write(out, &config, &view, &shown)
    };
    match result {
        Ok(()) => Ok(()),
        Err(codespan_reporting::files::Error::Io(error)) => Err(error),
        // A label outside of the text: only the sentence is shown.
        Err(_) => writeln!(out, "error[{}]: {}", diag.code, mapped.message),
    }
}

#[cfg(test)]
mod tests;
