//! Scalars that a value is computed from, through the statements that define them.

use super::expr::Expr;
use super::ids::ExprId;
use super::names::Symbol;
use super::program::Program;
use super::scalar_names::sub_expressions;
use rustc_hash::FxHashSet;

/// Returns true if the value of an expression depends on a name, directly or through any number of definitions.
pub fn depends_on_scalar(program: &Program, expr: ExprId, name: Symbol) -> bool {
    let mut known = FxHashSet::default();
    let mut open = vec![expr];
    while let Some(part) = open.pop() {
        match program.expr(part) {
            Expr::Name(found) if *found == name => return true,
            Expr::Name(found) => {
                if known.insert(*found) {
                    open.extend(defining_operands(program, *found));
                }
            }
            other => open.extend(sub_expressions(other)),
        }
    }
    false
}

/// The operands of the statements that define a scalar.
fn defining_operands(program: &Program, name: Symbol) -> Vec<ExprId> {
    let ops = program.ops().iter().map(|(_, op)| op);
    let defining = ops.filter(|op| {
        let mut results = op.results.iter().filter_map(|result| result.as_scalar());
        results.any(|result| program.exprs().as_name(result) == Some(name))
    });
    defining.flat_map(|op| op.operands.iter().filter_map(|operand| operand.as_scalar())).collect()
}
