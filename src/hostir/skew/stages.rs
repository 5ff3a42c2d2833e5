//! The stages of a loop's work, and whether a later iteration may begin before an earlier one ends.
//!
//! A stage of an iteration runs after earlier stages of later iterations. That changes nothing if the two touch
//! different memory: an iteration's own, the iteration's slice of a tensor, or what no stage writes. Memory of an
//! iteration that several stages use gets a slot for each iteration under way ([`StageBuffer`]).

use super::loops::{StreamLoop, mentions, op_with_inner};
use crate::analysis::loop_private::{LoopPrivateTensors, UseCounts};
use crate::analysis::storage::{
    StorageClasses, TensorAccess, described_tensors, interface_tensors, visit_accesses, visit_host_ops,
};
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{AttrKey, AttrValue, Expr, ExprId, MemoryType, OpEffect, OpId, Program, Symbol, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Memory of an iteration that several stages use.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageBuffer {
    pub(super) tensor: TensorId,
    /// Its allocation; `None` if the op that writes it makes it.
    pub(super) allocation: Option<OpId>,
    /// The first stage that uses it, and the last one.
    pub(super) first: usize,
    pub(super) last: usize,
}

impl StageBuffer {
    /// The number of iterations that use the memory at a time.
    pub(super) fn slots(&self) -> usize {
        self.last - self.first + 1
    }
}

/// A loop's work in stages.
#[derive(Debug)]
pub(super) struct StagedWork {
    /// By stage: its ops.
    pub(super) stages: Vec<Vec<OpId>>,
    /// By stage: slices that earlier stages make and this one uses, in their order.
    pub(super) repeated: Vec<Vec<OpId>>,
    pub(super) buffers: Vec<StageBuffer>,
}

impl StagedWork {
    /// The work of a loop in stages that begin at these ops of it; `None` if stages of different iterations depend on
    /// each other.
    pub(super) fn new(program: &Program, looped: &StreamLoop, starts: &[OpId]) -> Option<Self> {
        let mut stages = vec![Vec::new(); starts.len() + 1];
        for (&op, stage) in looped.work.iter().zip(stages_of_work(program, looped, starts)) {
            stages.get_mut(stage)?.push(op);
        }
        if stages.iter().any(Vec::is_empty) {
            return None;
        }
        let uses = StageUses::of_stages(program, looped, &stages)?;
        let buffers = uses.find_buffers()?;
        let repeated = uses.repeated_slices(&buffers, stages.len())?;
        Some(Self { stages, repeated, buffers })
    }
}

/// The stage of each op of a loop's work: slices and allocations belong to the first op that uses them.
fn stages_of_work(program: &Program, looped: &StreamLoop, starts: &[OpId]) -> Vec<usize> {
    let mut stage = 0;
    let mut stages = Vec::with_capacity(looped.work.len());
    for op in &looped.work {
        stage += usize::from(starts.contains(op));
        stages.push(stage);
    }
    let mut first_use: FxHashMap<TensorId, usize> = FxHashMap::default();
    for (at, &op) in looped.work.iter().enumerate().rev() {
        let effect = program.op(op).kind.effect();
        if matches!(effect, OpEffect::Alias | OpEffect::Allocate) {
            let uses = program.op(op).output_tensors().filter_map(|tensor| first_use.get(&tensor));
            stages[at] = uses.min().copied().unwrap_or(stages[at]);
        }
        for id in op_with_inner(program, op) {
            visit_accesses(program, id, &mut |tensor, _| {
                first_use.insert(tensor, stages[at]);
            });
        }
    }
    stages
}

/// The accesses to a storage class inside of a loop.
#[derive(Default)]
struct ClassUse {
    /// The first and the last stage with an access.
    stages: Option<(usize, usize)>,
    /// True if something writes it.
    is_written: bool,
    /// The tensors of the class that the loop uses, in order.
    tensors: Vec<TensorId>,
    /// True if something releases it.
    is_freed: bool,
    /// True if the program uses it outside of the loop.
    is_outside: bool,
}

/// The memory and the handles that the stages of a loop use.
struct StageUses<'p> {
    program: &'p Program,
    looped: &'p StreamLoop,
    classes: Vec<ClassUse>,
    /// By slice: the op that makes it, its stage, and whether that is in a branch or loop of the work.
    slices: FxHashMap<TensorId, MadeSlice>,
    allocations: FxHashMap<TensorId, OpId>,
    /// By stage: the tensors that its ops name.
    named: Vec<FxHashSet<TensorId>>,
}

#[derive(Clone, Copy)]
struct MadeSlice {
    op: OpId,
    stage: usize,
    is_inside: bool,
}

impl<'p> StageUses<'p> {
    /// `None` for work that cannot be moved: it exchanges memory or launches kernels of which nothing is known, or a
    /// stage uses scalars of another one.
    fn of_stages(program: &'p Program, looped: &'p StreamLoop, stages: &[Vec<OpId>]) -> Option<Self> {
        let mut storage = StorageClasses::from_program(program);
        let mut uses = Self {
            program,
            looped,
            classes: Vec::new(),
            slices: FxHashMap::default(),
            allocations: FxHashMap::default(),
            named: vec![FxHashSet::default(); stages.len()],
        };
        uses.classes.resize_with(program.tensors().len(), ClassUse::default);
        let mut inside: FxHashSet<OpId> = FxHashSet::default();
        let mut scalars = StageScalars::default();
        for (stage, ops) in stages.iter().enumerate() {
            for &op in ops {
                let all = op_with_inner(program, op);
                for &id in &all {
                    uses.add_op(&mut storage, id, stage, id != op)?;
                    scalars.add_op(program, id, stage);
                }
                inside.extend(all);
            }
        }
        scalars.are_separate().then_some(())?;
        visit_host_ops(program, &mut |id| {
            if !inside.contains(&id) {
                visit_accesses(program, id, &mut |tensor, _| {
                    uses.classes[storage.class_of(tensor)].is_outside = true;
                });
            }
        });
        interface_tensors(program).chain(described_tensors(program)).for_each(|tensor| {
            uses.classes[storage.class_of(tensor)].is_outside = true;
        });
        Some(uses)
    }

    fn add_op(&mut self, storage: &mut StorageClasses, id: OpId, stage: usize, is_inside: bool) -> Option<()> {
        let program = self.program;
        let op = program.op(id);
        let effect = op.kind.effect();
        let is_unknown = effect == OpEffect::Opaque && !op.declares_accesses();
        let has_nested = op.operands.iter().any(|value| matches!(value, Value::Op(_)));
        if is_unknown || has_nested || op.kind.is_memory_exchange() {
            return None;
        }
        if effect == OpEffect::Alias || op.shared_memory().is_some() {
            let made = MadeSlice { op: id, stage, is_inside };
            for tensor in op.output_tensors() {
                if self.slices.insert(tensor, made).is_some() {
                    return None;
                }
            }
        } else if effect == OpEffect::Allocate {
            for tensor in op.output_tensors() {
                if is_inside || self.allocations.insert(tensor, id).is_some() {
                    return None;
                }
            }
        }
        visit_accesses(program, id, &mut |tensor, access| {
            self.named[stage].insert(tensor);
            let class = &mut self.classes[storage.class_of(tensor)];
            let (first, last) = class.stages.unwrap_or((stage, stage));
            class.stages = Some((first.min(stage), last.max(stage)));
            class.is_written |= matches!(access, TensorAccess::Write | TensorAccess::Both);
            class.is_freed |= access == TensorAccess::Free;
            if !class.tensors.contains(&tensor) {
                class.tensors.push(tensor);
            }
        });
        Some(())
    }

    /// The memory that needs slots; `None` if stages of different iterations share other memory that one writes.
    fn find_buffers(&self) -> Option<Vec<StageBuffer>> {
        let counts = UseCounts::from_program(self.program);
        let private = LoopPrivateTensors::of_loop(self.program, self.looped.looped, &counts);
        let private = &private.tensors[..private.whole];
        let mut buffers = Vec::new();
        for class in &self.classes {
            let Some((first, last)) = class.stages.filter(|(first, last)| first < last) else { continue };
            if class.is_outside {
                if class.is_written && !self.has_own_slices(class) {
                    return None;
                }
                continue;
            }
            let mut owners = class.tensors.iter().filter(|tensor| !self.slices.contains_key(tensor));
            let (Some(&tensor), None) = (owners.next(), owners.next()) else { return None };
            let allocation = self.allocations.get(&tensor).copied();
            if class.is_freed || !private.contains(&tensor) || !self.can_have_slots(tensor, allocation) {
                return None;
            }
            buffers.push(StageBuffer { tensor, allocation, first, last });
        }
        Some(buffers)
    }

    /// Returns true if the loop uses only the iteration's own slice of the class: each tensor leads to a slice of one
    /// tensor along one axis by the index.
    fn has_own_slices(&self, class: &ClassUse) -> bool {
        let mut origin: Option<(TensorId, Option<&AttrValue>)> = None;
        class.tensors.iter().filter(|tensor| self.slices.contains_key(tensor)).all(|&tensor| {
            let (mut at, mut slice) = (tensor, self.slices.get(&tensor));
            let mut outermost = None;
            while let Some(made) = slice {
                outermost = Some(made.op);
                let Some(base) = self.program.op(made.op).input_tensors().next() else { return false };
                (at, slice) = (base, self.slices.get(&base));
            }
            let Some(op) = outermost.map(|op| self.program.op(op)) else { return false };
            let by_index = op.expr_attr(AttrKey::Index).and_then(|expr| self.program.exprs().as_name(expr));
            let found = (at, op.attr(AttrKey::Axis));
            let is_same = *origin.get_or_insert(found) == found;
            is_same && found.1.is_some() && by_index == Some(self.looped.index)
        }) && self.is_used_by_slices(class)
    }

    /// Returns true if no op but slices names a tensor of the class that is no slice of the loop.
    fn is_used_by_slices(&self, class: &ClassUse) -> bool {
        let whole: Vec<TensorId> =
            class.tensors.iter().copied().filter(|tensor| !self.slices.contains_key(tensor)).collect();
        let mut is_sliced = true;
        let work = self.looped.work.iter().flat_map(|&op| op_with_inner(self.program, op));
        for id in work {
            let is_slice = self.program.op(id).kind.effect() == OpEffect::Alias;
            visit_accesses(self.program, id, &mut |tensor, _| is_sliced &= is_slice || !whole.contains(&tensor));
        }
        is_sliced
    }

    /// Returns true if a tensor can become a slot of a larger one.
    fn can_have_slots(&self, tensor: TensorId, allocation: Option<OpId>) -> bool {
        let program = self.program;
        let old = program.tensor(tensor);
        let is_plain = old.axes.is_none() && old.logical.is_none() && !old.split && old.memory != MemoryType::Symmetric;
        let depends = program.domains(tensor).iter().any(|domain| {
            let scalars = [Some(domain.extent), domain.start, domain.stop, domain.expanded];
            scalars.into_iter().flatten().any(|expr| mentions(program, expr, self.looped.index))
        });
        let is_cleared = allocation.is_some_and(|id| {
            let op = program.op(id);
            [AttrKey::ZeroInit, AttrKey::ResetsToZero]
                .iter()
                .any(|key| op.attr(*key).is_some_and(|value| *value != AttrValue::Bool(false)))
        });
        is_plain && !depends && !is_cleared && program.memory_tensor(tensor) == tensor
    }

    /// By stage: the slices that it uses and earlier stages make; `None` if one is made in a branch. Each leads to a
    /// tensor from outside of the loop, or to a buffer with slots.
    fn repeated_slices(&self, buffers: &[StageBuffer], stages: usize) -> Option<Vec<Vec<OpId>>> {
        let mut repeated = vec![Vec::new(); stages];
        for (stage, repeated) in repeated.iter_mut().enumerate() {
            let mut wanted: Vec<TensorId> = self.named[stage].iter().copied().collect();
            let mut known: FxHashSet<OpId> = FxHashSet::default();
            while let Some(tensor) = wanted.pop() {
                let Some(made) = self.slices.get(&tensor).filter(|made| made.stage < stage) else { continue };
                if made.is_inside {
                    return None;
                }
                if known.insert(made.op) {
                    let op = self.program.op(made.op);
                    wanted.extend(op.input_tensors().chain(op.shared_memory()));
                }
            }
            let order = self.looped.work.iter().copied();
            *repeated = order.filter(|op| known.contains(op)).collect();
            let mut sources = repeated.iter().flat_map(|&op| self.program.op(op).input_tensors());
            let leads = sources.all(|tensor| {
                let is_made = self.slices.contains_key(&tensor) || self.allocations.contains_key(&tensor);
                !is_made || self.slices.contains_key(&tensor) || buffers.iter().any(|one| one.tensor == tensor)
            });
            leads.then_some(())?;
        }
        Some(repeated)
    }
}

/// The scalar names that stages define and use.
#[derive(Default)]
struct StageScalars {
    defined: Vec<(Symbol, usize)>,
    used: FxHashSet<(Symbol, usize)>,
}

impl StageScalars {
    fn add_op(&mut self, program: &Program, id: OpId, stage: usize) {
        let op = program.op(id);
        let results = op.results.iter().filter_map(|value| program.exprs().as_name(value.as_scalar()?));
        self.defined.extend(results.map(|name| (name, stage)));
        let mut stack: Vec<ExprId> = op.operands.iter().filter_map(|value| value.as_scalar()).collect();
        stack.extend(op.attrs.iter().flat_map(|(_, value)| value.exprs()));
        while let Some(expr) = stack.pop() {
            match program.expr(expr) {
                Expr::Name(name) => drop(self.used.insert((*name, stage))),
                other => stack.extend(sub_expressions(other)),
            }
        }
    }

    /// Returns true if each stage uses only the scalars that it defines itself, and those from outside.
    fn are_separate(&self) -> bool {
        let mut defined = self.defined.iter();
        defined.all(|(name, stage)| self.used.iter().all(|(used, other)| used != name || other == stage))
    }
}
