//! The components whose events tools show on request (`--debug-only`): the targets of events of the crate `tracing`.
//!
//! An event is for people who look for a bug in the component. It is one for each program, rank, pass or check, not for
//! each statement: without anybody who listens it costs a comparison.

use super::Diag;

/// A text becomes programs.
pub const PARSER: &str = "parser";
/// Programs are checked.
pub const VERIFIER: &str = "verifier";
/// Passes run.
pub const PASS_MANAGER: &str = "pass-manager";
/// A program with sizes becomes instructions for each rank.
pub const PLAN: &str = "plan";
/// Plans are proved right, and equal to a reference.
pub const PROOF: &str = "proof";

/// All components, and what their events are about.
pub const COMPONENTS: &[(&str, &str)] = &[
    (PARSER, "notation of a text, its programs, their ops and tensors, errors"),
    (VERIFIER, "errors by family of rules, and those that are left out as consequences of others"),
    (PASS_MANAGER, "each pass with its options: what it stands for, changed ops, verification, rollback"),
    (PLAN, "sizes, streams and ranks; the instructions, buffers and communicators of each rank"),
    (PROOF, "each step of the proof with its findings; the exact runs of --exact and their error bounds"),
];

/// The codes of diagnostics, for an event.
pub fn codes_of(diags: &[Diag]) -> Vec<&'static str> {
    diags.iter().map(|diag| diag.code).collect()
}
