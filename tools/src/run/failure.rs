//! Failures of a run.

use hostir::diag::{Diag, Severity};
use hostir_tool_support::errors;
use hostir_tool_support::source::Source;
use hostir_tool_support::status::Status;

/// Errors, the text that they are about, and the exit status.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) source: Source,
    pub(super) diags: Vec<Diag>,
    pub(super) status: Status,
}

impl Failure {
    /// Diagnostics about a text; the status is that of the first error.
    pub(super) fn of(source: Source, diags: Vec<Diag>) -> Self {
        let first = diags.iter().find(|diag| diag.severity == Severity::Error);
        let status = first.map_or(Status::Program, |diag| errors::status(diag.code));
        Self { source, diags, status }
    }
}

impl From<Diag> for Failure {
    fn from(diag: Diag) -> Self {
        Self::from(vec![diag])
    }
}

impl From<Vec<Diag>> for Failure {
    fn from(diags: Vec<Diag>) -> Self {
        Self::of(Source { name: "hir-run".to_owned(), bytes: Vec::new() }, diags)
    }
}
