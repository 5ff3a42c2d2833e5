//! `Index definitions:`: expressions that replace names at their uses.
//!
//! A definition has no position in the program's order. It may use the index of a loop; its name is then
//! meaningful only inside that loop, with the index of the current iteration.

use crate::ir::{AttrKey, Expr, ExprId, OpId, Program, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

/// The index definitions of a program.
#[derive(Default, Debug)]
pub struct IndexDefinitions {
    ops: FxHashMap<Symbol, OpId>,
}

impl IndexDefinitions {
    /// Collects the definitions of a program.
    pub fn new(program: &Program) -> Self {
        let mut ops = FxHashMap::default();
        let block = program.index_definitions().map(|block| &program.block(block).ops);
        for &id in block.into_iter().flatten() {
            for result in &program.op(id).results {
                let name = result.as_scalar().and_then(|expr| program.exprs().as_name(expr));
                if let Some(name) = name {
                    ops.insert(name, id);
                }
            }
        }
        Self { ops }
    }
    /// Returns the defined names and their statements, in text order.
    pub(crate) fn in_text_order(&self) -> Vec<(Symbol, OpId)> {
        let mut ops: Vec<(Symbol, OpId)> = self.ops.iter().map(|(&name, &id)| (name, id)).collect();
        ops.sort_by_key(|(_, id)| id.0);
        ops
    }
    /// Returns the statement that defines a name.
    pub fn get(&self, name: Symbol) -> Option<OpId> {
        self.ops.get(&name).copied()
    }
    /// Maps each name to the names whose definitions use it directly.
    pub(crate) fn name_users(&self, program: &Program) -> FxHashMap<Symbol, Vec<Symbol>> {
        let mut users: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut stack = Vec::new();
        for (name, id) in self.in_text_order() {
            stack.extend(program.op(id).operands.iter().filter_map(|value| value.as_scalar()));
            while let Some(expr) = stack.pop() {
                match program.expr(expr) {
                    Expr::Name(used) => users.entry(*used).or_default().push(name),
                    other => stack.extend(super::scalar_names::sub_expressions(other)),
                }
            }
        }
        users
    }
    /// Returns the definitions that a definition uses directly, the last in the text first.
    pub(crate) fn needed_definitions(&self, program: &Program, definition: OpId) -> Vec<(Symbol, OpId)> {
        let mut needs = Vec::new();
        let operands = program.op(definition).operands.iter();
        let mut stack: Vec<ExprId> = operands.filter_map(|value| value.as_scalar()).collect();
        while let Some(expr) = stack.pop() {
            match program.expr(expr) {
                Expr::Name(name) => needs.extend(self.get(*name).map(|op| (*name, op))),
                other => stack.extend(super::scalar_names::sub_expressions(other)),
            }
        }
        needs.sort_unstable_by_key(|&(_, op): &(Symbol, OpId)| std::cmp::Reverse(op.0));
        needs.dedup();
        needs
    }
    /// Replaces a defined name by its definition; returns any other expression unchanged.
    pub fn expand_expr(&self, program: &Program, expr: ExprId) -> ExprId {
        let mut found = expr;
        for _ in 0..self.ops.len() {
            let Expr::Name(name) = program.expr(found) else { break };
            let Some(op) = self.get(*name).map(|id| program.op(id)) else { break };
            let plain = op.attr(AttrKey::Function).is_none();
            match op.operands.first().and_then(|value| value.as_scalar()).filter(|_| plain) {
                Some(inner) => found = inner,
                None => break,
            }
        }
        found
    }
    /// Returns true if an expression depends on a name, directly or through definitions.
    pub fn depends_on(&self, program: &Program, expr: ExprId, name: Symbol) -> bool {
        let mut found = false;
        self.visit_names(program, expr, &mut |other| found |= other == name);
        found
    }
    /// Visits the names in an expression and in all definitions that it uses.
    pub fn visit_names(&self, program: &Program, expr: ExprId, visit: &mut dyn FnMut(Symbol)) {
        self.visit_leaves(program, expr, &mut |leaf| {
            if let Expr::Name(name) = leaf {
                visit(*name);
            }
        });
    }
    /// Visits the leaves, such as names, of an expression and of all definitions that it uses.
    pub fn visit_leaves(&self, program: &Program, expr: ExprId, visit: &mut dyn FnMut(&Expr)) {
        let mut seen = FxHashSet::default();
        let mut stack = vec![expr];
        while let Some(expr) = stack.pop() {
            let expr = program.expr(expr);
            let parts = super::scalar_names::sub_expressions(expr);
            if parts.is_empty() {
                visit(expr);
            }
            stack.extend(parts);
            let Expr::Name(name) = expr else { continue };
            if let Some(id) = self.get(*name).filter(|id| seen.insert(*id)) {
                let operands = program.op(id).operands.iter();
                stack.extend(operands.filter_map(|value| value.as_scalar()));
            }
        }
    }
}
