//! Functions between the GEMMs of a sum and the sum over devices: scales, biases, conversions, and what is added.
//!
//! Each hop computes them for one part, in the order of the body. The sum that arrived is added last, as a collective
//! would add it: the function of a sum is not the sum of the functions.

use super::emit::PartSum;
use super::region::PARTS;
use crate::support::builder::OpBuilder;
use crate::support::reshard::{has_one_element, stored_domains};
use crate::support::slices::Slice;
use hostir::ir::{ExprId, OpId, TensorId, Value};

impl PartSum<'_> {
    /// The ops of a part before the last one, with their results in slots. A chain of GEMMs has none.
    pub(super) fn leading_statements(&self, build: &mut OpBuilder<'_, '_>, part: ExprId) -> Vec<OpId> {
        let mut ops = Vec::new();
        for number in 0..self.region.functions.len().saturating_sub(1) {
            self.function_statement(build, number, part, &self.kept[number], &mut ops);
        }
        ops
    }

    /// The last op of a part, plus `added`.
    pub(super) fn last_function(
        &self,
        build: &mut OpBuilder<'_, '_>,
        part: ExprId,
        into: &Slice,
        added: Option<&Slice>,
    ) -> Vec<OpId> {
        let (mut ops, last) = (Vec::new(), self.region.functions.len() - 1);
        let Some(added) = added else {
            self.function_statement(build, last, part, into, &mut ops);
            return ops;
        };
        let own = &self.kept[last];
        self.function_statement(build, last, part, own, &mut ops);
        let result = into.emit_selects(build, &mut ops);
        let terms = [own, added].map(|term| term.emit_selects(build, &mut ops));
        ops.push(build.build_pointwise("+", result, terms));
        ops
    }

    /// Appends an op of a part. Slices are in the order in which `hir 2` reads them inside of a statement.
    fn function_statement(
        &self,
        build: &mut OpBuilder<'_, '_>,
        number: usize,
        part: ExprId,
        into: &Slice,
        ops: &mut Vec<OpId>,
    ) {
        let mut op = build.program().op(self.region.functions[number]).clone();
        let result = into.emit_selects(build, ops);
        for value in &mut op.operands {
            if let Value::Tensor(operand) = *value {
                *value = Value::Tensor(self.part_of_operand(build, operand, part).emit_selects(build, ops));
            }
        }
        op.results.clear();
        ops.push(build.push(op.with_result(Value::Tensor(result))));
    }

    /// The part of an operand: the slot of a result, or a slice.
    fn part_of_operand(&self, build: &mut OpBuilder<'_, '_>, operand: TensorId, part: ExprId) -> Slice {
        let program = build.program();
        let makes = |&&op: &&OpId| program.op(op).output_tensors().any(|made| made == operand);
        if let Some((slot, _)) = self.kept.iter().zip(&self.region.functions).find(|(_, op)| makes(op)) {
            return slot.clone();
        }
        let domains = stored_domains(program, operand);
        if domains.iter().all(|domain| !domain.parallel.is_device()) {
            return Slice::whole(operand);
        }
        let is_same = has_one_element(program, &domains[PARTS]);
        let index = if is_same { build.int_expr(0) } else { part };
        self.own_shard(build, operand).index_axis(PARTS - 1, index)
    }
}
