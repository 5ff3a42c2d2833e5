//! The proof of a program before it runs.

use super::cli::Options;
use super::failure::RunFailure;
use super::fix;
use super::program::SourceProgram;
use hostir::diag::Diag;
use hostir::ir::Program;
use hostir::lower::PreparedProgram;
use hostir::plan_checks::{ProofReport, check_more_streams, prove_program};
use hostir_tool_support::io::ToolIo;

/// Proves a program; what it wastes is a warning of `--check-only`, and an error with `--strict`.
///
/// # Errors
/// If the program is wrong.
pub(super) fn prove_loaded(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<(), RunFailure> {
    let with_streams = options.check_only || options.strict;
    let ProofReport { errors, mut warnings, .. } = judge_program(prepared, &loaded.program, options, with_streams);
    if options.check_only && !warnings.is_empty() {
        fix::add_fixes(&loaded.source, &mut warnings, options, io);
        io.report(options.format, &loaded.source, &warnings);
    }
    if errors.is_empty() { Ok(()) } else { Err(loaded.to_failure(errors)) }
}

/// The findings of the proof, those about more streams among them if asked for; warnings are errors with `--strict`.
pub(super) fn judge_program(
    prepared: &PreparedProgram,
    program: &Program,
    options: &Options,
    with_streams: bool,
) -> ProofReport {
    let mut report = prove_program(prepared);
    if with_streams && report.errors.is_empty() {
        report.warnings.extend(check_more_streams(program, prepared));
    }
    if options.strict {
        report.errors.extend(report.warnings.drain(..).map(Diag::into_error));
    }
    report
}
