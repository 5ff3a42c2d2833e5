//! Peers that are the rank shifted by a number, and the peers of the other side: `(rank + 1) % p`, `wrap(rank - 1, p)`.

use super::expr::{BinaryOp, Expr, MeshCoordinate};
use super::ids::ExprId;
use super::op::Op;
use super::program::Program;
use super::rank_scalars::RankScalars;
use super::short_expr::{short_expr_text, wrapped_parts};
use super::text::expr_text;

/// A peer `base + shift`, in a ring of `ring` ranks if there is one, after `front +` if that is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShiftedPeer {
    front: Option<ExprId>,
    /// The rank, or a coordinate of it.
    base: ExprId,
    /// A number that is not negative, or a name.
    shift: ExprId,
    is_back: bool,
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
        let is_number = match program.exprs().as_int(*shift) {
            Some(number) => number >= 0,
            None => {
                matches!(program.expr(*shift), Expr::Name(_))
                    && !RankScalars::new(program).is_dependent(program, *shift)
            }
        };
        let is_shift = is_rank(program, *base) && is_number;
        is_shift.then_some(Self {
            front: None,
            base: *base,
            shift: *shift,
            is_back: *operator == BinaryOp::Sub,
            ring: None,
        })
    }

    /// The peer that answers this one: it is shifted back.
    #[must_use]
    pub fn answering_peer(self) -> Self {
        Self { is_back: !self.is_back, ..self }
    }

    /// The text as `hir 2` writes it.
    pub fn short_text(self, program: &Program) -> String {
        let [base, shift] = [self.base, self.shift].map(|part| short_expr_text(program, part));
        let sign = if self.is_back { '-' } else { '+' };
        let text = match self.ring.map(|ring| short_expr_text(program, ring)) {
            None => format!("{base} {sign} {shift}"),
            Some(ring) if self.is_back => format!("wrap({base} - {shift}, {ring})"),
            Some(ring) => format!("({base} + {shift}) % {ring}"),
        };
        match self.front {
            Some(front) => format!("{} + {text}", short_expr_text(program, front)),
            None => text,
        }
    }

    /// The text as the printed form has it.
    pub fn printed_text(self, program: &Program) -> String {
        let [base, shift] = [self.base, self.shift].map(|part| expr_text(program, part));
        let sign = if self.is_back { '-' } else { '+' };
        let sum = format!("( {base} {sign} {shift} )");
        let text = match self.ring.map(|ring| expr_text(program, ring)) {
            None => sum,
            Some(ring) if self.is_back => format!("( ( ( {sum} % {ring} ) + {ring} ) % {ring} )"),
            Some(ring) => format!("( {sum} % {ring} )"),
        };
        match self.front {
            Some(front) => format!("( {} + {text} )", expr_text(program, front)),
            None => text,
        }
    }
}

/// A child of the rank in a tree in which rank `r` has the children `f * r + 1` to `f * r + f`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildPeer {
    rank: ExprId,
    children: i64,
}

impl ChildPeer {
    /// The child that an expression is; `None` for other expressions.
    pub fn of_expr(program: &Program, expr: ExprId) -> Option<Self> {
        let Expr::Binary(BinaryOp::Add, front, number) = program.expr(expr) else { return None };
        let Expr::Binary(BinaryOp::Mul, one, other) = program.expr(*front) else { return None };
        let (rank, factor) = if is_rank(program, *one) { (*one, *other) } else { (*other, *one) };
        let children = program.exprs().as_int(factor).filter(|children| *children > 1)?;
        let number = program.exprs().as_int(*number)?;
        (is_rank(program, rank) && (1..=children).contains(&number)).then_some(Self { rank, children })
    }

    /// The rank's parent, as `hir 2` writes it.
    pub fn parent_text(self, program: &Program) -> String {
        format!("({} - 1) / {}", short_expr_text(program, self.rank), self.children)
    }

    /// The rank's parent, as the printed form has it.
    pub fn printed_parent(self, program: &Program) -> String {
        format!("( ( {} - 1 ) / {} )", expr_text(program, self.rank), self.children)
    }
}

/// The members of a computed team as neighbours of the rank: each rank computes another team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourTeam {
    size: usize,
}

impl NeighbourTeam {
    /// The team of a communication whose members are the rank and ranks a number further; `None` for other teams.
    pub fn of_op(program: &Program, op: &Op) -> Option<Self> {
        let members = program.computed_team(op)?;
        let is_own = |member: ExprId| matches!(program.expr(member), Expr::Name(name) if program.name(*name) == "rank");
        let are_near = members.iter().all(|&member| {
            let shifted = ShiftedPeer::of_expr(program, member).filter(|peer| is_own(peer.base));
            is_own(member) || shifted.is_some_and(|peer| program.exprs().as_int(peer.shift).is_some())
        });
        (are_near && members.len() > 1).then_some(Self { size: members.len() })
    }

    /// Returns true if groups of this size hold all of so many ranks.
    pub fn divides(self, ranks: u32) -> bool {
        (ranks as usize).is_multiple_of(self.size)
    }

    /// `team=[rank / 2 * 2, rank / 2 * 2 + 1]`: the group of consecutive ranks that the rank is in.
    pub fn group_text(self) -> String {
        let first = format!("rank / {} * {}", self.size, self.size);
        let others = (1..self.size).map(|more| format!(", {first} + {more}"));
        format!("team=[{first}{}]", others.collect::<String>())
    }

    /// The same as the printed form has it.
    pub fn printed_group(self) -> String {
        let first = format!("( ( rank / {} ) * {} )", self.size, self.size);
        let others = (1..self.size).map(|more| format!(", ( {first} + {more} )"));
        format!("team={{{first}{}}}", others.collect::<String>())
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
