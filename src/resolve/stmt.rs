//! Statements: which op each is.

use super::{Head, Resolver};
use crate::ir::{AttrKey, AttrValue, Op, OpId, UnaryOp, Value};
use crate::ir::{OpKind, functions};
use crate::ops;
use hostir_grammar::ast::{self, Arg, Shape, Stmt, StmtId};
use smallvec::SmallVec;

impl Resolver<'_> {
    /// The op of a statement; `None` after an error.
    pub(super) fn stmt(&mut self, id: StmtId) -> Option<OpId> {
        let ast = self.ast;
        let stmt = &ast.stmts[id.index()];
        self.nested_reported = false;
        let op = match stmt.shape {
            Shape::Error => self.broken(stmt),
            Shape::Assign => self.assign(stmt),
            Shape::ForIn => self.for_in(stmt),
            Shape::ForRange => self.for_range(stmt),
            Shape::If => self.branch(stmt),
            Shape::Call | Shape::Words | Shape::Braces => match self.head(stmt.name) {
                Head::Op(kind) => self.op(kind, stmt),
                Head::Function => self.function(stmt),
                Head::Unknown | Head::Unseen => self.unknown_statement(stmt),
            },
        }?;
        let op = self.with_permutation(op);
        let op = self.push_op(op, stmt.span);
        if !ast.comments.is_empty() {
            self.ops.insert(id, op);
        }
        Some(op)
    }

    /// The blocks of a statement that could not be read are resolved for their errors.
    fn broken(&mut self, stmt: &Stmt) -> Option<Op> {
        for block in [stmt.body, stmt.else_body].into_iter().flatten() {
            self.block(block);
        }
        None
    }

    /// What a head word means.
    pub(super) fn head(&mut self, symbol: ast::Symbol) -> Head {
        let known = self.words[symbol.index()].head;
        if known != Head::Unseen {
            return known;
        }
        let text = self.ast.str(symbol);
        let canonical = functions::canonical(text, &self.style);
        let head = match ops::find(text) {
            Some(kind) => Head::Op(kind),
            None if matches!(text, "getMetaData" | "ReverseArray") => Head::Function,
            None if functions::find(canonical, 1).is_some_and(|f| !f.operator) => Head::Function,
            None => Head::Unknown,
        };
        self.words[symbol.index()].head = head;
        head
    }

    fn op(&mut self, kind: OpKind, stmt: &Stmt) -> Option<Op> {
        match kind {
            OpKind::Allocate => self.allocate(stmt),
            OpKind::PostOnStream => self.post_on_stream(stmt),
            OpKind::LaunchKernel => self.launch_kernel(stmt),
            OpKind::ShareMemHandles => self.share_mem_handles(stmt),
            OpKind::GetCurrentStream => self.get_current_stream(stmt),
            OpKind::P2PCommunication => self.point_to_point(stmt),
            _ => self.table_op(kind, stmt),
        }
    }

    /// `result = a + b;`, `result = -a;` or `i0 = ...;`.
    fn assign(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let (result, is_tensor) = self.one_result(stmt, "=")?;
        let [arg, extra @ ..] = ast.args(stmt.args) else { return None };
        if let [extra, ..] = extra {
            self.unknown_argument(OpKind::Pointwise.spec(), "alias", extra);
            return None;
        }
        let ast::Value::Expr(expr) = arg.value else { return None };
        if !is_tensor {
            let value = self.expr(expr)?;
            return Some(define(result, Value::Scalar(value)));
        }
        let inner = match ast.exprs[expr.index()].0 {
            ast::Expr::Group(inner) => inner,
            _ => expr,
        };
        match ast.exprs[inner.index()].0 {
            ast::Expr::Unary(symbol, a) if UnaryOp::parse(ast.str(symbol)).is_none() => {
                self.prefix_operator(ast.str(symbol), a, ast.exprs[inner.index()].1);
                None
            }
            ast::Expr::Unary(symbol, a) => self.infix(result, symbol, &[a]),
            ast::Expr::Binary(symbol, a, b) => self.infix(result, symbol, &[a, b]),
            _ => {
                self.no_operation(arg);
                None
            }
        }
    }

    fn infix(
        &mut self,
        result: Value,
        symbol: ast::Symbol,
        operands: &[ast::ExprId],
    ) -> Option<Op> {
        if let [a, b] = *operands
            && self.is_power(symbol, a, b)
        {
            return None;
        }
        let values: SmallVec<[Option<Value>; 2]> =
            operands.iter().map(|operand| self.tensor_or_scalar(*operand)).collect();
        let operands = values.into_iter().collect::<Option<SmallVec<[Value; 2]>>>()?;
        Some(pointwise_op(result, self.name(symbol), operands))
    }

    /// `result = exp(a);`: pointwise for tensors, a definition for scalars.
    fn function(&mut self, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        if stmt.number.is_some() {
            self.wrong_number(ast.str(stmt.name), false, stmt);
            return None;
        }
        let (result, is_tensor) = self.one_result(stmt, ast.str(stmt.name))?;
        if !is_tensor {
            let value = self.call(stmt.name, stmt.args, stmt.name_span)?;
            return Some(define(result, Value::Scalar(value)));
        }
        let name = functions::canonical(ast.str(stmt.name), &self.style);
        let args = ast.args(stmt.args);
        let arity = functions::find(name, args.len()).map_or(0, |function| function.arity);
        if arity != args.len() {
            self.wrong_arity(name, arity, args.len(), stmt.name_span);
            return None;
        }
        let values: SmallVec<[Option<Value>; 2]> =
            args.iter().map(|arg| self.function_operand(arg)).collect();
        let operands = values.into_iter().collect::<Option<SmallVec<[Value; 2]>>>()?;
        let name = self.program.names.intern(name);
        Some(pointwise_op(result, name, operands))
    }

    fn function_operand(&mut self, arg: &Arg) -> Option<Value> {
        match arg.value {
            ast::Value::Expr(expr) if arg.key.is_none() => self.tensor_or_scalar(expr),
            ast::Value::Error => None,
            _ => {
                self.wrong_kind("operand", "a tensor or a scalar", arg);
                None
            }
        }
    }

    /// The only result of a statement, and whether it is a tensor.
    fn one_result(&mut self, stmt: &Stmt, name: &str) -> Option<(Value, bool)> {
        let ast = self.ast;
        let [arg] = ast.args(stmt.results) else {
            self.wrong_results(name, 1, stmt);
            return None;
        };
        match self.value(arg)? {
            value @ Value::Tensor(_) => Some((value, true)),
            value @ Value::Scalar(_) => Some((value, false)),
            _ => {
                self.wrong_kind("result", "a tensor or a scalar", arg);
                None
            }
        }
    }
}

fn define(result: Value, value: Value) -> Op {
    let mut op = Op::new(OpKind::Define);
    op.results.push(result);
    op.operands.push(value);
    op
}

fn pointwise_op(result: Value, function: crate::ir::Symbol, operands: SmallVec<[Value; 2]>) -> Op {
    let mut op = Op::new(OpKind::Pointwise);
    op.results.push(result);
    op.operands = operands;
    op.attrs = vec![(AttrKey::Function, AttrValue::Word(function))];
    op
}
