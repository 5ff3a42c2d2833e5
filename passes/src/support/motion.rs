//! Moves an op of the body to another place of the body with the same result.

use hostir::analysis::storage::{StorageClasses, TensorAccess, visit_accesses};
use hostir::ir::{OpEffect, OpId, Program, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The positions of ops in the body of a program, and the tensors that may share memory.
pub(crate) struct BodyMotion<'p> {
    program: &'p Program,
    storage: StorageClasses,
    places: FxHashMap<OpId, usize>,
}

impl<'p> BodyMotion<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        let places = program.block(program.body()).ops.iter().copied().zip(0..).collect();
        Self { program, storage: StorageClasses::from_program(program), places }
    }

    /// The position of an op in the body; after all others for one of another block.
    pub(crate) fn place_of(&self, op: OpId) -> usize {
        self.places.get(&op).copied().unwrap_or(self.places.len())
    }

    /// True if an op has the same result directly before a later one: nothing between them writes an operand, changes
    /// the stream, communicates or launches a kernel. Readers of its result count only if they are between the two.
    pub(crate) fn can_sink(&mut self, op: OpId, later: OpId) -> bool {
        self.can_sink_with(op, &[], later)
    }

    /// True if an op has the same result directly before a later one, if others between the two move along.
    pub(crate) fn can_sink_with(&mut self, op: OpId, others: &[OpId], later: OpId) -> bool {
        let (from, to) = (self.place_of(op), self.place_of(later));
        self.commutes_with(op, from + 1..to, others)
    }

    /// True if an op would have the same result again directly before a later one: like `can_sink`, but its result may
    /// be read between the two.
    pub(crate) fn can_repeat(&mut self, op: OpId, later: OpId) -> bool {
        let program = self.program;
        let tensors: Vec<usize> = program.op(op).all_tensors().map(|tensor| self.storage.class_of(tensor)).collect();
        let range = self.place_of(op) + 1..self.place_of(later);
        self.all_between(range, &[], &mut |class, changes| !(changes && tensors.contains(&class)))
    }

    /// True if an op has the same result after an earlier one.
    pub(crate) fn can_hoist(&mut self, op: OpId, earlier: OpId) -> bool {
        let (from, to) = (self.place_of(earlier), self.place_of(op));
        self.commutes_with(op, from + 1..to, &[])
    }

    /// True if an op has the same result directly before an earlier one, if others between the two move along.
    pub(crate) fn can_precede(&mut self, op: OpId, others: &[OpId], earlier: OpId) -> bool {
        let (from, to) = (self.place_of(earlier), self.place_of(op));
        self.commutes_with(op, from..to, others)
    }

    /// True if nothing between an op and a later one accesses the memory of a tensor.
    pub(crate) fn is_untouched(&mut self, tensor: TensorId, op: OpId, later: OpId) -> bool {
        let class = self.storage.class_of(tensor);
        let range = self.place_of(op) + 1..self.place_of(later);
        self.all_between(range, &[], &mut |touched, _| touched != class)
    }

    /// True if ops of the body, in its order, have the same results together at the place of the last one.
    pub(crate) fn can_sink_group(&mut self, ops: &[OpId]) -> bool {
        let between = self.ops_between(ops);
        self.group_commutes(between.iter(), ops)
    }

    /// True if ops of the body, in its order, have the same results together at the place of the first one.
    pub(crate) fn can_hoist_group(&mut self, ops: &[OpId]) -> bool {
        let between = self.ops_between(ops);
        self.group_commutes(between.iter().rev(), ops)
    }

    /// The ops from the first of some to the last.
    fn ops_between(&self, ops: &[OpId]) -> &'p [OpId] {
        let (Some(&first), Some(&last)) = (ops.first(), ops.last()) else { return &[] };
        let body = &self.program.block(self.program.body()).ops;
        body.get(self.place_of(first)..=self.place_of(last)).unwrap_or_default()
    }

    /// True if each op of a walk that does not move may change places with those before it in the walk that do.
    fn group_commutes<'w>(&mut self, walk: impl Iterator<Item = &'w OpId>, moved: &[OpId]) -> bool {
        let (program, moved) = (self.program, moved.iter().copied().collect::<FxHashSet<OpId>>());
        let (mut touched, mut changed) = (FxHashSet::default(), FxHashSet::default());
        for &id in walk {
            let (is_moved, mut free) = (moved.contains(&id), true);
            visit_accesses(program, id, &mut |tensor, access| {
                let class = self.storage.class_of(tensor);
                let changes = changes_memory(access);
                if is_moved {
                    touched.insert(class);
                    changed.extend(changes.then_some(class));
                } else {
                    free &= !(changed.contains(&class) || changes && touched.contains(&class));
                }
            });
            if !(is_moved || free && is_free_to_move(program, id)) {
                return false;
            }
        }
        true
    }

    /// True if an op may change places with all ops of a range of the body except some.
    fn commutes_with(&mut self, op: OpId, range: std::ops::Range<usize>, but: &[OpId]) -> bool {
        let program = self.program;
        let reads: Vec<usize> = program.op(op).input_tensors().map(|tensor| self.storage.class_of(tensor)).collect();
        let writes: Vec<usize> = program.op(op).output_tensors().map(|tensor| self.storage.class_of(tensor)).collect();
        self.all_between(range, but, &mut |class, changes| {
            !(writes.contains(&class) || changes && reads.contains(&class))
        })
    }

    /// True if all ops of a range of the body except some may be reordered, and each of their accesses passes a test of
    /// the memory's class and whether it writes.
    fn all_between(
        &mut self,
        range: std::ops::Range<usize>,
        but: &[OpId],
        passes: &mut dyn FnMut(usize, bool) -> bool,
    ) -> bool {
        let program = self.program;
        let between = program.block(program.body()).ops.get(range).unwrap_or_default();
        between.iter().filter(|id| !but.contains(id)).all(|&id| {
            let mut free = is_free_to_move(program, id);
            visit_accesses(program, id, &mut |tensor, access| {
                free &= passes(self.storage.class_of(tensor), changes_memory(access));
            });
            free
        })
    }
}

/// True for an op that computes, binds or allocates, and does nothing else.
fn is_free_to_move(program: &Program, op: OpId) -> bool {
    matches!(program.op(op).kind.effect(), OpEffect::Pure | OpEffect::Allocate | OpEffect::Alias)
}

fn changes_memory(access: TensorAccess) -> bool {
    matches!(access, TensorAccess::Write | TensorAccess::Both | TensorAccess::Bind)
}

/// The number of devices of a mesh that is one row of devices 0, 1, 2 and so on; at least 2.
pub(crate) fn consecutive_rank_count(program: &Program, tensor: TensorId) -> Option<u32> {
    let mesh = program.tensor_mesh(tensor)?;
    let in_row = mesh.shape.len() == 1 && mesh.devices.iter().zip(0..).all(|(&device, k)| device == k);
    let count = mesh.devices.len() as u32;
    (in_row && count > 1).then_some(count)
}
