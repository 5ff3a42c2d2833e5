//! Proofs: `hostir.check`.

use crate::failure::{Failure, diags_as_json, diags_as_text};
use crate::judge::Judged;
use crate::program::{NativeProgram, SourcedProgram};
use crate::settings::Settings;
use crate::worker::run_detached;
use hostir::lower::PreparedProgram;
use hostir::verdict::judge_program;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A verdict in Python's terms.
struct Checked {
    outcome: &'static str,
    sizes: Vec<(String, i64)>,
    ranks: u32,
    streams: Vec<u32>,
    rules: u32,
    /// The ranks that hold no part of any input or output.
    idle: Vec<u32>,
    /// Plain math on whole tensors, without a shard on any rank.
    is_plain: bool,
    /// Errors as JSON, and as text.
    errors: (String, String),
    /// Warnings as JSON.
    warnings: String,
}

/// Proves a program for its sizes, ranks and streams.
#[pyfunction]
#[pyo3(name = "check")]
pub(crate) fn prove_for_python<'py>(
    py: Python<'py>,
    program: &NativeProgram,
    settings: Settings,
) -> PyResult<Bound<'py, PyDict>> {
    let inner = program.inner.clone();
    let result = run_detached(py, move || check_program(&inner, settings))?;
    let checked = result.map_err(|failure| failure.into_exception(py))?;
    let verdict = PyDict::new(py);
    verdict.set_item("outcome", checked.outcome)?;
    let sizes = PyDict::new(py);
    checked.sizes.into_iter().try_for_each(|(name, value)| sizes.set_item(name, value))?;
    verdict.set_item("sizes", sizes)?;
    verdict.set_item("ranks", checked.ranks)?;
    verdict.set_item("streams", checked.streams)?;
    verdict.set_item("rules", checked.rules)?;
    verdict.set_item("idle", checked.idle)?;
    verdict.set_item("is_plain", checked.is_plain)?;
    verdict.set_item("errors", checked.errors.0)?;
    verdict.set_item("text", checked.errors.1.trim_end())?;
    verdict.set_item("warnings", checked.warnings)?;
    Ok(verdict)
}

fn check_program(program: &SourcedProgram, settings: Settings) -> Result<Checked, Failure> {
    let (model, settings) = (settings.read_model()?, Arc::new(settings.without_limit()));
    let program = &program.for_sizes(settings.given_sizes())?;
    let found = program.verify().map_err(|diags| program.to_failure(diags, Judged::Text))?;
    let prepared = settings.prepare(&program.program);
    let prepared = prepared.map_err(|diags| program.to_failure(diags, Judged::Proof(settings.clone())))?;
    let judged = judge_program(&program.program, &prepared, &model, settings.strict);
    let (mut errors, verdict) = (judged.report.errors, judged.verdict);
    let mut warnings = found;
    warnings.extend(judged.report.warnings);
    program.recipe.add_fixes(&mut errors, Judged::Proof(settings.clone()));
    program.recipe.add_fixes(&mut warnings, Judged::Proof(settings));
    let source = &program.recipe.source;
    Ok(Checked {
        outcome: verdict.outcome.word(),
        sizes: verdict.sizes.into_iter().collect(),
        ranks: verdict.ranks,
        streams: verdict.streams,
        rules: verdict.rules,
        idle: idle_ranks(&prepared),
        is_plain: prepared.unlowered,
        errors: (diags_as_json(source, &errors), diags_as_text(source, &errors)),
        warnings: diags_as_json(source, &warnings),
    })
}

/// The ranks that hold no part of any input or output.
fn idle_ranks(prepared: &PreparedProgram) -> Vec<u32> {
    let io_tensors = || prepared.inputs.iter().chain(&prepared.outputs);
    (0..prepared.ranks).filter(|&rank| !io_tensors().any(|io_tensor| io_tensor.is_on_rank(rank))).collect()
}
