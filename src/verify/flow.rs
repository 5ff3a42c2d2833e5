//! V10 to V16: a tensor is defined before it is used, and not used after it is freed.
//!
//! One walk in text order. What a branch or a loop body defines counts as defined behind it: whether
//! it ran is not known here. A use in a branch inside a loop may be of what an earlier iteration
//! defined further down, so it counts if the loop defines it anywhere. A Deallocate holds to the end
//! of its block.

use super::declarations::Referenced;
use crate::diag::codes;
use crate::diag::{Diag, Diags};
use crate::ir::Effect;
use crate::ir::places::{declared, tensor_span};
use crate::ir::{AttrKey, AttrValue, BlockId, IdVec, Op, OpId, Program, TensorId, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Undefined,
    Defined,
    Freed(OpId),
}

struct Flow<'a> {
    program: &'a Program,
    referenced: &'a Referenced,
    diags: &'a mut Diags,
    states: IdVec<TensorId, State>,
    /// Tensors whose undefined use was reported.
    reported: IdVec<TensorId, bool>,
    /// Loops around, and of those the ones with a branch further in.
    loops: u32,
    branches: u32,
    /// Uses that a later definition in the loop would make good.
    pending: Vec<(TensorId, OpId)>,
}

/// Checks the host program and its units.
pub(super) fn check(program: &Program, referenced: &Referenced, diags: &mut Diags) {
    let states = IdVec::filled(State::Undefined, program.tensors().len());
    let reported = IdVec::filled(false, program.tensors().len());
    let mut flow = Flow {
        program,
        referenced,
        diags,
        states,
        reported,
        loops: 0,
        branches: 0,
        pending: Vec::new(),
    };
    flow.scope(program.inputs(), program.body(), program.outputs(), None);
    for (_, unit) in program.units().iter() {
        flow.scope(&unit.inputs, unit.body, &unit.outputs, Some(unit.number));
    }
}

impl Flow<'_> {
    fn scope(&mut self, inputs: &[Value], body: BlockId, outputs: &[Value], unit: Option<u32>) {
        for tensor in inputs.iter().filter_map(|value| value.tensor()) {
            self.define(tensor);
        }
        self.block(body);
        for tensor in outputs.iter().filter_map(|value| value.tensor()) {
            if self.states[self.referenced.memory[tensor]] == State::Undefined {
                self.undefined_output(tensor, unit);
            }
        }
    }

    fn block(&mut self, block: BlockId) {
        let mut freed: Vec<TensorId> = Vec::new();
        let program = self.program;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            if op.kind.effect() == Effect::Free {
                self.free(id, op, &mut freed);
                continue;
            }
            self.uses(id, op);
            for tensor in op.output_tensors() {
                self.define(tensor);
            }
            self.inner(op);
        }
        // Whether the block ran is not known behind it.
        for tensor in freed {
            if matches!(self.states[tensor], State::Freed(_)) && self.loops + self.branches > 0 {
                self.states[tensor] = State::Defined;
            }
        }
    }

    fn inner(&mut self, op: &Op) {
        if op.blocks.is_empty() {
            return;
        }
        let is_loop = super::is_loop(op.kind);
        let branches = self.branches;
        if is_loop {
            self.loops += 1;
        } else if self.loops > 0 {
            self.branches += 1;
        }
        for &block in &op.blocks {
            self.block(block);
        }
        self.branches = branches;
        if is_loop {
            self.loops -= 1;
        }
        if self.loops == 0 {
            for (tensor, id) in std::mem::take(&mut self.pending) {
                self.require(tensor, id);
            }
        }
    }

    fn uses(&mut self, id: OpId, op: &Op) {
        for tensor in op.input_tensors() {
            self.use_of(tensor, id);
        }
        for (key, value) in &op.attrs {
            if let (AttrKey::Alias, AttrValue::Tensor(tensor)) = (key, value)
                && self.states[self.referenced.memory[*tensor]] == State::Undefined
            {
                self.unknown_alias(*tensor, id);
            }
        }
        for value in &op.operands {
            if let Value::Op(inner) = value {
                self.uses(*inner, self.program.op(*inner));
            }
        }
    }

    fn use_of(&mut self, tensor: TensorId, id: OpId) {
        match self.states[self.referenced.memory[tensor]] {
            State::Defined => {}
            State::Undefined if self.loops > 0 && self.branches > 0 => {
                self.pending.push((tensor, id))
            }
            State::Undefined => self.require(tensor, id),
            State::Freed(by) => self.freed(tensor, id, by),
        }
    }

    fn define(&mut self, tensor: TensorId) {
        self.states[self.referenced.memory[tensor]] = State::Defined;
    }

    fn free(&mut self, id: OpId, op: &Op, freed: &mut Vec<TensorId>) {
        for tensor in op.input_tensors() {
            let first = self.referenced.memory[tensor];
            match self.states[first] {
                State::Defined => {
                    self.states[first] = State::Freed(id);
                    freed.push(first);
                }
                State::Freed(by) => self.freed(tensor, id, by),
                State::Undefined => self.free_undefined(tensor, id),
            }
        }
    }

    /// V10.
    fn require(&mut self, tensor: TensorId, id: OpId) {
        let first = self.referenced.memory[tensor];
        if self.states[first] != State::Undefined
            || std::mem::replace(&mut self.reported[first], true)
        {
            return;
        }
        let name = self.program.tensor_name(tensor);
        self.diags.push(
            Diag::error(
                codes::UNDEFINED,
                self.program.op_span(id),
                format!("`{name}` is used before anything defines it"),
            )
            .here(format!("uses `{name}`"))
            .note(format!(
                "make `{name}` an input, allocate it, or move the op that defines it up"
            )),
        );
    }

    /// V11.
    fn undefined_output(&mut self, tensor: TensorId, unit: Option<u32>) {
        let name = self.program.tensor_name(tensor);
        if std::mem::replace(&mut self.reported[self.referenced.memory[tensor]], true) {
            return;
        }
        let message = match unit {
            None => format!("output `{name}` is never defined"),
            Some(number) => format!("output `{name}` of HostUnit{number} is never defined"),
        };
        let note = format!("define `{name}` with an op, or remove it from the outputs");
        self.diags.push(
            Diag::error(codes::UNDEFINED_OUTPUT, tensor_span(self.program, tensor), message)
                .note(note),
        );
    }

    /// V12.
    fn freed(&mut self, tensor: TensorId, id: OpId, by: OpId) {
        let name = self.program.tensor_name(tensor);
        let again = self.program.op(id).kind.effect() == Effect::Free;
        let message = if again {
            format!("`{name}` is deallocated twice")
        } else {
            format!("`{name}` is used after it was deallocated")
        };
        self.diags.push(
            Diag::error(codes::FREED, self.program.op_span(id), message)
                .label(self.program.op_span(by), "deallocated here")
                .note("move the Deallocate behind the last use"),
        );
    }

    /// V13.
    fn free_undefined(&mut self, tensor: TensorId, id: OpId) {
        let name = self.program.tensor_name(tensor);
        let message = format!("`{name}` is deallocated, but nothing defines it");
        self.diags.push(Diag::error(codes::FREE_UNDEFINED, self.program.op_span(id), message));
    }

    /// V14.
    fn unknown_alias(&mut self, tensor: TensorId, id: OpId) {
        let name = self.program.tensor_name(tensor);
        let diag = Diag::error(
            codes::UNKNOWN_ALIAS,
            self.program.op_span(id),
            format!(
                "the allocation shares the memory of `{name}`, which nothing defines before it"
            ),
        );
        self.diags.push(declared(diag, self.program, tensor, id));
    }
}
