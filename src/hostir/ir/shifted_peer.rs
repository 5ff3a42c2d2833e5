//! Peers that are the rank shifted by a number, and the peers of the other side: `(rank + 1) % p`, `wrap(rank - 1, p)`.

use super::expr::{BinaryOp, Expr, MeshCoordinate};
use super::ids::ExprId;
use super::program::Program;
use super::short_expr::{short_expr_text, wrapped_parts};
use super::text::expr_text;

/// A peer `base + shift`, in a ring of `ring` ranks if there is one, after `front +` if that is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShiftedPeer {
    front: Option<ExprId>,
    /// The rank, or a coordinate of it.
    base: ExprId,
    shift: i64,
    ring: Option<ExprId>,
}

impl ShiftedPeer {
    /// The shift of a peer; `None` for other expressions.
    pub fn of_expr(program: &Program, expr: ExprId) -> Option<Self> {
        if let Some([inner, ring]) = wrapped_parts(program, expr) {
            return Some(Self { ring: Some(ring), ..Self::of_sum(program, inner)? });
        }
        match program.expr(expr) {
            Expr::Binary(BinaryOp::Mod, inner, ring) => {
                Some(Self { ring: Some(*ring), ..Self::of_sum(program, *inner)? })
            }
            Expr::Binary(BinaryOp::Add, front, rest) if is_row_start(program, *front) => {
                Some(Self { front: Some(*front), ..Self::of_expr(program, *rest)? })
            }
            _ => Self::of_sum(program, expr),
        }
    }

    fn of_sum(program: &Program, expr: ExprId) -> Option<Self> {
        let Expr::Binary(operator @ (BinaryOp::Add | BinaryOp::Sub), base, shift) = program.expr(expr) else {
            return None;
        };
        let shift = program.exprs().as_int(*shift).filter(|_| is_rank(program, *base))?;
        let shift = if *operator == BinaryOp::Add { shift } else { shift.checked_neg()? };
        Some(Self { front: None, base: *base, shift, ring: None })
    }

    /// The peer of the other side: it is shifted back.
    pub fn answering_peer(self) -> Option<Self> {
        Some(Self { shift: self.shift.checked_neg()?, ..self })
    }

    /// The text as `hir 2` writes it.
    pub fn short_text(self, program: &Program) -> String {
        let base = short_expr_text(program, self.base);
        let text = match (self.ring, self.shift < 0) {
            (None, true) => format!("{base} - {}", self.shift.unsigned_abs()),
            (None, false) => format!("{base} + {}", self.shift),
            (Some(ring), true) => {
                format!("wrap({base} - {}, {})", self.shift.unsigned_abs(), short_expr_text(program, ring))
            }
            (Some(ring), false) => format!("({base} + {}) % {}", self.shift, short_expr_text(program, ring)),
        };
        match self.front {
            Some(front) => format!("{} + {text}", short_expr_text(program, front)),
            None => text,
        }
    }

    /// The text as the printed form has it.
    pub fn printed_text(self, program: &Program) -> String {
        let base = expr_text(program, self.base);
        let sum = match self.shift < 0 {
            true => format!("( {base} - {} )", self.shift.unsigned_abs()),
            false => format!("( {base} + {} )", self.shift),
        };
        let text = match self.ring.map(|ring| expr_text(program, ring)) {
            None => sum,
            Some(ring) if self.shift < 0 => format!("( ( ( {sum} % {ring} ) + {ring} ) % {ring} )"),
            Some(ring) => format!("( {sum} % {ring} )"),
        };
        match self.front {
            Some(front) => format!("( {} + {text} )", expr_text(program, front)),
            None => text,
        }
    }
}

/// True for the rank and for a coordinate of it.
fn is_rank(program: &Program, expr: ExprId) -> bool {
    match program.expr(expr) {
        Expr::Name(name) => program.name(*name) == "rank",
        Expr::MeshCoordinate(_, coordinate) => matches!(coordinate, MeshCoordinate::Along(_)),
        _ => false,
    }
}

/// True for `d.y * 4`, the first rank of a row.
fn is_row_start(program: &Program, expr: ExprId) -> bool {
    matches!(program.expr(expr), Expr::Binary(BinaryOp::Mul, row, _) if is_rank(program, *row))
}
