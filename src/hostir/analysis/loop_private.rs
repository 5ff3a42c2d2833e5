//! Loop-private tensors: results of a loop's body that have new memory in each iteration.
//!
//! Iterations on different streams run concurrently. If two iterations wrote a result to the same memory, the write of
//! one would race with the reads of the other, although the program does not mention memory.

use crate::ir::IndexDefinitions;
use crate::ir::OpEffect;
use crate::ir::scalar_names::loop_index;
use crate::ir::{AttrKey, AttrValue, BlockId, Op, OpId, Program, Symbol, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The tensors that get new memory when an iteration begins, unless they had memory before the loop.
#[derive(Default)]
pub struct LoopPrivateTensors {
    /// The tensors.
    pub tensors: Vec<TensorId>,
    /// The number of tensors, counted from the first, that each iteration writes completely before it uses them. The
    /// others depend on the loop index and may read contents from before the loop.
    pub whole: usize,
}

impl LoopPrivateTensors {
    /// Finds the loop-private tensors: results that each iteration writes completely before it uses them, and whose
    /// memory no ALLOCATE of the body provides. In `FOR i in d`, results that depend on the index are loop-private in
    /// any case. Tensors with memory from before the loop keep it.
    pub fn of_loop(program: &Program, looped: OpId, use_counts: &UseCounts) -> Self {
        let mut body = LoopBodyWalk::new(program);
        program.op(looped).blocks.iter().for_each(|&block| body.walk_block(block));
        let mut tensors = body.finish(&use_counts.0);
        let whole = tensors.len();
        let op = program.op(looped);
        let index = loop_index(program, op)
            .or_else(|| op.results.iter().find_map(|value| program.exprs().as_name(value.as_scalar()?)));
        if let Some(index) = index.filter(|_| op.domain_attr(AttrKey::Domain).is_some()) {
            add_index_dependents(program, looped, index, &mut tensors);
        }
        Self { tensors, whole }
    }
}

/// Counts of the uses of each tensor in a program; being a program output counts as one more use.
pub struct UseCounts(FxHashMap<TensorId, u32>);

impl UseCounts {
    /// Counts the uses of all tensors.
    pub fn from_program(program: &Program) -> Self {
        Self(use_counts(program))
    }
}

/// The way in which an op uses a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UseKind {
    /// Needs the memory to which the tensor is bound.
    Needs,
    /// Binds the tensor, or writes all of it.
    Defines,
    /// Gives the tensor memory, or takes it away.
    Manages,
}

/// Visits the tensors of an op, those that it needs first.
fn visit_tensors(program: &Program, op: &Op, visit: &mut dyn FnMut(TensorId, UseKind)) {
    let effect = op.kind.effect();
    // An alias is its original; an allocation that shares memory binds its result, as a slice does.
    let visit = &mut |tensor, how| visit(program.memory_tensor(tensor), how);
    let shares = op.shared_memory().is_some();
    let manages = matches!(effect, OpEffect::Allocate | OpEffect::Free) && !shares;
    // Communications and kernels write into existing memory.
    let writes = match effect {
        _ if manages => UseKind::Manages,
        OpEffect::Communicate(_) => UseKind::Needs,
        OpEffect::Opaque if !op.declares_accesses() => UseKind::Needs,
        _ => UseKind::Defines,
    };
    let reads = if manages { UseKind::Manages } else { UseKind::Needs };
    for value in &op.operands {
        match *value {
            Value::Tensor(tensor) => visit(tensor, reads),
            Value::Op(inner) => visit_tensors(program, program.op(inner), visit),
            Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) => {}
        }
    }
    for (key, value) in &op.attrs {
        if let AttrValue::Tensor(tensor) = *value {
            visit(tensor, if *key == AttrKey::Buffer { UseKind::Manages } else { UseKind::Needs });
        }
    }
    op.output_tensors().for_each(|tensor| visit(tensor, writes));
}

fn use_counts(program: &Program) -> FxHashMap<TensorId, u32> {
    let mut counts = FxHashMap::default();
    program.walk(program.body(), &mut |id| {
        visit_tensors(program, program.op(id), &mut |tensor, _| *counts.entry(tensor).or_default() += 1);
    });
    for tensor in program.outputs().iter().filter_map(|value| value.as_tensor()) {
        *counts.entry(program.memory_tensor(tensor)).or_default() += 1;
    }
    counts
}

/// A walk over the body of a loop.
struct LoopBodyWalk<'p> {
    program: &'p Program,
    /// The tensors that this iteration has defined on every path to this point; `log` has them in order of definition.
    defined: FxHashSet<TensorId>,
    log: Vec<TensorId>,
    /// The tensors that any path defines, in order.
    results: Vec<TensorId>,
    seen: FxHashSet<TensorId>,
    /// The tensors that must keep their contents from the previous iteration.
    kept: Vec<TensorId>,
    /// The tensors that keep their memory if the key does: the memory that it is a part of, the other results of a
    /// unit.
    ties: FxHashMap<TensorId, Vec<TensorId>>,
    use_counts: FxHashMap<TensorId, u32>,
}

impl<'p> LoopBodyWalk<'p> {
    fn new(program: &'p Program) -> Self {
        Self {
            program,
            defined: FxHashSet::default(),
            log: Vec::new(),
            results: Vec::new(),
            seen: FxHashSet::default(),
            kept: Vec::new(),
            ties: FxHashMap::default(),
            use_counts: FxHashMap::default(),
        }
    }

    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            self.walk_op(self.program.op(id));
        }
    }

    fn walk_op(&mut self, op: &Op) {
        let program = self.program;
        let shares = op.shared_memory().is_some();
        let allocates = op.kind.effect() == OpEffect::Allocate && !shares;
        visit_tensors(program, op, &mut |tensor, visit| {
            *self.use_counts.entry(tensor).or_default() += 1;
            match visit {
                UseKind::Defines => self.define_tensor(tensor),
                UseKind::Needs if self.defined.contains(&tensor) => {}
                UseKind::Needs => self.kept.push(tensor),
                UseKind::Manages if allocates => {
                    // A tensor that has memory in this iteration gets none.
                    if op.keeps_memory() && !self.defined.contains(&tensor) {
                        self.kept.push(tensor);
                    }
                    self.define_tensor(tensor);
                }
                UseKind::Manages => {}
            }
        });
        self.tie_memory(op);
        if !op.blocks.is_empty() {
            self.walk_control(op);
        }
    }

    fn define_tensor(&mut self, tensor: TensorId) {
        if self.defined.insert(tensor) {
            self.log.push(tensor);
        }
        if self.seen.insert(tensor) {
            self.results.push(tensor);
        }
    }

    fn tie_memory(&mut self, op: &Op) {
        let program = self.program;
        let shared = op.shared_memory();
        let alias = op.kind.effect() == OpEffect::Alias || shared.is_some();
        let others = op.input_tensors().filter(|_| alias).chain(shared);
        let first = op.output_tensors().next().map(|tensor| program.memory_tensor(tensor));
        let several = op.output_tensors().nth(1).is_some();
        let others = others.chain(op.output_tensors().skip(1).filter(|_| several));
        let others = others.map(|tensor| program.memory_tensor(tensor));
        let Some(first) = first else { return };
        for other in others {
            self.ties.entry(first).or_default().push(other);
            if !alias {
                self.ties.entry(other).or_default().push(first);
            }
        }
    }

    /// Visits the blocks of a control op: tensors that both branches define count as defined; a loop that runs at
    /// least once defines what its body defines.
    fn walk_control(&mut self, op: &Op) {
        let ends: Vec<Vec<TensorId>> = op.blocks.iter().map(|&block| self.walk_branch(block)).collect();
        let looped = loop_index(self.program, op).is_some();
        match ends.as_slice() {
            [body] if looped && has_iteration(self.program, op) => body.iter().for_each(|&t| self.define_tensor(t)),
            [then, otherwise] => {
                let other: FxHashSet<TensorId> = otherwise.iter().copied().collect();
                then.iter().filter(|t| other.contains(t)).for_each(|&t| self.define_tensor(t));
            }
            _ => {}
        }
    }

    /// Visits a block, undoes its definitions, and returns them.
    fn walk_branch(&mut self, block: BlockId) -> Vec<TensorId> {
        let length = self.log.len();
        self.walk_block(block);
        let added = self.log.split_off(length);
        added.iter().for_each(|tensor| {
            self.defined.remove(tensor);
        });
        added
    }

    /// Returns the tensors that are new in each iteration; `all` counts the uses of tensors in the whole program.
    fn finish(mut self, all: &FxHashMap<TensorId, u32>) -> Vec<TensorId> {
        let mut stack = std::mem::take(&mut self.kept);
        // A tensor keeps its memory if some iterations do not define it and others see it.
        let partly = self.results.iter().filter(|tensor| !self.defined.contains(tensor));
        stack.extend(partly.filter(|tensor| all.get(*tensor) > self.use_counts.get(*tensor)));
        let mut kept = FxHashSet::default();
        while let Some(tensor) = stack.pop() {
            if kept.insert(tensor) {
                stack.extend(self.ties.get(&tensor).into_iter().flatten());
            }
        }
        self.results.retain(|tensor| !kept.contains(tensor));
        self.results
    }
}

/// Returns true if a loop has at least one iteration. A loop over an extent that may be 0 counts: either all of
/// its executions have an iteration, or none has.
fn has_iteration(program: &Program, op: &Op) -> bool {
    let bounds = [AttrKey::Start, AttrKey::Stop].map(|key| op.expr_attr(key).map(|expr| program.exprs().as_int(expr)));
    match bounds {
        [None | Some(Some(0)), None] => true,
        [start, Some(Some(stop))] => start.unwrap_or(Some(0)).is_some_and(|start| start < stop),
        _ => false,
    }
}

/// Adds the results in a loop's body that depend on its index, except the program's outputs and results of the same
/// op as a tensor that stays.
fn add_index_dependents(program: &Program, looped: OpId, index: Symbol, found: &mut Vec<TensorId>) {
    let mut known: FxHashSet<TensorId> = found.iter().copied().collect();
    let outputs = program.outputs().iter().filter_map(|value| value.as_tensor());
    let outputs = outputs.map(|tensor| program.memory_tensor(tensor));
    let stay: FxHashSet<TensorId> = outputs.filter(|tensor| !known.contains(tensor)).collect();
    let definitions = IndexDefinitions::new(program);
    let mut depend: FxHashSet<TensorId> = FxHashSet::default();
    for &block in &program.op(looped).blocks {
        program.walk(block, &mut |id| {
            let op = program.op(id);
            let scalars = op.operands.iter().filter_map(|value| value.as_scalar());
            let attrs = op.attrs.iter().filter_map(|(_, value)| match value {
                AttrValue::Expr(expr) => Some(*expr),
                _ => None,
            });
            let by_scalar = scalars.chain(attrs).any(|expr| definitions.depends_on(program, expr, index));
            let mut sources = op.shared_memory().into_iter().chain(op.input_tensors());
            if by_scalar || sources.any(|tensor| depend.contains(&program.memory_tensor(tensor))) {
                let results: Vec<_> = op.output_tensors().map(|tensor| program.memory_tensor(tensor)).collect();
                if !results.iter().any(|tensor| stay.contains(tensor)) {
                    found.extend(results.iter().copied().filter(|&tensor| known.insert(tensor)));
                }
                depend.extend(results);
            }
        });
    }
}
