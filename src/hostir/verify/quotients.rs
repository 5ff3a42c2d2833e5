//! V57: quotients of integers in computations of reals, where they are 0 by accident.

use crate::diag::{Diag, Diags, codes, message};
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{BinaryOp, Expr, ExprId, OpId, Program, Value, quoted_bare_expr};
use rustc_hash::{FxHashMap, FxHashSet};

/// Warns about quotients such as `1 / e` in the scalars of computations in reals: both sides are integers, so that the
/// quotient is 0 for every `e` above 1.
pub(super) fn check_quotients(program: &Program, diags: &mut Diags) {
    if !program.is_hir2() {
        return;
    }
    let mut definitions: FxHashMap<ExprId, (OpId, ExprId)> = FxHashMap::default();
    let mut uses: Vec<(OpId, ExprId)> = Vec::new();
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        if op.kind.is_definition() {
            if let (Some(Value::Scalar(name)), Some(Value::Scalar(value))) = (op.results.first(), op.operands.first()) {
                definitions.insert(*name, (id, *value));
            }
        } else if op.output_tensors().any(|tensor| program.tensor(tensor).dtype.is_float()) {
            uses.extend(op.operands.iter().filter_map(|value| match value {
                Value::Scalar(scalar) => Some((id, *scalar)),
                _ => None,
            }));
        }
    });
    let mut told = FxHashSet::default();
    for (op, scalar) in uses {
        let (place, value) = definitions.get(&scalar).copied().unwrap_or((op, scalar));
        if let Some(quotient) = zero_quotient(program, value).filter(|_| told.insert(place)) {
            report_quotient(program, place, quotient, diags);
        }
    }
}

/// A quotient in an expression whose numerator is an integer of the text and less than the divisor, as far as is known.
fn zero_quotient(program: &Program, expr: ExprId) -> Option<ExprId> {
    let found = program.expr(expr);
    if let Expr::Binary(BinaryOp::Div, a, b) = found
        && let Some(numerator) = program.exprs().as_int(*a)
        && numerator != 0
    {
        let divisor = program.exprs().as_int(*b);
        let is_zero = divisor.map_or(numerator == 1, |divisor| numerator.unsigned_abs() < divisor.unsigned_abs());
        if is_zero && is_integer(program, *b) {
            return Some(expr);
        }
    }
    sub_expressions(found).into_iter().find_map(|part| zero_quotient(program, part))
}

/// Returns true for a number, a name of an extent, and what is computed from those.
fn is_integer(program: &Program, expr: ExprId) -> bool {
    match program.expr(expr) {
        Expr::Int(_) => true,
        Expr::Name(name) => program.tensors().ids().any(|tensor| {
            program.domains(tensor).iter().any(|domain| program.exprs().as_name(domain.extent) == Some(*name))
        }),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => {
            is_integer(program, *a) && is_integer(program, *b)
        }
        _ => false,
    }
}

fn report_quotient(program: &Program, place: OpId, quotient: ExprId, diags: &mut Diags) {
    let Expr::Binary(_, a, b) = *program.expr(quotient) else { return };
    let [whole, numerator, divisor] = [quotient, a, b].map(|expr| quoted_bare_expr(program, expr));
    let message = match program.exprs().as_int(b) {
        Some(_) => message!("`{}` divides integers, so it is 0 in this computation of reals", whole),
        None => message!(
            "`{}` divides integers, so it is 0 in this computation of reals for every `{}` above 1",
            whole,
            divisor
        ),
    };
    let note = message!("write `{}.0` for `{}`: a quotient of reals needs a real side", numerator, numerator);
    diags.push(Diag::error(codes::INTEGER_QUOTIENT, program.op_span(place), message).with_note(note).into_warning());
}
