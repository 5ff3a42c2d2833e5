//! Lowering of `sdpa_bwd`, for each block of rows as that of `sdpa`.
//!
//! With the weights `p = exp(scale * q @ k^T - lse)` and the gradient `d` of the result, the gradient of the values is
//! `p^T @ d`, that of the scores `s = scale * p * (d @ v^T - sum(d * out))`, that of the queries `s @ k`, that of the
//! keys `s^T @ q` (Dao, FlashAttention-2, section 3.1.2). Those of keys and values sum over blocks of rows, and over the
//! heads that a head of keys serves, in the type of the scores.

use super::forward::{block_view, emit_gemm, emit_row_reduction};
use super::shapes::{
    AttentionFactors, AttentionSettings, NamedView, ROWS, RowBlock, SeparateResult, along_columns, axis_range,
    input_operand, output_result, transposed,
};
use crate::diag::Diag;
use crate::ir::OpId;
use crate::ops::real_kernel::{RealKernel, real};
use crate::plan::{BufferView, Function, InstKind, PlanBuilder, RedOp, ScalarValue, emit_copy};

/// The instructions of `sdpa_bwd`.
pub(super) fn lower_sdpa_bwd(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let factors = AttentionFactors::of_op(cx, op, 1)?;
    let settings = AttentionSettings::of_op(cx, op, factors.elements())?;
    factors.check_triangle(cx, settings)?;
    let [grad, out, lse] = [(0, 1), (4, 1), (5, 0)].map(|(place, trailing)| {
        input_operand(cx, op, place).and_then(|operand| factors.like_query(cx, operand, trailing))
    });
    let (grad, out, lse) = (grad?, out?, lse?);
    for result in [&grad, &out] {
        if result.view.dims.last().map(|dim| dim.extent) != factors.value.view.dims.last().map(|dim| dim.extent) {
            let value = &factors.value;
            return Err(cx.shape_error(result.tensor, &result.view.shape(), value.tensor, &value.view.shape()));
        }
    }
    let by_query = output_result(cx, op, 0)?;
    let by_query = factors.like_query(cx, by_query, 1)?;
    let [by_key, by_value] = [output_result(cx, op, 1)?, output_result(cx, op, 2)?];
    check_gradient_shape(cx, &factors, &factors.key, &by_key)?;
    check_gradient_shape(cx, &factors, &factors.value, &by_value)?;
    if lse.view.is_empty() || factors.columns() == 0 {
        for dst in [by_query.view, by_key.view, by_value.view] {
            cx.emit_inst(InstKind::Fill { dst: Box::new(dst), value: ScalarValue::Float(0.0) })?;
        }
        return Ok(());
    }
    let operands: Vec<BufferView> = factors.views().chain([&grad.view, &out.view, &lse.view]).cloned().collect();
    let by_query = SeparateResult::new(cx, by_query, &operands)?;
    let by_key = SeparateResult::new(cx, by_key, &operands)?;
    let by_value = SeparateResult::new(cx, by_value, &operands)?;
    let sums = [GradientSum::new(cx, &factors, &by_key.view)?, GradientSum::new(cx, &factors, &by_value.view)?];
    let backward = Backward::new(cx, &factors, settings, [grad.view, out.view, lse.view])?;
    for block in factors.blocks(settings) {
        backward.emit_block(cx, block, &by_query.view, [&sums[0], &sums[1]])?;
    }
    sums.iter().try_for_each(|sum| sum.finish(cx))?;
    backward.free(cx)?;
    [by_query, by_key, by_value].into_iter().try_for_each(|result| result.finish(cx))
}

/// The gradient of keys or values: `[.., H, S, E]` with the heads of keys.
struct GradientSum {
    result: BufferView,
    /// The sum so far: the result, or scratch memory in the type of the scores.
    sum: BufferView,
}

impl GradientSum {
    /// A sum of nothing.
    fn new(cx: &mut PlanBuilder<'_>, factors: &AttentionFactors, result: &BufferView) -> Result<Self, Diag> {
        let sum = match result.dtype == factors.compute_type() {
            true => result.clone(),
            false => cx.new_scratch(factors.query.tensor, &result.shape(), factors.compute_type())?,
        };
        cx.emit_inst(InstKind::Fill { dst: Box::new(sum.clone()), value: ScalarValue::Float(0.0) })?;
        Ok(Self { result: result.clone(), sum })
    }

    /// Adds `a^T @ b`, whose first rows are those of the columns of `a`, over the heads that a head of keys serves.
    fn emit_addition(
        &self,
        cx: &mut PlanBuilder<'_>,
        factors: &AttentionFactors,
        [a, b]: [&BufferView; 2],
    ) -> Result<(), Diag> {
        let columns = a.dims.last().map_or(0, |dim| dim.extent);
        let sum = axis_range(&self.sum, 2, 0, columns);
        for group in 0..factors.groups {
            let [left, right] = [a, b].map(|view| group_view(view, factors, group));
            emit_gemm(cx, transposed(&left), right, Some(sum.clone()), sum.clone())?;
        }
        Ok(())
    }

    /// Rounds the sum to the result.
    fn finish(&self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        if self.sum == self.result {
            return Ok(());
        }
        emit_copy(cx, self.sum.clone(), self.result.clone())?;
        cx.free_scratch(&self.sum)
    }
}

/// One of the heads that each head of keys serves.
fn group_view(view: &BufferView, factors: &AttentionFactors, group: usize) -> BufferView {
    let mut chosen = view.clone();
    if factors.groups > 1 {
        let dim = chosen.dims.remove(factors.heads.len());
        chosen.offset += group * dim.stride;
    }
    chosen
}

/// Checks that a gradient has the shape of the keys or values.
fn check_gradient_shape(
    cx: &PlanBuilder<'_>,
    factors: &AttentionFactors,
    factor: &NamedView,
    result: &NamedView,
) -> Result<(), Diag> {
    let need = group_view(&factor.view, factors, 0).shape();
    match result.view.shape() == need {
        true => Ok(()),
        false => Err(cx.shape_error(result.tensor, &result.view.shape(), factor.tensor, &need)),
    }
}

/// The operands of a block's gradients, and their scratch memory.
struct Backward<'f> {
    factors: &'f AttentionFactors,
    settings: AttentionSettings,
    /// The gradient of the result, the result, and its logarithms.
    outputs: [BufferView; 3],
    /// Weights, and gradients of scores: `[.., rows, S]`.
    scores: [BufferView; 2],
    /// The same in the type of the operands, where that is another one.
    rounded: Option<[BufferView; 2]>,
    /// The gradient of the result times the result, `[.., rows, D]`, and the sums of its rows.
    terms: BufferView,
    totals: BufferView,
}

impl<'f> Backward<'f> {
    fn new(
        cx: &mut PlanBuilder<'_>,
        factors: &'f AttentionFactors,
        settings: AttentionSettings,
        outputs: [BufferView; 3],
    ) -> Result<Self, Diag> {
        let (compute, own, tensor) = (factors.compute_type(), factors.query.view.dtype, factors.query.tensor);
        let mut rows = factors.outer_shape();
        rows.push(ROWS.min(factors.rows()));
        let width = outputs[0].dims.last().map_or(0, |dim| dim.extent);
        let [all, result] = [factors.columns(), width].map(|last| [rows.as_slice(), &[last]].concat());
        let scores = [cx.new_scratch(tensor, &all, compute)?, cx.new_scratch(tensor, &all, compute)?];
        let rounded = match own == compute {
            true => None,
            false => Some([cx.new_scratch(tensor, &all, own)?, cx.new_scratch(tensor, &all, own)?]),
        };
        let (terms, totals) = (cx.new_scratch(tensor, &result, compute)?, cx.new_scratch(tensor, &rows, compute)?);
        Ok(Self { factors, settings, outputs, scores, rounded, terms, totals })
    }

    fn free(&self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let mut views = self.scores.iter().chain(self.rounded.iter().flatten()).chain([&self.terms, &self.totals]);
        views.try_for_each(|view| cx.free_scratch(view))
    }

    fn emit_block(
        &self,
        cx: &mut PlanBuilder<'_>,
        block: RowBlock,
        by_query: &BufferView,
        [by_key, by_value]: [&GradientSum; 2],
    ) -> Result<(), Diag> {
        let AttentionFactors { query, key, value, .. } = self.factors;
        let query = axis_range(&query.view, 2, block.first, block.rows);
        let [key, value] = [key, value].map(|factor| axis_range(&factor.view, 2, 0, block.columns));
        let [grad, out] = [0, 1].map(|at| axis_range(&self.outputs[at], 2, block.first, block.rows));
        let [weights, slopes] = [0, 1].map(|at| block_view(&self.scores[at], block));
        emit_gemm(cx, query.clone(), transposed(&key), None, weights.clone())?;
        self.emit_weights(cx, block, &weights)?;
        self.emit_totals(cx, block, [&grad, &out])?;
        emit_gemm(cx, grad.clone(), transposed(&value), None, slopes.clone())?;
        self.emit_slopes(cx, block, [&weights, &slopes])?;
        let [weights, slopes] = match &self.rounded {
            None => [weights, slopes],
            Some(rounded) => {
                let [to_weights, to_slopes] = [0, 1].map(|at| block_view(&rounded[at], block));
                emit_copy(cx, weights, to_weights.clone())?;
                emit_copy(cx, slopes, to_slopes.clone())?;
                [to_weights, to_slopes]
            }
        };
        let rows = axis_range(by_query, 2, block.first, block.rows);
        emit_gemm(cx, slopes.clone(), key, None, rows)?;
        by_value.emit_addition(cx, self.factors, [&weights, &grad])?;
        by_key.emit_addition(cx, self.factors, [&slopes, &query])
    }

    /// The weights of a block, in the place of its scores.
    fn emit_weights(&self, cx: &mut PlanBuilder<'_>, block: RowBlock, scores: &BufferView) -> Result<(), Diag> {
        let mut steps = RealKernel::new(scores.dtype);
        let raw = steps.input(scores.clone());
        let score = steps.apply_function(Function::Mul, [raw, real(self.settings.scale)]);
        let lse = axis_range(&self.outputs[2], 1, block.first, block.rows);
        let lse = steps.input(along_columns(&lse, block.columns));
        let below = steps.apply_function(Function::Sub, [score, lse]);
        let weight = steps.apply_function(Function::Exp, [below]);
        if self.settings.causal {
            let rank = scores.dims.len();
            let counts = steps.is_at_most([rank - 1, rank - 2], block.first);
            steps.choose(counts, [weight, real(0.0)]);
        }
        steps.emit(cx, scores.clone())
    }

    /// The sums of the gradient of the result times the result.
    fn emit_totals(
        &self,
        cx: &mut PlanBuilder<'_>,
        block: RowBlock,
        [grad, out]: [&BufferView; 2],
    ) -> Result<(), Diag> {
        let totals = axis_range(&self.totals, 1, 0, block.rows);
        if grad.is_empty() {
            return cx.emit_inst(InstKind::Fill { dst: Box::new(totals), value: ScalarValue::Float(0.0) });
        }
        let terms = axis_range(&self.terms, 2, 0, block.rows);
        let mut steps = RealKernel::new(terms.dtype);
        let operands = [steps.input(grad.clone()), steps.input(out.clone())];
        steps.apply_function(Function::Mul, operands);
        steps.emit(cx, terms.clone())?;
        emit_row_reduction(cx, RedOp::Sum.into(), &terms, &totals)
    }

    /// The gradients of a block's scores, in the place of those of its weights.
    fn emit_slopes(
        &self,
        cx: &mut PlanBuilder<'_>,
        block: RowBlock,
        [weights, slopes]: [&BufferView; 2],
    ) -> Result<(), Diag> {
        let mut steps = RealKernel::new(slopes.dtype);
        let (weight, slope) = (steps.input(weights.clone()), steps.input(slopes.clone()));
        let total = steps.input(along_columns(&axis_range(&self.totals, 1, 0, block.rows), block.columns));
        let above = steps.apply_function(Function::Sub, [slope, total]);
        let scaled = steps.apply_function(Function::Mul, [weight, above]);
        steps.apply_function(Function::Mul, [scaled, real(self.settings.scale)]);
        steps.emit(cx, slopes.clone())
    }
}
