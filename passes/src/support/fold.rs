//! Folds scalar expressions without changing their meaning.
//!
//! The type of a scalar is not written, so an identity such as `x + 0` applies only if `x` is certainly an integer (on
//! doubles it turns -0.0 into 0.0). Arithmetic that overflows or divides by zero stays.

use hostir::ir::edit::Edit;
use hostir::ir::{BinaryOp, Expr, ExprId, Program, UnaryOp};
use rustc_hash::FxHashMap;

/// Folds expressions of one program; remembers the folded ones.
#[derive(Default)]
pub(crate) struct ExprFolder {
    done: FxHashMap<ExprId, ExprId>,
}

impl ExprFolder {
    /// The simplest form of an expression.
    pub(crate) fn fold_expr(&mut self, edit: &mut Edit<'_>, id: ExprId) -> ExprId {
        if let Some(&folded) = self.done.get(&id) {
            return folded;
        }
        let folded = self.fold_new(edit, id);
        self.done.insert(id, folded);
        folded
    }

    fn fold_new(&mut self, edit: &mut Edit<'_>, id: ExprId) -> ExprId {
        let expr = edit.program().expr(id).clone();
        match expr.map_parts(|part| self.fold_expr(edit, part)) {
            // `( a )`: a copy of a scalar.
            Expr::Set(a) => a,
            Expr::Unary(op, a) => fold_unary(edit, op, a),
            Expr::Binary(op, a, b) => fold_binary(edit, op, a, b),
            Expr::Call(name, args) => match fold_call(edit.program(), edit.program().name(name), &args) {
                Some(value) => edit.intern_expr(Expr::Int(value)),
                None => edit.intern_expr(Expr::Call(name, args)),
            },
            other => edit.intern_expr(other),
        }
    }
}

fn fold_unary(edit: &mut Edit<'_>, op: UnaryOp, a: ExprId) -> ExprId {
    let folded = match (op, edit.program().expr(a)) {
        (UnaryOp::Neg, Expr::Int(value)) => value.checked_neg().map(Expr::Int),
        (UnaryOp::Not, Expr::Bool(value)) => Some(Expr::Bool(!value)),
        (UnaryOp::BitNot, Expr::Int(value)) => Some(Expr::Int(!value)),
        _ => None,
    };
    edit.intern_expr(folded.unwrap_or(Expr::Unary(op, a)))
}

fn fold_binary(edit: &mut Edit<'_>, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
    let program = edit.program();
    let folded = match (program.expr(a), program.expr(b)) {
        (Expr::Int(x), Expr::Int(y)) => fold_integers(op, *x, *y),
        (Expr::Bool(x), Expr::Bool(y)) => fold_booleans(op, *x, *y),
        _ => None,
    };
    if let Some(folded) = folded {
        return edit.intern_expr(folded);
    }
    match match_identity(program, op, a, b) {
        Some(AlgebraicIdentity::Is(id)) => id,
        Some(AlgebraicIdentity::Bool(value)) => edit.intern_expr(Expr::Bool(value)),
        None => edit.intern_expr(Expr::Binary(op, a, b)),
    }
}

/// C's arithmetic on 64-bit integers: division and remainder truncate.
pub(crate) fn fold_integers(op: BinaryOp, x: i64, y: i64) -> Option<Expr> {
    let value = match op {
        BinaryOp::Add => x.checked_add(y)?,
        BinaryOp::Sub => x.checked_sub(y)?,
        BinaryOp::Mul => x.checked_mul(y)?,
        BinaryOp::Div => x.checked_div(y)?,
        BinaryOp::Mod => x.checked_rem(y)?,
        BinaryOp::Shl if x >= 0 && (0..63).contains(&y) => x.checked_mul(1i64.checked_shl(y as u32)?)?,
        BinaryOp::Shr if x >= 0 && (0..64).contains(&y) => x >> y,
        BinaryOp::Shl | BinaryOp::Shr => return None,
        BinaryOp::BitAnd => x & y,
        BinaryOp::BitOr => x | y,
        BinaryOp::BitXor => x ^ y,
        BinaryOp::Eq => return Some(Expr::Bool(x == y)),
        BinaryOp::Ne => return Some(Expr::Bool(x != y)),
        BinaryOp::Ge => return Some(Expr::Bool(x >= y)),
        BinaryOp::Gt => return Some(Expr::Bool(x > y)),
        BinaryOp::Le => return Some(Expr::Bool(x <= y)),
        BinaryOp::Lt => return Some(Expr::Bool(x < y)),
        BinaryOp::And | BinaryOp::Or => return None,
    };
    Some(Expr::Int(value))
}

pub(crate) fn fold_booleans(op: BinaryOp, x: bool, y: bool) -> Option<Expr> {
    match op {
        BinaryOp::And => Some(Expr::Bool(x && y)),
        BinaryOp::Or => Some(Expr::Bool(x || y)),
        BinaryOp::Eq => Some(Expr::Bool(x == y)),
        BinaryOp::Ne => Some(Expr::Bool(x != y)),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Mod
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Ge
        | BinaryOp::Gt
        | BinaryOp::Le
        | BinaryOp::Lt
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor => None,
    }
}

enum AlgebraicIdentity {
    Is(ExprId),
    Bool(bool),
}

fn match_identity(program: &Program, op: BinaryOp, a: ExprId, b: ExprId) -> Option<AlgebraicIdentity> {
    let (x, y) = (integer_constant(program, a), integer_constant(program, b));
    match op {
        BinaryOp::Add if x == Some(0) && is_integer(program, b) => Some(AlgebraicIdentity::Is(b)),
        BinaryOp::Add | BinaryOp::Sub if y == Some(0) && is_integer(program, a) => Some(AlgebraicIdentity::Is(a)),
        BinaryOp::Mul if x == Some(1) && is_integer(program, b) => Some(AlgebraicIdentity::Is(b)),
        BinaryOp::Mul | BinaryOp::Div if y == Some(1) && is_integer(program, a) => Some(AlgebraicIdentity::Is(a)),
        BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge if a == b && is_integer(program, a) => {
            Some(AlgebraicIdentity::Bool(true))
        }
        BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt if a == b && is_integer(program, a) => {
            Some(AlgebraicIdentity::Bool(false))
        }
        _ => None,
    }
}

fn fold_call(program: &Program, name: &str, args: &[ExprId]) -> Option<i64> {
    let [a, b] = args else { return None };
    let (a, b) = (integer_constant(program, *a)?, integer_constant(program, *b)?);
    match name {
        "ceilDiv" if a >= 0 && b > 0 => Some(a / b + i64::from(a % b != 0)),
        _ => None,
    }
}

fn integer_constant(program: &Program, id: ExprId) -> Option<i64> {
    program.exprs().as_int(id)
}

/// True if an expression certainly is an integer whose evaluation cannot fail: `x == x` must not hide a division by
/// zero.
fn is_integer(program: &Program, id: ExprId) -> bool {
    match program.expr(id) {
        Expr::Int(_) => true,
        Expr::Name(name) => is_integer_name(program.name(*name)),
        Expr::MeshCoordinate(..) => true,
        Expr::Set(a) | Expr::Unary(UnaryOp::Neg | UnaryOp::BitNot, a) => is_integer(program, *a),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => {
            is_integer(program, *a) && is_integer(program, *b)
        }
        Expr::Binary(BinaryOp::Div | BinaryOp::Mod, a, b) => {
            is_integer(program, *a)
                && (integer_constant(program, *b).is_some_and(|value| value > 0) || is_stream_count(program, *b))
        }
        Expr::Binary(..)
        | Expr::Unary(..)
        | Expr::Hex(_)
        | Expr::Bool(_)
        | Expr::Typed(..)
        | Expr::Float(_)
        | Expr::Call(..)
        | Expr::Index(..)
        | Expr::Field(..)
        | Expr::Braces(_)
        | Expr::Struct(_)
        | Expr::MetaData(_)
        | Expr::RaggedExtents(_) => false,
    }
}

/// nvFuser numbers integers `i0`; the runtime binds the others.
fn is_integer_name(name: &str) -> bool {
    let number = name.strip_prefix('i').unwrap_or_default();
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        || matches!(name, "rank" | "deviceIdx.x" | "numberOfStreams" | "StreamIdx" | "streamIdx" | "Stream")
}

fn is_stream_count(program: &Program, id: ExprId) -> bool {
    matches!(program.expr(id), Expr::Name(name) if program.name(*name) == "numberOfStreams")
}
