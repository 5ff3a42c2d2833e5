//! allocate-and-deallocate: allocates memory for GEMMs, and frees all memory that the program makes.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::keep::IterationAllocations;
use crate::support::lifetime::{self, ReleaseDepth};
use hostir::diag::Diags;
use hostir::ir::OpEffect;
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "allocate-and-deallocate",
    summary: "Allocate results of matmul and linear, and free tensors after their last use",
    description: "\
This is nvFuser's pass of 2026. First, each `matmul` or `linear` whose result has no memory yet gets an
`ALLOCATE` before it. A result has no memory if it is no input, and nothing earlier in the program makes or
binds it (except in the other branch of an `IF`). Then each tensor that the program makes gets a `Deallocate`
after its last use, in the innermost block that holds all of its uses: a tensor that only one iteration uses
is freed in that iteration. An `ALLOCATE` in a loop has `keep=false` if iterations would otherwise share the
memory; where only the iterations of an inner loop share it, it stands in front of that loop. There is none for a
result that has new memory in each iteration of an inner loop, while a view of what the outer loop's iteration before
left of it may be bound.

The pass does not free inputs, outputs, views, tensors that share memory with an input or output, tensors that
the program itself frees, tensors that are made in a loop or branch but used outside of it, values that an
iteration reads from the one before, and results of a HostUnit in a loop beside one of these.

Deviations from nvFuser: views are not freed, because they have no memory of their own; a tensor lives as long
as its views, and until the Wait of every communication that uses it; memory that a later iteration reads is
not freed.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "allocations", help: "allocations inserted" },
        StatisticSpec { name: "deallocations", help: "deallocations inserted" },
    ],
    action: PassAction::Rewrite(run_allocate_and_deallocate),
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

fn run_allocate_and_deallocate(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let iterations = IterationAllocations::from_program(edit.program());
    let mut allocator = AllocationInserter {
        defined: edit.program().inputs().iter().filter_map(|value| value.as_tensor()).collect(),
        log: Vec::new(),
        made: Vec::new(),
        build: OpBuilder::new(edit),
    };
    allocator.visit_block(body);
    let made = allocator.made;
    let made = iterations.remove_undecided(edit, made);
    cx.add_count("allocations", made.len() as u64);
    let releases = lifetime::release_points(edit.program(), ReleaseDepth::Innermost);
    if !releases.is_empty() {
        cx.add_count("deallocations", lifetime::insert(edit, &releases));
    }
    iterations.finalize_allocations(edit, &made);
    Ok(())
}

struct AllocationInserter<'e, 'p> {
    build: OpBuilder<'e, 'p>,
    /// Tensors that the program has defined or bound so far, in some branch at least.
    defined: FxHashSet<TensorId>,
    /// The same in order, without the inputs.
    log: Vec<TensorId>,
    /// The allocations.
    made: Vec<OpId>,
}

impl AllocationInserter<'_, '_> {
    /// Allocates in a block and in those inside of it.
    fn visit_block(&mut self, block: BlockId) {
        let ops = self.build.program().block(block).ops.clone();
        let mut out = Vec::with_capacity(ops.len() + 1);
        for &op in &ops {
            self.visit_inner_blocks(op);
            for tensor in made_tensors(self.build.program(), op) {
                if self.define_tensor(tensor) && needs_memory(self.build.program(), op) {
                    self.build.origin = op;
                    let allocation = self.build.build_new_allocation(tensor);
                    self.made.push(allocation);
                    out.push(allocation);
                }
            }
            out.push(op);
        }
        if out.len() > ops.len() {
            self.build.edit.set_block(block, out);
        }
    }

    /// Allocates in the blocks of an op. A tensor of one branch does not exist in the other.
    fn visit_inner_blocks(&mut self, op: OpId) {
        let blocks = self.build.program().op(op).blocks.clone();
        let length = self.log.len();
        let mut all = Vec::new();
        for block in blocks {
            self.visit_block(block);
            let added = self.log.split_off(length);
            added.iter().for_each(|tensor| {
                self.defined.remove(tensor);
            });
            all.extend(added);
        }
        all.into_iter().for_each(|tensor| {
            self.define_tensor(tensor);
        });
    }

    /// Notes a tensor. Returns true if it is new.
    fn define_tensor(&mut self, tensor: TensorId) -> bool {
        let new = self.defined.insert(tensor);
        if new {
            self.log.push(tensor);
        }
        new
    }
}

/// Tensors that an op makes, binds or allocates.
fn made_tensors(program: &Program, id: OpId) -> Vec<TensorId> {
    let op = program.op(id);
    match op.kind.effect() {
        OpEffect::Pure | OpEffect::Alias | OpEffect::Allocate | OpEffect::Opaque => op.output_tensors().collect(),
        OpEffect::Free | OpEffect::Stream(_) | OpEffect::Communicate(_) => Vec::new(),
        OpEffect::Control(_) | OpEffect::Observe => Vec::new(),
    }
}

/// The ops that nvFuser runs with an `out=` argument. No effect distinguishes them from others.
fn needs_memory(program: &Program, op: OpId) -> bool {
    program.op(op).kind.gemm().is_some_and(|form| !form.scaled)
}
