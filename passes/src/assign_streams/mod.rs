//! assign-streams: runs each iteration of a loop on a stream of its own.
//!
//! [`independent`] checks that iterations do not access each other's memory.

mod independent;

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::rewrite::rebuild_body;
use hostir::diag::Diags;
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, AttrValue, ExprId, OpId, Program};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "assign-streams",
    summary: "Run each iteration of a loop on its own stream",
    description: "\
This is nvFuser's pass of 2026. For each loop of the body: the current stream is saved before the loop;
iteration i runs on stream i, which waits for the saved one; after the loop the saved stream is current again
and waits for all of them in a second loop. There is one stream for each index, not `numberOfStreams` of them
in turn.

Loops that set or order streams themselves, and loops in loops, do not change.

Deviation from nvFuser, which does not check the loop: iterations must be independent. An iteration may only
write a slice by the loop's index, or memory that the iteration makes and frees (`allocate-and-deallocate`
inserts the deallocations).",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "loops", help: "loops distributed over streams" }],
    action: PassAction::Rewrite(run_assign_streams),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{4}, iS1{i0}]) -> (T1_g_float[iS2{4}, iS3{i0}]) :
  T1_g_float[iS2{4}, iS3{i0}] = ALLOCATE(buffer=T1, mem_type=global, size=( 4 * i0 ), zero_init=false, resets_to_zero=false)
  FOR i1 in iS2{4}:
    T2_l_float[iS4{i0}]
       = HirAliasSelect( T0, axis = iS0{4}, index = i1 )
    T3_l_float[iS5{i0}]
       = HirAliasSelect( T1, axis = iS2{4}, index = i1 )
    T3
       = relu(T2);
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{4}, iS1{i0}]) -> (T1_g_float[iS2{4}, iS3{i0}]) :
  T1_g_float[iS2{4}, iS3{i0}] = ALLOCATE(buffer=T1, mem_type=global, size=( 4 * i0 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR i1 in iS2{4}:
    SetCurrentStream to Stream i1
    Synchronize Stream 0
    T2_l_float[iS4{i0}]
       = HirAliasSelect( T0, axis = iS0{4}, index = i1 )
    T3_l_float[iS5{i0}]
       = HirAliasSelect( T1, axis = iS2{4}, index = i1 )
    T3
       = relu(T2);
  SetCurrentStream to Stream 0
  FOR i1 in iS2{4}:
    Synchronize Stream i1
} // %HostIrContainer
";

fn run_assign_streams(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let ops = edit.program().block(body).ops.clone();
    let loops: Vec<(OpId, ExprId)> = ops
        .iter()
        .filter_map(|&op| Some((op, index_expr(edit.program(), op)?)))
        .filter(|&(op, _)| !has_streams(edit.program(), op))
        .collect();
    if loops.is_empty() {
        return Ok(());
    }
    independent::check_independence(edit.program(), &loops)?;
    let mut build = OpBuilder::new(edit);
    cx.add_count("loops", loops.len() as u64);
    rebuild_body(&mut build, loops, assign_loop_streams);
    Ok(())
}

/// The index of a loop; `None` for other ops.
fn index_expr(program: &Program, op: OpId) -> Option<ExprId> {
    let op = program.op(op);
    let control = op.kind.is_control();
    op.expr_attr(AttrKey::Index).filter(|_| control && !op.blocks.is_empty())
}

/// Whether a loop orders streams itself.
fn has_streams(program: &Program, op: OpId) -> bool {
    let mut found = false;
    program.walk_inside(op, &mut |op| {
        found |= program.op(op).kind.is_stream_op();
    });
    found
}

/// One loop with its streams.
fn assign_loop_streams(build: &mut OpBuilder<'_, '_>, id: OpId, index: ExprId, out: &mut Vec<OpId>) {
    let user = build.new_stream_name();
    out.push(build.build_get_current_stream(user));
    let block = build.program().op(id).blocks[0];
    let mut ops = vec![build.build_set_current_stream(index), build.build_synchronize(user)];
    ops.extend_from_slice(&build.program().block(block).ops);
    build.edit.set_block(block, ops);
    out.push(id);
    out.push(build.build_set_current_stream(user));
    let join = build.build_synchronize(index);
    let mut again = build.program().op(id).clone();
    again.blocks[0] = build.edit.add_block(vec![join]);
    for (_, value) in &mut again.attrs {
        if let AttrValue::Domain(domain) = value {
            let copy = *build.program().domain(*domain);
            *domain = build.edit.add_domain(copy);
        }
    }
    out.push(build.push(again));
}
