//! V53: a literal that becomes an element of a tensor is a value of its type.

use crate::diag::Diags;
use crate::ir::functions::{literal_value, misfit_of_element};
use crate::ir::{AttrKey, DType, Expr, ExprId, OpId, Program, UnaryOp, Value, quoted_bare_expr};

/// The value of a pad or a full.
pub(crate) fn check_fill_literal(program: &Program, id: OpId, diags: &mut Diags) {
    check_element(program, id, AttrKey::Fill, diags);
}

/// Checks the initial value of a reduction of floats. Integers may start from values beyond their type that do not
/// change the result.
pub(crate) fn check_initial_literal(program: &Program, id: OpId, diags: &mut Diags) {
    if program.op(id).output_tensors().any(|tensor| program.tensor(tensor).dtype.is_float()) {
        check_element(program, id, AttrKey::Init, diags);
    }
}

/// The first element and the step of an iota.
pub(crate) fn check_iota_literals(program: &Program, id: OpId, diags: &mut Diags) {
    check_element(program, id, AttrKey::Start, diags);
    check_element(program, id, AttrKey::Step, diags);
}

/// Checks an attribute that is an element of the result, or a difference of two.
fn check_element(program: &Program, id: OpId, key: AttrKey, diags: &mut Diags) {
    let op = program.op(id);
    if let (Some(result), Some(value)) = (op.output_tensors().next(), op.expr_attr(key)) {
        check_literal(program, id, value, program.tensor(result).dtype, diags);
    }
}

/// Checks untyped literals beside tensors of floats: functions compute in 64 bits for `double`, in 32 for all narrower
/// types.
pub(crate) fn check_operand_literals(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(tensor) = op.input_tensors().chain(op.output_tensors()).next() else { return };
    let dtype = program.tensor(tensor).dtype;
    if !dtype.is_float() || dtype == DType::Double {
        return;
    }
    for operand in &op.operands {
        if let Value::Scalar(expr) = operand
            && is_plain_float(program, *expr)
        {
            check_literal(program, id, *expr, DType::Float, diags);
        }
    }
}

/// `0.5`, `-0.5`
fn is_plain_float(program: &Program, expr: ExprId) -> bool {
    match program.expr(expr) {
        Expr::Float(_) => true,
        Expr::Set(inner) | Expr::Unary(UnaryOp::Neg, inner) => is_plain_float(program, *inner),
        _ => false,
    }
}

/// Checks a literal that becomes an element of a type.
pub(crate) fn check_literal(program: &Program, id: OpId, expr: ExprId, dtype: DType, diags: &mut Diags) {
    let Some(value) = literal_value(program, expr) else { return };
    diags.items.extend(misfit_of_element(dtype, value, &quoted_bare_expr(program, expr), program.op_span(id)));
}
