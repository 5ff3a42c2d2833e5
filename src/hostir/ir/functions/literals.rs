//! The values of literals, and of casts of literals.

use super::{cast_result, is_cast};
use crate::diag::message;
use crate::diag::{Diag, PartKind, Quoted, Span, syntax_error};
use crate::ir::{DType, Expr, ExprId, Program, UnaryOp, quoted_type};
use hostir_grammar::{holds_number, misfit_of_number, needed_number, shorten_text};

/// The value of a literal, of its negative, or of a cast of one; `None` for other expressions. It is not rounded.
pub fn literal_value(program: &Program, expr: ExprId) -> Option<f64> {
    match program.expr(expr) {
        Expr::Int(value) => Some(*value as f64),
        Expr::Float(text) | Expr::Typed(_, text) => program.name(*text).parse().ok(),
        Expr::Set(inner) => literal_value(program, *inner),
        Expr::Unary(UnaryOp::Neg, inner) => literal_value(program, *inner).map(|value| -value),
        Expr::Call(name, args) => match args.as_slice() {
            [inner] if is_cast(program.name(*name)) => literal_value(program, *inner),
            _ => None,
        },
        _ => None,
    }
}

/// The element type to which a cast converts a literal, if that type does not have the literal's value.
pub fn misfit_of_cast(program: &Program, cast: &str, operand: ExprId) -> Option<DType> {
    let dtype = cast_result(cast)?;
    let value = literal_value(program, operand)?;
    (!holds_number(dtype.name(), value)).then_some(dtype)
}

/// The error for a literal, `text` in the statement at `span`, that becomes an element of a type without its value. An
/// infinity is the extreme value of a type; each op decides whether it accepts one.
pub fn misfit_of_element(dtype: DType, value: f64, text: &Quoted, span: Span) -> Option<Diag> {
    if value.is_infinite() || value.is_nan() || holds_number(dtype.name(), value) {
        return None;
    }
    let diag = syntax_error(misfit_of_number(dtype.name(), dtype.name(), text.printed(), span));
    let short = shorten_text(text.printed());
    let shown = if short == text.printed() { text.clone() } else { Quoted::new(PartKind::Scalar, short) };
    let needed = needed_number(dtype.name());
    let message = message!("`{}` does not fit `{}`, to which it is converted{}", shown, quoted_type(dtype), needed);
    Some(Diag { message, ..diag }.with_focus(text.clone()))
}
