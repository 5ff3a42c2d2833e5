//! What one run of a loop's body reads of the run before: memory that may not end with an iteration.
//!
//! A walk over the body follows what each tensor surely is at each place: nothing of this iteration's, bound to
//! memory, or written. Who needs more than it is, needs what an earlier iteration left.

use crate::support::storage::Storage;
use hostir::ir::{AttrKey, AttrValue, BlockId, Op, OpId, Program, TensorId, Value};
use hostir::ir::{Effect, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Classes that each communication or group touches, by the number that a Wait names.
pub(crate) type Pending = FxHashMap<u32, Vec<usize>>;

/// The storage classes that a block, which runs several times, needs from its run before. `is_view` says which
/// tensors some op binds to a part of another one.
pub(crate) fn carried(
    program: &Program,
    storage: &mut Storage,
    pending: &Pending,
    is_view: &dyn Fn(TensorId) -> bool,
    block: BlockId,
) -> FxHashSet<usize> {
    let mut walk = Walk {
        program,
        storage,
        pending,
        is_view,
        state: FxHashMap::default(),
        posted: FxHashSet::default(),
        carried: FxHashSet::default(),
    };
    walk.block(block);
    walk.carried
}

/// The least that is known of a tensor at a place of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    /// It holds the data of earlier iterations.
    Left,
    /// Bound in this iteration to memory that may hold older values.
    Bound,
    /// Written in this iteration.
    Written,
}

type State = FxHashMap<TensorId, Is>;

struct Walk<'a> {
    program: &'a Program,
    storage: &'a mut Storage,
    pending: &'a Pending,
    is_view: &'a dyn Fn(TensorId) -> bool,
    state: State,
    /// Numbers of the communications that this iteration has posted.
    posted: FxHashSet<u32>,
    carried: FxHashSet<usize>,
}

impl Walk<'_> {
    fn block(&mut self, block: BlockId) {
        let program = self.program;
        for &id in &program.block(block).ops {
            self.op(id);
            self.control(program.op(id));
        }
    }

    /// Merges the ends of branches and loops: a tensor is what it is on every path.
    fn control(&mut self, op: &Op) {
        if op.blocks.is_empty() {
            return;
        }
        let before = self.state.clone();
        let bounds = [AttrKey::Start, AttrKey::Stop, AttrKey::Step];
        let runs = op.kind == OpKind::For && bounds.iter().all(|key| op.attr(*key).is_none());
        let branches = op.kind == OpKind::If && op.blocks.len() == 2;
        let mut ends = if runs || branches { Vec::new() } else { vec![before.clone()] };
        for &block in &op.blocks {
            self.state.clone_from(&before);
            self.block(block);
            ends.push(std::mem::take(&mut self.state));
        }
        let mut ends = ends.into_iter();
        let mut merged = ends.next().unwrap_or_default();
        for end in ends {
            merged.retain(|tensor, is| {
                *is = (*is).min(end.get(tensor).copied().unwrap_or(Is::Left));
                *is > Is::Left
            });
        }
        self.state = merged;
    }

    fn is(&self, tensor: TensorId) -> Is {
        self.state.get(&tensor).copied().unwrap_or(Is::Left)
    }

    fn need(&mut self, tensor: TensorId, least: Is) {
        if self.is(tensor) < least {
            let class = self.storage.class(tensor);
            self.carried.insert(class);
        }
    }

    fn op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        let effect = op.kind.effect();
        for value in &op.operands {
            match *value {
                Value::Tensor(tensor) if effect == Effect::Alias => self.need(tensor, Is::Bound),
                Value::Tensor(tensor) if effect == Effect::Free => {
                    self.state.remove(&tensor);
                }
                Value::Tensor(tensor) => self.need(tensor, Is::Written),
                Value::Op(inner) => self.op(inner),
                Value::Handle(number) => self.wait(number),
                Value::Scalar(_) | Value::Stream(_) | Value::Unit(_) => {}
            }
        }
        for (key, value) in &op.attrs {
            if let (AttrValue::Tensor(tensor), true) = (value, *key != AttrKey::Buffer) {
                self.need(*tensor, Is::Bound);
            }
        }
        for result in op.output_tensors() {
            self.result(op, effect, result);
        }
        self.posted.extend(op.number());
    }

    fn result(&mut self, op: &Op, effect: Effect, result: TensorId) {
        let is = match effect {
            Effect::Pure => self.written(result),
            // A view holds what it is a view of.
            Effect::Alias => op.input_tensors().map(|of| self.is(of)).min().unwrap_or(Is::Bound),
            Effect::Allocate => self.allocated(op, result),
            Effect::Opaque if op.posted_number().is_some() => self.written(result),
            Effect::Communicate => {
                self.need(result, Is::Bound);
                Is::Written
            }
            Effect::Opaque | Effect::Stream | Effect::Control => {
                self.need(result, Is::Written);
                Is::Written
            }
            Effect::Free => Is::Left,
        };
        self.state.insert(result, is);
    }

    fn allocated(&self, op: &Op, result: TensorId) -> Is {
        match op.shared_memory() {
            // Shared memory holds what its original does.
            Some(original) => self.is(original),
            _ if op.keeps_memory() => self.is(result).max(Is::Bound),
            // New memory in any case holds nothing older.
            _ => Is::Written,
        }
    }

    /// All of the tensor is written. What still is a view may be one of older memory, which others see.
    fn written(&mut self, result: TensorId) -> Is {
        if (self.is_view)(result) {
            self.need(result, Is::Bound);
        }
        Is::Written
    }

    /// A Wait for what this iteration has not posted waits for another one's communication.
    fn wait(&mut self, number: u32) {
        if !self.posted.contains(&number) {
            self.carried.extend(self.pending.get(&number).into_iter().flatten());
        }
    }
}
