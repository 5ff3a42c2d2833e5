//! Statements with a form of their own: loops, branches, ALLOCATE, launches, streams.

use super::Resolver;
use crate::ir::{AttrKey, AttrValue, Op, Value};
use crate::ir::{MessageDirection, OpKind};
use crate::ops::control::{PREDICATES, branch_op};
use hostir_grammar::ast::{self, ArgRange, ArgSyntax, ExprSyntax, StmtSyntax};

impl Resolver<'_> {
    /// `FOR index in domain:` with or without bounds.
    pub(super) fn resolve_for_in(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let op = self.resolve_table_op(OpKind::For, stmt);
        self.resolve_body(op, stmt)
    }

    /// `FOR index from start to stop:`.
    pub(super) fn resolve_for_range(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let op = self.resolve_table_op(OpKind::ForRange, stmt);
        self.resolve_body(op, stmt)
    }

    /// Resolves the blocks even if the header had an error.
    fn resolve_body(&mut self, op: Option<Op>, stmt: &StmtSyntax) -> Option<Op> {
        let body = stmt.body.map(|body| self.resolve_block(body));
        let other = stmt.else_body.map(|body| self.resolve_block(body));
        let mut op = op?;
        let block = body.unwrap_or_else(|| self.program.blocks.push(crate::ir::Block::default()));
        op.blocks.push(block);
        op.blocks.extend(other);
        Some(op)
    }

    /// `IF Manual condition:`.
    pub(super) fn resolve_branch(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let op = self.resolve_condition(stmt);
        self.resolve_body(op, stmt)
    }

    fn resolve_condition(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let word = ast.symbol_text(stmt.name);
        let [arg] = ast.args_in(stmt.args) else {
            self.report_no_condition(stmt);
            return None;
        };
        if !PREDICATES.contains(&word) {
            self.report_unknown_predicate(word, PREDICATES, stmt);
            return None;
        }
        let predicate = self.resolve_symbol(stmt.name);
        Some(branch_op(predicate, self.resolve_scalar_arg(arg)?))
    }

    /// Both forms of ALLOCATE; the buffer must be the result.
    pub(super) fn resolve_allocate(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let mut op = self.resolve_table_op(kind, stmt)?;
        let result = op.output_tensors().next();
        if op.attr(AttrKey::Keep).is_none() {
            op.attrs.push((AttrKey::Keep, AttrValue::Bool(op.keeps_memory())));
        }
        let Some((_, buffer)) = op.attrs.iter_mut().find(|(key, _)| *key == AttrKey::Buffer) else {
            return Some(op);
        };
        let AttrValue::Tensor(tensor) = *buffer else { return Some(op) };
        *buffer = AttrValue::Bool(true);
        if Some(tensor) != result {
            self.report_other_buffer(stmt, tensor, result);
            return None;
        }
        if op.expr_attr(AttrKey::Size).is_none() {
            self.report_missing_word(kind.spec(), "size", stmt);
            return None;
        }
        Some(op)
    }

    /// The buffer of a receive is a result.
    pub(super) fn resolve_point_to_point(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let mut op = self.resolve_table_op(kind, stmt)?;
        let receives = self.program.message_direction(&op) == Some(MessageDirection::Recv);
        if receives {
            op.results.extend(op.operands.drain(..));
        }
        Some(op)
    }

    /// `PostOnStream (HostUnit0, Inputs:{a, }, Outputs:{b, })`.
    pub(super) fn resolve_post_on_stream(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        let args = ast.args_in(stmt.args);
        let (unit, lists) = match args {
            [unit, lists @ ..] if unit.key.is_none() => (Some(unit), lists),
            _ => (None, args),
        };
        match unit {
            Some(unit) => match self.resolve_unit_number(unit) {
                Some(number) => op.operands.push(Value::Unit(number)),
                None => good = false,
            },
            None => {
                self.report_missing_word(spec, "HostUnit", stmt);
                good = false;
            }
        }
        good &= self.resolve_in_out_lists(stmt, lists, &mut op);
        good.then_some(op)
    }

    pub(super) fn resolve_unit_number(&mut self, arg: &ArgSyntax) -> Option<u32> {
        if let ast::ValueSyntax::Expr(expr) = arg.value
            && let ExprSyntax::Name(name) = self.ast.exprs[expr.index()].0
            && let Some(digits) = self.ast.symbol_text(name).strip_prefix("HostUnit")
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            let number = digits.parse().ok();
            if number.is_none() {
                let error =
                    hostir_grammar::SyntaxError::large_number(digits, "HostUnit", hostir_grammar::MAX_NUMBER, arg.span);
                self.diags.push(crate::diag::syntax_error(error));
            }
            return number;
        }
        self.report_wrong_operand("a unit such as `HostUnit0`", arg);
        None
    }

    /// `Inputs: {..}` and `Outputs: {..}`: operands and results.
    pub(super) fn resolve_in_out_lists(&mut self, stmt: &StmtSyntax, args: &[ArgSyntax], op: &mut Op) -> bool {
        let ast = self.ast;
        let spec = op.kind.spec();
        let (mut inputs, mut outputs): (Option<&ArgSyntax>, Option<&ArgSyntax>) = (None, None);
        let mut good = true;
        for arg in args {
            let slot = match arg.key.map(|key| ast.symbol_text(key)) {
                Some("Inputs") => &mut inputs,
                Some("Outputs") => &mut outputs,
                Some(key) => {
                    good = false;
                    self.report_unknown_list(spec, key, arg);
                    continue;
                }
                None => {
                    good = false;
                    self.report_extra_operand(spec, arg);
                    continue;
                }
            };
            if let Some(first) = slot.replace(arg) {
                good = false;
                self.report_duplicate_list(spec, first, arg);
            }
        }
        for (word, list) in [("Inputs", inputs), ("Outputs", outputs)] {
            let Some(arg) = list else {
                if good {
                    self.report_missing_word(spec, word, stmt);
                }
                return false;
            };
            let ast::ValueSyntax::List(list) = arg.value else {
                self.report_wrong_kind(word, "a list such as `{T0}`", arg);
                return false;
            };
            good &= self.resolve_list_into(list, word == "Outputs", op);
        }
        good
    }

    fn resolve_list_into(&mut self, list: ArgRange, results: bool, op: &mut Op) -> bool {
        let values = self.resolve_values(list);
        let good = values.len() == list.len();
        if results {
            op.results.extend(values);
        } else {
            op.operands.extend(values);
        }
        good
    }

    /// `ShareMemHandles(P2PCommunication 37 (...), `.
    pub(super) fn resolve_share_mem_handles(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        for arg in ast.args_in(stmt.args) {
            match arg.value {
                ast::ValueSyntax::Stmt(inner) => match self.resolve_shared_op(inner, arg) {
                    Some(value) => op.operands.push(value),
                    None => good = false,
                },
                ast::ValueSyntax::Error => good = false,
                _ => {
                    self.report_wrong_operand("a communication such as `P2PCommunication 37 (...)`", arg);
                    good = false;
                }
            }
        }
        good.then_some(op)
    }

    fn resolve_shared_op(&mut self, inner: ast::StmtId, arg: &ArgSyntax) -> Option<Value> {
        let id = self.resolve_stmt(inner)?;
        if self.program.ops[id].kind.is_message() {
            return Some(Value::Op(id));
        }
        self.report_wrong_operand("a communication such as `P2PCommunication 37 (...)`", arg);
        None
    }

    /// `GetCurrentStream into Stream 0` or `Stream 0x1 = GetCurrentStream()`.
    pub(super) fn resolve_get_current_stream(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        if !self.resolve_number(spec, stmt, &mut op) {
            return None;
        }
        let (results, args) = (ast.args_in(stmt.results), ast.args_in(stmt.args));
        let arg = match (results, args) {
            ([arg], []) | ([], [arg]) => arg,
            (_, [_, extra, ..]) | ([_, ..], [extra, ..]) => {
                self.report_extra_operand(spec, extra);
                return None;
            }
            _ => {
                self.report_missing_word(spec, "Stream", stmt);
                return None;
            }
        };
        match self.resolve_value(arg)? {
            value @ Value::Stream(_) => op.results.push(value),
            _ => {
                self.report_wrong_kind("result", "a stream such as `Stream 0`", arg);
                return None;
            }
        }
        Some(op)
    }
}
