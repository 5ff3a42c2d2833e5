//! The two orders that domain numbers decide, found while a text is read; see [`crate::ir::order`].

use super::{HeadMeaning, Resolver};
use crate::diag::Diags;
use crate::ir::{AttrKey, AttrValue, Op, OpId, Tensor, TensorId, order};
use hostir_grammar::ast;
use rustc_hash::FxHashSet;

impl Resolver<'_> {
    /// Notes the results of the permuting ops of a name space: their axes are printed in their order.
    pub(super) fn note_permuted(&mut self, blocks: &[ast::BlockId]) {
        self.permuted.clear();
        let ast = self.ast;
        if !ast.stmts.iter().any(|stmt| self.has_permutation(stmt)) {
            return;
        }
        let mut stack = blocks.to_vec();
        while let Some(block) = stack.pop() {
            for stmt in &ast.blocks[block.index()].stmts {
                let stmt = &ast.stmts[stmt.index()];
                stack.extend([stmt.body, stmt.else_body].into_iter().flatten());
                if !self.has_permutation(stmt) {
                    continue;
                }
                for result in ast.args_in(stmt.results) {
                    if let ast::ValueSyntax::Expr(expr) = result.value
                        && let ast::ExprSyntax::Tensor(tensor) = ast.exprs[expr.index()].0
                    {
                        self.permuted.insert(ast.tensors[tensor.index()].number);
                    }
                }
            }
        }
    }

    fn has_permutation(&mut self, stmt: &ast::StmtSyntax) -> bool {
        stmt.shape == ast::StmtShape::Call
            && matches!(self.resolve_head(stmt.name), HeadMeaning::Op(kind) if kind.has_permutation())
    }

    /// A permuting op without `perm=` has the permutation that the numbers of its result give.
    pub(super) fn with_permutation(&self, mut op: Op) -> Op {
        if !op.kind.has_permutation() || op.attr(AttrKey::Perm).is_some() {
            return op;
        }
        let Some(result) = op.output_tensors().next() else { return op };
        let program = &self.program;
        // Numbers of domains that are no axes say nothing.
        if program.tensors[result].logical.is_none() {
            let axes = program.logical_axes(result);
            let perm = order::implied_permutation(program.domains(result), &axes);
            op.attrs.extend(perm.map(|perm| (AttrKey::Perm, AttrValue::Ints(perm.into()))));
        }
        op
    }

    /// A gap in the numbers of people's domains need not be a split. Where the ops fit the printed domains
    /// as they stand, those are the axes; where they would not, the domains are parts of axes.
    pub(super) fn decide_splits(&mut self) {
        if self.in_doubt.is_empty() {
            return;
        }
        let doubtful: FxHashSet<TensorId> = self.in_doubt.iter().copied().collect();
        let mut touching = Vec::new();
        for (id, op) in self.program.ops.iter() {
            let mut tensors = op.input_tensors().chain(op.output_tensors());
            if op.posted_number().is_some() || tensors.any(|tensor| doubtful.contains(&tensor)) {
                touching.push(id);
            }
        }
        let as_parts = self.count_faults(&touching);
        self.set_split(false);
        if self.count_faults(&touching) > as_parts {
            self.set_split(true);
        }
    }

    fn set_split(&mut self, split: bool) {
        for &tensor in &self.in_doubt {
            let old = &mut self.program.tensors[tensor];
            *old = Tensor { split, ..old.clone() };
        }
    }

    /// Counts the errors that the checks of single ops find.
    fn count_faults(&self, ops: &[OpId]) -> usize {
        let mut diags = Diags::default();
        ops.iter().for_each(|&op| self.program.ops[op].kind.spec().verify(&self.program, op, &mut diags));
        diags.items.len()
    }
}
