//! allocate-and-deallocate: memory for matrix products, and an end to all memory the program makes.

use crate::build::Build;
use crate::keep::Iterations;
use crate::lifetime::{self, Depth};
use crate::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use hostir::diag::Diags;
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, OpId, Program, TensorId};
use hostir::ops::{Effect, OpKind};
use rustc_hash::FxHashSet;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "allocate-and-deallocate",
    summary: "Allocate results of matmul and linear, and free tensors after their last use",
    description: "\
nvFuser's pass of 2026. First, each `matmul` or `linear` whose result has no memory yet gets an `ALLOCATE`
before it; no memory means that nothing earlier in its block or in the blocks around it makes or binds the
result, and it is no input. Then each tensor that the program makes gets a `Deallocate` behind its last use,
in the innermost block that holds all of its uses: what only an iteration uses ends with the iteration.
An `ALLOCATE` in a loop has `keep=false` where iterations would otherwise share the memory.

Inputs, outputs, views, what shares memory with an input or output, and tensors that the program frees
itself are left alone, and so is a tensor that is made in a loop or branch but used outside of it.

Deviations from nvFuser: views are not freed, for they have no memory of their own; a tensor lives as long as
its views, and until the communications that touch it have been waited for.",
    example: Some(Example { before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "allocations", help: "allocations inserted" },
        StatisticSpec { name: "deallocations", help: "deallocations inserted" },
    ],
    action: Action::Rewrite(run),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{2}, iS1{3}], T1_g_float[iS2{3}, iS3{4}]) -> (T3_g_float[iS7{2}, iS8{4}]) :
  T2_g_float[iS4{2}, iS5{4}, rS6{3}]
     = matmul(T0_g_float[iS0{2}, iS1{3}],
              T1_g_float[iS2{3}, iS3{4}])
  T3_g_float[iS7{2}, iS8{4}]
     = relu(T2_g_float[iS4{2}, iS5{4}, rS6{3}]);
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{2}, iS1{3}], T1_g_float[iS2{3}, iS3{4}]) -> (T3_g_float[iS7{2}, iS8{4}]) :
  T2_g_float[iS4{2}, iS5{4}, rS6{3}] = ALLOCATE(buffer=T2_g_float[iS4{2}, iS5{4}, rS6{3}], mem_type=global, size=8, zero_init=false, resets_to_zero=false)
  T2_g_float[iS4{2}, iS5{4}, rS6{3}]
     = matmul(T0_g_float[iS0{2}, iS1{3}],
              T1_g_float[iS2{3}, iS3{4}])
  T3_g_float[iS7{2}, iS8{4}]
     = relu(T2_g_float[iS4{2}, iS5{4}, rS6{3}]);
  Deallocate {
    T2_g_float[iS4{2}, iS5{4}, rS6{3}]
  }
} // %HostIrContainer
";

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let mut defined: FxHashSet<TensorId> =
        edit.program().inputs().iter().filter_map(|value| value.tensor()).collect();
    let body = edit.program().body();
    let iterations = Iterations::of(edit.program());
    let mut made = Vec::new();
    allocate(&mut Build::new(edit), body, &mut defined, &mut made);
    cx.count("allocations", made.len() as u64);
    let releases = lifetime::releases(edit.program(), Depth::Innermost);
    if !releases.is_empty() {
        cx.count("deallocations", lifetime::insert(edit, &releases));
    }
    iterations.settle(edit, &made);
    Ok(())
}

/// Allocates in a block and in those inside of it. What a block defines is forgotten behind it, for a
/// loop or branch may not run. `made` gets the allocations.
fn allocate(
    build: &mut Build<'_, '_>,
    block: BlockId,
    defined: &mut FxHashSet<TensorId>,
    made: &mut Vec<OpId>,
) {
    let ops = build.program().block(block).ops.clone();
    let mut out = Vec::with_capacity(ops.len() + 1);
    let mut new: Vec<TensorId> = Vec::new();
    let before = ops.len();
    for op in ops {
        for inner in build.program().op(op).blocks.clone() {
            allocate(build, inner, defined, made);
        }
        for tensor in results(build.program(), op) {
            if !defined.insert(tensor) {
                continue;
            }
            new.push(tensor);
            if needs_memory(build.program(), op) {
                build.origin = op;
                let allocation = build.allocate_new(tensor);
                made.push(allocation);
                out.push(allocation);
            }
        }
        out.push(op);
    }
    for tensor in new {
        defined.remove(&tensor);
    }
    if out.len() > before {
        build.edit.set_block(block, out);
    }
}

/// Tensors that an op makes, binds or allocates.
fn results(program: &Program, id: OpId) -> Vec<TensorId> {
    let op = program.op(id);
    match op.kind.spec().effect {
        Effect::Pure | Effect::Alias | Effect::Allocate | Effect::Opaque => {
            op.output_tensors().collect()
        }
        Effect::Free | Effect::Stream | Effect::Communicate | Effect::Control => Vec::new(),
    }
}

/// The ops that nvFuser runs with an `out=` argument. No effect tells them from others.
fn needs_memory(program: &Program, op: OpId) -> bool {
    matches!(program.op(op).kind, OpKind::Matmul | OpKind::Linear)
}
