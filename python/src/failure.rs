//! Errors: diagnostics about a text, as the exception `hostir.HostIrError`.

use hostir::diag::Diag;
use hostir_tool_support::render::{DiagFormat, OutputStyle, write_diags};
use hostir_tool_support::source::NamedText;
use pyo3::prelude::*;

/// Diagnostics and the text that they are about.
#[derive(Debug)]
pub(crate) struct Failure {
    source: NamedText,
    diags: Vec<Diag>,
}

impl Failure {
    /// Diagnostics about a text.
    pub(crate) fn new(source: &NamedText, diags: Vec<Diag>) -> Self {
        Self { source: source.clone(), diags }
    }

    /// The exception.
    pub(crate) fn into_exception(self, py: Python<'_>) -> PyErr {
        let (json, text) = (diags_as_json(&self.source, &self.diags), diags_as_text(&self.source, &self.diags));
        let made = py
            .import("hostir._errors")
            .and_then(|module| module.getattr("HostIrError"))
            .and_then(|class| class.call1((text.trim_end(), json, decoded(&self.source))));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

/// An error about no text.
impl From<Diag> for Failure {
    fn from(diag: Diag) -> Self {
        Self::new(&NamedText::default(), vec![diag])
    }
}

/// Diagnostics as the tools write them for programs: one JSON object a line.
pub(crate) fn diags_as_json(source: &NamedText, diags: &[Diag]) -> String {
    written(DiagFormat::Json, source, diags)
}

/// Diagnostics as the tools write them for people.
pub(crate) fn diags_as_text(source: &NamedText, diags: &[Diag]) -> String {
    written(DiagFormat::Human, source, diags)
}

fn written(format: DiagFormat, source: &NamedText, diags: &[Diag]) -> String {
    let mut out = Vec::new();
    write_diags(&mut out, OutputStyle::default(), format, source, diags);
    String::from_utf8_lossy(&out).into_owned()
}

fn decoded(source: &NamedText) -> String {
    source.decoded_text().into_owned()
}
