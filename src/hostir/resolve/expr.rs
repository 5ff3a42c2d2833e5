//! Scalar expressions.

use super::Resolver;
use super::tables::HeadMeaning;
use crate::ir::scalar_names::is_generated;
use crate::ir::{self, functions};
use crate::ir::{BinaryOp, DType, Expr, ExprId, StreamSpelling, UnaryOp};
use crate::ops::ArgKind;
use hostir_grammar::ast::{self, ArgRange, ValueSyntax};
use hostir_grammar::{MeshGrid, Span, parse_mesh_grid};
use smallvec::SmallVec;

impl Resolver<'_> {
    /// The expression; `None` after an error.
    pub(super) fn resolve_expr(&mut self, id: ast::ExprId) -> Option<ExprId> {
        let (node, span) = self.ast.exprs[id.index()];
        let expr = match node {
            ast::ExprSyntax::Int(value) => Expr::Int(value),
            ast::ExprSyntax::Hex(value) => Expr::Hex(value),
            ast::ExprSyntax::Bool(value, _) => Expr::Bool(value),
            ast::ExprSyntax::Float(text) => Expr::Float(self.resolve_symbol(text)),
            ast::ExprSyntax::Name(symbol) => return Some(self.name_expr(symbol)),
            ast::ExprSyntax::Typed(dtype, text) => {
                let word = self.ast.symbol_text(dtype);
                let Some(dtype) = DType::parse(word) else {
                    self.report_unsupported_type(word, span);
                    return None;
                };
                Expr::Typed(dtype, self.resolve_symbol(text))
            }
            ast::ExprSyntax::Tensor(_) => {
                self.report_tensor_in_scalar(span);
                return None;
            }
            ast::ExprSyntax::Unary(op, operand) => {
                let Some(op) = UnaryOp::parse(self.ast.symbol_text(op)) else {
                    self.report_prefix_operator(self.ast.symbol_text(op), operand, span);
                    return None;
                };
                if matches!(op, UnaryOp::Dereference | UnaryOp::Address) && self.is_plain_number(operand) {
                    self.report_prefix_operator(op.symbol(), operand, span);
                    return None;
                }
                Expr::Unary(op, self.resolve_expr(operand)?)
            }
            ast::ExprSyntax::Binary(op, a, b) => {
                if self.is_power(op, a, b) {
                    return None;
                }
                let op = self.resolve_binary_op(op)?;
                let (a, b) = (self.resolve_expr(a), self.resolve_expr(b));
                Expr::Binary(op, a?, b?)
            }
            ast::ExprSyntax::Group(inner) if self.is_composite(inner) => {
                return self.resolve_expr(inner);
            }
            ast::ExprSyntax::Group(inner) => Expr::Set(self.resolve_expr(inner)?),
            ast::ExprSyntax::Index(base, index) => {
                let (base, index) = (self.resolve_base(base), self.resolve_expr(index));
                Expr::Index(base?, index?)
            }
            ast::ExprSyntax::Field(base, field) => Expr::Field(self.resolve_base(base)?, self.resolve_symbol(field)),
            ast::ExprSyntax::Braces(list) => self.resolve_braces(list)?,
            ast::ExprSyntax::Call(name, list) => return self.resolve_call(name, list, span),
            ast::ExprSyntax::Error => return None,
        };
        Some(self.program.exprs.intern(expr))
    }

    /// Returns true for a number, and for a name that nvFuser gives to numbers: neither is a pointer.
    fn is_plain_number(&self, id: ast::ExprId) -> bool {
        match self.ast.exprs[id.index()].0 {
            ast::ExprSyntax::Group(inner) => self.is_plain_number(inner),
            ast::ExprSyntax::Int(_)
            | ast::ExprSyntax::Hex(_)
            | ast::ExprSyntax::Bool(..)
            | ast::ExprSyntax::Typed(..)
            | ast::ExprSyntax::Float(_) => true,
            ast::ExprSyntax::Name(name) => {
                let name = self.ast.symbol_text(name);
                is_generated(name) && name.starts_with(['i', 'b', 'd', 'f', 'c'])
            }
            _ => false,
        }
    }

    /// Returns true if parentheses around an expression are its own.
    fn is_composite(&self, id: ast::ExprId) -> bool {
        match self.ast.exprs[id.index()].0 {
            ast::ExprSyntax::Call(name, _) => self.ast.symbol_text(name) != "getMetaData",
            ast::ExprSyntax::Unary(..)
            | ast::ExprSyntax::Binary(..)
            | ast::ExprSyntax::Index(..)
            | ast::ExprSyntax::Field(..)
            | ast::ExprSyntax::Braces(..) => true,
            ast::ExprSyntax::Int(_)
            | ast::ExprSyntax::Hex(_)
            | ast::ExprSyntax::Bool(..)
            | ast::ExprSyntax::Typed(..)
            | ast::ExprSyntax::Float(_)
            | ast::ExprSyntax::Name(_)
            | ast::ExprSyntax::Tensor(_)
            | ast::ExprSyntax::Group(_)
            | ast::ExprSyntax::Error => false,
        }
    }

    /// Resolves the text before `[..]` or `.field`; parentheses around it belong to the form.
    fn resolve_base(&mut self, id: ast::ExprId) -> Option<ExprId> {
        match self.ast.exprs[id.index()].0 {
            ast::ExprSyntax::Group(inner) => self.resolve_expr(inner),
            _ => self.resolve_expr(id),
        }
    }

    pub(super) fn name_expr(&mut self, symbol: ast::Symbol) -> ExprId {
        if let Some(expr) = self.tables.word(symbol).expr {
            return expr;
        }
        if let Some(expr) = self.mesh_coordinate(symbol) {
            let expr = self.program.exprs.intern(expr);
            self.tables.word(symbol).expr = Some(expr);
            return expr;
        }
        let mut name = self.resolve_symbol(symbol);
        if self.program.style.stream == StreamSpelling::LowerStreamIdx && self.ast.symbol_text(symbol) == "streamIdx" {
            name = self.program.names.intern("StreamIdx");
        }
        let expr = self.program.exprs.intern_name(name);
        self.tables.word(symbol).expr = Some(expr);
        expr
    }

    /// `DeviceMesh{0 1}.x`, which the grammar reads as one word.
    fn mesh_coordinate(&mut self, symbol: ast::Symbol) -> Option<Expr> {
        let text = self.ast.symbol_text(symbol).strip_prefix("DeviceMesh")?;
        let (grid, word) = text.starts_with('{').then_some(text)?.rsplit_once('.')?;
        let MeshGrid { shape, devices } = parse_mesh_grid(grid)?;
        let mesh = ir::DeviceMesh { shape, devices };
        let coordinate = mesh.find_coordinate(word)?;
        Some(Expr::MeshCoordinate(self.intern_mesh(mesh), coordinate))
    }

    fn resolve_binary_op(&mut self, symbol: ast::Symbol) -> Option<BinaryOp> {
        let word = self.tables.word(symbol);
        if word.binary.is_none() {
            word.binary = BinaryOp::parse(self.ast.symbol_text(symbol));
        }
        word.binary
    }

    /// `{ a, b }`, or the struct `{ x = a, y = b }`.
    fn resolve_braces(&mut self, list: ArgRange) -> Option<Expr> {
        let ast = self.ast;
        let args = ast.args_in(list);
        if args.is_empty() || args.iter().any(|arg| arg.key.is_none()) {
            return self.resolve_scalar_list(list).map(Expr::Braces);
        }
        let values: Vec<Option<ExprId>> = args.iter().map(|arg| self.resolve_scalar_arg(arg)).collect();
        let values = values.into_iter().collect::<Option<Vec<ExprId>>>()?;
        let names = args.iter().filter_map(|arg| arg.key).map(|key| self.resolve_symbol(key));
        Some(Expr::Struct(names.collect::<Vec<_>>().into_iter().zip(values).collect()))
    }

    /// The scalars of a list without keys.
    fn resolve_scalar_list(&mut self, list: ArgRange) -> Option<SmallVec<[ExprId; 3]>> {
        let ast = self.ast;
        let mut found = SmallVec::new();
        let mut good = true;
        for arg in ast.args_in(list) {
            match self.resolve_scalar_arg(arg) {
                Some(expr) if arg.key.is_none() => found.push(expr),
                Some(_) => {
                    self.report_struct(arg);
                    good = false;
                }
                None => good = false,
            }
        }
        good.then_some(found)
    }

    pub(super) fn resolve_call(&mut self, name: ast::Symbol, list: ArgRange, span: Span) -> Option<ExprId> {
        let ast = self.ast;
        let text = ast.symbol_text(name);
        if text == "getMetaData" {
            return self.resolve_meta_data(list, span);
        }
        if text == "Ragged" {
            return self.resolve_ragged_extents(list);
        }
        let args = self.resolve_scalar_list(list)?;
        if self.resolve_head(name) != HeadMeaning::Function {
            self.report_unknown_function(text, span);
            return None;
        }
        let text = functions::canonical_name(text, &self.program.style);
        if let ([operand], [arg]) = (args.as_slice(), ast.args_in(list))
            && let Some(dtype) = functions::misfit_of_cast(&self.program, text, *operand)
        {
            self.report_literal(dtype, arg);
            return None;
        }
        let arity = functions::find_function(text, args.len()).map_or(args.len(), |function| function.arity);
        if text != "ReverseArray" && arity != args.len() {
            self.report_wrong_arity(text, arity, args.len(), span);
            return None;
        }
        let name = self.program.names.intern(text);
        Some(self.program.exprs.intern(Expr::Call(name, args)))
    }

    /// `extents=T0_g_int64_t[iS0{3}]` of a ragged axis.
    fn resolve_ragged_extents(&mut self, list: ArgRange) -> Option<ExprId> {
        let ast = self.ast;
        let [arg] = ast.args_in(list) else { return None };
        let tensor = self.resolve_tensor_arg(arg)?;
        let mut extents = self.program.domains(tensor).iter().map(|domain| self.program.expr(domain.extent));
        if extents.any(|extent| matches!(extent, Expr::RaggedExtents(_))) {
            self.report_ragged_extents(arg);
            return None;
        }
        Some(self.program.exprs.intern(Expr::RaggedExtents(tensor)))
    }

    fn resolve_meta_data(&mut self, list: ArgRange, span: Span) -> Option<ExprId> {
        let ast = self.ast;
        let [arg] = ast.args_in(list) else {
            self.report_wrong_arity("getMetaData", 1, list.len(), span);
            return None;
        };
        let tensor = self.resolve_tensor_arg(arg)?;
        Some(self.program.exprs.intern(Expr::MetaData(tensor)))
    }

    /// An argument as a scalar.
    pub(super) fn resolve_scalar_arg(&mut self, arg: &ast::ArgSyntax) -> Option<ExprId> {
        match arg.value {
            ValueSyntax::Expr(expr) => self.resolve_expr(expr),
            ValueSyntax::List(list) => {
                let braces = self.resolve_braces(list)?;
                Some(self.program.exprs.intern(braces))
            }
            ValueSyntax::Error => None,
            ValueSyntax::Domain(_)
            | ValueSyntax::Stream(_)
            | ValueSyntax::Handle(..)
            | ValueSyntax::Team(..)
            | ValueSyntax::Text(_)
            | ValueSyntax::Stmt(_) => {
                self.report_wrong_operand(ArgKind::Expr, arg);
                None
            }
        }
    }
}
