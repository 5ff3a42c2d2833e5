//! Proofs that two programs compute the same for all inputs of their sizes.

use hostir::backend::exact::{ExactRequest, SideFailure, prove_equal};
use hostir::data::HostTensor;
use hostir::diag::{Diag, Severity};
use hostir::lower::PreparedProgram;
use hostir_test::values::values;

/// Proves that a program computes what its reference does.
pub(crate) fn compare_meaning(program: &PreparedProgram, reference: &PreparedProgram) -> Result<(), String> {
    let given: Vec<Option<HostTensor>> = (0..program.inputs.len()).map(|input| Some(values(program, input))).collect();
    let request = ExactRequest { program, reference, name: "the plain math", given: &given, seed: 0 };
    match prove_equal(&request) {
        Ok(report) if report.proof.is_some() => Ok(()),
        Ok(report) => Err(error_text(&report.program)),
        Err(SideFailure { side, diags }) => Err(format!("{side:?}: {}", error_text(&diags))),
    }
}

fn error_text(diags: &[Diag]) -> String {
    let errors = diags.iter().filter(|diag| diag.severity == Severity::Error);
    let lines = errors.map(|diag| format!("{}: {}\n{}", diag.code, diag.message, diag.notes.join("\n")));
    lines.collect::<Vec<_>>().join("\n")
}
