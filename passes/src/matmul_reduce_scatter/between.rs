//! Functions between the GEMMs of a sum and the sum over devices: scales, biases, conversions, and what is added.
//!
//! Each hop computes them for one part, in the order of the body. The sum that arrived is added last, as a collective
//! would add it: the function of a sum is not the sum of the functions.

use super::emit::PartSum;
use super::region::{PARTS, is_gemm, is_sharded_first, stored_axes_of};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{has_one_element, stored_domains};
use crate::support::slices::Slice;
use hostir::axes::logical_axes;
use hostir::ir::{ExprId, OpId, OpKind, ParallelType, Program, TensorId, Value};
use rustc_hash::FxHashMap;

/// The ops that make what is summed and whose results nothing else reads, in the order of the body: GEMMs and functions.
/// Empty without a GEMM, and if the last one is another op. `is_part` is true for results that are
/// `[device, part, m, n]`.
pub(super) fn ops_before_sum(
    program: &Program,
    mentions: &FxHashMap<TensorId, usize>,
    partial: TensorId,
    is_part: &dyn Fn(TensorId) -> bool,
) -> Vec<OpId> {
    let mut found: Vec<OpId> = Vec::new();
    let mut reads: FxHashMap<TensorId, usize> = FxHashMap::default();
    reads.insert(partial, 1);
    // All readers of a result are known when its op is reached.
    for &op in program.block(program.body()).ops.iter().rev() {
        let made = program.op(op);
        let Some(result) = made.output_tensors().next().filter(|_| made.results.len() == 1) else { continue };
        let Some(&count) = reads.get(&result) else { continue };
        let is_simple = made.operands.iter().all(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_)));
        let is_ours = (is_gemm(program, op) || made.kind == OpKind::Pointwise) && is_simple && is_part(result);
        // The op itself mentions its result, too.
        if is_ours && mentions.get(&result) == Some(&(count + 1)) {
            made.input_tensors().for_each(|operand| *reads.entry(operand).or_default() += 1);
            found.push(op);
        }
    }
    found.reverse();
    let makes_partial = found.last().is_some_and(|&op| program.op(op).output_tensors().any(|made| made == partial));
    if makes_partial && found.iter().any(|&op| is_gemm(program, op)) { found } else { Vec::new() }
}

/// True for a tensor of which the part of a hop can be sliced: `[device, part, ..]` or `[device, 1, ..]`, and one of up to
/// two axes that is the same on all devices.
pub(super) fn has_part(program: &Program, tensor: TensorId, device: ParallelType) -> bool {
    let axes = logical_axes(program, tensor);
    let stored = stored_axes_of(&axes.axes);
    let is_whole = stored.len() <= 2 && stored.iter().all(|axis| axis.device_type().is_none());
    !axes.has_parts() && (is_whole || stored.len() == 4 && is_sharded_first(&stored, device))
}

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
