//! strip-comments: drops all comments.
//!
//! Tests need it: comments survive passes, so a program would print its own CHECK lines.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use hostir::diag::Diags;
use hostir::ir::edit::Edit;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "strip-comments",
    summary: "Remove all comments",
    description: "\
Other passes keep the comments of the ops that they keep. A test with CHECK lines in its program ends its
pipeline with this pass, so that these lines are not matched against themselves.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "comments-removed", help: "comments removed" }],
    action: PassAction::Rewrite(run_strip_comments),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  // A copy.
  T1_g_float[iS1{i0}]
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  T1_g_float[iS1{i0}]
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";

fn run_strip_comments(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let count = edit.program().source().comments.len();
    if count > 0 {
        edit.set_comments(Vec::new());
        cx.add_count("comments-removed", count as u64);
    }
    Ok(())
}
