//! Diagnostics as the protocol has them.

use crate::documents::Document;
use hostir::diag::{Diag, Fix, Severity, Span, TextEdit};
use lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range, Uri,
};

/// The name of the server beside each diagnostic.
pub const SOURCE: &str = "hir";

/// The maximum number of diagnostics of a document that are shown.
const MOST_SHOWN: usize = 1000;

/// The diagnostics of a document; `docs` is the URI of the folder of the documentation.
pub fn protocol_diagnostics(document: &Document, diags: &[Diag], docs: Option<&str>) -> Vec<Diagnostic> {
    diags.iter().take(MOST_SHOWN).map(|diag| protocol_diagnostic(document, diag, docs)).collect()
}

/// A diagnostic with its sentence, the text at its place and its notes as message, and its other places as related ones.
pub fn protocol_diagnostic(document: &Document, diag: &Diag, docs: Option<&str>) -> Diagnostic {
    let related = diag.labels.iter().map(|label| DiagnosticRelatedInformation {
        location: Location::new(document.uri.clone(), document.positions.range_of(label.span)),
        message: label.text.as_str().to_owned(),
    });
    let related: Vec<_> = related.collect();
    Diagnostic {
        range: diag_range(document, diag),
        severity: Some(match diag.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Remark => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(diag.code.to_owned())),
        code_description: docs.and_then(|docs| code_page(docs, diag.code)),
        source: Some(SOURCE.to_owned()),
        message: whole_message(diag),
        related_information: (!related.is_empty()).then_some(related),
        tags: None,
        data: None,
    }
}

/// The range of a diagnostic; one without a place is at the start of the text.
pub fn diag_range(document: &Document, diag: &Diag) -> Range {
    let span = diag.primary.as_ref().map_or(Span::default(), |label| label.span);
    document.positions.range_of(span)
}

fn whole_message(diag: &Diag) -> String {
    let mut text = diag.message.as_str().to_owned();
    let label = diag.primary.as_ref().map(|label| label.text.as_str()).filter(|text| !text.is_empty());
    for line in label.into_iter().chain(diag.notes.iter().map(|note| note.as_str())) {
        text.push('\n');
        text.push_str(line);
    }
    // Repairs in words only have no action.
    for fix in diag.fixes.iter().filter(|fix| fix.edits.is_empty()) {
        text.push('\n');
        text.push_str(fix.message.as_str());
    }
    text
}

/// The page of a code: `docs` is the folder of the pages, or an address with `{code}` in the place of the code.
fn code_page(docs: &str, code: &str) -> Option<CodeDescription> {
    let page = match docs.contains("{code}") {
        true => docs.replace("{code}", code),
        false => format!("{}/errors/{code}.md", docs.trim_end_matches('/')),
    };
    let href: Uri = page.parse().ok()?;
    Some(CodeDescription { href })
}

/// The edits of a fix.
pub fn protocol_edits(document: &Document, fix: &Fix) -> Vec<lsp_types::TextEdit> {
    fix.edits.iter().map(|edit| protocol_edit(document, edit)).collect()
}

/// An edit of the document.
pub fn protocol_edit(document: &Document, edit: &TextEdit) -> lsp_types::TextEdit {
    lsp_types::TextEdit::new(document.positions.range_of(edit.span), edit.text.clone())
}
