//! Branches and loops that not every member of a team takes.
//!
//! A communication waits for its whole team. If a branch or loop that depends on the rank contains an op, the op can
//! become a communication only if the condition is the same for all members.

use super::table::CommDecision;
use crate::support::fold;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::ir::{
    AttrKey, BlockId, Expr, ExprId, IndexDefinitions, MeshCoordinate, OpId, Program, Symbol, UnaryOp, quoted_op,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// convert-op-to-communication: a branch that not all devices of a communication take.
const CONVERT_BRANCH: &str = "H0395";

/// The branches and loops around ops that depend on the rank.
#[derive(Default)]
pub(super) struct RankBranches {
    around: FxHashMap<OpId, Vec<OpId>>,
}

impl RankBranches {
    pub(super) fn new(program: &Program) -> Self {
        let definitions = IndexDefinitions::new(program);
        let mut walk = RankBranchWalk { program, definitions, names: FxHashSet::default(), open: Vec::new() };
        for name in ["rank", "deviceIdx.x", "deviceIdx.y", "deviceIdx.z"] {
            walk.names.extend(program.names().find_symbol(name));
        }
        let mut found = Self::default();
        walk.walk_block(program.body(), &mut found.around);
        found
    }

    /// The error for an op that only some members of a team would reach.
    pub(super) fn refuse_divergent(&self, program: &Program, id: OpId, decision: &CommDecision) -> Option<Diag> {
        let around = self.around.get(&id)?;
        let control = *around
            .iter()
            .find(|&&control| decision.posts.iter().any(|post| !is_uniform_over_team(program, control, &post.team)))?;
        let name = quoted_op(program, id);
        let message = message!(
            "this `{}` needs all devices of {}, but whether a device executes it depends on the rank",
            name,
            program.quoted_tensor(decision.output)
        );
        let note =
            "move the op out of the branch or loop, or give its tensors a mesh of only the ranks that execute it";
        let diag = Diag::error(CONVERT_BRANCH, program.op_span(id), message);
        Some(diag.with_label(program.op_span(control), "depends on the rank").with_note(note))
    }
}

struct RankBranchWalk<'a> {
    program: &'a Program,
    definitions: IndexDefinitions,
    /// Names whose value depends on the rank.
    names: FxHashSet<Symbol>,
    /// The branches and loops around the block that depend on it.
    open: Vec<OpId>,
}

impl RankBranchWalk<'_> {
    fn walk_block(&mut self, block: BlockId, around: &mut FxHashMap<OpId, Vec<OpId>>) {
        for &id in &self.program.block(block).ops {
            if !self.open.is_empty() {
                around.insert(id, self.open.clone());
            }
            let op = self.program.op(id);
            let depends = control_scalars(self.program, id).any(|expr| self.depends_on_rank(expr));
            if depends {
                // A definition propagates it, and so does the index of a loop.
                let results = op.results.iter().filter_map(|value| value.as_scalar());
                let named = results.filter_map(|expr| self.program.exprs().as_name(expr));
                self.names.extend(named);
                self.names.extend(hostir::ir::scalar_names::loop_index(self.program, op));
                self.open.push(id);
            }
            for &inner in &op.blocks {
                self.walk_block(inner, around);
            }
            if depends {
                self.open.pop();
            }
        }
    }

    fn depends_on_rank(&self, expr: ExprId) -> bool {
        let mut found = false;
        self.definitions.visit_leaves(self.program, expr, &mut |leaf| {
            found |= match leaf {
                Expr::Name(name) => self.names.contains(name),
                Expr::MeshCoordinate(_, coordinate) => *coordinate != MeshCoordinate::Size,
                _ => false,
            };
        });
        found
    }
}

/// The scalars that decide how often the blocks of an op run; for an op without blocks, its scalars.
fn control_scalars(program: &Program, id: OpId) -> impl Iterator<Item = ExprId> + '_ {
    let op = program.op(id);
    let bounds = [AttrKey::Start, AttrKey::Stop, AttrKey::Step].map(|key| op.expr_attr(key));
    let extent = op.domain_attr(AttrKey::Domain).filter(|_| op.attr(AttrKey::Stop).is_none());
    let extent = extent.map(|domain| program.domain(domain).extent);
    let operands = op.operands.iter().filter_map(|value| value.as_scalar());
    operands.chain(bounds.into_iter().flatten()).chain(extent)
}

/// True if a branch or loop certainly does the same on all ranks of a team.
fn is_uniform_over_team(program: &Program, control: OpId, team: &[u32]) -> bool {
    let Some((&first, rest)) = team.split_first() else { return true };
    control_scalars(program, control).all(|expr| {
        rest.is_empty()
            || value_on_rank(program, expr, first).is_some_and(|first| {
                rest.iter().all(|&rank| value_on_rank(program, expr, rank).as_ref() == Some(&first))
            })
    })
}

/// The value of an expression on a rank, if it consists of the rank and constants.
fn value_on_rank(program: &Program, expr: ExprId, rank: u32) -> Option<Expr> {
    match program.expr(expr) {
        Expr::Int(value) => Some(Expr::Int(*value)),
        Expr::Bool(value) => Some(Expr::Bool(*value)),
        Expr::Name(name) if matches!(program.name(*name), "rank" | "deviceIdx.x") => Some(Expr::Int(i64::from(rank))),
        Expr::MeshCoordinate(mesh, coordinate) => {
            program.mesh(*mesh).coordinate_value(Some(rank), *coordinate).map(Expr::Int)
        }
        Expr::Set(inner) => value_on_rank(program, *inner, rank),
        Expr::Unary(UnaryOp::Not, inner) => match value_on_rank(program, *inner, rank)? {
            Expr::Bool(value) => Some(Expr::Bool(!value)),
            _ => None,
        },
        Expr::Binary(op, a, b) => match (value_on_rank(program, *a, rank)?, value_on_rank(program, *b, rank)?) {
            (Expr::Int(a), Expr::Int(b)) => fold::fold_integers(*op, a, b),
            (Expr::Bool(a), Expr::Bool(b)) => fold::fold_booleans(*op, a, b),
            _ => None,
        },
        _ => None,
    }
}
