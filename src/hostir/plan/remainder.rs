//! Advice about a remainder of a negative number that is used as an index, a peer or a root.

use super::PlanBuilder;
use crate::diag::{Diag, Message};
use crate::ir::{BinaryOp, Expr, ExprId, Symbol, Value};

impl PlanBuilder<'_> {
    /// Adds to the error for a negative value that `%` keeps the sign, if the value is a remainder.
    pub(crate) fn with_remainder_note(&self, diag: Diag, expr: ExprId, value: i64) -> Diag {
        if value >= 0 || !self.is_remainder(expr) {
            return diag;
        }
        diag.with_note(Message::advice(
            "`a % n` is negative if `a` is: add `n` to `a` first, as in `( ( a + n ) % n )`",
            "`a % n` is negative if `a` is: `wrap(a, n)` is not",
        ))
    }

    /// Returns true if an expression, or the definition of its name, is a remainder.
    pub(crate) fn is_remainder(&self, expr: ExprId) -> bool {
        match *self.program.expr(expr) {
            Expr::Binary(operator, ..) => operator == BinaryOp::Mod,
            Expr::Set(inner) => self.is_remainder(inner),
            Expr::Name(name) => self.is_defined_remainder(name),
            _ => false,
        }
    }

    fn is_defined_remainder(&self, name: Symbol) -> bool {
        let program = self.program;
        let mut ops = program.ops().iter().map(|(_, op)| op).filter(|op| op.kind.is_definition());
        ops.any(|op| match (op.results.first(), op.operands.first()) {
            (Some(Value::Scalar(result)), Some(Value::Scalar(value))) => {
                program.exprs().as_name(*result) == Some(name)
                    && matches!(program.expr(*value), Expr::Binary(BinaryOp::Mod, ..))
            }
            _ => false,
        })
    }
}
