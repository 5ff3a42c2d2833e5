//! elide-synchronization: removes Synchronize ops that order nothing.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::proof::{SIZE_OPTIONS, prove_with_sizes};
use crate::support::rewrite;
use hostir::diag::Diags;
use hostir::ir::OpId;
use hostir::ir::edit::Edit;
use rustc_hash::FxHashSet;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "elide-synchronization",
    summary: "Remove Synchronize ops that order nothing",
    description: "\
Proves the program for the sizes, ranks and streams of the options, as check-program does, and removes each
Synchronize that orders nothing on any rank and in any iteration, because the current stream is ordered after that
work already. The order of everything else stays the same, and the program stays proved, for these sizes, ranks and
streams; for others a removed Synchronize may be needed. A program that is wrong is refused.

Waits stay: a communication that is posted again needs its Wait.",
    example: Some(PassExample { options: "{i0=4}", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: SIZE_OPTIONS,
    statistics: &[StatisticSpec { name: "ops-removed", help: "Synchronize ops removed" }],
    action: PassAction::Rewrite(run_elision),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  GetCurrentStream into Stream 0
  SetCurrentStream to Stream 1
  Synchronize Stream 0
  T1_g_float[iS1{i0}]
     = Set( T0, cache_op=Streaming )
  SetCurrentStream to Stream 0
  Synchronize Stream 1
  Synchronize Stream 1
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  GetCurrentStream into Stream 0
  SetCurrentStream to Stream 1
  Synchronize Stream 0
  T1_g_float[iS1{i0}]
     = Set( T0, cache_op=Streaming )
  SetCurrentStream to Stream 0
  Synchronize Stream 1
} // %HostIrContainer
";

fn run_elision(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let report = prove_with_sizes(PASS.name, edit.program(), cx.options())?;
    if !report.errors.is_empty() {
        return Err(Diags { items: report.errors });
    }
    let program = edit.program();
    let orders_streams = |op: &OpId| program.op(*op).kind.is_stream_op();
    let removed: FxHashSet<OpId> = report.redundant.into_iter().filter(orders_streams).collect();
    cx.add_count("ops-removed", removed.len() as u64);
    let body = program.body();
    rewrite::retain_ops(edit, body, &|op| !removed.contains(&op));
    rewrite::drop_lost_comments(edit);
    Ok(())
}
