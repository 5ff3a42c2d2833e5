//! Values of arguments: operands and attributes by the kind that an op declares.

use super::Resolver;
use crate::ir::TEAM_CUT;
use crate::ir::functions;
use crate::ir::{AttrKey, AttrValue, DType, ExprId, TensorId, Value};
use crate::ops::{ArgKind, ArgSpec};
use hostir_grammar::ast::{self, Arg, ArgRange, Expr};

impl Resolver<'_> {
    /// A tensor, scalar or stream outside of an op's arguments: results, lists, inputs.
    pub(super) fn value(&mut self, arg: &Arg) -> Option<Value> {
        match arg.value {
            ast::Value::Expr(expr) => self.tensor_or_scalar(expr),
            ast::Value::Stream(expr) => self.expr(expr).map(Value::Stream),
            ast::Value::Error => None,
            ast::Value::Domain(_)
            | ast::Value::Handle(..)
            | ast::Value::List(_)
            | ast::Value::Team(..)
            | ast::Value::Stmt(_) => {
                self.wrong_kind("value", "a tensor or a scalar", arg);
                None
            }
        }
    }

    pub(super) fn tensor_or_scalar(&mut self, expr: ast::ExprId) -> Option<Value> {
        match self.ast.exprs[expr.index()] {
            (Expr::Tensor(tensor), span) => self.tensor(tensor, span).map(Value::Tensor),
            _ => self.expr(expr).map(Value::Scalar),
        }
    }

    /// A tensor outside of an op's arguments.
    pub(super) fn tensor_arg(&mut self, arg: &Arg) -> Option<TensorId> {
        if let ast::Value::Expr(expr) = arg.value
            && let (Expr::Tensor(tensor), span) = self.ast.exprs[expr.index()]
        {
            return self.tensor(tensor, span);
        }
        if arg.value != ast::Value::Error {
            self.wrong_kind("operand", "a tensor", arg);
        }
        None
    }

    /// An operand or a keyed result.
    pub(super) fn operand(&mut self, declared: &ArgSpec, arg: &Arg) -> Option<Value> {
        match (declared.kind, arg.value) {
            (ArgKind::Tensor, ast::Value::Expr(expr)) => {
                if let (Expr::Tensor(tensor), span) = self.ast.exprs[expr.index()] {
                    return self.tensor(tensor, span).map(Value::Tensor);
                }
            }
            (ArgKind::Operand, ast::Value::Expr(expr)) => return self.tensor_or_scalar(expr),
            (ArgKind::Expr, ast::Value::Expr(expr)) => return self.expr(expr).map(Value::Scalar),
            (ArgKind::Stream, ast::Value::Stream(expr)) => {
                return self.expr(expr).map(Value::Stream);
            }
            (ArgKind::Handle, ast::Value::Handle(word, number)) => {
                if self.ast.str(word) == "Communication" {
                    return Some(Value::Handle(number));
                }
                self.unknown_word("handle", self.ast.str(word), &["Communication"], arg);
                return None;
            }
            (_, ast::Value::Error) => return None,
            _ => {}
        }
        self.wrong_kind(declared.title(), declared.kind.describe(), arg);
        None
    }

    /// An attribute; `of` is the first operand.
    pub(super) fn attr(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        arg: &Arg,
        of: Option<TensorId>,
    ) -> Option<AttrValue> {
        use ast::Value as V;
        let ast = self.ast;
        let node = match arg.value {
            V::Expr(expr) => Some((expr, ast.exprs[expr.index()].0)),
            V::Error => return None,
            V::Domain(_) | V::Stream(_) | V::Handle(..) | V::List(_) | V::Team(..) | V::Stmt(_) => {
                None
            }
        };
        match (declared.kind, arg.value, node) {
            (ArgKind::Tensor, _, Some((_, Expr::Tensor(tensor)))) => {
                return self.tensor(tensor, arg.span).map(AttrValue::Tensor);
            }
            (ArgKind::Expr, _, Some((expr, _))) => return self.expr(expr).map(AttrValue::Expr),
            (ArgKind::Int, _, Some((expr, Expr::Int(_)))) => {
                return self.expr(expr).map(AttrValue::Expr);
            }
            (ArgKind::Word(words), _, Some((_, Expr::Name(word)))) => {
                return self.word(declared, key, words, word, arg);
            }
            (ArgKind::DType, _, Some((_, Expr::Name(word)))) => return self.dtype_word(word, arg),
            (ArgKind::Bool, _, Some((_, Expr::Bool(value, _)))) => {
                return Some(AttrValue::Bool(value));
            }
            (ArgKind::Axis, V::Domain(domain), _) => {
                return Some(AttrValue::Domain(self.domain_of(domain, of)));
            }
            (ArgKind::Axis, _, Some((_, Expr::Int(at)))) => return self.axis(at, of, arg),
            (ArgKind::Exprs, V::List(_), _) => return self.exprs(arg).map(AttrValue::Exprs),
            (ArgKind::Bools, V::List(list), _) => return self.bools(list).map(AttrValue::Bools),
            (ArgKind::Ints, V::List(list), _) => return self.ints(list).map(AttrValue::Ints),
            (ArgKind::Ranges, V::List(list), _) => return self.ranges(list).map(AttrValue::Ranges),
            (ArgKind::Team, V::Team(list, cut), _) => {
                let mut team = self.ints(list)?.into_vec();
                if team.iter().all(|device| *device >= 0) {
                    team.extend(cut.then_some(TEAM_CUT));
                    return Some(AttrValue::Ints(team.into()));
                }
            }
            (ArgKind::Team, _, Some((_, Expr::Group(inner)))) => {
                if let Expr::Int(device @ 0..) = ast.exprs[inner.index()].0 {
                    return Some(AttrValue::Ints(Box::new([device])));
                }
            }
            _ => {}
        }
        self.wrong_kind(declared.title(), declared.kind.describe(), arg);
        None
    }

    fn word(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        words: &[&str],
        word: ast::Symbol,
        arg: &Arg,
    ) -> Option<AttrValue> {
        let mut text = self.ast.str(word);
        if key == AttrKey::ReduceOp {
            text = functions::canonical(text, &self.style);
        }
        if !words.contains(&text) {
            self.unknown_word(declared.title(), text, words, arg);
            return None;
        }
        let same = text == self.ast.str(word);
        let name = if same { self.name(word) } else { self.program.names.intern(text) };
        Some(AttrValue::Word(name))
    }

    fn dtype_word(&mut self, word: ast::Symbol, arg: &Arg) -> Option<AttrValue> {
        let text = self.ast.str(word);
        if DType::parse(text).is_none() {
            let words: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
            self.unknown_word("element type", text, &words, arg);
            return None;
        }
        Some(AttrValue::Word(self.name(word)))
    }

    /// An axis by its position: reductions do not count.
    fn axis(&mut self, at: i64, of: Option<TensorId>, arg: &Arg) -> Option<AttrValue> {
        let tensor = of?;
        let domains = self.program.domains(tensor);
        let axes = self.program.logical_axes(tensor);
        let mut axes = axes.iter().filter(|axis| !domains[**axis as usize].is_reduction());
        let found = usize::try_from(at).ok().and_then(|at| axes.nth(at));
        let Some(axis) = found else {
            self.no_such_axis(at, tensor, arg);
            return None;
        };
        let start = self.program.tensors[tensor].domains_start;
        Some(AttrValue::Domain(crate::ir::DomainId(start + axis)))
    }

    /// The scalars of a list.
    pub(super) fn exprs(&mut self, arg: &Arg) -> Option<Box<[ExprId]>> {
        let ast::Value::List(list) = arg.value else {
            self.wrong_kind("operand", ArgKind::Exprs.describe(), arg);
            return None;
        };
        let ast = self.ast;
        let found: Vec<ExprId> =
            ast.args(list).iter().filter_map(|arg| self.scalar_arg(arg)).collect();
        (found.len() == list.len()).then(|| found.into())
    }

    fn bools(&mut self, list: ArgRange) -> Option<Box<[bool]>> {
        self.each(list, "`true` or `false`", |expr| match expr {
            Expr::Bool(value, _) => Some(value),
            _ => None,
        })
    }

    fn ints(&mut self, list: ArgRange) -> Option<Box<[i64]>> {
        self.each(list, "an integer", |expr| match expr {
            Expr::Int(value) => Some(value),
            _ => None,
        })
    }

    /// The elements of a list of literals.
    fn each<T>(
        &mut self,
        list: ArgRange,
        needed: &'static str,
        read: impl Fn(Expr) -> Option<T>,
    ) -> Option<Box<[T]>> {
        let ast = self.ast;
        let mut found = Vec::with_capacity(list.len());
        for arg in ast.args(list) {
            let value = match arg.value {
                ast::Value::Expr(expr) => read(ast.exprs[expr.index()].0),
                _ => None,
            };
            match value {
                Some(value) => found.push(value),
                None => self.wrong_kind("list element", needed, arg),
            }
        }
        (found.len() == list.len()).then(|| found.into())
    }

    fn ranges(&mut self, list: ArgRange) -> Option<Box<[[ExprId; 3]]>> {
        let ast = self.ast;
        let mut found = Vec::with_capacity(list.len());
        for arg in ast.args(list) {
            match arg.value {
                ast::Value::List(range) if range.len() == 3 => {
                    let parts = self.exprs(arg)?;
                    found.push([parts[0], parts[1], parts[2]]);
                }
                _ => {
                    self.wrong_kind("range", "a start, a stop and a step such as `{0, i0, 1}`", arg)
                }
            }
        }
        (found.len() == list.len()).then(|| found.into())
    }
}
