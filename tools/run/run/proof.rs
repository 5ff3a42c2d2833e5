//! The proof of a program before it runs.

use super::cli::Options;
use super::failure::RunFailure;
use super::fix;
use super::program::SourceProgram;
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir::plan_checks::{ProofReport, prove_program};
use hostir::verdict::{JudgedProgram, judge_program};
use hostir_tool_support::io::ToolIo;

/// Proves a program before a run; with `--strict` its waste is an error.
///
/// # Errors
/// If the program is wrong.
pub(super) fn prove_loaded(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
) -> Result<(), RunFailure> {
    let report = match options.strict {
        true => judge_program(&loaded.program, prepared, &options.model, true).report,
        false => prove_program(prepared),
    };
    refuse_errors(loaded, report.errors)
}

/// Proves a program for `--check-only`: its waste is a warning, and an error with `--strict`. As JSON the verdict comes
/// before the errors.
///
/// # Errors
/// If the program is wrong.
pub(super) fn judge_loaded(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<(), RunFailure> {
    let JudgedProgram { report, verdict } = judge_program(&loaded.program, prepared, &options.model, options.strict);
    let ProofReport { errors, mut warnings, .. } = report;
    fix::add_fixes(&loaded.source, &mut warnings, options, io);
    io.report(options.format, &loaded.source, &warnings);
    io.report_verdict(options.format, &loaded.source, &verdict);
    refuse_errors(loaded, errors)
}

fn refuse_errors(loaded: &SourceProgram, errors: Vec<Diag>) -> Result<(), RunFailure> {
    if errors.is_empty() { Ok(()) } else { Err(loaded.to_failure(errors)) }
}
