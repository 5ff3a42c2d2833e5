//! dce: removes ops whose results nobody reads.
//!
//! Liveness is by storage class and ignores order: a write stays if any op reads memory that it may have written. That
//! keeps writes through views and across loop iterations.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::rewrite;
use hostir::analysis::loop_private::{LoopPrivateTensors, UseCounts};
use hostir::analysis::storage::{
    StorageClasses, TensorAccess, described_tensors, interface_tensors, visit_accesses, visit_host_ops,
};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{AttrKey, Id, IdVec, OpEffect, OpId, Program, TensorId, quoted_op};
use rustc_hash::FxHashSet;

/// dce: an op was removed.
const REMOVED: &str = "H0315";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "dce",
    summary: "Remove ops whose results are never read",
    description: "\
Removes compute ops, views and allocations whose results are never read, the deallocations of tensors that are
no longer allocated, and loops and branches that become empty.

A write into a view is a write into the tensor behind it, and inputs and outputs are always read by the
caller. Communications, waits, streams and kernels are never removed, nor are values that they read. Order is
ignored: a value that is read somewhere is live everywhere.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "ops-removed", help: "ops removed" }],
    action: PassAction::Rewrite(run_dce),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  T2_g_float[iS2{i0}] = ALLOCATE(buffer=T2, mem_type=global, size=i0, zero_init=false, resets_to_zero=false)
  T2
     = Set( T0, cache_op=Streaming )
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

fn run_dce(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let live = OpLiveness::live_ops(edit.program());
    let mut removed = 0;
    visit_host_ops(edit.program(), &mut |op| {
        if !live[op] {
            removed += 1;
            cx.add_remark(|| removal_remark(edit.program(), op));
        }
    });
    cx.add_count("ops-removed", removed);
    let body = edit.program().body();
    rewrite::retain_ops(edit, body, &|op| live[op]);
    let named = named_tensors(edit.program());
    edit.retain_aliases(|tensor| named.contains(&tensor));
    rewrite::drop_lost_comments(edit);
    Ok(())
}

/// The tensors that the program names outside of its aliases.
fn named_tensors(program: &Program) -> FxHashSet<TensorId> {
    let mut named: FxHashSet<TensorId> = described_tensors(program).collect();
    let ports = program.inputs().iter().chain(program.outputs());
    named.extend(ports.filter_map(|value| value.as_tensor()));
    visit_host_ops(program, &mut |id| {
        visit_accesses(program, id, &mut |tensor, _| {
            named.insert(tensor);
        });
    });
    named
}

/// Ops in loops that need the contents of a tensor from an earlier iteration, although the loop also binds the tensor
/// to memory of others. Without such an op the tensor has new memory in each iteration, and its writes would not be
/// seen there.
fn carrying_ops(program: &Program) -> Vec<OpId> {
    let mut found = Vec::new();
    let use_counts = UseCounts::from_program(program);
    visit_host_ops(program, &mut |looped| {
        let op = program.op(looped);
        if loop_index(program, op).is_none() {
            return;
        }
        let shared = aliased_written_tensors(program, looped);
        if shared.is_empty() {
            return;
        }
        let loop_private = LoopPrivateTensors::of_loop(program, looped, &use_counts).tensors;
        let carried = |tensor| {
            let memory = program.memory_tensor(tensor);
            shared.contains(&memory) && !loop_private.contains(&memory)
        };
        program.walk_inside(looped, &mut |id| {
            if program.op(id).input_tensors().any(carried) {
                found.push(id);
            }
        });
    });
    found
}

/// Tensors that the body of a loop both binds to memory of others and writes as a whole.
fn aliased_written_tensors(program: &Program, looped: OpId) -> FxHashSet<TensorId> {
    let (mut bound, mut written) = (FxHashSet::default(), FxHashSet::default());
    program.walk_inside(looped, &mut |id| {
        let op = program.op(id);
        let results = op.output_tensors().map(|tensor| program.memory_tensor(tensor));
        match op.kind.effect() {
            OpEffect::Alias => bound.extend(results),
            OpEffect::Allocate if op.attr(AttrKey::Alias).is_some() => bound.extend(results),
            OpEffect::Pure | OpEffect::Opaque => written.extend(results),
            _ => {}
        }
    });
    bound.retain(|tensor| written.contains(tensor));
    bound
}

fn removal_remark(program: &Program, id: OpId) -> Diag {
    let op = program.op(id);
    let tensors: Vec<String> =
        op.output_tensors().chain(op.input_tensors()).take(1).map(|tensor| program.tensor_name(tensor)).collect();
    let message = message!("removed `{}`: {} is never read", quoted_op(program, id), tensors.join(""));
    Diag::error(REMOVED, program.op_span(id), message)
}

/// The ops that have to stay.
struct OpLiveness<'a> {
    program: &'a Program,
    storage: StorageClasses,
    /// Ops that stay.
    live: IdVec<OpId, bool>,
    /// Tensors that an op that stays names.
    needed: IdVec<TensorId, bool>,
    /// Storage classes that somebody reads.
    read: Vec<bool>,
    /// Views and allocations, by the tensor they bind.
    binders: Vec<Vec<OpId>>,
    /// Pure ops, by the storage class they write.
    writers: Vec<Vec<OpId>>,
    /// Ops known to stay whose tensors are still to be marked.
    work: Vec<OpId>,
}

impl<'a> OpLiveness<'a> {
    fn live_ops(program: &'a Program) -> IdVec<OpId, bool> {
        let tensors = program.tensors().len();
        let mut liveness = Self {
            program,
            storage: StorageClasses::from_program(program),
            live: IdVec::filled(false, program.ops().len()),
            needed: IdVec::filled(false, tensors),
            read: vec![false; tensors],
            binders: vec![Vec::new(); tensors],
            writers: vec![Vec::new(); tensors],
            work: Vec::new(),
        };
        let frees = liveness.index();
        for tensor in interface_tensors(program).chain(described_tensors(program)) {
            liveness.mark_read(tensor);
        }
        carrying_ops(program).into_iter().for_each(|op| liveness.keep_op(op));
        while let Some(op) = liveness.work.pop() {
            liveness.visit_op(op);
        }
        for op in frees {
            liveness.live[op] = program.op(op).input_tensors().any(|tensor| liveness.needed[tensor]);
        }
        liveness.live
    }

    /// Fills the side tables and keeps the ops that stay in any case. Returns the ops that free memory.
    fn index(&mut self) -> Vec<OpId> {
        let program = self.program;
        let mut frees = Vec::new();
        visit_host_ops(program, &mut |id| match program.op(id).kind.effect() {
            OpEffect::Free => frees.push(id),
            OpEffect::Stream(_) | OpEffect::Communicate(_) | OpEffect::Control(_) => self.keep_op(id),
            OpEffect::Opaque | OpEffect::Observe => self.keep_op(id),
            OpEffect::Pure | OpEffect::Alias | OpEffect::Allocate => self.index_writers(id),
        });
        frees
    }

    fn index_writers(&mut self, id: OpId) {
        let op = self.program.op(id);
        // Uses of scalars are not tracked.
        if op.results.is_empty() || op.results.iter().any(|value| value.as_tensor().is_none()) {
            self.keep_op(id);
            return;
        }
        for tensor in op.output_tensors() {
            if op.kind.effect() == OpEffect::Pure {
                let class = self.storage.class_of(tensor);
                self.writers[class].push(id);
            } else {
                self.binders[tensor.index()].push(id);
            }
        }
    }

    fn keep_op(&mut self, op: OpId) {
        if !self.live[op] {
            self.live[op] = true;
            self.work.push(op);
        }
    }

    fn visit_op(&mut self, op: OpId) {
        let mut touched = Vec::new();
        visit_accesses(self.program, op, &mut |tensor, access| touched.push((tensor, access)));
        for (tensor, access) in touched {
            match access {
                TensorAccess::Read | TensorAccess::Both => self.mark_read(tensor),
                TensorAccess::Write | TensorAccess::Bind | TensorAccess::Free | TensorAccess::Name => {
                    self.mark_named(tensor)
                }
            }
        }
    }

    /// Marks the tensor's elements as read: the ops that wrote them stay.
    fn mark_read(&mut self, tensor: TensorId) {
        self.mark_named(tensor);
        let class = self.storage.class_of(tensor);
        if !self.read[class] {
            self.read[class] = true;
            for op in std::mem::take(&mut self.writers[class]) {
                self.keep_op(op);
            }
        }
    }

    /// Marks the tensor as named: the ops that bind it to memory stay.
    fn mark_named(&mut self, tensor: TensorId) {
        if !self.needed[tensor] {
            self.needed[tensor] = true;
            for op in std::mem::take(&mut self.binders[tensor.index()]) {
                self.keep_op(op);
            }
        }
    }
}
