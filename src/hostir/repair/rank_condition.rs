//! The conditions of branches as rank 0 evaluates them, for branches that all ranks should take alike.

use crate::ir::scalar_names::loop_index;
use crate::ir::{BinaryOp, Expr, ExprId, Op, Program, Symbol, UnaryOp, Value, expr_text};

/// The text of a condition that depends on the rank, and that of its value on rank 0; `None` if it does not depend on
/// the rank, the inner `None` if its value does not depend on anything: then no branch is left.
pub(super) fn condition_of_rank_0(program: &Program, branch: &Op) -> Option<Option<(String, String)>> {
    let condition = branch.operands.iter().find_map(|operand| match operand {
        Value::Scalar(condition) => Some(*condition),
        _ => None,
    })?;
    if !names_rank(program, condition) {
        return None;
    }
    let folded = fold_rank_0(program, condition);
    Some(match folded {
        Folded::Int(_) | Folded::Bool(_) => None,
        // Without the rank, and without anything that changes, it is one of the sizes.
        Folded::Text(_) if !names_changing(program, condition) => None,
        Folded::Text(text) => Some((expr_text(program, condition), text)),
    })
}

/// Returns true if an expression names a scalar that the program computes, or the index of a loop.
fn names_changing(program: &Program, expr: ExprId) -> bool {
    let mut computed: Vec<Symbol> = Vec::new();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        computed.extend(loop_index(program, op));
        computed.extend(op.results.iter().filter_map(|value| program.exprs().as_name(value.as_scalar()?)));
    });
    names_one(program, expr, &computed)
}

fn names_one(program: &Program, expr: ExprId, names: &[Symbol]) -> bool {
    let mut found = program.exprs().as_name(expr).is_some_and(|name| names.contains(&name));
    let _same = program.expr(expr).map_parts(|part| {
        found |= names_one(program, part, names);
        part
    });
    found
}

/// Returns true if an expression names the rank.
fn names_rank(program: &Program, expr: ExprId) -> bool {
    let is_rank = program.exprs().as_name(expr).is_some_and(|name| program.name(name) == "rank");
    let mut found = is_rank;
    let _same = program.expr(expr).map_parts(|part| {
        found |= names_rank(program, part);
        part
    });
    found
}

/// An expression with 0 in the place of the rank.
#[derive(Clone, PartialEq)]
enum Folded {
    Int(i64),
    Bool(bool),
    Text(String),
}

impl Folded {
    fn into_text(self) -> String {
        match self {
            Folded::Int(value) => value.to_string(),
            Folded::Bool(value) => value.to_string(),
            Folded::Text(text) => text,
        }
    }
}

fn fold_rank_0(program: &Program, expr: ExprId) -> Folded {
    match program.expr(expr) {
        Expr::Int(value) => Folded::Int(*value),
        Expr::Bool(value) => Folded::Bool(*value),
        Expr::Name(name) if program.name(*name) == "rank" => Folded::Int(0),
        Expr::Binary(op, a, b) => fold_infix(*op, fold_rank_0(program, *a), fold_rank_0(program, *b)),
        Expr::Unary(UnaryOp::Not, a) => match fold_rank_0(program, *a) {
            Folded::Bool(value) => Folded::Bool(!value),
            other => Folded::Text(format!("!{}", other.into_text())),
        },
        Expr::Set(inner) => fold_rank_0(program, *inner),
        Expr::Call(name, parts) => {
            let parts: Vec<String> = parts.iter().map(|&part| fold_rank_0(program, part).into_text()).collect();
            Folded::Text(format!("{}({})", program.name(*name), parts.join(", ")))
        }
        _ => Folded::Text(expr_text(program, expr)),
    }
}

fn fold_infix(op: BinaryOp, a: Folded, b: Folded) -> Folded {
    match (op, a, b) {
        (_, Folded::Int(a), Folded::Int(b)) => fold_numbers(op, a, b),
        (BinaryOp::And, Folded::Bool(true), other) | (BinaryOp::And, other, Folded::Bool(true)) => other,
        (BinaryOp::Or, Folded::Bool(false), other) | (BinaryOp::Or, other, Folded::Bool(false)) => other,
        (BinaryOp::And, Folded::Bool(false), _) | (BinaryOp::And, _, Folded::Bool(false)) => Folded::Bool(false),
        (BinaryOp::Or, Folded::Bool(true), _) | (BinaryOp::Or, _, Folded::Bool(true)) => Folded::Bool(true),
        (BinaryOp::Add, Folded::Int(0), other) => other,
        (BinaryOp::Add | BinaryOp::Sub, other, Folded::Int(0)) => other,
        // A condition names what varies first.
        (BinaryOp::Eq | BinaryOp::Ne, Folded::Int(a), Folded::Text(b)) => {
            Folded::Text(format!("( {b} {} {a} )", op.symbol()))
        }
        (_, a, b) => Folded::Text(format!("( {} {} {} )", a.into_text(), op.symbol(), b.into_text())),
    }
}

fn fold_numbers(op: BinaryOp, a: i64, b: i64) -> Folded {
    let number = match op {
        BinaryOp::Eq => return Folded::Bool(a == b),
        BinaryOp::Ne => return Folded::Bool(a != b),
        BinaryOp::Lt => return Folded::Bool(a < b),
        BinaryOp::Le => return Folded::Bool(a <= b),
        BinaryOp::Gt => return Folded::Bool(a > b),
        BinaryOp::Ge => return Folded::Bool(a >= b),
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Mod => a.checked_rem(b),
        _ => None,
    };
    number.map_or_else(|| Folded::Text(format!("( {a} {} {b} )", op.symbol())), Folded::Int)
}
