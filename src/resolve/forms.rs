//! Statements with a form of their own: loops, branches, ALLOCATE, launches, streams.

use super::Resolver;
use crate::ir::OpKind;
use crate::ir::{AttrKey, AttrValue, Op, Value};
use crate::ops::control::PREDICATES;
use hostir_grammar::ast::{self, Arg, ArgRange, Expr, Stmt};

impl Resolver<'_> {
    /// `FOR index in domain:` with or without bounds.
    pub(super) fn for_in(&mut self, stmt: &Stmt) -> Option<Op> {
        let op = self.table_op(OpKind::For, stmt);
        self.body(op, stmt)
    }

    /// `FOR index from start to stop:`.
    pub(super) fn for_range(&mut self, stmt: &Stmt) -> Option<Op> {
        let op = self.table_op(OpKind::ForRange, stmt);
        self.body(op, stmt)
    }

    /// Resolves the blocks even if the header had an error.
    fn body(&mut self, op: Option<Op>, stmt: &Stmt) -> Option<Op> {
        let body = stmt.body.map(|body| self.block(body));
        let other = stmt.else_body.map(|body| self.block(body));
        let mut op = op?;
        let block = body.unwrap_or_else(|| self.program.blocks.push(crate::ir::Block::default()));
        op.blocks.push(block);
        op.blocks.extend(other);
        Some(op)
    }

    /// `IF Manual condition:`.
    pub(super) fn branch(&mut self, stmt: &Stmt) -> Option<Op> {
        let op = self.condition(stmt);
        self.body(op, stmt)
    }

    fn condition(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let word = ast.str(stmt.name);
        let mut op = Op::new(OpKind::If);
        let [arg] = ast.args(stmt.args) else {
            self.no_condition(stmt);
            return None;
        };
        if !PREDICATES.contains(&word) {
            self.unknown_predicate(word, PREDICATES, stmt);
            return None;
        }
        op.attrs.push((AttrKey::Predicate, AttrValue::Word(self.name(stmt.name))));
        op.operands.push(Value::Scalar(self.scalar_arg(arg)?));
        Some(op)
    }

    /// Both forms of ALLOCATE; the buffer must be the result.
    pub(super) fn allocate(&mut self, stmt: &Stmt) -> Option<Op> {
        let mut op = self.table_op(OpKind::Allocate, stmt)?;
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
            self.other_buffer(stmt, tensor, result);
            return None;
        }
        if op.expr(AttrKey::Size).is_none() {
            self.missing_word(OpKind::Allocate.spec(), "size", stmt);
            return None;
        }
        Some(op)
    }

    /// The buffer of a receive is a result.
    pub(super) fn point_to_point(&mut self, stmt: &Stmt) -> Option<Op> {
        let mut op = self.table_op(OpKind::P2PCommunication, stmt)?;
        let receives =
            op.word(AttrKey::Type).is_some_and(|word| self.program.names.get(word) == "recv");
        if receives {
            op.results.extend(op.operands.drain(..));
        }
        Some(op)
    }

    /// `PostOnStream (HostUnit0, Inputs:{a, }, Outputs:{b, })`.
    pub(super) fn post_on_stream(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let spec = OpKind::PostOnStream.spec();
        let mut op = Op::new(OpKind::PostOnStream);
        let mut good = self.number(spec, stmt, &mut op) & self.results(spec, stmt, &mut op);
        let args = ast.args(stmt.args);
        let (unit, lists) = match args {
            [unit, lists @ ..] if unit.key.is_none() => (Some(unit), lists),
            _ => (None, args),
        };
        match unit {
            Some(unit) => match self.unit_number(unit) {
                Some(number) => op.operands.push(Value::Unit(number)),
                None => good = false,
            },
            None => {
                self.missing_word(spec, "HostUnit", stmt);
                good = false;
            }
        }
        good &= self.in_out_lists(stmt, lists, &mut op);
        good.then_some(op)
    }

    fn unit_number(&mut self, arg: &Arg) -> Option<u32> {
        if let ast::Value::Expr(expr) = arg.value
            && let Expr::Name(name) = self.ast.exprs[expr.index()].0
            && let Some(number) = self.ast.str(name).strip_prefix("HostUnit")
            && let Ok(number) = number.parse()
        {
            return Some(number);
        }
        self.wrong_kind("operand", "a unit such as `HostUnit0`", arg);
        None
    }

    /// `Inputs: {..}` and `Outputs: {..}`: operands and results.
    fn in_out_lists(&mut self, stmt: &Stmt, args: &[Arg], op: &mut Op) -> bool {
        let ast = self.ast;
        let spec = op.kind.spec();
        let (mut inputs, mut outputs): (Option<&Arg>, Option<&Arg>) = (None, None);
        let mut good = true;
        for arg in args {
            let slot = match arg.key.map(|key| ast.str(key)) {
                Some("Inputs") => &mut inputs,
                Some("Outputs") => &mut outputs,
                Some(key) => {
                    good = false;
                    self.unknown_list(spec, key, arg);
                    continue;
                }
                None => {
                    good = false;
                    self.extra_operand(spec, arg);
                    continue;
                }
            };
            if let Some(first) = slot.replace(arg) {
                good = false;
                self.duplicate_list(spec, first, arg);
            }
        }
        for (word, list) in [("Inputs", inputs), ("Outputs", outputs)] {
            let Some(arg) = list else {
                if good {
                    self.missing_word(spec, word, stmt);
                }
                return false;
            };
            let ast::Value::List(list) = arg.value else {
                self.wrong_kind(word, "a list such as `{T0}`", arg);
                return false;
            };
            good &= self.list_into(list, word == "Outputs", op);
        }
        good
    }

    fn list_into(&mut self, list: ArgRange, results: bool, op: &mut Op) -> bool {
        let values = self.values(list);
        let good = values.len() == list.len();
        if results {
            op.results.extend(values);
        } else {
            op.operands.extend(values);
        }
        good
    }

    /// `LaunchKernel(Group ID: 0, Inputs: {a}, Outputs: {b}, )`.
    pub(super) fn launch_kernel(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let spec = OpKind::LaunchKernel.spec();
        let mut op = Op::new(OpKind::LaunchKernel);
        let mut good = self.number(spec, stmt, &mut op) & self.results(spec, stmt, &mut op);
        let args = ast.args(stmt.args);
        let is_group = |arg: &Arg| arg.key.is_some_and(|key| ast.str(key) == "Group ID");
        let lists: Vec<Arg> = args.iter().filter(|arg| !is_group(arg)).copied().collect();
        let declared = &spec.args[0];
        match args.iter().find(|arg| is_group(arg)) {
            Some(arg) => match self.attr(declared, AttrKey::GroupId, arg, None) {
                Some(value) => op.attrs.push((AttrKey::GroupId, value)),
                None => good = false,
            },
            None => {
                self.missing_word(spec, "Group ID", stmt);
                good = false;
            }
        }
        if lists.len() + 1 < args.len() {
            self.duplicate_list(spec, &args[0], &args[args.len() - 1]);
            good = false;
        }
        good &= self.in_out_lists(stmt, &lists, &mut op);
        good.then_some(op)
    }

    /// `ShareMemHandles(P2PCommunication 37 (...), `.
    pub(super) fn share_mem_handles(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let spec = OpKind::ShareMemHandles.spec();
        let mut op = Op::new(OpKind::ShareMemHandles);
        let mut good = self.number(spec, stmt, &mut op) & self.results(spec, stmt, &mut op);
        for arg in ast.args(stmt.args) {
            match arg.value {
                ast::Value::Stmt(inner) => match self.shared_op(inner, arg) {
                    Some(value) => op.operands.push(value),
                    None => good = false,
                },
                ast::Value::Error => good = false,
                _ => {
                    self.wrong_kind(
                        "operand",
                        "a communication such as `P2PCommunication 37 (...)`",
                        arg,
                    );
                    good = false;
                }
            }
        }
        good.then_some(op)
    }

    fn shared_op(&mut self, inner: ast::StmtId, arg: &Arg) -> Option<Value> {
        let id = self.stmt(inner)?;
        if self.program.ops[id].kind == OpKind::P2PCommunication {
            return Some(Value::Op(id));
        }
        self.wrong_kind("operand", "a communication such as `P2PCommunication 37 (...)`", arg);
        None
    }

    /// `GetCurrentStream into Stream 0` or `Stream 0x1 = GetCurrentStream()`.
    pub(super) fn get_current_stream(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let spec = OpKind::GetCurrentStream.spec();
        let mut op = Op::new(OpKind::GetCurrentStream);
        if !self.number(spec, stmt, &mut op) {
            return None;
        }
        let (results, args) = (ast.args(stmt.results), ast.args(stmt.args));
        let arg = match (results, args) {
            ([arg], []) | ([], [arg]) => arg,
            (_, [_, extra, ..]) | ([_, ..], [extra, ..]) => {
                self.extra_operand(spec, extra);
                return None;
            }
            _ => {
                self.missing_word(spec, "Stream", stmt);
                return None;
            }
        };
        match self.value(arg)? {
            value @ Value::Stream(_) => op.results.push(value),
            _ => {
                self.wrong_kind("result", "a stream such as `Stream 0`", arg);
                return None;
            }
        }
        Some(op)
    }
}
