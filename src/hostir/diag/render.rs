//! Renders diagnostics with codespan-reporting. No other module does.

use super::files::{PlacedDiag, TextFiles};
use super::fix::edited_lines;
use super::visible::{self, ShownFile};
use super::{Applicability, Diag, DiagLabel, Fix, Message, Severity, Span, TextEdit};
use crate::diag::message;
use codespan_reporting::diagnostic as cs;
use codespan_reporting::term;

/// Renders diagnostics as plain text against one source file. Characters that would act on a terminal appear as their
/// numbers ([`visible`]).
pub fn to_string(name: &str, text: &str, diags: &[Diag]) -> String {
    let files = TextFiles::new(name, text);
    let config = term::Config::default();
    let mut out = String::new();
    for diag in diags {
        let PlacedDiag { name, text, diag } = files.place_diag(diag);
        let file = ShownFile::new(&name, text);
        let mut diag = visible::escape_diag(&with_fix_notes(text, &diag));
        for label in diag.labels_mut() {
            label.span = Span::new(file.shown_column(label.span.start), file.shown_column(label.span.end));
        }
        let rendered = term::emit_into_string(&config, &file, &to_codespan(&diag, file.len()));
        out.push_str(&rendered.unwrap_or_else(|_| format!("error[{}]: {}\n", diag.code, diag.message)));
    }
    out
}

/// The diagnostic with its fixes as notes. A fix of one word in the marked place needs no note: another note names the
/// word.
pub fn with_fix_notes(text: &str, diag: &Diag) -> Diag {
    let mut shown = diag.clone();
    let others: Vec<&Fix> = diag.fixes.iter().filter(|fix| diag.notes.is_empty() || !is_marked(diag, fix)).collect();
    // A fix with edits says what it does.
    shown.notes.retain(|note| !others.iter().any(|fix| !fix.edits.is_empty() && fix.message == *note));
    shown.notes.extend(others.into_iter().map(|fix| fix_note(text, fix)));
    shown
}

/// Returns true if a fix is an edit within the place that the diagnostic marks, and a note has its words.
fn is_marked(diag: &Diag, fix: &Fix) -> bool {
    let code = fix.message.as_str().split('`').nth(1);
    let is_noted = |edit: &TextEdit| {
        let word = edit.text.trim_matches([',', ' ', '\n']);
        // A fix that says a whole statement says more than a note with its word.
        let said = code.filter(|code| code.contains(word) && code.contains(' ')).unwrap_or(word);
        diag.notes.iter().any(|note| note.as_str().contains(said))
    };
    match (&fix.edits[..], &diag.primary) {
        ([edit], Some(primary)) => {
            let is_insertion = edit.span.start == edit.span.end && edit.text.ends_with('\n');
            !is_insertion
                && is_noted(edit)
                && primary.span.start <= edit.span.start
                && edit.span.end <= primary.span.end
        }
        _ => false,
    }
}

/// A fix in words, with the lines that it changes.
fn fix_note(text: &str, fix: &Fix) -> Message {
    let message = &fix.message;
    match fix.applicability {
        Applicability::InWords => message.clone(),
        Applicability::MachineApplicable => message!("help: {}\n{}", message, edited_lines(text, &fix.edits)),
        Applicability::MaybeIncorrect | Applicability::Untried => {
            message!("help: perhaps {}\n{}", message, edited_lines(text, &fix.edits))
        }
    }
}

/// The codespan form of a diagnostic; spans are clamped to a text of `len` bytes.
pub fn to_codespan(diag: &Diag, len: usize) -> cs::Diagnostic<()> {
    let severity = match diag.severity {
        Severity::Error => cs::Severity::Error,
        Severity::Warning => cs::Severity::Warning,
        Severity::Remark => cs::Severity::Note,
    };
    let mut labels: Vec<cs::Label<()>> = Vec::new();
    if let Some(primary) = &diag.primary {
        labels.push(cs::Label::primary((), label_range(primary, len)).with_message(primary.text.as_str()));
    }
    labels.extend(
        diag.labels.iter().map(|l| cs::Label::secondary((), label_range(l, len)).with_message(l.text.as_str())),
    );
    cs::Diagnostic::new(severity)
        .with_code(diag.code)
        .with_message(diag.message.as_str())
        .with_labels(labels)
        .with_notes(diag.notes.iter().map(|note| note.as_str().to_owned()).collect())
}

/// The bytes of a label in a text of this length.
fn label_range(label: &DiagLabel, len: usize) -> std::ops::Range<usize> {
    label.span.start as usize..(label.span.end as usize).min(len)
}
