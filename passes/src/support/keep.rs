//! ALLOCATEs that passes put into loops: whether iterations share the memory.
//!
//! What an iteration writes before it reads it has new memory in each iteration (`Memory of a loop` in the language
//! reference), so that iterations may run on several streams. An ALLOCATE for it must not change that, and one
//! for what an iteration reads of the one before must keep it.

use hostir::analysis::renewed::{LoopPrivateTensors, TouchCounts};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, AttrValue, BlockId, OpId, Program, TensorId};
use hostir::ir::{OpEffect, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// The tensors that each loop of a program gives new memory in each iteration, before a pass allocates.
pub(crate) struct IterationAllocations {
    whole: FxHashMap<OpId, FxHashSet<TensorId>>,
}

impl IterationAllocations {
    pub(crate) fn from_program(program: &Program) -> Self {
        let mut loops = Vec::new();
        program.walk(program.body(), &mut |id| {
            if is_loop(program, id) {
                loops.push(id);
            }
        });
        let touches = if loops.is_empty() { None } else { Some(TouchCounts::from_program(program)) };
        let whole = loops.into_iter().zip(touches.iter().cycle()).map(|(looped, touches)| {
            let found = LoopPrivateTensors::of_loop(program, looped, touches);
            (looped, found.tensors.into_iter().take(found.whole).collect())
        });
        Self { whole: whole.collect() }
    }

    /// Decides for the ALLOCATEs that a pass has made whether they keep memory. Those outside of loops stay as
    /// they are.
    pub(crate) fn finalize_allocations(&self, edit: &mut Edit<'_>, made: &[OpId]) {
        if self.whole.is_empty() || made.is_empty() {
            return;
        }
        let program = edit.program();
        let mut walk = AllocationWalk::new(program, self, made);
        walk.walk_block(program.body());
        let found = walk.found;
        for (id, keep) in found {
            let mut op = edit.program().op(id).clone();
            op.attrs.retain(|(key, _)| *key != AttrKey::Keep);
            op.attrs.push((AttrKey::Keep, AttrValue::Bool(keep)));
            edit.set_op(id, op);
        }
    }

    fn is_new(&self, looped: OpId, tensor: TensorId) -> bool {
        self.whole.get(&looped).is_some_and(|whole| whole.contains(&tensor))
    }
}

fn is_loop(program: &Program, id: OpId) -> bool {
    matches!(program.op(id).kind, OpKind::For | OpKind::ForRange)
}

/// A loop that the walk is in.
struct EnclosingLoop {
    looped: OpId,
    /// Tensors that this iteration has made or bound so far.
    made: FxHashSet<TensorId>,
    /// Tensors that its body frees.
    freed: FxHashSet<TensorId>,
    /// Tensors that still have new memory in each iteration, now that the pass has allocated; found when it is
    /// needed.
    renewed: Option<FxHashSet<TensorId>>,
}

/// A walk in text order. An alias counts as its original, as in [`Renewed`].
struct AllocationWalk<'a> {
    program: &'a Program,
    before: &'a IterationAllocations,
    wanted: FxHashSet<OpId>,
    touches: TouchCounts,
    loops: Vec<EnclosingLoop>,
    /// Tensors that have memory behind the ops so far.
    made: FxHashSet<TensorId>,
    /// Tensors that others are parts of.
    viewed: FxHashSet<TensorId>,
    found: Vec<(OpId, bool)>,
}

impl<'a> AllocationWalk<'a> {
    fn new(program: &'a Program, before: &'a IterationAllocations, made: &[OpId]) -> Self {
        let mut viewed = FxHashSet::default();
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            if op.kind.effect() == OpEffect::Alias {
                viewed.extend(op.input_tensors().map(|tensor| program.memory_tensor(tensor)));
            }
        });
        let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
        Self {
            program,
            before,
            wanted: made.iter().copied().collect(),
            touches: TouchCounts::from_program(program),
            loops: Vec::new(),
            made: inputs.map(|tensor| program.memory_tensor(tensor)).collect(),
            viewed,
            found: Vec::new(),
        }
    }

    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            if self.wanted.contains(&id) {
                self.decide_allocate(id);
            }
            let op = self.program.op(id);
            let program = self.program;
            let made = op.output_tensors().map(|tensor| program.memory_tensor(tensor));
            match self.loops.last_mut() {
                Some(around) => around.made.extend(made),
                None => self.made.extend(made),
            }
            if is_loop(self.program, id) {
                self.enter_loop(id);
            } else {
                op.blocks.iter().for_each(|&block| self.walk_block(block));
            }
        }
    }

    fn enter_loop(&mut self, looped: OpId) {
        let program = self.program;
        let blocks = &program.op(looped).blocks;
        let freed = blocks.iter().flat_map(|&block| &program.block(block).ops);
        let freed = freed.filter(|id| program.op(**id).kind.effect() == OpEffect::Free);
        let freed = freed.flat_map(|id| program.op(*id).input_tensors());
        let freed = freed.map(|tensor| program.memory_tensor(tensor)).collect();
        self.loops.push(EnclosingLoop { looped, made: FxHashSet::default(), freed, renewed: None });
        blocks.iter().for_each(|&block| self.walk_block(block));
        let Some(around) = self.loops.pop() else { return };
        // What a loop's last iteration leaves is no memory for another loop, unless parts of it are in use.
        let mut left = around.made;
        left.retain(|tensor| !self.before.is_new(looped, *tensor) || self.viewed.contains(tensor));
        match self.loops.last_mut() {
            Some(outer) => outer.made.extend(left),
            None => self.made.extend(left),
        }
    }

    /// An ALLOCATE makes new memory where its tensor has new memory in each iteration without it.
    fn decide_allocate(&mut self, id: OpId) {
        let op = self.program.op(id);
        let Some(tensor) = op.output_tensors().next() else { return };
        let tensor = self.program.memory_tensor(tensor);
        let has = self.made.contains(&tensor) || self.loops.iter().any(|l| l.made.contains(&tensor));
        let (program, touches, before) = (self.program, &self.touches, self.before);
        let Some(around) = self.loops.last_mut() else { return };
        let fresh = !has && before.is_new(around.looped, tensor);
        let looped = around.looped;
        let renewed = around
            .renewed
            .get_or_insert_with(|| LoopPrivateTensors::of_loop(program, looped, touches).tensors.into_iter().collect());
        // The long form says nothing where the loop gives new memory in any case.
        let given = renewed.contains(&tensor) || around.freed.contains(&tensor);
        let long = op.attr(AttrKey::Buffer).is_some();
        self.found.push((id, !fresh || (long && given)));
    }
}
