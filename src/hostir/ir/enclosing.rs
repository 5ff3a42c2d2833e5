//! The loops and branches around a statement, and bounds of conditions, for messages.

use super::expr::{BinaryOp, Expr};
use super::ids::{BlockId, ExprId, OpId};
use super::program::Program;
use super::short_expr::short_expr_text;

/// A loop or branch around a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnclosingOp {
    /// The loop or branch.
    pub op: OpId,
    /// The number of its block that contains the statement: 1 for the `else` of a branch.
    pub block: usize,
}

/// The loops and branches around a statement of the program's body, the innermost first.
pub fn enclosing_ops(program: &Program, id: OpId) -> Vec<EnclosingOp> {
    let mut found = Vec::new();
    find_path(program, program.body(), id, &mut found);
    found
}

fn find_path(program: &Program, block: BlockId, id: OpId, found: &mut Vec<EnclosingOp>) -> bool {
    for &op in &program.block(block).ops {
        if op == id {
            return true;
        }
        for (number, &inner) in program.op(op).blocks.iter().enumerate() {
            if find_path(program, inner, id, found) {
                found.push(EnclosingOp { op, block: number });
                return true;
            }
        }
    }
    false
}

/// The condition of a branch; `None` for a loop, and for the `else` of a branch.
pub fn branch_condition(program: &Program, around: EnclosingOp) -> Option<ExprId> {
    let op = program.op(around.op);
    let condition = op.operands.iter().find_map(|operand| operand.as_scalar());
    condition.filter(|_| op.kind.is_branch() && around.block == 0)
}

/// A scalar and a number that is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetExpr {
    /// `None` for a number alone.
    pub base: Option<ExprId>,
    /// The number.
    pub offset: i64,
}

impl OffsetExpr {
    /// An expression with a number more.
    pub fn of_sum(program: &Program, expr: ExprId, more: i64) -> Self {
        let (base, own) = match program.expr(expr) {
            Expr::Int(value) => (None, *value),
            Expr::Binary(operator @ (BinaryOp::Add | BinaryOp::Sub), a, b) => match program.exprs().as_int(*b) {
                Some(value) => (Some(*a), if *operator == BinaryOp::Add { value } else { value.saturating_neg() }),
                None => (Some(expr), 0),
            },
            _ => (Some(expr), 0),
        };
        Self { base, offset: own.saturating_add(more) }
    }

    /// `p - 1`, with the base in the words that a function gives.
    pub fn text_with(self, base_text: &dyn Fn(ExprId) -> String) -> String {
        match (self.base, self.offset) {
            (None, offset) => offset.to_string(),
            (Some(base), 0) => base_text(base),
            (Some(base), offset @ 1..) => format!("{} + {offset}", base_text(base)),
            (Some(base), offset) => format!("{} - {}", base_text(base), offset.unsigned_abs()),
        }
    }

    /// `p - 1` as `hir 2` writes it.
    pub fn short_text(self, program: &Program) -> String {
        self.text_with(&|base| short_expr_text(program, base))
    }
}

/// The bound of a condition `i < e` or `i <= e` on a name: the first value that the name must not have.
pub fn upper_bound(program: &Program, condition: ExprId, name: super::names::Symbol) -> Option<OffsetExpr> {
    let Expr::Binary(operator, left, right) = program.expr(condition) else { return None };
    match operator {
        BinaryOp::And => upper_bound(program, *left, name).or_else(|| upper_bound(program, *right, name)),
        BinaryOp::Lt if program.exprs().as_name(*left) == Some(name) => Some(OffsetExpr::of_sum(program, *right, 0)),
        BinaryOp::Le if program.exprs().as_name(*left) == Some(name) => Some(OffsetExpr::of_sum(program, *right, 1)),
        _ => None,
    }
}
