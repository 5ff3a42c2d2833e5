//! insert-deallocations: frees memory that the program allocates after its last use.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::lifetime::{self, ReleaseDepth};
use hostir::diag::Diags;
use hostir::ir::edit::Edit;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "insert-deallocations",
    summary: "Free tensors after their last use, at the top level",
    description: "\
Inserts a `Deallocate` after the last statement of the program's body that uses a tensor; a loop or branch
counts as one statement. Only tensors that get their memory in the body itself are freed, each once; of
several that are freed at one place the lowest number comes first.

What the program frees itself, anywhere, stays as it is. So a second application changes
nothing.

Deviations from nvFuser, which rejects programs that free memory and frees each tensor after the last top-level op that
reads it: inputs, outputs
and tensors that share memory with them are never freed (nvFuser unbinds inputs, and returns an output that is
read later undefined); uses in loops and branches count; a tensor lives as long as its views, and until the
Wait of every communication that uses it; a tensor that is never read is freed too.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "deallocations", help: "deallocations inserted" }],
    action: PassAction::Rewrite(run_insert_deallocations),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T2_g_float[iS2{i0}]) :
  T1_g_float[iS1{i0}]
     = relu(T0_g_float[iS0{i0}]);
  T2_g_float[iS2{i0}]
     = relu(T1_g_float[iS1{i0}]);
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T2_g_float[iS2{i0}]) :
  T1_g_float[iS1{i0}]
     = relu(T0_g_float[iS0{i0}]);
  T2_g_float[iS2{i0}]
     = relu(T1_g_float[iS1{i0}]);
  Deallocate {
    T1_g_float[iS1{i0}]
  }
} // %HostIrContainer
";

fn run_insert_deallocations(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let releases = lifetime::release_points(edit.program(), ReleaseDepth::Top);
    if !releases.is_empty() {
        cx.add_count("deallocations", lifetime::insert(edit, &releases));
    }
    Ok(())
}
