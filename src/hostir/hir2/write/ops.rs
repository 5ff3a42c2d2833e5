//! Statements that are not communications: calls of ops and functions, allocations, definitions.

use super::ProgramWriter;
use crate::hir2::defaults::{
    DEFAULT_CACHE_OP, cast_function, is_positional, keeps_by_default, word_of_dtype, word_of_function,
    written_arguments,
};
use crate::ir::functions::cast_result;
use crate::ir::is_identifier;
use crate::ir::text::push_integer;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, DType, DomainId, Expr, IterDomain, Op, OpEffect, OpId, OpLayout, OwnForm, Program,
    TensorId, Transfer, UnaryOp, Value, domain_text,
};
use crate::ops::memory::selected_stored_axis;
use crate::ops::result_types::{TensorType, TypeList, result_types};
use crate::ops::user_launch::is_user_launch;
use crate::ops::{ArgKind, ArgSpec};
use crate::print::op_lines;

impl ProgramWriter<'_> {
    /// The printed form in backquotes.
    pub(super) fn write_verbatim(&mut self, id: OpId) {
        self.push("`");
        for line in op_lines(self.program, [id]) {
            self.push(&line);
        }
        self.push("`");
    }

    /// The left side: results with the types that inference does not give.
    pub(super) fn write_targets(&mut self, op: &Op) {
        self.write_typed_targets(op, false);
    }

    fn write_typed_targets(&mut self, op: &Op, always: bool) {
        let mut inferred: Option<Option<TypeList>> = None;
        for (index, result) in op.results.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            let tensor = match result {
                Value::Tensor(tensor) => *tensor,
                Value::Scalar(expr) => {
                    self.write_expr(*expr);
                    continue;
                }
                _ => continue,
            };
            self.write_tensor(tensor);
            if self.tables.hidden_slices[tensor.0 as usize].is_some() || !self.take_undeclared(tensor) {
                continue;
            }
            let types = inferred.get_or_insert_with(|| result_types(self.program, op));
            let ty = types.as_ref().and_then(|types| types.get(index));
            if always || !self.is_type_inferred(tensor, ty) {
                self.push(": ");
                self.write_type(tensor);
            }
        }
    }

    fn is_type_inferred(&self, tensor: TensorId, inferred: Option<&TensorType>) -> bool {
        self.program.tensor(tensor).memory == self.tables.default_memory(tensor)
            && inferred.is_some_and(|ty| *ty == TensorType::of_tensor(self.program, tensor))
    }

    /// A tensor, a slice, or a scalar.
    pub(super) fn write_operand(&mut self, value: Value, least: u8) {
        match value {
            Value::Tensor(tensor) => self.write_tensor(tensor),
            Value::Scalar(expr) => self.write_bound_expr(expr, least),
            Value::Stream(expr) => self.write_stream(expr),
            Value::Handle(number) => self.write_handle(number, None),
            Value::Unit(_) | Value::Op(_) => {}
        }
    }

    pub(super) fn write_operands(&mut self, values: &[Value]) {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.write_operand(*value, 0);
        }
    }

    /// `R = f(A, B, key=v)`
    pub(super) fn write_call(&mut self, id: OpId, op: &Op) {
        // The reader takes only `Set` for a call with a scalar result.
        if op.results.iter().any(|result| result.as_scalar().is_some()) && op.kind.transfer() != Some(Transfer::Copy) {
            return self.write_verbatim(id);
        }
        if is_user_launch(op) {
            return if self.can_write_launch(op) { self.write_launch(op) } else { self.write_verbatim(id) };
        }
        if !op.results.is_empty() {
            self.write_targets(op);
            self.push(" = ");
        }
        self.push(op.kind.name());
        self.push("(");
        if op.kind.layout() == OpLayout::Own(OwnForm::LaunchKernel) {
            self.write_operands(&op.operands);
            if let Some(group) = op.expr_attr(AttrKey::GroupId) {
                self.push(if op.operands.is_empty() { "group=" } else { ", group=" });
                self.write_expr(group);
            }
        } else {
            self.write_arguments(op);
        }
        self.push(")");
    }

    /// The arguments of the table that an op has.
    pub(super) fn write_arguments(&mut self, op: &Op) {
        let mut operands = op.operands.iter();
        let keyed = op.kind.layout() == OpLayout::Keyed;
        let mut results = op.results.iter().filter(|_| keyed);
        let mut separator = "";
        let spec = op.kind.spec();
        for (_, declared) in written_arguments(op.kind).filter(|(place, _)| spec.has_named_value(op, *place)) {
            if let Some(key) = declared.key {
                let Some(value) = op.attr(key).filter(|value| !self.is_default_attr(declared, value)) else { continue };
                self.push(separator);
                if let Some(word) = declared.word {
                    self.push(argument_word(word));
                    self.push("=");
                }
                self.write_attr(op, declared.kind, value);
                separator = ", ";
                continue;
            }
            loop {
                let next = if declared.result { results.next() } else { operands.next() };
                let Some(value) = next else { break };
                self.push(separator);
                if let Some(word) = declared.word.filter(|_| !is_positional(op.kind, declared)) {
                    self.push(argument_word(word));
                    self.push("=");
                }
                self.write_operand(*value, 0);
                separator = ", ";
                if !declared.repeated {
                    break;
                }
            }
        }
    }

    fn is_default_attr(&self, declared: &ArgSpec, value: &AttrValue) -> bool {
        match (declared.key, value) {
            (Some(AttrKey::CacheOp), AttrValue::Word(word)) => self.program.name(*word) == DEFAULT_CACHE_OP,
            _ => declared.usual.is_some_and(|usual| usual.is_value(self.program, value)),
        }
    }

    fn write_attr(&mut self, op: &Op, kind: ArgKind, value: &AttrValue) {
        let program = self.program;
        match value {
            AttrValue::Bool(value) => self.push(if *value { "true" } else { "false" }),
            AttrValue::Expr(expr) => self.write_expr(*expr),
            AttrValue::Word(word) => {
                let text = program.name(*word);
                match DType::parse(text).filter(|_| kind == ArgKind::DType) {
                    Some(dtype) => self.push(word_of_dtype(dtype)),
                    None => self.push(text),
                }
            }
            AttrValue::Words(words) => {
                self.push("[");
                for (index, word) in words.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.push(program.name(*word));
                }
                self.push("]");
            }
            AttrValue::Tensor(tensor) => self.write_tensor_name(*tensor),
            AttrValue::Domain(domain) => match selected_stored_axis(program, op) {
                Some(axis) => crate::ir::text::push_number(&mut self.out, axis as u64),
                None => {
                    self.push("`");
                    self.push(&domain_text(program, &without_result_number(program, op, *domain)));
                    self.push("`");
                }
            },
            AttrValue::Ints(ints) => self.write_integers(ints),
            AttrValue::Bools(flags) => {
                self.push("[");
                for (index, flag) in flags.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.push(if *flag { "true" } else { "false" });
                }
                self.push("]");
            }
            AttrValue::Exprs(exprs) => {
                self.push("[");
                self.write_expr_list(exprs);
                self.push("]");
            }
            AttrValue::Ranges(ranges) => {
                self.push("[");
                for (index, range) in ranges.iter().enumerate() {
                    self.push(if index > 0 { ", [" } else { "[" });
                    self.write_expr_list(range);
                    self.push("]");
                }
                self.push("]");
            }
        }
    }

    /// `[0, 1]`
    pub(super) fn write_integers(&mut self, items: &[i64]) {
        self.push("[");
        for (index, item) in items.iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" });
            push_integer(&mut self.out, *item);
        }
        self.push("]");
    }

    /// `C = axpy(A, B)`
    pub(super) fn write_kernel_call(&mut self, id: OpId, op: &Op) {
        let unit = self.program.posted_unit(op);
        let (Some(name), [Value::Unit(_), operands @ ..]) =
            (unit.and_then(|unit| self.units.get(unit.0 as usize)), op.operands.as_slice())
        else {
            return self.write_verbatim(id);
        };
        if !op.results.is_empty() {
            self.write_targets(op);
            self.push(" = ");
        }
        self.push(name);
        self.push("(");
        self.write_operands(operands);
        self.push(")");
    }

    /// `at = e`
    pub(super) fn write_definition(&mut self, id: OpId, op: &Op) {
        let ([Value::Scalar(result)], [Value::Scalar(value)]) = (op.results.as_slice(), op.operands.as_slice()) else {
            return self.write_verbatim(id);
        };
        let named = matches!(self.program.expr(*result), Expr::Name(name)
            if is_identifier(self.program.name(*name))
                && self.tables.names.scalar_spelling(*name) == super::names::ScalarSpelling::Plain);
        if !named {
            return self.write_verbatim(id);
        }
        self.write_expr(*result);
        self.push(" = ");
        match self.program.expr(*value) {
            Expr::MetaData(tensor) => self.write_metadata(*tensor),
            _ => self.write_expr(*value),
        }
    }

    /// `Z = X + Y`, `Z = relu(X)`, `Z = f16(X)`
    pub(super) fn write_pointwise(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        let function = op.word_attr(AttrKey::Function).map_or("", |word| program.name(word));
        let on_tensors = op.input_tensors().next().is_some();
        let [Value::Tensor(_)] = op.results.as_slice() else { return self.write_verbatim(id) };
        let prefix = UnaryOp::parse(function);
        let infix = BinaryOp::parse(function);
        let named = is_identifier(word_of_function(function));
        let known = match op.operands.len() {
            1 => prefix.is_some() || named,
            2 => infix.is_some() || named,
            _ => named,
        };
        if !known {
            return self.write_verbatim(id);
        }
        self.write_typed_targets(op, !on_tensors);
        self.push(" = ");
        match (op.operands.as_slice(), prefix, infix) {
            ([a], Some(prefix), _) => {
                self.push(prefix.symbol());
                // `-2` would be a number.
                let literal = a.as_tensor().is_none();
                self.push(if literal { "(" } else { "" });
                self.write_operand(*a, 0);
                self.push(if literal { ")" } else { "" });
            }
            ([a, b], _, Some(infix)) => {
                let strength = infix.strength();
                self.write_operand(*a, strength);
                self.push(" ");
                self.push(infix.symbol());
                self.push(" ");
                self.write_operand(*b, strength + 1);
            }
            (operands, ..) => {
                self.push(self.function_word(function, op));
                self.push("(");
                self.write_operands(operands);
                self.push(")");
            }
        }
    }

    /// The element type for the usual cast between two types, else the function's name.
    fn function_word<'n>(&self, function: &'n str, op: &Op) -> &'n str {
        let [Value::Tensor(operand)] = op.operands.as_slice() else { return word_of_function(function) };
        let Some(to) = cast_result(function) else { return word_of_function(function) };
        // nvFuser has one name for the casts of narrow floats to several integers.
        if op.output_tensors().any(|result| self.program.tensor(result).dtype != to) {
            return function;
        }
        let usual = cast_function(self.program.tensor(*operand).dtype, to);
        if usual.as_deref() == Some(function) { word_of_dtype(to) } else { function }
    }

    /// `C = alloc(keep)`
    pub(super) fn write_allocation(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        let flag = |key| match op.attr(key) {
            Some(AttrValue::Bool(flag)) => Some(*flag),
            _ => None,
        };
        let ([Value::Tensor(tensor)], []) = (op.results.as_slice(), op.operands.as_slice()) else {
            return self.write_verbatim(id);
        };
        let memory = op.word_attr(AttrKey::MemType).map(|word| program.name(word));
        let size = op.expr_attr(AttrKey::Size);
        let (Some(true), Some(memory), Some(size), Some(zero), Some(resets)) =
            (flag(AttrKey::Buffer), memory, size, flag(AttrKey::ZeroInit), flag(AttrKey::ResetsToZero))
        else {
            return self.write_verbatim(id);
        };
        self.write_typed_targets(op, true);
        self.push(" = alloc");
        let shared = op.shared_memory();
        let start = self.out.len();
        if shared.is_none() && op.keeps_memory() != keeps_by_default(self.streams.is_in_loop()) {
            self.write_flag(start, if op.keeps_memory() { "keep" } else { "fresh" });
        }
        if zero {
            self.write_flag(start, "zero");
        }
        if resets {
            self.write_flag(start, "resets");
        }
        if !self.tables.usual_sizes[id] {
            self.write_flag(start, "size=");
            self.write_expr(size);
        }
        if memory != program.tensor(*tensor).memory.word() {
            self.write_flag(start, "mem=");
            self.push(memory);
        }
        if let Some(shared) = shared {
            self.write_flag(start, "share=");
            self.write_tensor_name(shared);
        }
        if self.out.len() > start {
            self.push(")");
        }
    }

    /// One more argument of `alloc`, whose arguments begin at `start`.
    fn write_flag(&mut self, start: usize, text: &str) {
        self.push(if self.out.len() == start { "(" } else { ", " });
        self.push(text);
    }
}

/// The word of a keyed argument.
fn argument_word(word: &'static str) -> &'static str {
    match word {
        "initial value" => "init",
        "Group ID" => "group",
        other => other,
    }
}

/// An axis that is given verbatim; without a number if it is the last axis of the result, to which a reader joins it.
fn without_result_number(program: &Program, op: &Op, domain: DomainId) -> IterDomain {
    let given = *program.domain(domain);
    let last = op.output_tensors().next().and_then(|tensor| program.domains(tensor).last());
    let is_last = op.kind.effect() == OpEffect::Pure && last == Some(&given);
    IterDomain { number: given.number.filter(|_| !is_last), ..given }
}
