//! Decides the two orders that depend on domain numbers while a text is read; see [`crate::ir::order`].

use super::Resolver;
use super::tables::HeadMeaning;
use crate::ir::{AttrKey, AttrValue, Op, order};
use crate::style::infer_split_axes;
use hostir_grammar::ast;
use rustc_hash::FxHashSet;

impl Resolver<'_> {
    /// Records the results of the permuting ops of a name space: the order of their printed domains is that of their
    /// axes.
    pub(super) fn note_permuted(&mut self, blocks: &[ast::BlockId]) {
        let mut permuted = FxHashSet::default();
        let ast = self.ast;
        if !self.tables.may_permute {
            return self.scope.set_permuted(permuted);
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
                        permuted.insert(ast.tensors[tensor.index()].number);
                    }
                }
            }
        }
        self.scope.set_permuted(permuted);
    }

    fn has_permutation(&mut self, stmt: &ast::StmtSyntax) -> bool {
        stmt.shape == ast::StmtShape::Call
            && matches!(self.resolve_head(stmt.name), HeadMeaning::Op(kind) if kind.has_permutation())
    }

    /// Gives a permuting op without `perm=` the permutation that the numbers of its result imply.
    pub(super) fn with_permutation(&self, mut op: Op) -> Op {
        if !op.kind.has_permutation() || op.attr(AttrKey::Perm).is_some() {
            return op;
        }
        let Some(result) = op.output_tensors().next() else { return op };
        let program = &self.program;
        // Numbers of domains that are no axes imply nothing.
        if program.tensors[result].logical.is_none() {
            let axes = program.logical_axes(result);
            let perm = order::implied_permutation(program.domains(result), &axes);
            op.attrs.extend(perm.map(|perm| (AttrKey::Perm, AttrValue::Ints(perm.into()))));
        }
        op
    }

    /// Decides which domains are parts of axes.
    pub(super) fn decide_splits(&mut self) {
        infer_split_axes(&mut self.program, &self.in_doubt);
    }
}
