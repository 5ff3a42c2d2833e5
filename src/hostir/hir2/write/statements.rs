//! Statements: blocks, declarations, comments, loops and branches.

use super::ProgramWriter;
use super::contract::{StatementForm, StatementMatcher, StatementRun, binds_stream_zero, loop_stream};
use crate::hir2::defaults::is_post;
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{
    AttrKey, AttrValue, BlockId, CommentPlace, CommunicationEffect, ControlEffect, Expr, ExprId, Op, OpEffect, OpId,
    OpLayout, OwnForm, StreamEffect, TensorId, Value, statement_word,
};
use crate::ops::observe::MESSAGE;
use std::ops::Range;

/// The maximum number of columns of a line that holds more than one statement.
pub(super) const LINE_WIDTH: usize = 120;

/// The shape of a written block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct BlockShape {
    /// Number of statements, declarations included.
    statements: usize,
    /// True if something cannot follow a colon on its line: a comment or a statement with a block.
    multiline: bool,
}

impl BlockShape {
    /// The shape with more statements, and with a comment among them or none.
    pub(super) fn with_statements(self, more: usize, has_comments: bool) -> Self {
        Self { statements: self.statements + more, multiline: self.multiline || has_comments }
    }
}

impl ProgramWriter<'_> {
    /// The statements of a block.
    fn write_block(&mut self, block: BlockId) -> BlockShape {
        let program = self.program;
        let start = self.out.len();
        let mut shape = self.write_ops(&program.block(block).ops);
        shape.multiline |= self.write_end_comments(CommentPlace::EndOf(block), start);
        shape
    }

    /// The statements that ops are.
    pub(super) fn write_ops(&mut self, ops: &[OpId]) -> BlockShape {
        let mut shape = BlockShape::default();
        self.write_some_ops(ops, 0..ops.len(), &mut shape);
        shape
    }

    /// Writes the statements that begin in a range of ops. Returns the place after the last one.
    pub(super) fn write_some_ops(&mut self, ops: &[OpId], range: Range<usize>, shape: &mut BlockShape) -> usize {
        // Further parts of a block do not begin it.
        let start = if range.start == 0 { self.out.len() } else { 0 };
        let mut at = range.start;
        while at < range.end {
            let run = StatementMatcher::new(self.tables, &self.streams).next_statement(ops, at);
            shape.multiline |= self.write_comment_lines(CommentPlace::Above(ops[run.first]), start);
            if let Some(end) = self.write_kept(ops, run, shape) {
                at = end;
                continue;
            }
            let begin = self.out.len();
            shape.statements += self.declare_run(ops, run);
            self.write_run(ops, run, shape);
            self.move_divisor_above(ops, run, begin);
            at = run.end;
        }
        at
    }

    /// One statement with its trailing comments.
    pub(super) fn write_run(&mut self, ops: &[OpId], run: StatementRun, shape: &mut BlockShape) {
        let program = self.program;
        let trailing = CommentPlace::Trailing(ops[run.end - 1]);
        shape.statements += 1;
        shape.multiline |= self.has_comments(trailing);
        self.begin_line();
        let main = program.op(ops[run.main]);
        match run.form {
            StatementForm::StreamLoop { body } => {
                self.streams.is_caller_bound = true;
                let (looped, stream) = (program.op(ops[body]), loop_stream(program, program.op(ops[body])));
                self.write_loop_header(ops[body], looped);
                self.push(" on streams:");
                self.end_line(trailing);
                let start = self.out.len();
                let Some(&block) = looped.blocks.first() else { return };
                stream.into_iter().for_each(|stream| self.streams.enter_stream(stream));
                let work = &program.block(block).ops;
                self.indent += 2;
                self.streams.enter_loop();
                self.write_ops(&work[1..work.len() - 2]);
                self.streams.leave_loop();
                self.write_end_comments(CommentPlace::EndOf(block), start);
                self.indent -= 2;
                if stream.is_some() {
                    self.streams.leave_stream();
                }
                shape.multiline = true;
            }
            StatementForm::StreamBlock { start, back } => {
                self.streams.is_caller_bound = true;
                self.write_stream_block(&ops[start..=back], trailing);
                shape.multiline = true;
            }
            StatementForm::Group { end, waited } => {
                self.write_group(&ops[run.main..=end], waited);
                self.end_line(trailing);
            }
            StatementForm::WaitedPost => {
                self.push("wait ");
                self.write_post(main);
                self.end_line(trailing);
            }
            StatementForm::Single => match main.kind.effect() {
                OpEffect::Control(ControlEffect::Loop) => {
                    self.write_loop_header(ops[run.main], main);
                    self.push(":");
                    self.end_line(trailing);
                    self.write_inner_blocks(main);
                    shape.multiline = true;
                }
                OpEffect::Control(ControlEffect::Branch) => {
                    self.write_branch(ops[run.main], main);
                    shape.multiline = true;
                }
                _ => {
                    self.write_simple(ops[run.main], main);
                    self.end_line(trailing);
                }
            },
        }
    }

    fn write_inner_blocks(&mut self, op: &Op) {
        self.indent += 2;
        self.streams.enter_loop();
        for &block in &op.blocks {
            self.write_block(block);
        }
        self.streams.leave_loop();
        self.indent -= 2;
    }

    /// `stream e:` with its block.
    fn write_stream_block(&mut self, ops: &[OpId], trailing: CommentPlace) {
        let [set, work @ .., back] = ops else { return };
        let stream = self.program.op(*set).operands.iter().find_map(|value| match value {
            Value::Stream(stream) => Some(*stream),
            _ => None,
        });
        let Some(stream) = stream else { return };
        self.push("stream ");
        self.write_stream(stream);
        self.push(":");
        self.end_line(trailing);
        let start = self.out.len();
        self.streams.enter_stream(stream);
        self.indent += 2;
        self.write_ops(work);
        self.write_end_comments(CommentPlace::Above(*back), start);
        self.indent -= 2;
        self.streams.leave_stream();
    }

    /// `for i in 1..4`
    fn write_loop_header(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        self.push("for ");
        if let Some(index) = op.expr_attr(AttrKey::Index) {
            match program.expr(index) {
                Expr::Name(name) => self.push(program.name(*name)),
                _ => self.write_expr(index),
            }
        }
        self.push(" in ");
        let [start, stop, step] = [AttrKey::Start, AttrKey::Stop, AttrKey::Step].map(|key| op.expr_attr(key));
        let Some(domain) = op.domain_attr(AttrKey::Domain) else {
            return self.write_bounds(start, stop, step);
        };
        match self.tables.occurring.loop_axes.get(&id).copied() {
            Some((tensor, at)) => {
                self.write_tensor_name(tensor);
                self.out.push('.');
                crate::ir::text::push_number(&mut self.out, u64::from(at));
            }
            None => {
                self.out.push('[');
                self.write_axis(program.domain(domain));
                self.out.push(']');
            }
        }
        if start.is_some() || stop.is_some() || step.is_some() {
            self.push(", ");
            self.write_bounds(start, stop.or(Some(program.domain(domain).extent)), step);
        }
    }

    /// `1..4 step 2`
    fn write_bounds(&mut self, start: Option<ExprId>, stop: Option<ExprId>, step: Option<ExprId>) {
        if let Some(start) = start.filter(|start| self.program.exprs().as_int(*start) != Some(0)) {
            self.write_expr(start);
            self.push("..");
        }
        if let Some(stop) = stop {
            self.write_expr(stop);
        }
        if let Some(step) = step {
            self.push(" step ");
            self.write_expr(step);
        }
    }

    /// Writes `if c:` and `else:`, each with its only statement on the line if that is short.
    fn write_branch(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        self.push("if");
        let predicate = op.word_attr(AttrKey::Predicate).map_or("Manual", |word| program.name(word));
        if predicate != "Manual" {
            self.push(" [");
            self.push(predicate);
            self.push("]");
        }
        if let Some(condition) = op.operands.first().and_then(|value| value.as_scalar()) {
            self.push(" ");
            self.write_expr(condition);
        }
        self.push(":");
        let trailing = CommentPlace::Trailing(id);
        if let Some(&then) = op.blocks.first() {
            self.write_suite(then, trailing);
        }
        if let Some(&other) = op.blocks.get(1).filter(|block| !program.block(**block).ops.is_empty()) {
            self.begin_line();
            self.push("else:");
            self.write_suite(other, CommentPlace::StartOf(other));
        }
    }

    /// Writes a block after a colon, on the same line if possible.
    fn write_suite(&mut self, block: BlockId, trailing: CommentPlace) {
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        let colon = self.out.len();
        let commented = self.has_comments(trailing);
        self.end_line(trailing);
        let start = self.out.len();
        self.indent += 2;
        let shape = self.write_block(block);
        self.indent -= 2;
        if commented || shape.multiline || shape.statements != 1 {
            return;
        }
        let text = self.out[start..].trim();
        let width = self.out[line..colon].chars().count() + 1 + text.chars().count();
        if text.contains('\n') || width > LINE_WIDTH {
            return;
        }
        let text = text.to_owned();
        self.out.truncate(colon);
        self.out.push(' ');
        self.out.push_str(&text);
        self.out.push('\n');
    }

    /// A statement without blocks.
    pub(super) fn write_simple(&mut self, id: OpId, op: &Op) {
        match op.kind.effect() {
            OpEffect::Stream(effect) => self.write_stream_op(effect, op),
            OpEffect::Communicate(CommunicationEffect::Wait) => self.write_wait(op),
            OpEffect::Communicate(CommunicationEffect::ShareMemory) => self.write_share(op),
            OpEffect::Free => self.write_free(op),
            OpEffect::Allocate => self.write_allocation(id, op),
            OpEffect::Observe => self.write_observation(op),
            _ if op.kind.is_definition() => self.write_definition(id, op),
            _ if op.kind.is_pointwise() => self.write_pointwise(id, op),
            _ if op.kind.layout() == OpLayout::Own(OwnForm::PostOnStream) => self.write_kernel_call(id, op),
            _ if is_post(op) => {
                self.write_handle_target(op);
                self.write_post(op);
            }
            OpEffect::Alias if self.tables.slice_index(op).is_some() => {
                self.write_targets(op);
                self.push(" = ");
                self.write_select(id);
            }
            _ => self.write_call(id, op),
        }
    }

    fn write_stream_op(&mut self, effect: StreamEffect, op: &Op) {
        if effect == StreamEffect::Name {
            self.streams.is_caller_bound |= binds_stream_zero(self.program, op);
        }
        self.push(if effect == StreamEffect::Synchronize { "sync " } else { "stream " });
        for value in op.operands.iter().chain(&op.results) {
            if let Value::Stream(stream) = value {
                self.write_stream(*stream);
            }
        }
        if effect == StreamEffect::Name {
            self.push(" = current");
        }
    }

    /// `assert c, "text"`, `print A, n`
    fn write_observation(&mut self, op: &Op) {
        self.push(statement_word(op.kind.name()).unwrap_or_default());
        for (at, value) in op.operands.iter().enumerate() {
            self.push(if at > 0 { ", " } else { " " });
            self.write_operand(*value, 0);
        }
        if let Some(text) = op.word_attr(MESSAGE) {
            self.push(", \"");
            self.push(self.program.name(text));
            self.push("\"");
        }
    }

    fn write_wait(&mut self, op: &Op) {
        self.push("wait ");
        if let Some(Value::Handle(number)) = op.operands.first() {
            self.write_handle(*number, op.expr_attr(AttrKey::Element));
        }
    }

    fn write_free(&mut self, op: &Op) {
        self.push("free ");
        for (index, tensor) in op.input_tensors().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.write_tensor_name(tensor);
        }
    }

    /// Writes a declaration for each tensor that the statement uses and does not declare itself. Returns their number.
    pub(super) fn declare_run(&mut self, ops: &[OpId], run: StatementRun) -> usize {
        let mut count = 0;
        match run.form {
            StatementForm::Single | StatementForm::WaitedPost => count += self.declare_used(ops[run.main]),
            StatementForm::Group { end, .. } => {
                for &id in &ops[run.main..=end] {
                    count += self.declare_used(id);
                }
            }
            StatementForm::StreamLoop { body } => count += self.declare_used(ops[body]),
            StatementForm::StreamBlock { start, .. } => count += self.declare_used(ops[start]),
        }
        count
    }

    fn declare_used(&mut self, id: OpId) -> usize {
        let program = self.program;
        let op = program.op(id);
        let targets = op.kind.layout() != OpLayout::Keyed;
        let mut count = 0;
        for tensor in op.output_tensors() {
            let shown = self.tables.shown_tensor(tensor);
            if !targets || shown != tensor {
                count += self.declare_tensor(shown);
            }
        }
        for value in &op.operands {
            match value {
                Value::Tensor(tensor) => count += self.declare_tensor(self.tables.shown_tensor(*tensor)),
                Value::Op(inner) => count += self.declare_used(*inner),
                Value::Scalar(expr) | Value::Stream(expr) => count += self.declare_in_expr(*expr),
                Value::Handle(_) | Value::Unit(_) => {}
            }
        }
        for (_, value) in &op.attrs {
            if let AttrValue::Tensor(tensor) = value {
                count += self.declare_tensor(*tensor);
            }
            for &expr in value.exprs() {
                count += self.declare_in_expr(expr);
            }
        }
        // The slices that the statement contains.
        if self.tables.has_metadata {
            for tensor in op.all_tensors() {
                if let Some(select) = self.tables.hidden_slices[tensor.0 as usize].filter(|select| *select != id) {
                    count += self.declare_used(select);
                }
            }
        }
        count
    }

    /// The tensors of `getMetaData(T0)`.
    fn declare_in_expr(&mut self, expr: ExprId) -> usize {
        if !self.tables.has_metadata {
            return 0;
        }
        let program = self.program;
        if let Some(tensor) = program.expr(expr).named_tensor() {
            return self.declare_tensor(tensor);
        }
        sub_expressions(program.expr(expr)).into_iter().map(|part| self.declare_in_expr(part)).sum()
    }

    /// Writes `G: type` unless the tensor was declared.
    pub(super) fn declare_tensor(&mut self, tensor: TensorId) -> usize {
        if !self.take_undeclared(tensor) {
            return 0;
        }
        self.begin_line();
        self.write_tensor_name(tensor);
        self.push(": ");
        self.write_type(tensor);
        self.push("\n");
        1
    }

    /// Returns true if a tensor was not declared before, and declares it.
    pub(super) fn take_undeclared(&mut self, tensor: TensorId) -> bool {
        let first = self.tables.names.first_of_number(tensor);
        !std::mem::replace(&mut self.declared[first.0 as usize], true)
    }
}
