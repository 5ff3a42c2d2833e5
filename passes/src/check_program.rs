//! check-program: proves a program for given sizes, ranks and streams, and changes nothing.

use crate::framework::pass::{PassAction, PassCx, PassInfo, StatisticSpec};
use crate::support::proof::{SIZE_OPTIONS, judge_with_sizes};
use hostir::diag::Diags;
use hostir::ir::edit::Edit;
use hostir::verdict::JudgedProgram;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "check-program",
    summary: "Prove that a program has no deadlock, no race and no misuse of memory",
    description: "\
Plans the program for the sizes, ranks and streams of the options, as `hir-run --check-only` does, and refuses it if
ranks can deadlock, if the sides of a communication do not agree, if two accesses to the same elements have no order,
if something reads or returns what nothing has written, or if an input or output is in use when the caller's stream
goes on. What orders nothing and what wastes time is a warning. The program stays as it is.

`check-program{devices=8,i0=64}` gives an extent or a scalar input by its name. What the program's text proposes
for a run, `sizes` and `streams`, holds where no option says otherwise.",
    example: None,
    options: SIZE_OPTIONS,
    statistics: &[StatisticSpec { name: "redundant-waits", help: "Synchronize and Wait ops that order nothing" }],
    action: PassAction::Rewrite(run_check_program),
};

fn run_check_program(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let JudgedProgram { report, verdict } = judge_with_sizes(PASS.name, edit.program(), cx.options(), cx.model())?;
    cx.add_verdict(verdict);
    cx.add_count("redundant-waits", report.redundant.len() as u64);
    for warning in report.warnings {
        cx.add_warning(warning);
    }
    let errors = Diags { items: report.errors };
    errors.or_value(())
}
