//! Checks whether the iterations of a loop may run at the same time.

use crate::support::lifetime::{ReleaseDepth, release_points};
use hostir::analysis::storage::{StorageClasses, TensorAccess, interface_tensors, visit_accesses, visit_host_ops};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::{
    AttrKey, DomainId, ExprId, IdVec, IndexDefinitions, Op, OpEffect, OpId, Partition, Program, TensorId,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// assign-streams: iterations that access each other's memory.
const ITERATIONS_DEPEND: &str = "H0381";

/// The role of a tensor's memory for the iterations of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TensorRole {
    /// All iterations have the same memory.
    Shared,
    /// Each iteration has its own slice.
    Slice,
    /// Each iteration makes its own memory.
    Own,
    /// Made by an iteration and kept for the next.
    Kept,
}

/// Reports the statements that keep the iterations of loops from running at the same time.
pub(super) fn check_independence(program: &Program, loops: &[(OpId, ExprId)]) -> Result<(), Diags> {
    let mut storage = StorageClasses::from_program(program);
    let mut roles = IdVec::filled(TensorRole::Shared, program.tensors().len());
    let external = defined_outside_loops(program);
    let definitions = IndexDefinitions::new(program);
    let mut diags = Diags::default();
    for &(op, index) in loops {
        let mut ops = Vec::new();
        program.walk_inside(op, &mut |op| ops.push(op));
        let named = assign_roles(
            program,
            &ops,
            &|op| selected_index(op).is_some_and(|expr| definitions.expand_expr(program, expr) == index),
            &external,
            &mut roles,
        );
        check_loop_independence(program, &ops, &mut storage, &roles, &mut diags);
        for tensor in named {
            roles[tensor] = TensorRole::Shared;
        }
    }
    diags.or_value(())
}

/// Sets the roles of the tensors that a loop defines or binds; returns them. `slices` returns true if an op selects by
/// the loop's index. An alias has the role of its original.
fn assign_roles(
    program: &Program,
    ops: &[OpId],
    slices: &dyn Fn(&Op) -> bool,
    external: &FxHashSet<TensorId>,
    roles: &mut IdVec<TensorId, TensorRole>,
) -> Vec<TensorId> {
    let (mut named, mut sharing) = (Vec::new(), Vec::new());
    for &id in ops {
        let op = program.op(id);
        let effect = op.kind.effect();
        let shared = op.shared_memory().map(|tensor| program.memory_tensor(tensor));
        let role = match effect {
            OpEffect::Alias if slices(op) => TensorRole::Slice,
            OpEffect::Alias if op.input_tensors().any(|t| roles[program.memory_tensor(t)] != TensorRole::Shared) => {
                TensorRole::Slice
            }
            OpEffect::Allocate if !op.keeps_memory() => TensorRole::Own,
            OpEffect::Pure | OpEffect::Allocate | OpEffect::Opaque => TensorRole::Kept,
            _ => TensorRole::Shared,
        };
        let role = shared.map_or(role, |original| roles[original]);
        let results = op.output_tensors().map(|tensor| program.memory_tensor(tensor));
        for tensor in results.filter(|tensor| !external.contains(tensor)) {
            if shared.is_some() || (roles[tensor] == TensorRole::Shared && role != TensorRole::Shared) {
                roles[tensor] = role;
                named.push(tensor);
            }
            sharing.extend(shared.map(|original| (tensor, original)));
        }
        if effect == OpEffect::Free {
            for tensor in op.input_tensors().map(|tensor| program.memory_tensor(tensor)) {
                if roles[tensor] == TensorRole::Kept {
                    roles[tensor] = TensorRole::Own;
                }
            }
        }
    }
    // Memory that is shared with a tensor that the iteration frees later is freed with it.
    for (tensor, original) in sharing {
        if roles[tensor] == TensorRole::Kept {
            roles[tensor] = roles[original];
        }
    }
    named
}

/// The index that a view selects.
fn selected_index(op: &Op) -> Option<ExprId> {
    op.expr_attr(AttrKey::Index).or_else(|| op.expr_attr(AttrKey::StreamIndex))
}

/// Tensors that have memory, or a name, outside of loops: inputs, and results of ops of the body.
fn defined_outside_loops(program: &Program) -> FxHashSet<TensorId> {
    let ops = program.block(program.body()).ops.iter();
    let made = ops.flat_map(|&op| program.op(op).output_tensors());
    let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
    inputs.chain(made).map(|tensor| program.memory_tensor(tensor)).collect()
}

/// The repair if iterations read and write the same memory.
const ACCUMULATED: &str = "let each iteration write its own slice of a tensor with an axis for the iterations, and combine the slices after the loop";

/// The use of one storage class by the iterations of one loop.
#[derive(Default)]
struct ClassUse {
    /// A write of memory that other iterations share.
    shared_write: Option<(OpId, TensorId)>,
    /// A read of the same.
    shared_read: Option<(OpId, TensorId)>,
    slice_write: bool,
    /// Axes that it is sliced along.
    axes: Vec<(OpId, TensorId, Option<DomainId>)>,
}

impl ClassUse {
    /// Records an access to memory that other iterations share.
    fn note_shared(&mut self, op: OpId, tensor: TensorId, reads: bool, writes: bool) {
        if writes {
            self.shared_write.get_or_insert((op, tensor));
        }
        if reads {
            self.shared_read.get_or_insert((op, tensor));
        }
    }
}

fn check_loop_independence(
    program: &Program,
    ops: &[OpId],
    storage: &mut StorageClasses,
    roles: &IdVec<TensorId, TensorRole>,
    diags: &mut Diags,
) {
    let mut uses: FxHashMap<usize, ClassUse> = FxHashMap::default();
    for &id in ops {
        let op = program.op(id);
        if op.kind.effect() == OpEffect::Alias {
            for tensor in op.input_tensors() {
                let found = uses.entry(storage.class_of(tensor)).or_default();
                let axis = (tensor, op.domain_attr(AttrKey::Axis));
                let known = found.axes.iter().any(|&(_, tensor, domain)| (tensor, domain) == axis);
                if roles[program.memory_tensor(tensor)] == TensorRole::Shared && !known {
                    found.axes.push((id, axis.0, axis.1));
                }
            }
        }
        let by_post = tensors_written_by_post(program, op);
        visit_accesses(program, id, &mut |tensor, access| {
            let (reads, writes) = match access {
                TensorAccess::Read => (true, false),
                TensorAccess::Write => (false, true),
                TensorAccess::Both => {
                    (true, by_post.as_ref().is_none_or(|written| written.contains(&program.memory_tensor(tensor))))
                }
                TensorAccess::Bind | TensorAccess::Free | TensorAccess::Name => (false, false),
            };
            let found = uses.entry(storage.class_of(tensor)).or_default();
            match roles[program.memory_tensor(tensor)] {
                TensorRole::Own => {}
                TensorRole::Slice => found.slice_write |= writes,
                TensorRole::Shared | TensorRole::Kept => found.note_shared(id, tensor, reads, writes),
            }
        });
    }
    let mut classes: Vec<(usize, ClassUse)> = uses.into_iter().collect();
    classes.sort_unstable_by_key(|(class, _)| *class);
    let around = LoopContext { program, ops, storage };
    for (class, found) in classes {
        report_dependence(around.program, roles, &found, &|| around.repair_note(class), diags);
    }
}

/// The tensors that a PostOnStream writes: its results, and the operands that its unit writes in place. `None` for
/// other ops.
fn tensors_written_by_post(program: &Program, op: &Op) -> Option<FxHashSet<TensorId>> {
    let unit = &program.units()[program.posted_unit(op)?];
    let mut classes = Partition::of_singletons(program.tensors().len());
    let mut written = Vec::new();
    program.walk(unit.body, &mut |id| {
        let inner = program.op(id);
        if inner.kind.effect() == OpEffect::Alias || inner.shared_memory().is_some() {
            for other in inner.input_tensors().chain(inner.shared_memory()) {
                for result in inner.output_tensors() {
                    classes.join_classes(result.0, other.0);
                }
            }
        }
        visit_accesses(program, id, &mut |tensor, access| {
            if matches!(access, TensorAccess::Write | TensorAccess::Both) {
                written.push(tensor);
            }
        });
    });
    let written: FxHashSet<u32> = written.into_iter().map(|tensor| classes.find_class(tensor.0)).collect();
    let ports = op.operands.iter().filter_map(|value| value.as_tensor());
    let ports = ports.zip(unit.inputs.iter().filter_map(|value| value.as_tensor()));
    let in_place = ports.filter(|(_, inner)| written.contains(&classes.find_class(inner.0))).map(|(outer, _)| outer);
    Some(op.output_tensors().chain(in_place).map(|tensor| program.memory_tensor(tensor)).collect())
}

/// A loop, for notes about memory that its iterations keep.
struct LoopContext<'a> {
    program: &'a Program,
    ops: &'a [OpId],
    storage: &'a StorageClasses,
}

impl LoopContext<'_> {
    /// The repair that makes iterations that keep memory of this class independent.
    fn repair_note(&self, class: usize) -> &'static str {
        let mut storage = self.storage.clone();
        let inside: FxHashSet<OpId> = self.ops.iter().copied().collect();
        let mut of_class = |tensor: TensorId| storage.class_of(tensor) == class;
        let frees = release_points(self.program, ReleaseDepth::Innermost)
            .iter()
            .any(|release| inside.contains(&release.place.1) && of_class(release.tensor));
        if frees {
            return "deallocate it in the loop: run --pass=allocate-and-deallocate before this pass";
        }
        let mut external = interface_tensors(self.program).any(&mut of_class);
        visit_host_ops(self.program, &mut |op| {
            if !inside.contains(&op) {
                visit_accesses(self.program, op, &mut |tensor, _| external |= of_class(tensor));
            }
        });
        if external {
            "it is also used outside of the loop: make a tensor with an axis for the iterations before the loop, and let each iteration write its slice"
        } else {
            "an iteration may read a value of an earlier iteration: write it before it is read in every iteration, or run this loop on one stream"
        }
    }
}

fn report_dependence(
    program: &Program,
    roles: &IdVec<TensorId, TensorRole>,
    found: &ClassUse,
    kept: &dyn Fn() -> &'static str,
    diags: &mut Diags,
) {
    let ((op, tensor), what, note) = if let Some(at) = found.shared_write {
        if roles[program.memory_tensor(at.1)] == TensorRole::Kept {
            (at, "is reused by all iterations, so they cannot run on different streams", kept())
        } else {
            let note = match found.shared_read {
                Some(_) => ACCUMULATED,
                None => "let each iteration write its own slice, selected by the loop index",
            };
            (at, "is written by every iteration, so they cannot run on different streams", note)
        }
    } else if let Some(at) = found.shared_read.filter(|_| found.slice_write) {
        (
            at,
            "is read while other iterations write slices of it",
            "read it after the loop, or read the slice that the loop index selects",
        )
    } else if let Some(&(op, tensor, _)) = found.axes.get(1).filter(|_| found.slice_write) {
        (
            (op, tensor),
            "is sliced along several axes, so slices of different iterations overlap",
            "slice it along one axis only",
        )
    } else {
        return;
    };
    let message = message!("{} {}", program.quoted_tensor(tensor), what);
    diags.push(Diag::error(ITERATIONS_DEPEND, program.op_span(op), message).with_note(note));
}
