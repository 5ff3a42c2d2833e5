//! Writes the skewed loop.

use super::loops::{StreamLoop, op_with_inner};
use super::stages::{StageBuffer, StagedWork};
use crate::ir::edit::Edit;
use crate::ir::order::first_free_number;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, DomainId, Expr, ExprId, IterDomain, IterType, MemoryType, Op, OpId, ParallelType,
    Symbol, Tensor, TensorId, Value,
};
use crate::ops::control::{branch_op, loop_over_range_op};
use crate::ops::memory::{allocation_op, slice_op};
use crate::style::stored_size;
use rustc_hash::{FxHashMap, FxHashSet};

/// A buffer with its slots.
struct SlottedBuffer {
    of: StageBuffer,
    /// The memory of all slots.
    slots: TensorId,
    /// The slot of an iteration, which takes the place of the buffer.
    slot: TensorId,
}

/// Replaces a loop by one that runs stage `t` of iteration `i - t` in its iteration `i`, the first stage first.
pub(super) fn write_skewed(edit: &mut Edit<'_>, looped: &StreamLoop, work: &StagedWork) {
    let first = looped.first_op(edit.program());
    let mut writer = SkewWriter { edit, looped };
    let buffers: Vec<SlottedBuffer> = work.buffers.iter().map(|&of| writer.add_slots(of)).collect();
    let allocations: Vec<OpId> = buffers.iter().map(|buffer| writer.allocate_slots(buffer)).collect();
    writer.use_slots(&buffers);
    // The last stage first: it repeats slices of earlier ones, which are still those of iteration `i`.
    let stages = (0..work.stages.len()).rev();
    let mut branches: Vec<OpId> = stages.map(|stage| writer.write_stage(work, &buffers, stage)).collect();
    branches.reverse();
    writer.write_loop(branches, work.stages.len());
    let holder = looped.holder;
    let mut ops = edit.program().block(holder).ops.clone();
    let at = ops.iter().position(|&op| op == first).unwrap_or(0);
    ops.splice(at..at, allocations);
    edit.set_block(holder, ops);
}

struct SkewWriter<'e, 'p, 'l> {
    edit: &'e mut Edit<'p>,
    looped: &'l StreamLoop,
}

impl SkewWriter<'_, '_, '_> {
    fn int(&mut self, value: usize) -> ExprId {
        self.edit.intern_expr(Expr::Int(value as i64))
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.edit.intern_expr(Expr::Binary(op, a, b))
    }

    fn index(&mut self) -> ExprId {
        self.edit.intern_expr(Expr::Name(self.looped.index))
    }

    /// The iteration whose stage runs: `i`, `i - 1`.
    fn iteration(&mut self, stage: usize) -> ExprId {
        let index = self.index();
        if stage == 0 {
            return index;
        }
        let shift = self.int(stage);
        self.binary(BinaryOp::Sub, index, shift)
    }

    /// The sum of a bound and a number of stages.
    fn later(&mut self, bound: ExprId, stages: usize) -> ExprId {
        match self.edit.program().exprs().as_int(bound) {
            Some(value) => self.edit.intern_expr(Expr::Int(value.saturating_add(stages as i64))),
            None if stages == 0 => bound,
            None => {
                let stages = self.int(stages);
                self.binary(BinaryOp::Add, bound, stages)
            }
        }
    }

    fn next_domain_number(&self) -> u32 {
        first_free_number(self.edit.program().all_domains().filter_map(|domain| domain.number))
    }

    /// Declares a tensor like another one, with these domains under new numbers.
    fn declare(
        &mut self,
        like: TensorId,
        memory: MemoryType,
        name: Option<Symbol>,
        domains: &[IterDomain],
    ) -> TensorId {
        let numbers = self.next_domain_number()..;
        let domains: Vec<IterDomain> = domains
            .iter()
            .zip(numbers)
            .map(|(domain, number)| IterDomain { number: Some(number), ..*domain })
            .collect();
        let program = self.edit.program();
        let number = first_free_number(program.tensors().iter().map(|(_, tensor)| tensor.number));
        let span = program.tensor_span(like);
        let tensor = Tensor { number, name, memory, ..program.tensor(like).clone() };
        self.edit.add_tensor(tensor, &domains, span)
    }

    /// Declares the slots of a buffer, with a name derived from its own, and the slot that gets its name.
    fn add_slots(&mut self, of: StageBuffer) -> SlottedBuffer {
        let old = self.edit.program().tensor(of.tensor).clone();
        let domains = self.edit.program().domains(of.tensor).iter().copied();
        let stored: Vec<IterDomain> = domains.filter(|domain| !domain.is_reduction()).collect();
        let count = self.int(of.slots());
        let mut all = vec![IterDomain::new(IterType::Iteration, ParallelType::Serial, count)];
        all.extend(&stored);
        let name = old.name.map(|name| self.derived_name(name));
        let slots = self.declare(of.tensor, MemoryType::Global, name, &all);
        let slot = self.declare(of.tensor, MemoryType::Local, old.name, &stored);
        self.edit.set_tensor(of.tensor, Tensor { name: None, ..old });
        SlottedBuffer { of, slots, slot }
    }

    /// `D.1` of `D`: a name that the program does not have.
    fn derived_name(&mut self, name: Symbol) -> Symbol {
        let program = self.edit.program();
        let stem = program.name(name).split('.').next().unwrap_or_default().to_owned();
        let given = program.given_names();
        let used: FxHashSet<Symbol> = program
            .tensors()
            .iter()
            .filter_map(|(_, tensor)| tensor.name)
            .chain(given.handles.values().copied())
            .chain(given.streams.values().copied())
            .collect();
        let names = (1..).map(|number: u32| self.edit.intern_name(&format!("{stem}.{number}")));
        names.into_iter().find(|name| !used.contains(name)).unwrap_or(name)
    }

    /// The allocation of the slots, in the place of the buffer's.
    fn allocate_slots(&mut self, buffer: &SlottedBuffer) -> OpId {
        let size = stored_size(self.edit, buffer.slots);
        let memory = AttrValue::Word(self.edit.intern_name(MemoryType::Global.word()));
        let zero = (AttrKey::ZeroInit, AttrValue::Bool(false));
        let mut op = allocation_op(buffer.slots);
        op.attrs = match self.edit.program().style().short_allocate {
            true => vec![(AttrKey::MemType, memory), zero],
            false => vec![
                (AttrKey::Buffer, AttrValue::Bool(true)),
                (AttrKey::MemType, memory),
                (AttrKey::Size, AttrValue::Expr(size)),
                zero,
                (AttrKey::ResetsToZero, AttrValue::Bool(false)),
            ],
        };
        op.attrs.push((AttrKey::Keep, AttrValue::Bool(self.looped.holder == self.edit.program().body())));
        match buffer.of.allocation {
            Some(id) => {
                self.edit.set_op(id, op);
                id
            }
            None => self.edit.add_op(op, self.looped.looped),
        }
    }

    /// Replaces the buffers by their slots in all of the loop's work.
    fn use_slots(&mut self, buffers: &[SlottedBuffer]) {
        let tensors: FxHashMap<TensorId, TensorId> =
            buffers.iter().map(|buffer| (buffer.of.tensor, buffer.slot)).collect();
        let mut domains: FxHashMap<DomainId, DomainId> = FxHashMap::default();
        for buffer in buffers {
            let program = self.edit.program();
            let old = program.tensor(buffer.of.tensor).domains_start..program.tensor(buffer.of.tensor).domains_end;
            let stored = old.map(DomainId).filter(|&domain| !program.domain(domain).is_reduction());
            domains.extend(stored.zip((program.tensor(buffer.slot).domains_start..).map(DomainId)));
        }
        for id in self.all_work() {
            let mut op = self.edit.program().op(id).clone();
            for value in op.operands.iter_mut().chain(&mut op.results) {
                if let Some(&slot) = value.as_tensor().and_then(|tensor| tensors.get(&tensor)) {
                    *value = Value::Tensor(slot);
                }
            }
            for (_, value) in &mut op.attrs {
                match value {
                    AttrValue::Tensor(tensor) => *tensor = tensors.get(tensor).copied().unwrap_or(*tensor),
                    AttrValue::Domain(domain) => *domain = domains.get(domain).copied().unwrap_or(*domain),
                    _ => {}
                }
            }
            if op != *self.edit.program().op(id) {
                self.edit.set_op(id, op);
            }
        }
    }

    fn all_work(&self) -> Vec<OpId> {
        self.looped.work.iter().flat_map(|&op| op_with_inner(self.edit.program(), op)).collect()
    }

    /// One stage: a branch for the iterations that have it, on the stream of its iteration.
    fn write_stage(&mut self, work: &StagedWork, buffers: &[SlottedBuffer], stage: usize) -> OpId {
        let is_last = stage + 1 == work.stages.len();
        let mut ops = vec![match stage {
            0 => self.looped.choice,
            _ => self.repeat_op(self.looped.choice, stage),
        }];
        for buffer in buffers.iter().filter(|buffer| (buffer.of.first..=buffer.of.last).contains(&stage)) {
            ops.push(self.bind_slot(buffer, stage));
        }
        for &op in &work.repeated[stage] {
            ops.push(self.repeat_op(op, stage));
        }
        let moved = work.buffers.iter().filter_map(|buffer| buffer.allocation).collect::<Vec<OpId>>();
        for &op in work.stages[stage].iter().filter(|op| !moved.contains(op)) {
            self.shift_op(op, stage);
            ops.push(op);
        }
        if is_last {
            self.shift_op(self.looped.join, stage);
            ops.extend([self.looped.back, self.looped.join]);
        } else {
            ops.push(self.repeat_op(self.looped.back, stage));
        }
        let condition = self.condition(stage, work.stages.len());
        let block = self.edit.add_block(ops);
        let mut op = branch_op(self.edit.intern_name("Manual"), condition);
        op.blocks.push(block);
        self.edit.add_op(op, self.looped.looped)
    }

    /// `slot = slots[(i - 1) % 2]`
    fn bind_slot(&mut self, buffer: &SlottedBuffer, stage: usize) -> OpId {
        let (iteration, count) = (self.iteration(stage), self.int(buffer.of.slots()));
        let at = self.binary(BinaryOp::Mod, iteration, count);
        let axis = DomainId(self.edit.program().tensor(buffer.slots).domains_start);
        let op = slice_op(buffer.slots, axis, at).with_result(Value::Tensor(buffer.slot));
        self.edit.add_op(op, self.looped.looped)
    }

    /// The condition that a stage has an iteration: `i < n`, `i > 0`, or both.
    fn condition(&mut self, stage: usize, stages: usize) -> ExprId {
        let index = self.index();
        let stop = self.later(self.looped.stop, stage);
        let ends = self.binary(BinaryOp::Lt, index, stop);
        if stage == 0 {
            return ends;
        }
        let before = self.int(stage - 1);
        let begins = self.binary(BinaryOp::Gt, index, before);
        if stage + 1 == stages { begins } else { self.binary(BinaryOp::And, begins, ends) }
    }

    /// A copy of an op for a stage.
    fn repeat_op(&mut self, id: OpId, stage: usize) -> OpId {
        let op = self.edit.program().op(id).clone();
        let copy = self.edit.add_op(op, id);
        self.shift_op(copy, stage);
        copy
    }

    /// Makes an op, and those inside of it, one of the iteration that runs this stage.
    fn shift_op(&mut self, id: OpId, stage: usize) {
        if stage == 0 {
            return;
        }
        let iteration = self.iteration(stage);
        for id in op_with_inner(self.edit.program(), id) {
            let mut op = self.edit.program().op(id).clone();
            self.substitute_in_op(&mut op, iteration);
            if op != *self.edit.program().op(id) {
                self.edit.set_op(id, op);
            }
        }
    }

    fn substitute_in_op(&mut self, op: &mut Op, iteration: ExprId) {
        for value in op.operands.iter_mut().chain(&mut op.results) {
            if let Value::Scalar(expr) | Value::Stream(expr) = value {
                *expr = self.substitute(*expr, iteration);
            }
        }
        for (_, value) in &mut op.attrs {
            for expr in value.exprs_mut() {
                *expr = self.substitute(*expr, iteration);
            }
        }
    }

    /// An expression with the iteration in the place of the index.
    fn substitute(&mut self, expr: ExprId, iteration: ExprId) -> ExprId {
        let old = self.edit.program().expr(expr).clone();
        if old == Expr::Name(self.looped.index) {
            return iteration;
        }
        let new = old.map_parts(|part| self.substitute(part, iteration));
        if new == old { expr } else { self.edit.intern_expr(new) }
    }

    fn write_loop(&mut self, branches: Vec<OpId>, stages: usize) {
        let (index, start) = (self.index(), self.int(0));
        let stop = self.later(self.looped.stop, stages - 1);
        let old = self.edit.program().op(self.looped.looped);
        let block = old.blocks[0];
        let mut op = loop_over_range_op(index, start, stop);
        op.blocks.push(block);
        self.edit.set_op(self.looped.looped, op);
        self.edit.set_block(block, branches);
    }
}
