//! Scalar expressions.

use super::{Head, Resolver};
use crate::ir::functions;
use crate::ir::{BinaryOp, DType, Expr, ExprId, StreamSpelling, UnaryOp};
use hostir_grammar::Span;
use hostir_grammar::ast::{self, ArgRange, Value};
use smallvec::SmallVec;

impl Resolver<'_> {
    /// The expression; `None` after an error.
    pub(super) fn expr(&mut self, id: ast::ExprId) -> Option<ExprId> {
        let (node, span) = self.ast.exprs[id.index()];
        let expr = match node {
            ast::Expr::Int(value) => Expr::Int(value),
            ast::Expr::Hex(value) => Expr::Hex(value),
            ast::Expr::Bool(value, _) => Expr::Bool(value),
            ast::Expr::Float(text) => Expr::Float(self.name(text)),
            ast::Expr::Name(symbol) => return Some(self.name_expr(symbol)),
            ast::Expr::Typed(dtype, text) => {
                let word = self.ast.str(dtype);
                let Some(dtype) = DType::parse(word) else {
                    self.unsupported_type(word, span);
                    return None;
                };
                Expr::Typed(dtype, self.name(text))
            }
            ast::Expr::Tensor(_) => {
                self.tensor_in_scalar(span);
                return None;
            }
            ast::Expr::Unary(op, operand) => {
                let Some(op) = UnaryOp::parse(self.ast.str(op)) else {
                    self.prefix_operator(self.ast.str(op), operand, span);
                    return None;
                };
                Expr::Unary(op, self.expr(operand)?)
            }
            ast::Expr::Binary(op, a, b) => {
                if self.is_power(op, a, b) {
                    return None;
                }
                let op = self.binary_op(op)?;
                let (a, b) = (self.expr(a), self.expr(b));
                Expr::Binary(op, a?, b?)
            }
            ast::Expr::Group(inner) if self.is_composite(inner) => return self.expr(inner),
            ast::Expr::Group(inner) => Expr::Set(self.expr(inner)?),
            ast::Expr::Index(base, index) => {
                let (base, index) = (self.base(base), self.expr(index));
                Expr::Index(base?, index?)
            }
            ast::Expr::Field(base, field) => Expr::Field(self.base(base)?, self.name(field)),
            ast::Expr::Braces(list) => Expr::Braces(self.operands(list)?),
            ast::Expr::Call(name, list) => return self.call(name, list, span),
            ast::Expr::Error => return None,
        };
        Some(self.program.exprs.intern(expr))
    }

    /// Whether parentheses around an expression are its own.
    fn is_composite(&self, id: ast::ExprId) -> bool {
        match self.ast.exprs[id.index()].0 {
            ast::Expr::Unary(..)
            | ast::Expr::Binary(..)
            | ast::Expr::Call(..)
            | ast::Expr::Index(..)
            | ast::Expr::Field(..)
            | ast::Expr::Braces(..) => true,
            ast::Expr::Int(_)
            | ast::Expr::Hex(_)
            | ast::Expr::Bool(..)
            | ast::Expr::Typed(..)
            | ast::Expr::Float(_)
            | ast::Expr::Name(_)
            | ast::Expr::Tensor(_)
            | ast::Expr::Group(_)
            | ast::Expr::Error => false,
        }
    }

    /// What stands before `[..]` or `.field`: parentheses around it belong to the form.
    fn base(&mut self, id: ast::ExprId) -> Option<ExprId> {
        match self.ast.exprs[id.index()].0 {
            ast::Expr::Group(inner) => self.expr(inner),
            _ => self.expr(id),
        }
    }

    pub(super) fn name_expr(&mut self, symbol: ast::Symbol) -> ExprId {
        if let Some(expr) = self.words[symbol.index()].expr {
            return expr;
        }
        let mut name = self.name(symbol);
        if self.style.stream == StreamSpelling::LowerStreamIdx
            && self.ast.str(symbol) == "streamIdx"
        {
            name = self.program.names.intern("StreamIdx");
        }
        let expr = self.program.exprs.name(name);
        self.words[symbol.index()].expr = Some(expr);
        expr
    }

    fn binary_op(&mut self, symbol: ast::Symbol) -> Option<BinaryOp> {
        let word = &mut self.words[symbol.index()];
        if word.binary.is_none() {
            word.binary = BinaryOp::parse(self.ast.str(symbol));
        }
        word.binary
    }

    /// The scalars of a list without keys.
    fn operands(&mut self, list: ArgRange) -> Option<SmallVec<[ExprId; 3]>> {
        let ast = self.ast;
        let mut found = SmallVec::new();
        let mut good = true;
        for arg in ast.args(list) {
            match self.scalar_arg(arg) {
                Some(expr) if arg.key.is_none() => found.push(expr),
                Some(_) => {
                    self.no_struct(arg);
                    good = false;
                }
                None => good = false,
            }
        }
        good.then_some(found)
    }

    pub(super) fn call(&mut self, name: ast::Symbol, list: ArgRange, span: Span) -> Option<ExprId> {
        let ast = self.ast;
        let text = ast.str(name);
        if text == "getMetaData" {
            return self.meta_data(list, span);
        }
        if text == "Ragged" {
            self.unsupported_type("Ragged", span);
            return None;
        }
        let args = self.operands(list)?;
        if self.head(name) != Head::Function {
            self.unknown_function(text, span);
            return None;
        }
        let text = functions::canonical(text, &self.style);
        let arity = functions::find(text, args.len()).map_or(args.len(), |function| function.arity);
        if text != "ReverseArray" && arity != args.len() {
            self.wrong_arity(text, arity, args.len(), span);
            return None;
        }
        let name = self.program.names.intern(text);
        Some(self.program.exprs.intern(Expr::Call(name, args)))
    }

    fn meta_data(&mut self, list: ArgRange, span: Span) -> Option<ExprId> {
        let ast = self.ast;
        let [arg] = ast.args(list) else {
            self.wrong_arity("getMetaData", 1, list.len(), span);
            return None;
        };
        let tensor = self.tensor_arg(arg)?;
        Some(self.program.exprs.intern(Expr::MetaData(tensor)))
    }

    /// An argument as a scalar.
    pub(super) fn scalar_arg(&mut self, arg: &ast::Arg) -> Option<ExprId> {
        match arg.value {
            Value::Expr(expr) => self.expr(expr),
            Value::List(list) => {
                let list = self.operands(list)?;
                Some(self.program.exprs.intern(Expr::Braces(list)))
            }
            Value::Error => None,
            Value::Domain(_)
            | Value::Stream(_)
            | Value::Handle(..)
            | Value::Team(..)
            | Value::Stmt(_) => {
                self.wrong_kind("operand", "a scalar", arg);
                None
            }
        }
    }
}
