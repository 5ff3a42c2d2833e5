//! Scalar expressions, with as few parentheses as possible.

use super::ProgramWriter;
use super::names::{ScalarSpelling, TensorSpelling, is_reserved_word};
use crate::hir2::defaults::{dtype_of_word, word_of_dtype};
use crate::ir::functions::{CASTS, cast_result};
use crate::ir::text::{push_integer, push_number};
use crate::ir::{BinaryOp, DType, Expr, ExprId, Symbol, TensorId, UnaryOp, expr_text};
use crate::ir::{is_given_name, is_identifier, wrapped_parts};
use crate::ops::OpRegistry;

/// The strength with which a prefix operator binds; more than all infix operators.
const PREFIX: u8 = 11;
/// Calls, indices, names, literals.
const ATOM: u8 = 12;

/// Returns true if a function of scalars can be called by its name.
fn is_function_name(ops: OpRegistry, name: &str) -> bool {
    is_identifier(name)
        && !is_reserved_word(name)
        && ops.find_op(name).is_none()
        && dtype_of_word(name).is_none()
        && !matches!(name, "wrap" | "getMetaData")
}

impl ProgramWriter<'_> {
    /// A whole expression.
    pub(super) fn write_expr(&mut self, id: ExprId) {
        self.write_bound_expr(id, 0);
    }

    /// An operand of an operator that binds so strongly.
    pub(super) fn write_bound_expr(&mut self, id: ExprId, least: u8) {
        let program = self.program;
        match program.expr(id) {
            Expr::Int(value) => {
                let parenthesized = *value < 0 && least > PREFIX;
                self.open_parenthesis(parenthesized);
                push_integer(&mut self.out, *value);
                self.close_parenthesis(parenthesized);
            }
            Expr::Hex(value) => self.out.push_str(&format!("{value:#x}")),
            Expr::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Expr::Typed(dtype, text) => self.write_typed_literal(id, *dtype, *text),
            Expr::Float(text) => self.out.push_str(program.name(*text)),
            Expr::Name(name) => self.write_scalar_name(id, *name),
            Expr::MeshCoordinate(mesh, coordinate) => {
                self.write_mesh_name(Some(*mesh));
                self.out.push('.');
                self.out.push_str(coordinate.word());
            }
            Expr::Unary(UnaryOp::Dereference | UnaryOp::Address, _) | Expr::Struct(_) => self.write_verbatim_expr(id),
            Expr::Unary(op, a) => self.write_prefix(*op, *a, least),
            Expr::Binary(op, a, b) => self.write_infix(id, *op, [*a, *b], least),
            Expr::Call(name, args) if self.cast_of_scalar(*name, args).is_some() => {
                self.out.push_str(self.cast_of_scalar(*name, args).map_or("", word_of_dtype));
                self.out.push('(');
                self.write_expr_list(args);
                self.out.push(')');
            }
            Expr::Call(name, args) if is_function_name(OpRegistry::of_program(program), program.name(*name)) => {
                self.out.push_str(program.name(*name));
                self.out.push('(');
                self.write_expr_list(args);
                self.out.push(')');
            }
            Expr::Index(base, index) => {
                self.write_base(*base);
                self.out.push('[');
                self.write_expr(*index);
                self.out.push(']');
            }
            Expr::Field(base, field) if self.is_plain_field(*base, *field) => {
                self.write_base(*base);
                self.out.push('.');
                self.out.push_str(program.name(*field));
            }
            Expr::Braces(items) => self.write_braces(id, items),
            // The reader takes `getMetaData(A)` for the printed form's `( getMetaData(T0) )`.
            Expr::MetaData(_) | Expr::RaggedExtents(_) => self.write_verbatim_expr(id),
            Expr::Call(..) | Expr::Field(..) => self.write_verbatim_expr(id),
            Expr::Set(a) => match program.expr(*a) {
                Expr::MetaData(tensor) => self.write_metadata(*tensor),
                _ => self.write_bound_expr(*a, least),
            },
        }
    }

    /// The type to which a call of `__to_int32` converts, if `i32(n)` reads as this call: the type with a literal is a
    /// literal.
    fn cast_of_scalar(&self, name: Symbol, args: &[ExprId]) -> Option<DType> {
        let &[value] = args else { return None };
        let name = self.program.name(name);
        let dtype = cast_result(name).filter(|_| name.starts_with("__to_"))?;
        let mut casts = CASTS.iter().map(|(cast, _)| *cast).filter(|cast| cast.starts_with("__to_"));
        let is_read = casts.find(|cast| cast_result(cast) == Some(dtype)) == Some(name);
        (is_read && dtype_of_word(word_of_dtype(dtype)) == Some(dtype) && !self.is_literal(value)).then_some(dtype)
    }

    /// Returns true if the text of an expression is that of a literal.
    fn is_literal(&self, expr: ExprId) -> bool {
        match self.program.expr(expr) {
            Expr::Int(_) | Expr::Hex(_) | Expr::Float(_) | Expr::Bool(_) => true,
            Expr::Name(name) => matches!(self.program.name(*name), "inf" | "nan"),
            Expr::Unary(UnaryOp::Neg, operand) => self.is_literal(*operand),
            _ => false,
        }
    }

    /// `getMetaData(A)`
    pub(super) fn write_metadata(&mut self, tensor: TensorId) {
        self.out.push_str("getMetaData(");
        self.write_tensor_name(tensor);
        self.out.push(')');
    }

    fn open_parenthesis(&mut self, needed: bool) {
        if needed {
            self.out.push('(');
        }
    }

    fn close_parenthesis(&mut self, needed: bool) {
        if needed {
            self.out.push(')');
        }
    }

    /// `a, b`
    pub(super) fn write_expr_list(&mut self, items: &[ExprId]) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.write_expr(*item);
        }
    }

    /// `{ a, b }`; a call after the brace would begin a group.
    fn write_braces(&mut self, id: ExprId, items: &[ExprId]) {
        let start = self.out.len();
        self.out.push_str("{ ");
        self.write_expr_list(items);
        self.out.push_str(" }");
        let inner = &self.out[start + 2..];
        let word = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if items.is_empty() || inner.starts_with('`') || (word.len() < inner.len() && word.starts_with(['(', '['])) {
            self.out.truncate(start);
            self.write_verbatim_expr(id);
        }
    }

    fn write_prefix(&mut self, op: UnaryOp, a: ExprId, least: u8) {
        self.open_parenthesis(least > PREFIX);
        self.out.push_str(op.symbol());
        // `-1` would be a number, and `--a` looks like another operator.
        let literal = matches!(self.program.expr(a), Expr::Int(_));
        let twice = matches!(self.program.expr(a), Expr::Unary(inner, _) if *inner == op);
        self.open_parenthesis(literal || twice);
        self.write_bound_expr(a, if literal || twice { 0 } else { PREFIX });
        self.close_parenthesis(literal || twice);
        self.close_parenthesis(least > PREFIX);
    }

    fn write_infix(&mut self, id: ExprId, op: BinaryOp, [a, b]: [ExprId; 2], least: u8) {
        if op == BinaryOp::Mod
            && let Some(parts) = wrapped_parts(self.program, id)
        {
            self.out.push_str("wrap(");
            self.write_expr_list(&parts);
            self.out.push(')');
            return;
        }
        let strength = op.strength();
        self.open_parenthesis(least > strength);
        // Nested comparisons have brackets: the reader refuses `a < b < c`, and others are hard to read.
        let [left, right] = match op.is_comparison() {
            true => [BinaryOp::Lt.strength() + 1; 2],
            false => [strength, strength + 1],
        };
        self.write_bound_expr(a, left);
        self.out.push(' ');
        self.out.push_str(op.symbol());
        self.out.push(' ');
        self.write_bound_expr(b, right);
        self.close_parenthesis(least > strength);
    }

    /// The expression before `[..]` or `.field`.
    fn write_base(&mut self, base: ExprId) {
        if let Expr::Set(inner) = *self.program.expr(base) {
            return match self.program.expr(inner) {
                Expr::MetaData(tensor) => self.write_metadata(*tensor),
                _ => self.write_base(inner),
            };
        }
        let bare =
            matches!(self.program.expr(base), Expr::Name(_) | Expr::Index(..) | Expr::Field(..) | Expr::MetaData(_));
        self.open_parenthesis(!bare);
        self.write_bound_expr(base, if bare { ATOM } else { 0 });
        self.close_parenthesis(!bare);
    }

    /// Returns true if the reader takes `base.field` for a field: not for a rank's coordinate or another name.
    fn is_plain_field(&self, base: ExprId, field: Symbol) -> bool {
        if !is_identifier(self.program.name(field)) {
            return false;
        }
        let Expr::Name(name) = self.program.expr(base) else { return true };
        let name = self.program.name(*name);
        name != "deviceIdx" && !self.file.meshes.iter().any(|mesh| mesh.name == name)
    }

    fn write_typed_literal(&mut self, id: ExprId, dtype: DType, text: Symbol) {
        // The reader's integers end at 2^63.
        let literal = self.program.name(text);
        let digits = literal.trim_start_matches('-');
        let large = digits.bytes().all(|byte| byte.is_ascii_digit()) && literal.parse::<i64>().is_err();
        if large || matches!(dtype, DType::ComplexFloat | DType::ComplexDouble) {
            return self.write_verbatim_expr(id);
        }
        self.out.push_str(word_of_dtype(dtype));
        self.out.push('(');
        self.out.push_str(self.program.name(text));
        self.out.push(')');
    }

    fn write_scalar_name(&mut self, id: ExprId, name: Symbol) {
        match self.tables.names.scalar_spelling(name) {
            ScalarSpelling::Plain => self.out.push_str(self.program.name(name)),
            ScalarSpelling::Streams => self.out.push_str("streams"),
            ScalarSpelling::Verbatim => self.write_verbatim_expr(id),
        }
    }

    /// Writes a scalar in a header, where a name is unquoted: `n.1` is no axis there.
    pub(super) fn write_scalar_param(&mut self, id: ExprId) {
        let name = self.program.exprs().as_name(id).map(|name| self.program.name(name));
        match name.filter(|name| is_given_name(name)) {
            Some(name) => self.out.push_str(name),
            None => self.write_expr(id),
        }
    }

    /// The printed form in backquotes.
    pub(super) fn write_verbatim_expr(&mut self, id: ExprId) {
        self.out.push('`');
        self.out.push_str(&expr_text(self.program, id));
        self.out.push('`');
    }

    /// `Stream e`: a stream's name, or its index.
    pub(super) fn write_stream(&mut self, id: ExprId) {
        if let Expr::Hex(stream) = self.program.expr(id)
            && let Some(name) = self.tables.names.stream_name(*stream)
        {
            return self.out.push_str(self.program.name(name));
        }
        self.write_expr(id);
    }

    /// `G` or `T7`
    pub(super) fn write_tensor_name(&mut self, tensor: TensorId) {
        match self.tables.names.tensor_spelling(tensor) {
            TensorSpelling::Name(name) => self.out.push_str(self.program.name(name)),
            TensorSpelling::Number(number) => {
                self.out.push('T');
                push_number(&mut self.out, u64::from(number));
            }
        }
    }

    /// `h` or `h7`
    pub(super) fn write_handle(&mut self, number: u32, element: Option<ExprId>) {
        match self.tables.names.handle_name(number) {
            Some(name) => self.out.push_str(self.program.name(name)),
            None => {
                self.out.push('h');
                push_number(&mut self.out, u64::from(self.tables.names.handle_number(number)));
            }
        }
        if let Some(element) = element {
            self.push("[");
            self.write_expr(element);
            self.push("]");
        }
    }
}
