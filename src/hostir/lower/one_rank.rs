//! The error for a text that only one rank can run.
//!
//! nvFuser prints a program on each rank and writes the rank's position in the team as a number into the peers of a
//! CollectivePermute (`dispatchSwizzle1D`): `( ( i140 + 0 ) % 4 )` on the first of four. A plan for all ranks needs the
//! position itself.

use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::{AttrKey, BinaryOp, BlockId, Expr, ExprId, Op, OpId, Program, RankScalars, expr_text, is_identity};

/// Reports every CollectivePermute whose peers are the same on all ranks of its team, unless it is in a branch or loop
/// that depends on the rank.
pub(super) fn check_one_rank_text(program: &Program, diags: &mut Diags) {
    if !program.ops().iter().any(|(_, op)| op.kind.is_permute()) {
        return;
    }
    let ranks = RankScalars::new(program);
    let mut found = Vec::new();
    collect_equal_peers(program, &ranks, program.body(), &mut found);
    found.into_iter().for_each(|id| diags.push(one_rank_error(program, id)));
}

fn collect_equal_peers(program: &Program, ranks: &RankScalars, block: BlockId, found: &mut Vec<OpId>) {
    for &id in &program.block(block).ops {
        let op = program.op(id);
        if ranks.is_op_dependent(program, op) {
            continue;
        }
        let members = program.team_size(op).unwrap_or(0);
        if op.kind.is_permute() && members > 1 {
            found.push(id);
        }
        op.blocks.iter().for_each(|&inner| collect_equal_peers(program, ranks, inner, found));
    }
}

fn one_rank_error(program: &Program, id: OpId) -> Diag {
    let op = program.op(id);
    let message = "the peers of this CollectivePermute are the same on every rank, so the text is that of one rank only; \
                   a run needs peers that are computed from `rank`";
    let diag = Diag::error(codes::ONE_RANK_TEXT, program.op_span(id), message);
    let Some(peers) = FoldedPeers::of_op(program, op) else {
        return diag.with_note("peers are positions in the team: the ranks must send to different ones");
    };
    let FoldedPeers { index, position, members } = peers;
    let index = expr_text(program, index);
    let diag = diag.with_note(message!(
        "nvFuser prints the rank's position in the team as a number, here {}: each rank prints another text",
        position
    ));
    if !op.ints_attr(AttrKey::Team).is_some_and(is_identity) {
        return diag.with_note(message!("write the rank's coordinate in the mesh in the place of the {}", position));
    }
    diag.with_note(match program.is_hir2() {
        true => format!("write `to=({members} + (rank - {index})) % {members}, from=({index} + rank) % {members}`"),
        false => format!(
            "write `send_peer=( ( {members} + ( rank - {index} ) ) % {members} ), recv_peer=( ( {index} + rank ) % {members} )`"
        ),
    })
}

/// The peers that nvFuser prints on the rank at `position` of a team.
struct FoldedPeers {
    index: ExprId,
    position: i64,
    members: i64,
}

impl FoldedPeers {
    /// Those of an op with a `send_peer` of the form `( ( n + ( p - i ) ) % n )` and a `recv_peer` `( ( i + p ) % n )`.
    fn of_op(program: &Program, op: &Op) -> Option<Self> {
        let exprs = program.exprs();
        let (sum, members) = binary(program, op.expr_attr(AttrKey::RecvPeer)?, BinaryOp::Mod)?;
        let (index, position) = binary(program, sum, BinaryOp::Add)?;
        let (sum, again) = binary(program, op.expr_attr(AttrKey::SendPeer)?, BinaryOp::Mod)?;
        let (first, difference) = binary(program, sum, BinaryOp::Add)?;
        let same = binary(program, difference, BinaryOp::Sub)? == (position, index) && [again, first] == [members; 2];
        let (position, members) = (exprs.as_int(position)?, exprs.as_int(members)?);
        same.then_some(Self { index, position, members })
    }
}

/// The operands of an expression with this operator.
fn binary(program: &Program, expr: ExprId, wanted: BinaryOp) -> Option<(ExprId, ExprId)> {
    match *program.expr(expr) {
        Expr::Binary(op, a, b) if op == wanted => Some((a, b)),
        _ => None,
    }
}
