//! Failures of a run.

use super::program::SourceProgram;
use hostir::diag::{Diag, Severity};
use hostir::hir2::notation_of;
use hostir_tool_support::errors;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;

/// Errors, the text that they are about, and the exit status.
#[derive(Debug)]
pub(super) struct RunFailure {
    pub(super) source: NamedText,
    pub(super) diags: Vec<Diag>,
    pub(super) status: ToolStatus,
}

impl RunFailure {
    /// Diagnostics about a text; the status is that of the first error.
    pub(super) fn from_diags(source: NamedText, diags: Vec<Diag>) -> Self {
        let first = diags.iter().find(|diag| diag.severity == Severity::Error);
        let status = first.map_or(ToolStatus::Program, |diag| errors::status_of_code(diag.code));
        Self { source, diags, status }
    }

    /// The failure with its messages about no place in the words of a program's notation. Those about a place get them
    /// when they are rendered, after fixes were searched: the search compares messages with those of changed texts.
    pub(super) fn in_words_of(mut self, loaded: &SourceProgram) -> Self {
        let notation = notation_of(&loaded.source.decoded_text());
        let global = self.diags.iter_mut().filter(|diag| diag.primary.is_none());
        global.for_each(|diag| *diag = diag.in_notation(notation));
        self
    }
}

impl From<Diag> for RunFailure {
    fn from(diag: Diag) -> Self {
        Self::from(vec![diag])
    }
}

impl From<Vec<Diag>> for RunFailure {
    fn from(diags: Vec<Diag>) -> Self {
        Self::from_diags(NamedText::new("hir-run", ""), diags)
    }
}
