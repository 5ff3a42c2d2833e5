//! Runs under other orders of the queues (`--permute-schedule`).

use super::cli::{Options, PermutedSchedules};
use super::failure::RunFailure;
use super::program::SourceProgram;
use hostir::backend::cpu::schedule_oracle::{OracleLimits, judge_all_schedules, judge_seeded_schedule};
use hostir::lower::PreparedProgram;
use hostir_tool_support::io::ToolIo;

/// Compares the records of a program's accesses under other orders of its queues, if requested.
///
/// # Errors
/// If accesses find other values, or every order has deadlocks or misuse of memory.
pub(super) fn compare_schedules(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<(), RunFailure> {
    let Some(permuted) = options.permuted else { return Ok(()) };
    let limits = OracleLimits::default();
    let verdict = match permuted {
        PermutedSchedules::All => judge_all_schedules(prepared, &limits),
        PermutedSchedules::Seeded(seed) => judge_seeded_schedule(prepared, seed, &limits),
    };
    let diags = verdict.to_diags(prepared);
    if !diags.is_empty() {
        return Err(loaded.to_failure(diags));
    }
    if !options.quiet {
        io.print_message(match permuted {
            PermutedSchedules::All => "hir-run: every order of the queues that was tried leaves the same accesses",
            PermutedSchedules::Seeded(_) => "hir-run: this order of the queues leaves the same accesses",
        });
    }
    Ok(())
}
