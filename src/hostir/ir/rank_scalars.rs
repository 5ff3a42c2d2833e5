//! Scalars whose value depends on the rank.

use super::expr::{Expr, MeshCoordinate};
use super::ids::ExprId;
use super::names::Symbol;
use super::op::Op;
use super::program::Program;
use super::scalar_names::{loop_index, sub_expressions};
use rustc_hash::{FxHashMap, FxHashSet};

/// Names that the runtime binds to the number of the rank.
const RANK_NAMES: &[&str] = &["rank", "deviceIdx.x"];

/// The scalars of a program whose value may differ between ranks.
#[derive(Default, Debug)]
pub struct RankScalars {
    names: FxHashSet<Symbol>,
}

impl RankScalars {
    /// Collects the names that are computed from the rank, through any number of definitions and loop bounds.
    pub fn new(program: &Program) -> Self {
        let mut users: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut open: Vec<Symbol> = RANK_NAMES.iter().filter_map(|name| program.names().find_symbol(name)).collect();
        for (_, op) in program.ops().iter() {
            let defined: Vec<Symbol> = defined_names(program, op).collect();
            if defined.is_empty() {
                continue;
            }
            let mut stack: Vec<ExprId> = scalars_of(op).collect();
            while let Some(expr) = stack.pop() {
                match program.expr(expr) {
                    Expr::Name(used) => users.entry(*used).or_default().extend(&defined),
                    Expr::MeshCoordinate(_, MeshCoordinate::Along(_)) => open.extend(&defined),
                    other => stack.extend(sub_expressions(other)),
                }
            }
        }
        let mut names = FxHashSet::default();
        while let Some(name) = open.pop() {
            if names.insert(name) {
                open.extend(users.get(&name).into_iter().flatten());
            }
        }
        Self { names }
    }

    /// Returns true if the value of an expression may differ between ranks.
    pub fn is_dependent(&self, program: &Program, expr: ExprId) -> bool {
        match program.expr(expr) {
            Expr::Name(name) => self.names.contains(name),
            Expr::MeshCoordinate(_, coordinate) => matches!(coordinate, MeshCoordinate::Along(_)),
            other => sub_expressions(other).iter().any(|&part| self.is_dependent(program, part)),
        }
    }

    /// Returns true if a scalar that an op reads, as an operand or an attribute, may differ between ranks.
    pub fn is_op_dependent(&self, program: &Program, op: &Op) -> bool {
        scalars_of(op).any(|expr| self.is_dependent(program, expr))
    }
}

/// The scalars that an op computes, and the index of a loop.
fn defined_names<'p>(program: &'p Program, op: &'p Op) -> impl Iterator<Item = Symbol> + 'p {
    let results = op.results.iter().filter_map(|value| program.exprs().as_name(value.as_scalar()?));
    let index = if op.blocks.is_empty() { None } else { loop_index(program, op) };
    results.chain(index)
}

fn scalars_of(op: &Op) -> impl Iterator<Item = ExprId> + '_ {
    let operands = op.operands.iter().filter_map(|value| value.as_scalar());
    operands.chain(op.attrs.iter().flat_map(|(_, value)| value.exprs()).copied())
}
