//! Scalar expressions, and operands of ops.

use super::program::ProgramReader;
use super::report;
use super::report_names;
use super::scope::Meaning;
use crate::diag::syntax_error;
use crate::hir2::defaults::{dtype_of_word, word_of_dtype};
use crate::ir::functions::{self, find_function};
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{BinaryOp, DType, Expr, ExprId, TensorId, UnaryOp, Value};
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, IndexItem, NameSyntax, NodeRange};
use hostir_grammar::{Span, SyntaxError, misfit_of_literal, misfit_of_number};
use smallvec::SmallVec;

/// The maximum number of literals and names in the printed form of a `wrap`.
const MAX_PRINTED: usize = 1 << 14;

impl ProgramReader<'_> {
    /// A scalar; `None` after an error.
    pub(super) fn scalar(&mut self, id: ast::ExprId) -> Option<ExprId> {
        let file = self.file;
        let span = file.expr_span(id);
        let expr = match *file.expr(id) {
            ExprNode::Int(value) => Expr::Int(value),
            ExprNode::Hex(value) => Expr::Hex(value),
            ExprNode::Bool(value) => Expr::Bool(value),
            ExprNode::Float(text) => Expr::Float(self.symbol(text)),
            ExprNode::Name(name) => return self.scalar_name(name, span),
            ExprNode::Paren(inner) => return self.scalar(inner),
            ExprNode::Unary(op, operand) => Expr::Unary(UnaryOp::parse(self.name_text(op))?, self.scalar(operand)?),
            ExprNode::Binary(op, a, b) => {
                let op = BinaryOp::parse(self.name_text(op))?;
                let (a, b) = (self.scalar(a), self.scalar(b));
                Expr::Binary(op, a?, b?)
            }
            ExprNode::Call(name, args) => return self.scalar_call(name, args, span),
            ExprNode::Index(base, items) => return self.scalar_index(base, items, span),
            ExprNode::Field(..) if self.report_tensor_field(id) => return None,
            ExprNode::Field(base, field) => return self.scalar_field(base, field),
            ExprNode::Braces(items) => Expr::Braces(self.scalar_list(items)?),
            ExprNode::Verbatim(text) => return self.verbatim_expr(text, span),
            ExprNode::List(_) | ExprNode::Arrow(..) | ExprNode::Group(_) => {
                report::report_kind("a scalar", span, self.diags);
                return None;
            }
            ExprNode::Error => return None,
        };
        Some(self.program.exprs.intern(expr))
    }

    /// The expression of a name, whatever it means.
    pub(super) fn name_expr(&mut self, name: ast::Symbol) -> ExprId {
        let symbol = match self.name_text(name) {
            "streams" => self.program.names.intern("numberOfStreams"),
            // The newer spelling of the same name, which would give the printed text another date.
            "streamIdx" => self.program.names.intern("StreamIdx"),
            _ => self.symbol(name),
        };
        self.program.exprs.intern_name(symbol)
    }

    /// Returns true for an index of a name that is not known, since its declaration has an error.
    fn indexes_unknown(&self, index: Span) -> bool {
        let before = self.source.get(..index.start as usize).unwrap_or_default();
        let head = before.rsplit_once('[').filter(|(_, rest)| !rest.contains([']', '(', '\n'])).map(|(head, _)| head);
        let name = head.and_then(|head| head.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next());
        let Some(symbol) = name.and_then(|name| self.file.strings.find_symbol(name)) else { return false };
        match self.tables.scope.get(symbol).map(|entry| entry.meaning) {
            None => self.unbound.is_silent,
            Some(meaning) => meaning == Meaning::Poisoned,
        }
    }

    fn scalar_name(&mut self, name: ast::Symbol, span: Span) -> Option<ExprId> {
        match self.tables.scope.get(name).map(|entry| entry.meaning) {
            Some(Meaning::Poisoned) => None,
            Some(Meaning::Stream(stream)) => Some(stream),
            Some(meaning @ (Meaning::Tensor(_) | Meaning::Handle(_))) => {
                let is_index = self.source.get(..span.start as usize).is_some_and(|before| before.ends_with('['));
                report_names::report_no_scalar(self.file, name, meaning, span, is_index, self.diags);
                None
            }
            Some(Meaning::Scalar) | None if self.name_text(name) == "own" => {
                if !self.indexes_unknown(span) {
                    report::report_own(span, self.diags);
                }
                None
            }
            Some(Meaning::Scalar) => {
                self.unbound.carry_doubt(NameSyntax { name, span });
                Some(self.name_expr(name))
            }
            None => {
                if let Some(number) = self.mesh_size_number(name) {
                    return Some(number);
                }
                self.note_unbound(name, span);
                Some(self.name_expr(name))
            }
        }
    }

    fn scalar_list(&mut self, items: NodeRange) -> Option<SmallVec<[ExprId; 3]>> {
        let file = self.file;
        let values: Vec<Option<ExprId>> =
            file.expr_lists[items.indices()].iter().map(|&item| self.scalar(item)).collect();
        values.into_iter().collect()
    }

    /// A function, a cast, a typed literal, or `wrap`.
    fn scalar_call(&mut self, name: NameSyntax, args: NodeRange, span: Span) -> Option<ExprId> {
        let file = self.file;
        let list = &file.args[args.indices()];
        let text = file.symbol_text(name.name);
        if let (Some(dtype), [arg]) = (dtype_of_word(text), list) {
            return self.typed_value(dtype, arg, span);
        }
        if let ("getMetaData", [arg]) = (text, list) {
            let tensor = self.tensor_operand(arg.value)?;
            let inner = self.program.exprs.intern(Expr::MetaData(tensor));
            return Some(self.program.exprs.intern(Expr::Set(inner)));
        }
        if let (true, [arg]) = (is_cast_method(text), list) {
            let (owner, _) = text.rsplit_once('.').unwrap_or_default();
            let dtype = self.source.get(arg.span.as_usize_range()).and_then(dtype_of_word);
            let cast = dtype.map(|dtype| format!("{}({owner})", word_of_dtype(dtype)));
            report::report_function_of(self.shared.ops, text, cast, name.span, self.diags);
            return None;
        }
        if self.report_called_value(text, list.is_empty(), span) {
            return None;
        }
        if let Some(slice) = self.called_slice(name.name, span) {
            report::report_called_tensor(text, slice, span, self.diags);
            return None;
        }
        let values: Vec<Option<ExprId>> = list.iter().map(|arg| self.scalar(arg.value)).collect();
        let values: SmallVec<[ExprId; 3]> = values.into_iter().collect::<Option<_>>()?;
        if let ("wrap", [value, count]) = (text, values.as_slice()) {
            return self.wrapped(*value, *count, span);
        }
        let Some(arity) =
            find_function(text, values.len()).map(|row| row.arity).or_else(|| scalar_function(text, values.len()))
        else {
            report::report_function(self.shared.ops, text, name.span, self.diags);
            return None;
        };
        if arity != values.len() {
            report::report_arity(text, arity, values.len(), span, self.diags);
            return None;
        }
        let name = self.symbol(name.name);
        Some(self.program.exprs.intern(Expr::Call(name, values)))
    }

    /// `( ( ( e % n ) + n ) % n )`, which contains `n` three times: nested calls would grow exponentially.
    fn wrapped(&mut self, value: ExprId, count: ExprId, span: Span) -> Option<ExprId> {
        let size = self.printed_size(value).saturating_add(self.printed_size(count).saturating_mul(3));
        if size > MAX_PRINTED {
            let message = "the printed form of this expression is too long: it has the divisor of a `wrap` three times";
            self.diags.push(syntax_error(SyntaxError::too_large(message, MAX_PRINTED, span)));
            return None;
        }
        let exprs = &mut self.program.exprs;
        let first = exprs.intern_binary(BinaryOp::Mod, value, count);
        let sum = exprs.intern_binary(BinaryOp::Add, first, count);
        Some(exprs.intern_binary(BinaryOp::Mod, sum, count))
    }

    /// The number of literals and names in the printed form of an expression.
    fn printed_size(&mut self, expr: ExprId) -> usize {
        if let Some(&size) = self.tables.printed_sizes.get(&expr) {
            return size;
        }
        let parts = sub_expressions(self.program.expr(expr));
        let size = parts.into_iter().map(|part| self.printed_size(part)).fold(1, usize::saturating_add);
        self.tables.printed_sizes.insert(expr, size);
        size
    }

    /// `f32(0.5)`: a literal; `i64(x)`: a cast.
    fn typed_value(&mut self, dtype: DType, arg: &ArgNode, span: Span) -> Option<ExprId> {
        if self.is_literal(arg.value) {
            let text: String = self.source.get(arg.span.as_usize_range())?.split_whitespace().collect();
            if let Some(error) = misfit_of_literal(dtype.name(), word_of_dtype(dtype), &text, span) {
                self.diags.push(syntax_error(error));
                return None;
            }
            let text = self.program.names.intern(&text);
            return Some(self.program.exprs.intern(Expr::Typed(dtype, text)));
        }
        let value = self.scalar(arg.value)?;
        let cast = functions::CASTS.iter().map(|(new, _)| *new);
        let Some(name) =
            cast.into_iter().find(|name| name.starts_with("__to_") && functions::cast_result(name) == Some(dtype))
        else {
            report::report_cast(arg.span, self.diags);
            return None;
        };
        if functions::misfit_of_cast(&self.program, name, value).is_some() {
            let text = self.source.get(arg.span.as_usize_range()).unwrap_or_default();
            let error = misfit_of_number(dtype.name(), word_of_dtype(dtype), text, arg.span);
            self.diags.push(syntax_error(error));
            return None;
        }
        let name = self.program.names.intern(name);
        Some(self.program.exprs.intern(Expr::Call(name, SmallVec::from_slice(&[value]))))
    }

    fn is_literal(&self, id: ast::ExprId) -> bool {
        match *self.file.expr(id) {
            ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Bool(_) => true,
            ExprNode::Name(name) => matches!(self.name_text(name), "inf" | "nan"),
            ExprNode::Unary(op, operand) => self.name_text(op) == "-" && self.is_literal(operand),
            _ => false,
        }
    }

    fn scalar_index(&mut self, base: ast::ExprId, items: NodeRange, span: Span) -> Option<ExprId> {
        if self.names_tensor(base) {
            report::report_kind("a scalar", span, self.diags);
            return None;
        }
        let [IndexItem::At(index)] = self.file.index_items[items.indices()] else {
            report::report_kind("a scalar", span, self.diags);
            return None;
        };
        let (base, index) = (self.scalar(base), self.scalar(index));
        Some(self.program.exprs.intern(Expr::Index(base?, index?)))
    }

    /// A field of a struct, or `deviceIdx.x`.
    fn scalar_field(&mut self, base: ast::ExprId, field: NameSyntax) -> Option<ExprId> {
        if let ExprNode::Name(name) = *self.file.expr(base) {
            if self.name_text(name) == "deviceIdx" {
                let text = format!("deviceIdx.{}", self.name_text(field.name));
                let symbol = self.program.names.intern(&text);
                return Some(self.program.exprs.intern_name(symbol));
            }
            if self.shared.meshes.contains_key(&name) && self.tables.scope.get(name).is_none() {
                return self.mesh_coordinate(NameSyntax { name, span: self.file.expr_span(base) }, field);
            }
        }
        let base = self.scalar(base)?;
        let field = self.symbol(field.name);
        Some(self.program.exprs.intern(Expr::Field(base, field)))
    }

    /// `d.x`, `d.size`.
    fn mesh_coordinate(&mut self, mesh: NameSyntax, field: NameSyntax) -> Option<ExprId> {
        let text = self.file.symbol_text(field.name);
        let mesh = self.find_mesh(mesh)?;
        let grid = &self.program.meshes[mesh];
        let Some(coordinate) = grid.find_coordinate(text) else {
            report::report_coordinate(text, grid, field.span, self.diags);
            return None;
        };
        Some(self.program.exprs.intern(Expr::MeshCoordinate(mesh, coordinate)))
    }

    // Operands.

    /// Returns true if an expression is a tensor, or a slice of one.
    pub(super) fn names_tensor(&self, id: ast::ExprId) -> bool {
        match *self.file.expr(id) {
            ExprNode::Name(name) => {
                matches!(
                    self.tables.scope.get(name).map(|entry| entry.meaning),
                    Some(Meaning::Tensor(_) | Meaning::Poisoned)
                )
            }
            ExprNode::Index(base, _) => self.names_tensor(base),
            ExprNode::Paren(inner) => self.names_tensor(inner),
            _ => false,
        }
    }

    /// True if a name was declared with an error.
    pub(super) fn is_poisoned(&self, name: ast::Symbol) -> bool {
        self.tables.scope.get(name).is_some_and(|entry| entry.meaning == Meaning::Poisoned)
    }

    /// Returns true if an expression contains a tensor.
    pub(super) fn holds_tensor(&self, id: ast::ExprId) -> bool {
        let file = self.file;
        match *file.expr(id) {
            ExprNode::Unary(_, a) | ExprNode::Paren(a) | ExprNode::Field(a, _) => self.holds_tensor(a),
            ExprNode::Binary(_, a, b) => self.holds_tensor(a) || self.holds_tensor(b),
            ExprNode::Call(name, args) => {
                self.name_text(name.name) != "getMetaData"
                    && file.args[args.indices()].iter().any(|arg| self.holds_tensor(arg.value))
            }
            _ => self.names_tensor(id),
        }
    }

    /// Returns true if an expression, which may be a scalar then, contains a name that was declared with an error.
    fn holds_poison(&self, id: ast::ExprId) -> bool {
        let file = self.file;
        match *file.expr(id) {
            ExprNode::Name(name) => self.is_poisoned(name),
            ExprNode::Unary(_, a) | ExprNode::Paren(a) | ExprNode::Field(a, _) => self.holds_poison(a),
            ExprNode::Binary(_, a, b) => self.holds_poison(a) || self.holds_poison(b),
            ExprNode::Call(_, args) => file.args[args.indices()].iter().any(|arg| self.holds_poison(arg.value)),
            _ => false,
        }
    }

    /// A tensor or a scalar; slices become ops.
    pub(super) fn operand(&mut self, id: ast::ExprId) -> Option<Value> {
        if self.names_tensor(id) {
            return self.tensor_operand(id).map(Value::Tensor);
        }
        if self.holds_poison(id) {
            return None;
        }
        if self.holds_tensor(id) {
            self.report_innermost(id);
            return None;
        }
        self.scalar(id).map(Value::Scalar)
    }

    /// The slice `G[i]` for a tensor that is called like a function, `G(i)`.
    pub(super) fn slice_spelling(&self, id: ast::ExprId) -> Option<String> {
        let ExprNode::Call(name, _) = *self.file.expr(id) else { return None };
        self.called_slice(name.name, self.file.expr_span(id))
    }

    /// `G[i]` for a call `G(i)` of a tensor.
    fn called_slice(&self, name: ast::Symbol, span: Span) -> Option<String> {
        let meaning = self.tables.scope.get(name)?.meaning;
        let text = self.source.get(span.as_usize_range())?;
        let (tensor, index) = text.strip_suffix(')')?.split_once('(')?;
        matches!(meaning, Meaning::Tensor(_)).then(|| format!("{tensor}[{index}]"))
    }

    /// A tensor, or a slice of one, which becomes ops.
    pub(super) fn tensor_operand(&mut self, id: ast::ExprId) -> Option<TensorId> {
        let span = self.file.expr_span(id);
        match *self.file.expr(id) {
            ExprNode::Name(name) => self.named_tensor(NameSyntax { name, span }),
            ExprNode::Index(..) => self.slice(id, None),
            ExprNode::Paren(inner) => self.tensor_operand(inner),
            ExprNode::Error => None,
            ExprNode::Call(..) | ExprNode::Unary(..) | ExprNode::Binary(..) if self.holds_poison(id) => None,
            ExprNode::Field(..) if self.holds_poison(id) => None,
            ExprNode::Call(..) | ExprNode::Unary(..) | ExprNode::Binary(..) | ExprNode::Field(..)
                if self.holds_tensor(id) =>
            {
                self.report_innermost(id);
                None
            }
            ExprNode::List(_) => {
                report::report_operand_list(
                    self.source.get(span.as_usize_range()).unwrap_or_default(),
                    span,
                    self.diags,
                );
                None
            }
            _ => {
                report::report_needed_tensor(self.slice_spelling(id), span, self.diags);
                None
            }
        }
    }

    /// The tensor of a name; an error if it is none.
    pub(super) fn named_tensor(&mut self, name: NameSyntax) -> Option<TensorId> {
        match self.tables.scope.get(name.name).map(|entry| entry.meaning) {
            Some(Meaning::Tensor(tensor)) => Some(tensor),
            Some(Meaning::Poisoned) => None,
            Some(meaning @ (Meaning::Scalar | Meaning::Handle(_) | Meaning::Stream(_))) => {
                self.report_other_meaning(name, meaning);
                None
            }
            None if self.unbound.is_silent => None,
            None => {
                let known = self.names_to_suggest(|meaning| matches!(meaning, Meaning::Tensor(_)));
                report_names::report_no_tensor(self.file.symbol_text(name.name), &known, name.span, self.diags);
                self.poison(name);
                None
            }
        }
    }
}

/// The number of operands of functions that only scalars have.
fn scalar_function(name: &str, given: usize) -> Option<usize> {
    (name == "ReverseArray").then_some(given)
}

/// Returns true for `X.to` and the like, whose argument is an element type.
fn is_cast_method(text: &str) -> bool {
    matches!(text.rsplit_once('.'), Some((_, "to" | "astype" | "cast" | "view_as")))
}
