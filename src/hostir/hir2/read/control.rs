//! Loops, branches and streams.

use super::program::ProgramReader;
use super::report;
use super::report_names;
use super::scope::Meaning;
use crate::ir::{AttrKey, AttrValue, BinaryOp, Block, Expr, ExprId, IterDomain, Op};
use crate::ops::control::{PREDICATES, branch_op, loop_over_domain_op, loop_over_range_op};
use crate::ops::stream::{stream_choice_op, stream_naming_op, synchronization_op};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, LoopDomain, NameSyntax, StatementNode, StmtForm};

impl ProgramReader<'_> {
    /// `for i in 4:`, `for i in G.0 on streams:`.
    pub(super) fn read_for(&mut self, stmt: &StatementNode) -> Option<()> {
        let StmtForm::For { index, on_streams, body, .. } = stmt.form else { return None };
        let header = self.loop_header(stmt);
        let hidden = self.enter_loop(index);
        let done = match header {
            Some(header) if on_streams => self.read_loop_on_streams(header, body, stmt.span),
            header => {
                let block = self.read_block(body);
                header.map(|mut header| {
                    header.blocks.push(block);
                    self.emit(header, stmt.span);
                })
            }
        };
        self.leave_loop(index, hidden);
        done
    }

    /// Makes the index a scalar inside the loop; returns the earlier meaning of the name.
    fn enter_loop(&mut self, index: NameSyntax) -> Option<super::scope::ScopeEntry> {
        self.streams.enter_loop();
        let before = self.tables.scope.get(index.name);
        if self.check_name(index, Meaning::Scalar) {
            self.check_index_name(index);
        }
        if let Some(entry) = before.filter(|entry| !matches!(entry.meaning, Meaning::Scalar | Meaning::Poisoned)) {
            report_names::report_taken(self.file, index, entry.meaning, entry.span, self.diags);
        }
        self.tables.scope.set_meaning(index.name, Meaning::Scalar, index.span);
        self.tables.scope.scalar_blocks.note_definition(index.name);
        before
    }

    fn leave_loop(&mut self, index: NameSyntax, before: Option<super::scope::ScopeEntry>) {
        self.streams.leave_loop();
        self.tables.scope.scalar_blocks.forget(index.name);
        match before {
            Some(entry) => self.tables.scope.set_meaning(index.name, entry.meaning, entry.span),
            None => self.tables.scope.remove(index.name),
        }
    }

    /// The FOR without its block.
    fn loop_header(&mut self, stmt: &StatementNode) -> Option<Op> {
        let StmtForm::For { index, domain, start, stop, step, .. } = stmt.form else { return None };
        let bounds = [start, stop, step].map(|bound| bound.map(|bound| self.scalar(bound)));
        if bounds.contains(&Some(None)) {
            return None;
        }
        let [start, stop, step] = bounds.map(Option::flatten);
        let name = self.name_expr(index.name);
        let mut op = match self.loop_domain(domain)? {
            Some(domain) => {
                let mut op = loop_over_domain_op(name, self.program.domains.push(domain));
                op.attrs.extend(start.map(|start| (AttrKey::Start, AttrValue::Expr(start))));
                op.attrs.extend(stop.map(|stop| (AttrKey::Stop, AttrValue::Expr(stop))));
                op
            }
            None => {
                let zero = self.program.exprs.intern_int(0);
                loop_over_range_op(name, start.unwrap_or(zero), stop.unwrap_or(zero))
            }
        };
        op.attrs.extend(step.map(|step| (AttrKey::Step, AttrValue::Expr(step))));
        Some(op)
    }

    /// The domain of a loop; `Some(None)` for bounds alone.
    fn loop_domain(&mut self, domain: LoopDomain) -> Option<Option<IterDomain>> {
        match domain {
            LoopDomain::Bounds => Some(None),
            LoopDomain::TensorAxis(name, position) => {
                let tensor = self.named_tensor(name)?;
                let found = self.program.domains(tensor).get(position as usize).copied();
                if found.is_none() {
                    report::report_no_axis(&self.program, tensor, position, name.span, self.diags);
                }
                found.map(Some)
            }
            LoopDomain::Axis(axis) => {
                let node = self.file.axes[axis as usize];
                let domain = self.read_axis(&node)?;
                let number = self.numbering.new_domains(1);
                Some(Some(IterDomain { number: Some(number), ..domain }))
            }
        }
    }

    /// The two loops of `on streams`: one that forks, one that works and joins.
    fn read_loop_on_streams(&mut self, header: Op, body: ast::BlockId, span: Span) -> Option<()> {
        let caller = self.caller_stream(span);
        let index = header.expr_attr(AttrKey::Index)?;
        let streams = self.program.names.intern("numberOfStreams");
        let streams = self.program.exprs.intern_name(streams);
        let stream = self.program.exprs.intern_binary(BinaryOp::Mod, index, streams);
        let outer = std::mem::take(&mut self.ops);
        self.emit(stream_choice_op(stream), span);
        self.emit(synchronization_op(caller), span);
        let fork = self.take_block();
        self.emit(stream_choice_op(stream), span);
        self.streams.enter_stream(stream);
        self.read_statements(body);
        self.streams.leave_stream();
        self.emit(stream_choice_op(caller), span);
        self.emit(synchronization_op(stream), span);
        let work = self.take_block();
        self.ops = outer;
        self.tables.statements.note_block(body, work);
        let mut first = header.clone();
        first.blocks.push(fork);
        self.emit(first, span);
        let mut second = header;
        second.blocks.push(work);
        self.emit(second, span);
        Some(())
    }

    fn take_block(&mut self) -> crate::ir::BlockId {
        let ops = std::mem::take(&mut self.ops);
        self.program.blocks.push(Block { ops })
    }

    /// `Stream 0`, which the first statement that needs it binds to the caller's stream.
    fn caller_stream(&mut self, span: Span) -> ExprId {
        let zero = self.program.exprs.intern_int(0);
        if !self.streams.name_caller() {
            self.emit(stream_naming_op(zero), span);
        }
        zero
    }

    /// `stream main = current`.
    pub(super) fn bind_stream(&mut self, stream: ast::ExprId, span: Span) -> Option<()> {
        let file = self.file;
        let value = match *file.expr(stream) {
            ExprNode::Name(name)
                if !matches!(self.tables.scope.get(name).map(|entry| entry.meaning), Some(Meaning::Scalar)) =>
            {
                self.name_stream(NameSyntax { name, span: file.expr_span(stream) })?
            }
            _ => self.scalar(stream)?,
        };
        if self.program.exprs.as_int(value) == Some(0) {
            self.streams.name_caller();
        }
        self.emit(stream_naming_op(value), span);
        Some(())
    }

    /// The address that stands for a name.
    fn name_stream(&mut self, name: NameSyntax) -> Option<ExprId> {
        if let Some(Meaning::Stream(stream)) = self.tables.scope.get(name.name).map(|entry| entry.meaning) {
            return Some(stream);
        }
        let address = self.streams.next_address();
        let stream = self.program.exprs.intern(Expr::Hex(address));
        if !self.declare(name, Meaning::Stream(stream)) {
            return None;
        }
        self.streams.take_address();
        let symbol = self.symbol(name.name);
        self.program.given.streams.insert(address, symbol);
        Some(stream)
    }

    /// `stream e`.
    pub(super) fn switch_stream(&mut self, stream: ast::ExprId, span: Span) -> Option<()> {
        self.check_scalar_division(stream)?;
        let stream = self.scalar(stream)?;
        self.emit(stream_choice_op(stream), span);
        Some(())
    }

    /// `sync e`.
    pub(super) fn synchronize(&mut self, stream: ast::ExprId, span: Span) -> Option<()> {
        self.check_scalar_division(stream)?;
        let stream = self.scalar(stream)?;
        self.emit(synchronization_op(stream), span);
        Some(())
    }

    /// `stream e:` with a block, after which the earlier stream is current again.
    pub(super) fn read_stream_block(&mut self, stream: ast::ExprId, body: ast::BlockId, span: Span) -> Option<()> {
        let Some(stream) = self.scalar(stream) else {
            self.read_statements(body);
            return None;
        };
        let before = match self.streams.current_stream() {
            Some(before) => before,
            None => self.caller_stream(span),
        };
        self.emit(stream_choice_op(stream), span);
        self.streams.enter_stream(stream);
        self.read_statements(body);
        self.streams.leave_stream();
        let back = self.emit(stream_choice_op(before), span);
        self.tables.statements.note_stream_end(body, back);
        Some(())
    }

    /// `if c:`, `else:`.
    pub(super) fn read_if(&mut self, stmt: &StatementNode) -> Option<()> {
        let StmtForm::If { predicate, condition, then, otherwise } = stmt.form else { return None };
        let condition = match condition {
            Some(condition) => self.scalar(condition),
            None => {
                report::report_no_condition(stmt.span, self.diags);
                None
            }
        };
        let kind = predicate.map_or("Manual", |name| self.file.symbol_text(name.name));
        let known = PREDICATES.contains(&kind);
        if let Some(name) = predicate.filter(|_| !known) {
            report::report_word("kind of predicate", kind, PREDICATES, name.span, self.diags);
        }
        let predicate = self.program.names.intern(kind);
        let then = self.read_block(then);
        let otherwise = otherwise.map(|otherwise| self.read_block(otherwise));
        let mut op = branch_op(predicate, condition?);
        op.blocks.push(then);
        op.blocks.extend(otherwise);
        known.then_some(())?;
        self.emit(op, stmt.span);
        Some(())
    }
}
