//! The one road to codespan-reporting.

use super::{Diag, Label, Severity};
use codespan_reporting::diagnostic as cs;
use codespan_reporting::files::SimpleFile;
use codespan_reporting::term;

/// Renders diagnostics as plain text against one source file.
pub fn to_string(name: &str, text: &str, diags: &[Diag]) -> String {
    let file = SimpleFile::new(name, text);
    let config = term::Config::default();
    let mut out = String::new();
    for diag in diags {
        let rendered = term::emit_into_string(&config, &file, &convert(diag, text.len()));
        out.push_str(
            &rendered.unwrap_or_else(|_| format!("error[{}]: {}\n", diag.code, diag.message)),
        );
    }
    out
}

/// The codespan form of a diagnostic; spans are clamped to a text of `len` bytes.
pub fn convert(diag: &Diag, len: usize) -> cs::Diagnostic<()> {
    let severity = match diag.severity {
        Severity::Error => cs::Severity::Error,
        Severity::Warning => cs::Severity::Warning,
        Severity::Remark => cs::Severity::Note,
    };
    let place = |label: &Label| label.span.start as usize..(label.span.end as usize).min(len);
    let mut labels: Vec<cs::Label<()>> = Vec::new();
    if let Some(primary) = &diag.primary {
        labels.push(cs::Label::primary((), place(primary)).with_message(&primary.text));
    }
    labels.extend(
        diag.labels.iter().map(|l| cs::Label::secondary((), place(l)).with_message(&l.text)),
    );
    cs::Diagnostic::new(severity)
        .with_code(diag.code)
        .with_message(&diag.message)
        .with_labels(labels)
        .with_notes(diag.notes.clone())
}
