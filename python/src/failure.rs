//! Errors: diagnostics about a text, as the exception `hostir.HostIrError`.

use hostir::backend::control_plane::{ControlPlane, failure_report, is_known_to_all};
use hostir::diag::{Diag, PartKind, RunOption};
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

    /// Reports to the other ranks, unless they know already. The report has places if the error is about the text of
    /// the program.
    pub(crate) fn report_to(&self, others: &dyn ControlPlane, text: &NamedText) {
        if self.diags.first().is_some_and(is_known_to_all) {
            return;
        }
        let about_text = self.source.bytes == text.bytes;
        let diags = self.diags.iter().take(1).map(|diag| match about_text {
            true => diag.clone(),
            false => Diag { primary: None, ..diag.clone() },
        });
        others.report_failure(&failure_report(&diags.collect::<Vec<_>>()));
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
    let diags: Vec<Diag> = diags.iter().map(in_words_of_python).collect();
    write_diags(&mut out, OutputStyle::default(), format, source, &diags);
    String::from_utf8_lossy(&out).into_owned()
}

/// The diagnostic with arguments of Python functions in place of hir-run's options.
fn in_words_of_python(diag: &Diag) -> Diag {
    let mut diag = diag.clone();
    let labels = diag.primary.iter_mut().chain(&mut diag.labels).map(|label| &mut label.text);
    for text in [&mut diag.message].into_iter().chain(labels).chain(&mut diag.notes) {
        *text = text.map_parts(|part, text| match part.kind {
            PartKind::RunOption(option) => Some(argument_of_python(option, text)),
            _ => None,
        });
    }
    diag
}

/// `sizes={"n": 8}` of `--set n=8`, `shapes={"T0": (4, 8)}` of `--shape T0=4x8`, and `devices=4` of `--devices 4`.
fn argument_of_python(option: RunOption, text: &str) -> String {
    let (_, value) = text.split_once(' ').unwrap_or((text, ""));
    let (name, value) = value.trim_matches('\'').split_once('=').unwrap_or((value, ""));
    match option {
        RunOption::Set => format!("sizes={{\"{name}\": {value}}}"),
        RunOption::Shape => format!("shapes={{\"{name}\": {}}}", shape_as_tuple(value)),
        RunOption::ShapeInstead => {
            let shape = text.split('`').nth(1).unwrap_or_default();
            format!(" or `{}`", argument_of_python(RunOption::Shape, shape))
        }
        RunOption::TimeLimit => "timeout=".to_owned(),
        RunOption::Devices if name.is_empty() => "devices".to_owned(),
        RunOption::Devices => format!("devices={name}"),
        RunOption::PlanMemory => "let its loops have fewer iterations".to_owned(),
    }
}

/// `4x8` becomes `(4, 8)`, and `8` `(8,)`.
fn shape_as_tuple(shape: &str) -> String {
    match shape.contains('x') {
        true => format!("({})", shape.replace('x', ", ")),
        false => format!("({shape},)"),
    }
}

fn decoded(source: &NamedText) -> String {
    source.decoded_text().into_owned()
}
