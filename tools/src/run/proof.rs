//! The proof of a program before it runs.

use super::cli::Options;
use super::failure::RunFailure;
use super::program::SourceProgram;
use hostir::diag::Diag;
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
    let ProofReport { mut errors, mut warnings, .. } = prove_program(prepared);
    if (options.check_only || options.strict) && errors.is_empty() {
        warnings.extend(check_more_streams(&loaded.program, prepared));
    }
    if options.strict {
        errors.extend(warnings.drain(..).map(Diag::into_error));
    }
    if options.check_only && !warnings.is_empty() {
        io.report(options.format, &loaded.source, &warnings);
    }
    if errors.is_empty() { Ok(()) } else { Err(loaded.to_failure(errors)) }
}
