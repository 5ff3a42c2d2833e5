//! V10 to V16: a tensor is defined before it is used, and not used after it is freed.
//!
//! One walk in text order. A definition in a branch or a loop body counts as a definition after it: whether the body
//! runs is not known here. A use in a branch inside a loop may refer to a definition further down in an earlier
//! iteration, so it is accepted if the loop defines the tensor anywhere. A Deallocate is in effect until the end of its
//! block.

use super::declarations::ReferencedTensors;
use crate::axes::stored_rank;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, Span, codes};
use crate::ir::places::{tensor_span, with_declaration};
use crate::ir::{
    AttrKey, AttrValue, BlockId, IdVec, Op, OpEffect, OpId, Program, TensorId, Value, bare_head, quoted_op,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum DefinitionState {
    Undefined,
    Defined,
    Freed(OpId),
}

struct FlowChecker<'a> {
    program: &'a Program,
    referenced: &'a ReferencedTensors,
    diags: &'a mut Diags,
    states: IdVec<TensorId, DefinitionState>,
    /// Tensors whose undefined use was reported.
    reported: IdVec<TensorId, bool>,
    /// The number of enclosing loops, and of those the ones with a branch further in.
    loops: u32,
    branches: u32,
    /// Uses that a later definition in the loop would make valid.
    pending: Vec<(TensorId, OpId)>,
}

/// Checks the host program and its units.
pub(super) fn check_flow(program: &Program, referenced: &ReferencedTensors, diags: &mut Diags) {
    let mut states = IdVec::filled(DefinitionState::Undefined, program.tensors().len());
    // The effect of a statement with an error on its tensors is unknown.
    let unread = &program.source().unread;
    for &tensor in referenced.tensors.iter().filter(|_| !unread.is_empty()) {
        let number = format!("T{}", program.tensor(tensor).number);
        if unread.has_word(&program.tensor_name(tensor)) || unread.has_word(&number) {
            states[referenced.memory[tensor]] = DefinitionState::Defined;
        }
    }
    let reported = IdVec::filled(false, program.tensors().len());
    let mut flow =
        FlowChecker { program, referenced, diags, states, reported, loops: 0, branches: 0, pending: Vec::new() };
    flow.check_scope(program.inputs(), program.body(), program.outputs(), None);
    for (_, unit) in program.units().iter() {
        flow.check_scope(&unit.inputs, unit.body, &unit.outputs, Some(unit.number));
    }
}

impl FlowChecker<'_> {
    fn check_scope(&mut self, inputs: &[Value], body: BlockId, outputs: &[Value], unit: Option<u32>) {
        for tensor in inputs.iter().filter_map(|value| value.as_tensor()) {
            self.define_tensor(tensor);
        }
        self.check_block(body);
        for tensor in outputs.iter().filter_map(|value| value.as_tensor()) {
            if self.states[self.referenced.memory[tensor]] == DefinitionState::Undefined {
                self.report_undefined_output(tensor, unit);
            }
        }
    }

    fn check_block(&mut self, block: BlockId) {
        let mut freed: Vec<TensorId> = Vec::new();
        let program = self.program;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            if op.kind.effect() == OpEffect::Free {
                self.free_tensors(id, op, &mut freed);
                continue;
            }
            self.check_uses(id, op);
            for tensor in op.output_tensors() {
                self.define_tensor(tensor);
            }
            self.check_inner_blocks(op);
        }
        // After a block it is not known whether it ran.
        for tensor in freed {
            if matches!(self.states[tensor], DefinitionState::Freed(_)) && self.loops + self.branches > 0 {
                self.states[tensor] = DefinitionState::Defined;
            }
        }
    }

    fn check_inner_blocks(&mut self, op: &Op) {
        if op.blocks.is_empty() {
            return;
        }
        let is_loop = op.kind.is_loop();
        let branches = self.branches;
        if is_loop {
            self.loops += 1;
        } else if self.loops > 0 {
            self.branches += 1;
        }
        for &block in &op.blocks {
            self.check_block(block);
        }
        self.branches = branches;
        if is_loop {
            self.loops -= 1;
        }
        if self.loops == 0 {
            for (tensor, id) in std::mem::take(&mut self.pending) {
                self.require_defined(tensor, id);
            }
        }
    }

    fn check_uses(&mut self, id: OpId, op: &Op) {
        for tensor in op.input_tensors() {
            self.check_use(tensor, id);
        }
        for (key, value) in &op.attrs {
            if let (AttrKey::Alias, AttrValue::Tensor(tensor)) = (key, value)
                && self.states[self.referenced.memory[*tensor]] == DefinitionState::Undefined
            {
                self.report_unknown_alias(*tensor, id);
            }
        }
        for value in &op.operands {
            if let Value::Op(inner) = value {
                self.check_uses(*inner, self.program.op(*inner));
            }
        }
    }

    fn check_use(&mut self, tensor: TensorId, id: OpId) {
        match self.states[self.referenced.memory[tensor]] {
            DefinitionState::Defined => {}
            DefinitionState::Undefined if self.loops > 0 && self.branches > 0 => self.pending.push((tensor, id)),
            DefinitionState::Undefined => self.require_defined(tensor, id),
            DefinitionState::Freed(by) => self.report_freed(tensor, id, by),
        }
    }

    fn define_tensor(&mut self, tensor: TensorId) {
        self.states[self.referenced.memory[tensor]] = DefinitionState::Defined;
    }

    fn free_tensors(&mut self, id: OpId, op: &Op, freed: &mut Vec<TensorId>) {
        for tensor in op.input_tensors() {
            let first = self.referenced.memory[tensor];
            match self.states[first] {
                DefinitionState::Defined => {
                    self.states[first] = DefinitionState::Freed(id);
                    freed.push(first);
                }
                DefinitionState::Freed(by) => self.report_freed(tensor, id, by),
                DefinitionState::Undefined => self.report_undefined_free(tensor, id),
            }
        }
    }

    /// V10.
    fn require_defined(&mut self, tensor: TensorId, id: OpId) {
        let first = self.referenced.memory[tensor];
        if self.states[first] != DefinitionState::Undefined || std::mem::replace(&mut self.reported[first], true) {
            return;
        }
        if self.report_hidden_result(tensor, self.program.op_span(id)) {
            return;
        }
        let name = self.program.quoted_tensor(tensor);
        self.diags.push(
            Diag::error(
                codes::UNDEFINED,
                self.program.op_span(id),
                message!("`{}` is used before it is defined", name),
            )
            .with_focus(name.clone())
            .with_note(undefined_advice(self.program, tensor)),
        );
    }

    /// Warns of a tensor without any definition in a program with an op that has more results than nvFuser prints.
    /// Returns false if it is none.
    fn report_hidden_result(&mut self, tensor: TensorId, place: Span) -> bool {
        let Some(op) = find_hiding_op(self.program, tensor) else { return false };
        let (name, of) = (self.program.quoted_tensor(tensor), quoted_op(self.program, op));
        let message =
            message!("`{}` has no definition: it may be a result of `{}` that nvFuser does not print", name, of);
        let diag = Diag::error(codes::HIDDEN_RESULT, place, message).with_focus(name);
        let diag = diag.with_label(self.program.op_span(op), "this has results without a name");
        let words: Vec<String> = hidden_results(self.program.op(op)).map(|word| format!("`{word}=`")).collect();
        let note = format!("to run the program, name it there, with one of {}", words.join(", "));
        self.diags.push(diag.with_note(note).into_warning());
        true
    }

    /// V11.
    fn report_undefined_output(&mut self, tensor: TensorId, unit: Option<u32>) {
        let name = self.program.quoted_tensor(tensor);
        if std::mem::replace(&mut self.reported[self.referenced.memory[tensor]], true) {
            return;
        }
        if self.report_hidden_result(tensor, tensor_span(self.program, tensor)) {
            return;
        }
        let message = match unit {
            None => message!("output `{}` is never defined", name),
            Some(number) => message!("output `{}` of {} is never defined", name, self.program.unit_name(number)),
        };
        let diag = Diag::error(codes::UNDEFINED_OUTPUT, tensor_span(self.program, tensor), message);
        let meant = self.similar_result(tensor).or_else(|| self.lost_result(tensor));
        self.diags.push(match meant {
            Some((written, op)) => {
                let other = self.program.quoted_tensor(written);
                let is_input = self.program.inputs().contains(&Value::Tensor(written));
                let reason = if is_input { "which is an input" } else { "which nothing uses" };
                let note = message!("write `{}` in place of `{}`, {}", name, other, reason);
                diag.with_label(self.program.op_span(op), message!("this writes `{}`", other)).with_note(note)
            }
            None => diag.with_note(message!("define `{}` with an op, or remove it from the outputs", name)),
        });
    }

    /// A tensor that nothing uses and whose name is that of another one in other capitals or with another underscore,
    /// and the op that writes it.
    fn similar_result(&self, tensor: TensorId) -> Option<(TensorId, OpId)> {
        let program = self.program;
        let plain = |tensor: TensorId| {
            let name = program.tensor(tensor).name.map(|name| program.name(name));
            name.map(|name| name.replace('_', "").to_lowercase())
        };
        let name = plain(tensor)?;
        let (mut found, mut used) = (None, Vec::new());
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            used.extend(op.input_tensors());
            let written = op.output_tensors().find(|&output| output != tensor && plain(output).as_ref() == Some(&name));
            found = found.or(written.map(|written| (written, id)));
        });
        found.filter(|(other, _)| !used.contains(other))
    }

    /// The only tensor that is computed and that nothing reads, or the only input that is written; and the op.
    fn lost_result(&self, output: TensorId) -> Option<(TensorId, OpId)> {
        let program = self.program;
        let (mut read, mut written): (Vec<TensorId>, Vec<(TensorId, OpId)>) = (Vec::new(), Vec::new());
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            read.extend(op.input_tensors());
            if op.kind.effect() == OpEffect::Pure {
                written.extend(op.output_tensors().map(|result| (result, id)));
            }
        });
        written.retain(|(result, _)| {
            let is_input = program.inputs().contains(&Value::Tensor(*result));
            let is_output = program.outputs().contains(&Value::Tensor(*result));
            (is_input || !read.contains(result))
                && !is_output
                && stored_rank(program, *result) == stored_rank(program, output)
        });
        match written.as_slice() {
            &[found] if program.is_hir2() => Some(found),
            _ => None,
        }
    }

    /// V12.
    fn report_freed(&mut self, tensor: TensorId, id: OpId, by: OpId) {
        let name = self.program.quoted_tensor(tensor);
        let again = self.program.op(id).kind.effect() == OpEffect::Free;
        let (message, note) = match again {
            true => (message!("`{}` is deallocated twice", name), "remove one of the two".into()),
            false => (
                message!("`{}` is used after it was deallocated", name),
                message!("move the {} after the last use", bare_head("Deallocate")),
            ),
        };
        self.diags.push(
            Diag::error(codes::FREED, self.program.op_span(id), message)
                .with_focus(name)
                .with_label(self.program.op_span(by), "deallocated here")
                .with_note(note),
        );
    }

    /// V13.
    fn report_undefined_free(&mut self, tensor: TensorId, id: OpId) {
        let name = self.program.quoted_tensor(tensor);
        let message = message!("`{}` is deallocated, but never defined", name);
        self.diags.push(Diag::error(codes::FREE_UNDEFINED, self.program.op_span(id), message).with_focus(name));
    }

    /// V14.
    fn report_unknown_alias(&mut self, tensor: TensorId, id: OpId) {
        let name = self.program.quoted_tensor(tensor);
        let diag = Diag::error(
            codes::UNKNOWN_ALIAS,
            self.program.op_span(id),
            message!("the {} shares the memory of `{}`, which is not defined before it", bare_head("ALLOCATE"), name),
        );
        self.diags.push(with_declaration(diag, self.program, tensor, id));
    }
}

/// The words of the results that an op has and its text leaves out.
fn hidden_results(op: &Op) -> impl Iterator<Item = &'static str> {
    let spec = op.kind.spec();
    let results = spec.args.iter().enumerate().filter(|(_, declared)| declared.result);
    results.filter(move |(place, _)| !spec.has_named_value(op, *place)).filter_map(|(_, declared)| declared.word)
}

/// The first op with results that its text leaves out, if the program defines a tensor nowhere.
fn find_hiding_op(program: &Program, tensor: TensorId) -> Option<OpId> {
    let (mut found, mut is_defined) = (None, program.is_hir2());
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        if hidden_results(op).next().is_some() {
            found.get_or_insert(id);
        }
        is_defined |= op.output_tensors().any(|result| result == tensor);
    });
    found.filter(|_| !is_defined)
}

/// The repair of a tensor without a definition: an output is memory that the program allocates.
fn undefined_advice(program: &Program, tensor: TensorId) -> Message {
    let name = program.quoted_tensor(tensor);
    match program.is_hir2() && program.outputs().contains(&Value::Tensor(tensor)) {
        true => message!("an output that is written in parts needs memory: write `{} = alloc` above this", name),
        false => message!("make `{}` an input, allocate it, or move its definition up", name),
    }
}
