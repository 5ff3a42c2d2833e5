//! dce: removes ops whose results nobody reads.
//!
//! Liveness is by storage class and ignores order: a write stays if anything, anywhere, reads memory
//! that it may have written. That keeps writes through views and across loop iterations.

use crate::framework::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use crate::support::rewrite;
use crate::support::storage::{Access, Storage, accesses, described, interface, walk_all};
use hostir::analysis::renewed::{Renewed, Touches};
use hostir::diag::{Diag, Diags};
use hostir::ir::Effect;
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{AttrKey, Id, IdVec, OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// dce: an op was removed.
const REMOVED: &str = "H0315";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "dce",
    summary: "Remove ops whose results nobody reads",
    description: "\
Removes compute ops, views and allocations whose results are never read, the deallocations of what is
no longer allocated, and loops and branches that are empty then.

A write into a view is a write into the tensor behind it, and inputs and outputs are always read by the
caller. Communications, waits, streams and kernels are never removed, nor what they read. Order is
ignored: a value that is read somewhere is live everywhere.",
    example: Some(Example { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "ops-removed", help: "ops removed" }],
    action: Action::Rewrite(run),
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

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let live = Liveness::of(edit.program());
    let mut removed = 0;
    walk_all(edit.program(), &mut |op| {
        if !live[op] {
            removed += 1;
            cx.remark(|| removal_remark(edit.program(), op));
        }
    });
    cx.count("ops-removed", removed);
    let body = edit.program().body();
    rewrite::retain(edit, body, &|op| live[op]);
    let named = named(edit.program());
    edit.retain_aliases(|tensor| named.contains(&tensor));
    rewrite::drop_lost_comments(edit);
    Ok(())
}

/// The tensors that the program names outside of its aliases.
fn named(program: &Program) -> FxHashSet<TensorId> {
    let mut named: FxHashSet<TensorId> = described(program).collect();
    let ports = program.inputs().iter().chain(program.outputs());
    named.extend(ports.filter_map(|value| value.tensor()));
    walk_all(program, &mut |id| {
        accesses(program, id, &mut |tensor, _| {
            named.insert(tensor);
        });
    });
    named
}

/// Ops in loops that need what an earlier iteration left in a tensor that the loop also binds to memory of others.
/// Without such an op the tensor has new memory in each iteration, and what is written to it is not seen there.
fn carriers(program: &Program) -> Vec<OpId> {
    let mut found = Vec::new();
    let touches = Touches::of(program);
    walk_all(program, &mut |looped| {
        let op = program.op(looped);
        if loop_index(program, op).is_none() {
            return;
        }
        let shared = shared_and_written(program, looped);
        if shared.is_empty() {
            return;
        }
        let renewed = Renewed::of(program, looped, &touches).tensors;
        let carried = |tensor| {
            let memory = program.memory_of(tensor);
            shared.contains(&memory) && !renewed.contains(&memory)
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
fn shared_and_written(program: &Program, looped: OpId) -> FxHashSet<TensorId> {
    let (mut bound, mut written) = (FxHashSet::default(), FxHashSet::default());
    program.walk_inside(looped, &mut |id| {
        let op = program.op(id);
        let results = op.output_tensors().map(|tensor| program.memory_of(tensor));
        match op.kind.effect() {
            Effect::Alias => bound.extend(results),
            Effect::Allocate if op.attr(AttrKey::Alias).is_some() => bound.extend(results),
            Effect::Pure | Effect::Opaque => written.extend(results),
            _ => {}
        }
    });
    bound.retain(|tensor| written.contains(tensor));
    bound
}

fn removal_remark(program: &Program, id: OpId) -> Diag {
    let op = program.op(id);
    let tensors: Vec<String> = op
        .output_tensors()
        .chain(op.input_tensors())
        .take(1)
        .map(|tensor| program.tensor_name(tensor))
        .collect();
    let message = format!("removed `{}`: nobody reads {}", op.kind.name(), tensors.join(""));
    Diag::error(REMOVED, program.op_span(id), message)
}

/// Which ops have to stay.
struct Liveness<'a> {
    program: &'a Program,
    storage: Storage,
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
    /// Ops found to stay whose tensors are still to be marked.
    work: Vec<OpId>,
}

impl<'a> Liveness<'a> {
    fn of(program: &'a Program) -> IdVec<OpId, bool> {
        let tensors = program.tensors().len();
        let mut liveness = Self {
            program,
            storage: Storage::of(program),
            live: IdVec::filled(false, program.ops().len()),
            needed: IdVec::filled(false, tensors),
            read: vec![false; tensors],
            binders: vec![Vec::new(); tensors],
            writers: vec![Vec::new(); tensors],
            work: Vec::new(),
        };
        let frees = liveness.index();
        for tensor in interface(program).chain(described(program)) {
            liveness.read(tensor);
        }
        carriers(program).into_iter().for_each(|op| liveness.keep(op));
        while let Some(op) = liveness.work.pop() {
            liveness.visit(op);
        }
        for op in frees {
            liveness.live[op] =
                program.op(op).input_tensors().any(|tensor| liveness.needed[tensor]);
        }
        liveness.live
    }

    /// Fills the side tables and keeps what must stay anyway. Returns the ops that free memory.
    fn index(&mut self) -> Vec<OpId> {
        let program = self.program;
        let mut frees = Vec::new();
        walk_all(program, &mut |id| match program.op(id).kind.effect() {
            Effect::Free => frees.push(id),
            Effect::Stream | Effect::Communicate | Effect::Control | Effect::Opaque => {
                self.keep(id)
            }
            Effect::Pure | Effect::Alias | Effect::Allocate => self.index_removable(id),
        });
        frees
    }

    fn index_removable(&mut self, id: OpId) {
        let op = self.program.op(id);
        // Uses of scalars are not tracked.
        if op.results.is_empty() || op.results.iter().any(|value| value.tensor().is_none()) {
            self.keep(id);
            return;
        }
        for tensor in op.output_tensors() {
            if op.kind.effect() == Effect::Pure {
                let class = self.storage.class(tensor);
                self.writers[class].push(id);
            } else {
                self.binders[tensor.index()].push(id);
            }
        }
    }

    fn keep(&mut self, op: OpId) {
        if !self.live[op] {
            self.live[op] = true;
            self.work.push(op);
        }
    }

    fn visit(&mut self, op: OpId) {
        let mut touched = Vec::new();
        accesses(self.program, op, &mut |tensor, access| touched.push((tensor, access)));
        for (tensor, access) in touched {
            match access {
                Access::Read | Access::Both => self.read(tensor),
                Access::Write | Access::Bind | Access::Free | Access::Name => self.need(tensor),
            }
        }
    }

    /// The tensor's elements are read: what wrote them stays.
    fn read(&mut self, tensor: TensorId) {
        self.need(tensor);
        let class = self.storage.class(tensor);
        if !self.read[class] {
            self.read[class] = true;
            for op in std::mem::take(&mut self.writers[class]) {
                self.keep(op);
            }
        }
    }

    /// The tensor is named: what binds it to memory stays.
    fn need(&mut self, tensor: TensorId) {
        if !self.needed[tensor] {
            self.needed[tensor] = true;
            for op in std::mem::take(&mut self.binders[tensor.index()]) {
                self.keep(op);
            }
        }
    }
}
