//! Lowering of `sdpa`: a GEMM, a softmax and a GEMM for each block of rows, so that memory grows with the number of keys
//! alone. Where GPUs have one kernel for all of it, these are the parts of one instruction.
//!
//! The softmax subtracts the maximum of its row. A row that sees no key gives zeros, as PyTorch's, and the logarithm of
//! an empty sum, negative infinity.

use super::checks::term_operand;
use super::shapes::{
    AttentionFactors, AttentionSettings, ROWS, RowBlock, SeparateResult, along_columns, axis_range, input_operand,
    output_result, transposed,
};
use super::single_inst::single_inst;
use crate::diag::Diag;
use crate::ir::{DType, Op, OpId};
use crate::ops::real_kernel::{RealKernel, real};
use crate::plan::{
    AttentionInst, BufferView, Function, GemmInst, InstKind, PlanBuilder, RedOp, ReduceInst, ReductionFold,
    ScalarValue, StepOperand, emit_copy, expanded_view,
};
use smallvec::smallvec;

/// The instructions of `sdpa`.
pub(super) fn lower_sdpa(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let factors = AttentionFactors::of_op(cx, op, 0)?;
    let settings = AttentionSettings::of_op(cx, op, factors.elements())?;
    factors.check_triangle(cx, settings)?;
    let [out, lse] = [output_result(cx, op, 0)?, output_result(cx, op, 1)?];
    let (out, lse) = (factors.like_query(cx, out, 1)?, factors.like_query(cx, lse, 0)?);
    if out.view.dims.last().map(|dim| dim.extent) != factors.value.view.dims.last().map(|dim| dim.extent) {
        return Err(cx.shape_error(out.tensor, &out.view.shape(), factors.value.tensor, &factors.value.view.shape()));
    }
    for place in [2, 3] {
        let state = output_result(cx, op, place)?;
        cx.emit_inst(InstKind::Fill { dst: Box::new(state.view), value: ScalarValue::Int(0) })?;
    }
    if factors.columns() == 0 {
        cx.emit_inst(InstKind::Fill { dst: Box::new(out.view), value: ScalarValue::Float(0.0) })?;
        return cx.emit_inst(InstKind::Fill { dst: Box::new(lse.view), value: ScalarValue::Float(f64::NEG_INFINITY) });
    }
    if lse.view.is_empty() {
        return Ok(());
    }
    let terms = ScoreTerms::of_op(cx, op, &factors)?;
    let operands: Vec<BufferView> = factors.views().chain(&terms.bias).chain(&terms.mask).cloned().collect();
    let (out, lse) = (SeparateResult::new(cx, out, &operands)?, SeparateResult::new(cx, lse, &operands)?);
    let single = match terms.is_empty() {
        true => single_inst(&factors, settings, [&out.view, &lse.view]),
        false => None,
    };
    let start = cx.inst_count();
    let softmax = Softmax::new(cx, &factors, settings, terms, out.view.dims.last().map_or(0, |dim| dim.extent))?;
    for block in factors.blocks(settings) {
        softmax.emit_block(cx, block, [&out.view, &lse.view])?;
    }
    softmax.free(cx)?;
    if let Some(single) = single {
        let composition = cx.take_insts(start);
        cx.emit_inst(InstKind::Attention(Box::new(AttentionInst { composition, ..single })))?;
    }
    out.finish(cx)?;
    lse.finish(cx)
}

/// The terms added to the scores, and the mask of those that count; with the extents of all scores.
struct ScoreTerms {
    bias: Option<BufferView>,
    mask: Option<BufferView>,
}

impl ScoreTerms {
    fn of_op(cx: &PlanBuilder<'_>, op: &Op, factors: &AttentionFactors) -> Result<Self, Diag> {
        let bias = Self::read_term(cx, op, "bias", factors)?;
        Ok(Self { bias, mask: Self::read_term(cx, op, "mask", factors)? })
    }

    fn is_empty(&self) -> bool {
        self.bias.is_none() && self.mask.is_none()
    }

    fn read_term(
        cx: &PlanBuilder<'_>,
        op: &Op,
        word: &str,
        factors: &AttentionFactors,
    ) -> Result<Option<BufferView>, Diag> {
        let Some(place) = term_operand(op, word).and_then(|term| op.input_tensors().skip(3).position(|t| t == term))
        else {
            return Ok(None);
        };
        let term = input_operand(cx, op, place + 3)?;
        let mut scores = factors.heads.clone();
        scores.extend([factors.rows(), factors.columns()]);
        let Some(view) = expanded_view(&term.view, &scores).filter(|_| term.view.dims.len() == scores.len()) else {
            return Err(cx.shape_error(term.tensor, &term.view.shape(), factors.query.tensor, &scores));
        };
        Ok(Some(factors.with_split_heads(view)))
    }
}

/// The operands of the softmax of a block, and its scratch memory.
struct Softmax<'f> {
    factors: &'f AttentionFactors,
    settings: AttentionSettings,
    terms: ScoreTerms,
    /// Scores, then their exponentials: `[.., rows, S]`.
    scores: BufferView,
    /// The exponentials in the type of the values, where that is another one.
    weights: Option<BufferView>,
    /// The rows' maxima and sums: `[.., rows]`.
    statistics: [BufferView; 2],
    /// The weighted sums of values, before their division: `[.., rows, D]`.
    sums: BufferView,
}

impl<'f> Softmax<'f> {
    fn new(
        cx: &mut PlanBuilder<'_>,
        factors: &'f AttentionFactors,
        settings: AttentionSettings,
        terms: ScoreTerms,
        width: usize,
    ) -> Result<Self, Diag> {
        let (compute, tensor) = (factors.compute_type(), factors.query.tensor);
        let mut rows = factors.outer_shape();
        rows.push(ROWS.min(factors.rows()));
        let [all, result] = [factors.columns(), width].map(|last| [rows.as_slice(), &[last]].concat());
        let scores = cx.new_scratch(tensor, &all, compute)?;
        let own = factors.query.view.dtype;
        let weights = if own == compute { None } else { Some(cx.new_scratch(tensor, &all, own)?) };
        let statistics = [cx.new_scratch(tensor, &rows, compute)?, cx.new_scratch(tensor, &rows, compute)?];
        let sums = cx.new_scratch(tensor, &result, compute)?;
        Ok(Self { factors, settings, terms, scores, weights, statistics, sums })
    }

    fn free(&self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let [maxima, totals] = &self.statistics;
        let mut views = [&self.scores, maxima, totals, &self.sums].into_iter().chain(&self.weights);
        views.try_for_each(|view| cx.free_scratch(view))
    }

    /// Returns true if a row may see no key: then its maximum and its sum are those of nothing.
    fn may_see_nothing(&self) -> bool {
        self.terms.bias.is_some() || self.terms.mask.is_some()
    }

    fn emit_block(&self, cx: &mut PlanBuilder<'_>, block: RowBlock, [out, lse]: [&BufferView; 2]) -> Result<(), Diag> {
        let rows = [&self.statistics[0], &self.statistics[1]].map(|view| axis_range(view, 1, 0, block.rows));
        let scores = block_view(&self.scores, block);
        self.emit_scores(cx, block, &scores)?;
        let least = self.settings.causal || self.may_see_nothing();
        let initial = least.then(|| ScalarValue::Float(least_score(scores.dtype)));
        emit_row_reduction(cx, ReductionFold { op: RedOp::Max, initial }, &scores, &rows[0])?;
        self.emit_exponentials(cx, block, &scores, &rows[0])?;
        emit_row_reduction(cx, RedOp::Sum.into(), &scores, &rows[1])?;
        let weights = match &self.weights {
            Some(weights) => {
                let weights = block_view(weights, block);
                emit_copy(cx, scores, weights.clone())?;
                weights
            }
            None => scores,
        };
        let value = axis_range(&self.factors.value.view, 2, 0, block.columns);
        let sums = axis_range(&self.sums, 2, 0, block.rows);
        emit_gemm(cx, weights, value, None, sums.clone())?;
        self.emit_quotients(cx, sums, &rows[1], axis_range(out, 2, block.first, block.rows))?;
        self.emit_logarithms(cx, rows, axis_range(lse, 1, block.first, block.rows))
    }

    /// The scores of a block; those that do not count get the least value.
    fn emit_scores(&self, cx: &mut PlanBuilder<'_>, block: RowBlock, scores: &BufferView) -> Result<(), Diag> {
        let query = axis_range(&self.factors.query.view, 2, block.first, block.rows);
        let key = axis_range(&self.factors.key.view, 2, 0, block.columns);
        emit_gemm(cx, query, transposed(&key), None, scores.clone())?;
        let mut steps = RealKernel::new(scores.dtype);
        let raw = steps.input(scores.clone());
        let mut score = steps.apply_function(Function::Mul, [raw, real(self.settings.scale)]);
        if let Some(bias) = &self.terms.bias {
            let bias = steps.input(term_block(bias, block));
            score = steps.apply_function(Function::Add, [score, bias]);
        }
        if let Some(counts) = self.counting(&mut steps, block, scores.dims.len()) {
            steps.choose(counts, [score, real(least_score(scores.dtype))]);
        }
        steps.emit(cx, scores.clone())
    }

    /// True where a score counts; `None` if all do.
    fn counting(&self, steps: &mut RealKernel, block: RowBlock, rank: usize) -> Option<StepOperand> {
        let triangle = self.settings.causal.then(|| steps.is_at_most([rank - 1, rank - 2], block.first));
        let mask = self.terms.mask.as_ref().map(|mask| steps.input(term_block(mask, block)));
        match (triangle, mask) {
            (Some(triangle), Some(mask)) => Some(steps.both([triangle, mask])),
            (one, other) => one.or(other),
        }
    }

    /// The exponentials of a block's scores, in their place: zero for those that do not count.
    fn emit_exponentials(
        &self,
        cx: &mut PlanBuilder<'_>,
        block: RowBlock,
        scores: &BufferView,
        maxima: &BufferView,
    ) -> Result<(), Diag> {
        let mut steps = RealKernel::new(scores.dtype);
        let score = steps.input(scores.clone());
        let maximum = steps.input(along_columns(maxima, block.columns));
        let below = steps.apply_function(Function::Sub, [score, maximum]);
        let exponential = steps.apply_function(Function::Exp, [below]);
        if let Some(counts) = self.counting(&mut steps, block, scores.dims.len()) {
            steps.choose(counts, [exponential, real(0.0)]);
        }
        steps.emit(cx, scores.clone())
    }

    /// The results of a block.
    fn emit_quotients(
        &self,
        cx: &mut PlanBuilder<'_>,
        sums: BufferView,
        totals: &BufferView,
        out: BufferView,
    ) -> Result<(), Diag> {
        if out.is_empty() {
            return Ok(());
        }
        let mut steps = RealKernel::new(sums.dtype);
        let width = sums.dims.last().map_or(0, |dim| dim.extent);
        let sum = steps.input(sums);
        let mut total = steps.input(along_columns(totals, width));
        if self.may_see_nothing() {
            // The largest exponential of a row that sees a key is 1.
            total = steps.apply_function(Function::Max, [total, real(0.5)]);
        }
        steps.apply_function(Function::Div, [sum, total]);
        steps.emit(cx, out)
    }

    /// The logarithms of a block.
    fn emit_logarithms(
        &self,
        cx: &mut PlanBuilder<'_>,
        [maxima, totals]: [BufferView; 2],
        lse: BufferView,
    ) -> Result<(), Diag> {
        let mut steps = RealKernel::new(maxima.dtype);
        let (maximum, total) = (steps.input(maxima), steps.input(totals));
        let logarithm = steps.apply_function(Function::Log, [total]);
        steps.apply_function(Function::Add, [maximum, logarithm]);
        steps.emit(cx, lse)
    }
}

/// The least finite value: unlike an infinity, it can be subtracted from itself.
fn least_score(dtype: DType) -> f64 {
    if dtype == DType::Double { f64::MIN } else { f64::from(f32::MIN) }
}

/// The memory of a block of scores.
pub(super) fn block_view(scores: &BufferView, block: RowBlock) -> BufferView {
    axis_range(&axis_range(scores, 2, 0, block.rows), 1, 0, block.columns)
}

/// The rows and columns of a bias or a mask that belong to a block.
fn term_block(term: &BufferView, block: RowBlock) -> BufferView {
    axis_range(&axis_range(term, 2, block.first, block.rows), 1, 0, block.columns)
}

/// Appends the reduction of each row.
pub(super) fn emit_row_reduction(
    cx: &mut PlanBuilder<'_>,
    op: ReductionFold,
    input: &BufferView,
    output: &BufferView,
) -> Result<(), Diag> {
    let axes = smallvec![input.dims.len() - 1];
    cx.emit_inst(InstKind::Reduce(Box::new(ReduceInst { op, axes, input: input.clone(), output: output.clone() })))
}

/// Appends a GEMM of views with the same batch.
pub(super) fn emit_gemm(
    cx: &mut PlanBuilder<'_>,
    a: BufferView,
    b: BufferView,
    bias: Option<BufferView>,
    out: BufferView,
) -> Result<(), Diag> {
    if out.is_empty() {
        return Ok(());
    }
    cx.emit_inst(InstKind::Gemm(Box::new(GemmInst { a, b, bias, scales: None, out })))
}
