//! Values of arguments: operands and attributes, by the kind that the op declares.

use super::Resolver;
use crate::ir::TEAM_CUT;
use crate::ir::functions;
use crate::ir::{AttrKey, AttrValue, DType, ExprId, TensorId, Value};
use crate::ops::{ArgKind, ArgSpec};
use hostir_grammar::ast::{self, ArgRange, ArgSyntax, ExprSyntax};

impl Resolver<'_> {
    /// A tensor, scalar or stream outside of an op's arguments: results, lists, inputs.
    pub(super) fn resolve_value(&mut self, arg: &ArgSyntax) -> Option<Value> {
        match arg.value {
            ast::ValueSyntax::Expr(expr) => self.resolve_tensor_or_scalar(expr),
            ast::ValueSyntax::Stream(expr) => self.resolve_expr(expr).map(Value::Stream),
            ast::ValueSyntax::Error => None,
            ast::ValueSyntax::Domain(_)
            | ast::ValueSyntax::Handle(..)
            | ast::ValueSyntax::List(_)
            | ast::ValueSyntax::Team(..)
            | ast::ValueSyntax::Text(_)
            | ast::ValueSyntax::Stmt(_) => {
                self.report_wrong_kind("value", ArgKind::Operand, arg);
                None
            }
        }
    }

    pub(super) fn resolve_tensor_or_scalar(&mut self, expr: ast::ExprId) -> Option<Value> {
        match self.ast.exprs[expr.index()] {
            (ExprSyntax::Tensor(tensor), span) => self.resolve_tensor(tensor, span).map(Value::Tensor),
            _ => self.resolve_expr(expr).map(Value::Scalar),
        }
    }

    /// A tensor outside of an op's arguments.
    pub(super) fn resolve_tensor_arg(&mut self, arg: &ArgSyntax) -> Option<TensorId> {
        if let ast::ValueSyntax::Expr(expr) = arg.value
            && let (ExprSyntax::Tensor(tensor), span) = self.ast.exprs[expr.index()]
        {
            return self.resolve_tensor(tensor, span);
        }
        if arg.value != ast::ValueSyntax::Error {
            self.report_wrong_operand(ArgKind::Tensor, arg);
        }
        None
    }

    /// An operand or a keyed result.
    pub(super) fn resolve_operand(&mut self, declared: &ArgSpec, arg: &ArgSyntax) -> Option<Value> {
        match (declared.kind, arg.value) {
            (ArgKind::Tensor, ast::ValueSyntax::Expr(expr)) => {
                if let (ExprSyntax::Tensor(tensor), span) = self.ast.exprs[expr.index()] {
                    return self.resolve_tensor(tensor, span).map(Value::Tensor);
                }
            }
            (ArgKind::Operand, ast::ValueSyntax::Expr(expr)) => {
                return self.resolve_tensor_or_scalar(expr);
            }
            (ArgKind::Expr, ast::ValueSyntax::Expr(expr)) => {
                return self.resolve_expr(expr).map(Value::Scalar);
            }
            (ArgKind::Stream, ast::ValueSyntax::Stream(expr)) => {
                return self.resolve_expr(expr).map(Value::Stream);
            }
            (ArgKind::Handle, ast::ValueSyntax::Handle(word, number)) => {
                if self.ast.symbol_text(word) == "Communication" {
                    return Some(Value::Handle(number));
                }
                self.report_unknown_word("handle", self.ast.symbol_text(word), &["Communication"], arg);
                return None;
            }
            (_, ast::ValueSyntax::Error) => return None,
            _ => {}
        }
        self.report_wrong_value(declared.own_name(), declared.kind.into(), arg);
        None
    }

    /// An attribute; `of` is the first operand.
    pub(super) fn resolve_attr(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        arg: &ArgSyntax,
        of: Option<TensorId>,
    ) -> Option<AttrValue> {
        use ast::ValueSyntax as V;
        let ast = self.ast;
        let node = match arg.value {
            V::Expr(expr) => Some((expr, ast.exprs[expr.index()].0)),
            V::Error => return None,
            V::Domain(_) | V::Stream(_) | V::Handle(..) | V::List(_) | V::Team(..) | V::Text(_) | V::Stmt(_) => None,
        };
        match (declared.kind, arg.value, node) {
            (ArgKind::Tensor, _, Some((_, ExprSyntax::Tensor(tensor)))) => {
                return self.resolve_tensor(tensor, arg.span).map(AttrValue::Tensor);
            }
            (ArgKind::Expr | ArgKind::Array, _, Some((expr, _))) => {
                return self.resolve_expr(expr).map(AttrValue::Expr);
            }
            (ArgKind::Int, _, Some((expr, ExprSyntax::Int(_)))) => {
                return self.resolve_expr(expr).map(AttrValue::Expr);
            }
            (ArgKind::Word(words), _, Some((_, ExprSyntax::Name(word)))) => {
                return self.resolve_word(declared, key, words, word, arg);
            }
            (ArgKind::Text, V::Text(text), _) => return Some(AttrValue::Word(self.resolve_symbol(text))),
            (ArgKind::Name, _, Some((_, ExprSyntax::Name(word)))) => {
                return Some(AttrValue::Word(self.resolve_symbol(word)));
            }
            (ArgKind::DType, _, Some((_, ExprSyntax::Name(word)))) => {
                return self.resolve_dtype_word(word, arg);
            }
            (ArgKind::Bool | ArgKind::CapitalBool, _, Some((_, ExprSyntax::Bool(value, _)))) => {
                return Some(AttrValue::Bool(value));
            }
            (ArgKind::Axis, V::Domain(domain), _) => {
                return Some(AttrValue::Domain(self.resolve_domain(domain, of)));
            }
            (ArgKind::Axis, _, Some((_, ExprSyntax::Int(at)))) => {
                return self.resolve_axis(at, of, arg);
            }
            (ArgKind::Exprs | ArgKind::Array, V::List(_), _) => {
                return self.resolve_expr_list(arg).map(AttrValue::Exprs);
            }
            (ArgKind::Bools, V::List(list), _) => {
                return self.resolve_bools(list).map(AttrValue::Bools);
            }
            (ArgKind::Ints, V::List(list), _) => {
                return self.resolve_ints(list).map(AttrValue::Ints);
            }
            (ArgKind::Ranges, V::List(list), _) => {
                return self.resolve_ranges(list).map(AttrValue::Ranges);
            }
            (ArgKind::Team, V::Team(list, cut), _) => {
                let mut team = self.resolve_ints(list)?.into_vec();
                if team.iter().all(|device| *device >= 0) {
                    team.extend(cut.then_some(TEAM_CUT));
                    return Some(AttrValue::Ints(team.into()));
                }
            }
            (ArgKind::Team, V::List(_), _) => {
                return self.resolve_expr_list(arg).map(|members| self.program.team_attr(&members));
            }
            (ArgKind::Team, _, Some((_, ExprSyntax::Group(inner)))) => {
                if let ExprSyntax::Int(device @ 0..) = ast.exprs[inner.index()].0 {
                    return Some(AttrValue::Ints(Box::new([device])));
                }
            }
            _ => {}
        }
        self.report_wrong_value(declared.own_name(), declared.kind.into(), arg);
        None
    }

    fn resolve_word(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        words: &[&str],
        word: ast::Symbol,
        arg: &ArgSyntax,
    ) -> Option<AttrValue> {
        let mut text = self.ast.symbol_text(word);
        if key == AttrKey::ReduceOp {
            text = functions::canonical_name(text, &self.program.style);
        }
        if !words.contains(&text) {
            self.report_unknown_word(declared.display_name(), text, words, arg);
            return None;
        }
        let same = text == self.ast.symbol_text(word);
        let name = if same { self.resolve_symbol(word) } else { self.program.names.intern(text) };
        Some(AttrValue::Word(name))
    }

    fn resolve_dtype_word(&mut self, word: ast::Symbol, arg: &ArgSyntax) -> Option<AttrValue> {
        let text = self.ast.symbol_text(word);
        if DType::parse(text).is_none() {
            let words: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
            self.report_unknown_word("element type", text, &words, arg);
            return None;
        }
        Some(AttrValue::Word(self.resolve_symbol(word)))
    }

    /// An axis by its position: reductions do not count.
    fn resolve_axis(&mut self, at: i64, of: Option<TensorId>, arg: &ArgSyntax) -> Option<AttrValue> {
        let tensor = of?;
        let domains = self.program.domains(tensor);
        let axes = self.program.logical_axes(tensor);
        let mut axes = axes.iter().filter(|axis| !domains[**axis as usize].is_reduction());
        let found = usize::try_from(at).ok().and_then(|at| axes.nth(at));
        let Some(axis) = found else {
            self.report_no_such_axis(at, tensor, arg);
            return None;
        };
        let start = self.program.tensors[tensor].domains_start;
        Some(AttrValue::Domain(crate::ir::DomainId(start + axis)))
    }

    /// The scalars of a list.
    pub(super) fn resolve_expr_list(&mut self, arg: &ArgSyntax) -> Option<Box<[ExprId]>> {
        let ast::ValueSyntax::List(list) = arg.value else {
            self.report_wrong_operand(ArgKind::Exprs, arg);
            return None;
        };
        let ast = self.ast;
        let found: Vec<ExprId> = ast.args_in(list).iter().filter_map(|arg| self.resolve_scalar_arg(arg)).collect();
        (found.len() == list.len()).then(|| found.into())
    }

    fn resolve_bools(&mut self, list: ArgRange) -> Option<Box<[bool]>> {
        self.resolve_literals(list, ArgKind::Bool, |expr| match expr {
            ExprSyntax::Bool(value, _) => Some(value),
            _ => None,
        })
    }

    fn resolve_ints(&mut self, list: ArgRange) -> Option<Box<[i64]>> {
        self.resolve_literals(list, ArgKind::Int, |expr| match expr {
            ExprSyntax::Int(value) => Some(value),
            _ => None,
        })
    }

    /// The elements of a list of literals.
    fn resolve_literals<T>(
        &mut self,
        list: ArgRange,
        needed: ArgKind,
        read: impl Fn(ExprSyntax) -> Option<T>,
    ) -> Option<Box<[T]>> {
        let ast = self.ast;
        let mut found = Vec::with_capacity(list.len());
        for arg in ast.args_in(list) {
            let value = match arg.value {
                ast::ValueSyntax::Expr(expr) => read(ast.exprs[expr.index()].0),
                _ => None,
            };
            match value {
                Some(value) => found.push(value),
                None => self.report_wrong_kind("list element", needed, arg),
            }
        }
        (found.len() == list.len()).then(|| found.into())
    }

    fn resolve_ranges(&mut self, list: ArgRange) -> Option<Box<[[ExprId; 3]]>> {
        let ast = self.ast;
        let mut found = Vec::with_capacity(list.len());
        for arg in ast.args_in(list) {
            match arg.value {
                ast::ValueSyntax::List(range) if range.len() == 3 => {
                    let parts = self.resolve_expr_list(arg)?;
                    found.push([parts[0], parts[1], parts[2]]);
                }
                _ => self.report_wrong_kind("range", "a start, a stop and a step such as `{0, i0, 1}`", arg),
            }
        }
        (found.len() == list.len()).then(|| found.into())
    }
}
