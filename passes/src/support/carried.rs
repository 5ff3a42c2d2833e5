//! Reads of one iteration of a loop's body from the previous one: memory that must survive an iteration.
//!
//! A walk over the body follows the least that is known of each tensor at each place: no memory of this iteration,
//! bound to memory, or written. An op that needs more reads the contents of an earlier iteration.

use hostir::analysis::storage::StorageClasses;
use hostir::ir::OpEffect;
use hostir::ir::{AttrKey, AttrValue, BlockId, ExprId, Op, OpId, Program, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Classes that each communication or group accesses, by the number that a Wait names.
pub(crate) type PendingClasses = FxHashMap<u32, Vec<usize>>;

/// The storage classes that a block, which runs several times, needs from its previous run. `is_view` returns true for
/// tensors that some op binds to a part of another one.
pub(crate) fn carried_classes(
    program: &Program,
    storage: &mut StorageClasses,
    pending: &PendingClasses,
    is_view: &dyn Fn(TensorId) -> bool,
    block: BlockId,
) -> FxHashSet<usize> {
    let mut walk = CarriedWalk {
        program,
        storage,
        pending,
        is_view,
        state: FxHashMap::default(),
        posted: FxHashSet::default(),
        block,
        carried: FxHashSet::default(),
    };
    walk.walk_block(block);
    walk.carried
}

/// The least that is known of a tensor at a place of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TensorState {
    /// It holds the data of earlier iterations.
    Left,
    /// Bound in this iteration to memory that may hold older values.
    Bound,
    /// Written in this iteration.
    Written,
}

type StateByTensor = FxHashMap<TensorId, TensorState>;

struct CarriedWalk<'a> {
    program: &'a Program,
    storage: &'a mut StorageClasses,
    pending: &'a PendingClasses,
    is_view: &'a dyn Fn(TensorId) -> bool,
    state: StateByTensor,
    /// The communications that this iteration has posted, by number and element of an array, each with its block.
    posted: FxHashSet<(u32, Option<ExprId>, Option<BlockId>)>,
    /// The block that is walked.
    block: BlockId,
    carried: FxHashSet<usize>,
}

impl CarriedWalk<'_> {
    fn walk_block(&mut self, block: BlockId) {
        let program = self.program;
        let outer = std::mem::replace(&mut self.block, block);
        for &id in &program.block(block).ops {
            self.walk_op(id);
            self.walk_control(program.op(id));
        }
        self.block = outer;
    }

    /// Merges the ends of branches and loops: a tensor has the least state of all paths.
    fn walk_control(&mut self, op: &Op) {
        if op.blocks.is_empty() {
            return;
        }
        let before = self.state.clone();
        let bounds = [AttrKey::Start, AttrKey::Stop, AttrKey::Step];
        let runs = op.attr(AttrKey::Domain).is_some() && bounds.iter().all(|key| op.attr(*key).is_none());
        let branches = op.kind.is_branch() && op.blocks.len() == 2;
        let mut ends = if runs || branches { Vec::new() } else { vec![before.clone()] };
        for &block in &op.blocks {
            self.state.clone_from(&before);
            self.walk_block(block);
            ends.push(std::mem::take(&mut self.state));
        }
        let mut ends = ends.into_iter();
        let mut merged = ends.next().unwrap_or_default();
        for end in ends {
            merged.retain(|tensor, is| {
                *is = (*is).min(end.get(tensor).copied().unwrap_or(TensorState::Left));
                *is > TensorState::Left
            });
        }
        self.state = merged;
    }

    fn state_of(&self, tensor: TensorId) -> TensorState {
        self.state.get(&tensor).copied().unwrap_or(TensorState::Left)
    }

    fn require_state(&mut self, tensor: TensorId, least: TensorState) {
        if self.state_of(tensor) < least {
            let class = self.storage.class_of(tensor);
            self.carried.insert(class);
        }
    }

    fn walk_op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        let effect = op.kind.effect();
        for value in &op.operands {
            match *value {
                Value::Tensor(tensor) if effect == OpEffect::Alias => self.require_state(tensor, TensorState::Bound),
                Value::Tensor(tensor) if effect == OpEffect::Free => {
                    self.state.remove(&tensor);
                }
                Value::Tensor(tensor) => self.require_state(tensor, TensorState::Written),
                Value::Op(inner) => self.walk_op(inner),
                Value::Handle(number) => self.walk_wait(number, op.expr_attr(AttrKey::Element)),
                Value::Scalar(_) | Value::Stream(_) | Value::Unit(_) => {}
            }
        }
        for (key, value) in &op.attrs {
            if let (AttrValue::Tensor(tensor), true) = (value, *key != AttrKey::Buffer) {
                self.require_state(*tensor, TensorState::Bound);
            }
        }
        for result in op.output_tensors() {
            self.walk_result(op, effect, result);
        }
        let element = op.expr_attr(AttrKey::Element);
        self.posted.extend(op.number().map(|number| (number, element, element.map(|_| self.block))));
    }

    fn walk_result(&mut self, op: &Op, effect: OpEffect, result: TensorId) {
        let is = match effect {
            OpEffect::Pure => self.written_state(result),
            // A view holds what it is a view of.
            OpEffect::Alias => op.input_tensors().map(|of| self.state_of(of)).min().unwrap_or(TensorState::Bound),
            OpEffect::Allocate => self.allocation_state(op, result),
            OpEffect::Opaque if op.declares_accesses() => self.written_state(result),
            OpEffect::Communicate(_) => {
                self.require_state(result, TensorState::Bound);
                TensorState::Written
            }
            OpEffect::Opaque | OpEffect::Observe | OpEffect::Stream(_) | OpEffect::Control(_) => {
                self.require_state(result, TensorState::Written);
                TensorState::Written
            }
            OpEffect::Free => TensorState::Left,
        };
        self.state.insert(result, is);
    }

    fn allocation_state(&self, op: &Op, result: TensorId) -> TensorState {
        match op.shared_memory() {
            // Shared memory holds what its original does.
            Some(original) => self.state_of(original),
            _ if op.keeps_memory() => self.state_of(result).max(TensorState::Bound),
            // New memory in any case holds nothing older.
            _ => TensorState::Written,
        }
    }

    /// The state of a completely written tensor. A view may still be one of older memory, which others see.
    fn written_state(&mut self, result: TensorId) -> TensorState {
        if (self.is_view)(result) {
            self.require_state(result, TensorState::Bound);
        }
        TensorState::Written
    }

    /// Walks a Wait: without a communication of this iteration it waits for another iteration's. An element of an array
    /// is this iteration's if the same block started it; a Wait for a whole array may wait for any.
    fn walk_wait(&mut self, number: u32, element: Option<ExprId>) {
        if !self.posted.contains(&(number, element, element.map(|_| self.block))) {
            self.carried.extend(self.pending.get(&number).into_iter().flatten());
        }
    }
}
