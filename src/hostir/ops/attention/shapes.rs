//! The settings of attention, and its operands as views with one axis for the heads of keys and one for the heads of
//! queries that each of them serves.

use super::attributes::{CAUSAL, CAUSAL_NOTE, DROPOUT, SCALE};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{DType, Op, TensorId, quoted_head};
use crate::plan::{BufferView, PlanBuilder, ViewDim, emit_copy};

/// The rows of scores that are in memory at a time, for each head.
pub(super) const ROWS: usize = 128;

/// The attributes of attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionSettings {
    /// True if a query sees only the keys up to its own place.
    pub(super) causal: bool,
    /// The factor of the scores.
    pub(super) scale: f64,
}

impl AttentionSettings {
    /// The settings of an op whose heads have `elements` elements. Fails for a dropout.
    pub(super) fn of_op(cx: &PlanBuilder<'_>, op: &Op, elements: usize) -> Result<Self, Diag> {
        let dropout = match op.expr_attr(DROPOUT) {
            Some(expr) => cx.eval_scalar(expr)?.as_f64(),
            None => 0.0,
        };
        if dropout != 0.0 {
            let head = quoted_head(op.kind.name());
            let message =
                message!("`{}` with a dropout probability of {} is not supported in a run", head, format!("{dropout}"));
            return Err(cx.error_here(codes::CANNOT_RUN, message).with_note("a probability of 0 runs on all backends"));
        }
        let causal = match op.expr_attr(CAUSAL) {
            Some(expr) => cx.eval_scalar(expr)?.as_bool(),
            None => false,
        };
        let scale = match op.expr_attr(SCALE) {
            Some(expr) => cx.eval_scalar(expr)?.as_f64(),
            None => 1.0 / (elements as f64).sqrt(),
        };
        Ok(Self { causal, scale })
    }
}

/// A tensor of attention and its view.
#[derive(Clone, Debug)]
pub(super) struct NamedView {
    /// The tensor.
    pub(super) tensor: TensorId,
    /// The view: a batch, heads of keys, heads of queries for each of them, rows, elements.
    pub(super) view: BufferView,
}

/// Queries, keys and values.
#[derive(Clone, Debug)]
pub(super) struct AttentionFactors {
    /// `[.., H, g, L, E]`.
    pub(super) query: NamedView,
    /// `[.., H, g, S, E]`, where all `g` are the same memory.
    pub(super) key: NamedView,
    /// `[.., H, g, S, D]`, likewise.
    pub(super) value: NamedView,
    /// The heads of queries that a head of keys serves.
    pub(super) groups: usize,
    /// The extents of the queries' batch and heads.
    pub(super) heads: Vec<usize>,
}

impl AttentionFactors {
    /// The views of the operands that follow `first` others. Fails if their shapes do not fit.
    pub(super) fn of_op(cx: &PlanBuilder<'_>, op: &Op, first: usize) -> Result<Self, Diag> {
        let [query, key, value] = [first, first + 1, first + 2].map(|place| input_operand(cx, op, place));
        let (mut query, mut key, mut value) = (query?, key?, value?);
        let (q, k, v) = (query.view.shape(), key.view.shape(), value.view.shape());
        let rank = q.len();
        let fits = rank >= 4 && k.len() == rank && q[..rank - 3] == k[..rank - 3] && q[rank - 1] == k[rank - 1];
        let groups = match (fits, rank.checked_sub(3).map(|head| (q[head], k.get(head).copied().unwrap_or(0)))) {
            (true, Some((served, heads))) if served == heads => 1,
            (true, Some((served, heads))) if heads > 0 && served % heads == 0 => served / heads,
            _ => return Err(cx.shape_error(query.tensor, &q, key.tensor, &k)),
        };
        if v.len() != rank || v[..rank - 1] != k[..rank - 1] {
            return Err(cx.shape_error(value.tensor, &v, key.tensor, &k));
        }
        split_heads(&mut query.view, rank - 3, groups);
        repeat_heads(&mut key.view, rank - 3, groups);
        repeat_heads(&mut value.view, rank - 3, groups);
        Ok(Self { query, key, value, groups, heads: q[..rank - 2].to_vec() })
    }

    /// The three views.
    pub(super) fn views(&self) -> impl Iterator<Item = &BufferView> {
        [&self.query, &self.key, &self.value].into_iter().map(|factor| &factor.view)
    }
    /// The number of queries.
    pub(super) fn rows(&self) -> usize {
        self.query.view.dims[self.query.view.dims.len() - 2].extent
    }
    /// The number of keys.
    pub(super) fn columns(&self) -> usize {
        self.key.view.dims[self.key.view.dims.len() - 2].extent
    }
    /// The number of elements of a head of queries.
    pub(super) fn elements(&self) -> usize {
        self.query.view.dims.last().map_or(0, |dim| dim.extent)
    }
    /// The extents of the batch and the heads, as the views have them.
    pub(super) fn outer_shape(&self) -> Vec<usize> {
        let shape = self.query.view.shape();
        shape[..shape.len() - 2].to_vec()
    }
    /// The type in which scores are computed.
    pub(super) fn compute_type(&self) -> DType {
        if self.query.view.dtype == DType::Double { DType::Double } else { DType::Float }
    }
    /// Checks that a causal mask is a square.
    pub(super) fn check_triangle(&self, cx: &PlanBuilder<'_>, settings: AttentionSettings) -> Result<(), Diag> {
        if !settings.causal || self.rows() == self.columns() {
            return Ok(());
        }
        let message = message!(
            "a causal mask needs as many keys as queries, but {} has {} queries and {} has {} keys",
            cx.quoted_tensor(self.query.tensor),
            self.rows(),
            cx.quoted_tensor(self.key.tensor),
            self.columns()
        );
        Err(cx.error_here(codes::CAUSAL_SHAPE, message).with_note(CAUSAL_NOTE))
    }
    /// The blocks of rows, and for each the number of keys that some row of it sees.
    pub(super) fn blocks(&self, settings: AttentionSettings) -> Vec<RowBlock> {
        let starts = (0..self.rows()).step_by(ROWS);
        let blocks = starts.map(|first| {
            let rows = ROWS.min(self.rows() - first);
            let columns = if settings.causal { first + rows } else { self.columns() };
            RowBlock { first, rows, columns }
        });
        blocks.collect()
    }
    /// A result or another operand with the queries' batch, heads and rows, and `trailing` more axes of any extent.
    pub(super) fn like_query(
        &self,
        cx: &PlanBuilder<'_>,
        other: NamedView,
        trailing: usize,
    ) -> Result<NamedView, Diag> {
        let (found, mut need) = (other.view.shape(), self.heads.clone());
        need.push(self.rows());
        if found.len() != need.len() + trailing || !found.starts_with(&need) {
            return Err(cx.shape_error(other.tensor, &found, self.query.tensor, &need));
        }
        Ok(NamedView { view: self.with_split_heads(other.view), ..other })
    }
    /// A view whose axis of heads is split as that of the queries.
    pub(super) fn with_split_heads(&self, mut view: BufferView) -> BufferView {
        split_heads(&mut view, self.heads.len() - 1, self.groups);
        view
    }
}

/// Some consecutive rows of the scores, with the first columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBlock {
    /// The first row.
    pub(super) first: usize,
    /// The number of rows.
    pub(super) rows: usize,
    /// The number of columns.
    pub(super) columns: usize,
}

/// An operand.
pub(super) fn input_operand(cx: &PlanBuilder<'_>, op: &Op, place: usize) -> Result<NamedView, Diag> {
    let tensor = cx.operand_tensor(op, place)?;
    Ok(NamedView { tensor, view: cx.input_view(tensor)? })
}

/// A result, which is allocated if it has no memory.
pub(super) fn output_result(cx: &mut PlanBuilder<'_>, op: &Op, place: usize) -> Result<NamedView, Diag> {
    let Some(tensor) = op.output_tensors().nth(place) else {
        let message = message!("`{}` needs {} results", quoted_head(op.kind.name()), place + 1);
        return Err(cx.error_here(codes::CANNOT_RUN, message));
    };
    Ok(NamedView { tensor, view: cx.output_view(tensor)? })
}

/// A result that is written before all operands have been read.
#[derive(Clone, Debug)]
pub(super) struct SeparateResult {
    /// The memory of the result.
    result: BufferView,
    /// The memory in which it is computed: there, or in scratch memory if an operand may have elements there.
    pub(super) view: BufferView,
}

impl SeparateResult {
    /// Makes scratch memory for a result if it may share elements with an operand.
    pub(super) fn new<'v>(
        cx: &mut PlanBuilder<'_>,
        result: NamedView,
        operands: impl IntoIterator<Item = &'v BufferView>,
    ) -> Result<Self, Diag> {
        let NamedView { tensor, view: result } = result;
        let view = match operands.into_iter().any(|operand| may_share_elements(operand, &result)) {
            true => cx.new_scratch(tensor, &result.shape(), result.dtype)?,
            false => result.clone(),
        };
        Ok(Self { result, view })
    }
    /// Brings the result to its memory.
    pub(super) fn finish(self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        if self.view.buffer == self.result.buffer {
            return Ok(());
        }
        emit_copy(cx, self.view.clone(), self.result)?;
        cx.free_scratch(&self.view)
    }
}

/// Returns true if the ranges of two views in one buffer overlap.
fn may_share_elements(a: &BufferView, b: &BufferView) -> bool {
    let [end_a, end_b] = [a, b].map(|view| view.offset + view.last_offset());
    a.buffer == b.buffer && !a.is_empty() && !b.is_empty() && a.offset <= end_b && b.offset <= end_a
}

/// Splits the axis of heads into those of keys and those that each of them serves.
fn split_heads(view: &mut BufferView, axis: usize, groups: usize) {
    if groups == 1 {
        return;
    }
    let ViewDim { extent, stride } = view.dims[axis];
    view.dims[axis] = ViewDim { extent: extent / groups, stride: stride * groups };
    view.dims.insert(axis + 1, ViewDim { extent: groups, stride });
}

/// Repeats each head for those that it serves.
fn repeat_heads(view: &mut BufferView, axis: usize, groups: usize) {
    if groups > 1 {
        view.dims.insert(axis + 1, ViewDim { extent: groups, stride: 0 });
    }
}

/// A range of an axis, which is counted from the last one, 1.
pub(super) fn axis_range(view: &BufferView, from_end: usize, first: usize, extent: usize) -> BufferView {
    let mut range = view.clone();
    let axis = range.dims.len() - from_end;
    range.offset += first * range.dims[axis].stride;
    range.dims[axis].extent = extent;
    range
}

/// The view with its last two axes exchanged.
pub(super) fn transposed(view: &BufferView) -> BufferView {
    let mut turned = view.clone();
    let last = turned.dims.len() - 1;
    turned.dims.swap(last - 1, last);
    turned
}

/// A value for each row, repeated along the columns.
pub(super) fn along_columns(rows: &BufferView, columns: usize) -> BufferView {
    let mut view = rows.clone();
    view.dims.push(ViewDim { extent: columns, stride: 0 });
    view
}
