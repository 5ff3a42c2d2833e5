//! ALLOCATEs that passes put into loops: decides whether iterations share the memory.
//!
//! A tensor that an iteration writes before it reads it has new memory in each iteration (`Memory of a loop` in the
//! language reference), so that iterations may run on several streams. An ALLOCATE for it must not change that, and one
//! for a tensor that an iteration reads from the previous one must keep its memory.

use hostir::analysis::loop_private::{LoopPrivateTensors, UseCounts};
use hostir::axes::stream_axis;
use hostir::ir::OpEffect;
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, AttrValue, BlockId, OpId, Program, TensorId};
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
        let use_counts = if loops.is_empty() { None } else { Some(UseCounts::from_program(program)) };
        let whole = loops.into_iter().zip(use_counts.iter().cycle()).map(|(looped, use_counts)| {
            let found = LoopPrivateTensors::of_loop(program, looped, use_counts);
            (looped, found.tensors.into_iter().take(found.whole).collect())
        });
        Self { whole: whole.collect() }
    }

    /// Decides for a pass's ALLOCATEs whether they keep memory, and moves those of tensors that only an outer loop
    /// gives new memory in front of the inner one. ALLOCATEs outside of loops stay as they are.
    pub(crate) fn finalize_allocations(&self, edit: &mut Edit<'_>, made: &[OpId]) {
        if self.whole.is_empty() || made.is_empty() {
            return;
        }
        let mut found = AllocationWalk::new(edit.program(), self, made).decide_program();
        if !found.moves.is_empty() {
            move_allocations(edit, &found.moves);
            found = AllocationWalk::new(edit.program(), self, made).decide_program();
        }
        for (id, keep) in found.keeps {
            let mut op = edit.program().op(id).clone();
            op.attrs.retain(|(key, _)| *key != AttrKey::Keep);
            op.attrs.push((AttrKey::Keep, AttrValue::Bool(keep)));
            edit.set_op(id, op);
        }
    }

    /// Removes those of a pass's ALLOCATEs that no attribute makes right: their tensor has new memory in each iteration
    /// of an inner loop, and no view is bound to memory that the previous iteration of an outer loop left it. The op
    /// after such an ALLOCATE makes the memory itself. Returns the others.
    pub(crate) fn remove_undecided(&self, edit: &mut Edit<'_>, mut made: Vec<OpId>) -> Vec<OpId> {
        if self.whole.is_empty() || made.is_empty() {
            return made;
        }
        for (id, block) in AllocationWalk::new(edit.program(), self, &made).decide_program().undecided {
            let mut ops = edit.program().block(block).ops.clone();
            ops.retain(|op| *op != id);
            edit.set_block(block, ops);
            made.retain(|op| *op != id);
        }
        made
    }

    fn is_new(&self, looped: OpId, tensor: TensorId) -> bool {
        self.whole.get(&looped).is_some_and(|whole| whole.contains(&tensor))
    }
}

/// An ALLOCATE that belongs in front of a loop around it.
struct AllocationMove {
    allocation: OpId,
    from: BlockId,
    looped: OpId,
    to: BlockId,
}

/// Moves each ALLOCATE in front of its loop.
fn move_allocations(edit: &mut Edit<'_>, moves: &[AllocationMove]) {
    for AllocationMove { allocation, from, looped, to } in moves {
        let mut left = edit.program().block(*from).ops.clone();
        left.retain(|id| id != allocation);
        edit.set_block(*from, left);
        let mut around = edit.program().block(*to).ops.clone();
        let place = around.iter().position(|id| id == looped).unwrap_or(0);
        around.insert(place, *allocation);
        edit.set_block(*to, around);
    }
}

/// The decisions about the ALLOCATEs that a pass has made.
#[derive(Default)]
struct AllocationDecisions {
    moves: Vec<AllocationMove>,
    /// By ALLOCATE: whether it keeps memory.
    keeps: Vec<(OpId, bool)>,
    /// The ALLOCATEs for which no attribute is right, with their blocks.
    undecided: Vec<(OpId, BlockId)>,
}

fn is_loop(program: &Program, id: OpId) -> bool {
    program.op(id).kind.is_loop()
}

/// A loop that the walk is in.
struct EnclosingLoop {
    looped: OpId,
    /// The block that contains the loop.
    block: BlockId,
    /// Tensors that this iteration has defined or bound so far.
    made: FxHashSet<TensorId>,
    /// Tensors that its body frees.
    freed: FxHashSet<TensorId>,
    /// Tensors that still have new memory in each iteration, now that the pass has allocated; computed when needed.
    loop_private: Option<FxHashSet<TensorId>>,
}

/// A walk in text order. An alias counts as its original, as in [`LoopPrivateTensors`].
struct AllocationWalk<'a> {
    program: &'a Program,
    before: &'a IterationAllocations,
    wanted: FxHashSet<OpId>,
    use_counts: UseCounts,
    loops: Vec<EnclosingLoop>,
    /// Tensors that have memory after the ops so far.
    made: FxHashSet<TensorId>,
    /// Tensors that others are parts of.
    viewed: FxHashSet<TensorId>,
    found: AllocationDecisions,
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
            use_counts: UseCounts::from_program(program),
            loops: Vec::new(),
            made: inputs.map(|tensor| program.memory_tensor(tensor)).collect(),
            viewed,
            found: AllocationDecisions::default(),
        }
    }

    fn decide_program(mut self) -> AllocationDecisions {
        self.walk_block(self.program.body());
        self.found
    }

    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            if self.wanted.contains(&id) {
                self.decide_allocate(id, block);
            }
            let op = self.program.op(id);
            let program = self.program;
            let made = op.output_tensors().map(|tensor| program.memory_tensor(tensor));
            match self.loops.last_mut() {
                Some(around) => around.made.extend(made),
                None => self.made.extend(made),
            }
            if is_loop(self.program, id) {
                self.enter_loop(id, block);
            } else {
                op.blocks.iter().for_each(|&block| self.walk_block(block));
            }
        }
    }

    fn enter_loop(&mut self, looped: OpId, block: BlockId) {
        let program = self.program;
        let blocks = &program.op(looped).blocks;
        let freed = blocks.iter().flat_map(|&block| &program.block(block).ops);
        let freed = freed.filter(|id| program.op(**id).kind.effect() == OpEffect::Free);
        let freed = freed.flat_map(|id| program.op(*id).input_tensors());
        let freed = freed.map(|tensor| program.memory_tensor(tensor)).collect();
        self.loops.push(EnclosingLoop { looped, block, made: FxHashSet::default(), freed, loop_private: None });
        blocks.iter().for_each(|&block| self.walk_block(block));
        let Some(around) = self.loops.pop() else { return };
        // The memory of a loop's last iteration is no memory for another loop, unless parts of it are in use.
        let mut left = around.made;
        left.retain(|tensor| !self.before.is_new(looped, *tensor) || self.viewed.contains(tensor));
        match self.loops.last_mut() {
            Some(outer) => outer.made.extend(left),
            None => self.made.extend(left),
        }
    }

    /// Decides for an ALLOCATE: it makes new memory if its tensor has new memory in each iteration without it.
    fn decide_allocate(&mut self, id: OpId, block: BlockId) {
        let op = self.program.op(id);
        let Some(tensor) = op.output_tensors().next() else { return };
        let tensor = self.program.memory_tensor(tensor);
        let has = self.made.contains(&tensor) || self.loops.iter().any(|l| l.made.contains(&tensor));
        let (program, use_counts, before) = (self.program, &self.use_counts, self.before);
        if !has && self.may_be_left(tensor) {
            self.found.undecided.push((id, block));
        }
        if let Some(shared) = self.loop_that_shares(tensor).filter(|_| !has) {
            let (looped, to) = (shared.looped, shared.block);
            self.found.moves.push(AllocationMove { allocation: id, from: block, looped, to });
        }
        let Some(around) = self.loops.last_mut() else { return };
        let is_new = !has && before.is_new(around.looped, tensor);
        let looped = around.looped;
        let loop_private = around.loop_private.get_or_insert_with(|| {
            LoopPrivateTensors::of_loop(program, looped, use_counts).tensors.into_iter().collect()
        });
        // The long form has no attribute if the loop gives new memory in any case.
        let given = loop_private.contains(&tensor) || around.freed.contains(&tensor);
        let long = op.attr(AttrKey::Buffer).is_some();
        self.found.keeps.push((id, !is_new || (long && given)));
    }

    /// True if the innermost loop that gives a tensor new memory may find memory of the previous iteration of the
    /// enclosing loop, of which a view is bound.
    fn may_be_left(&self, tensor: TensorId) -> bool {
        let mut around =
            self.loops.iter().rev().skip_while(|around| !self.before.is_new(around.looped, tensor)).skip(1);
        self.viewed.contains(&tensor) && around.next().is_some_and(|outer| !self.before.is_new(outer.looped, tensor))
    }

    /// The outermost loop whose iterations share a tensor's memory, if each iteration of an enclosing loop has new
    /// memory. No attribute of an ALLOCATE inside expresses that.
    fn loop_that_shares(&self, tensor: TensorId) -> Option<&EnclosingLoop> {
        let is_new = |around: &EnclosingLoop| self.before.is_new(around.looped, tensor);
        let outer = self.loops.iter().rposition(is_new)?;
        let shared = self.loops.get(outer + 1)?;
        let is_freed = self.loops[outer + 1..].iter().any(|around| around.freed.contains(&tensor));
        (!is_freed && stream_axis(self.program, tensor).is_none()).then_some(shared)
    }
}
