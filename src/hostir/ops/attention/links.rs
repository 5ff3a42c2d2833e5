//! Axis links of attention.
//!
//! Batch axes and heads are the same in all tensors, unless a head of keys serves several heads of queries. Without a
//! causal mask the rows of the scores do not depend on each other, so that the queries of `sdpa` correspond to the rows
//! of its results; the gradients of keys and values sum over them. The other axes are contracted.

use super::attributes::written_causal;
use crate::axes::pairing::{
    AxisMismatch, LinkResult, LinkSide, has_same_extent, has_split_axis, link_pairs, operand_side, too_few_tensors,
};
use crate::diag::message;
use crate::diag::{Message, codes, count_text};
use crate::ir::{AxisLink, OpId, Program, TensorId, quoted_op};

/// The axes of the queries that correspond to those of the result, counted from the batch.
#[derive(Clone, Copy)]
struct LinkedAxes {
    /// The number of the queries' axes.
    rank: usize,
    /// True if the heads correspond.
    heads: bool,
    /// True if the rows correspond.
    rows: bool,
}

impl LinkedAxes {
    fn holds(self, axis: usize) -> bool {
        match self.rank - axis {
            1 => false,
            2 => self.rows,
            3 => self.heads,
            _ => true,
        }
    }
    fn without_rows(self) -> Self {
        Self { rows: false, ..self }
    }
}

/// sdpa: `[.., H, L, E]`, `[.., H, S, E]`, `[.., H, S, D]`, bias and mask `[.., H, L, S]` -> `[.., H, L, D]`, `[.., H, L]`.
pub(super) fn link_sdpa(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let factors = factor_sides(program, op, 0)?;
    let results = [result_number(program, op, 0)?, result_number(program, op, 1)?];
    let terms: Vec<LinkSide> =
        program.op(op).input_tensors().skip(3).map(|tensor| LinkSide::new(program, tensor)).collect();
    if factors.iter().chain(&results).chain(&terms).any(|side| has_split_axis(&[side])) {
        return Ok(());
    }
    let rank = query_rank(program, op, &factors[0])?;
    factors[1..]
        .iter()
        .chain(&terms)
        .chain(&results[..1])
        .try_for_each(|side| require_rank(program, op, side, rank))?;
    require_rank(program, op, &results[1], rank - 1)?;
    let heads = has_matching_heads(program, &factors);
    let linked = LinkedAxes { rank, heads, rows: written_causal(program, program.op(op)) == Some(false) };
    let [query, key, value] = &factors;
    for to in &results {
        link_operand(program, query, to, linked, links);
        link_operand(program, key, to, linked.without_rows(), links);
        link_operand(program, value, to, linked.without_rows(), links);
        terms.iter().for_each(|term| link_term(program, term, to, linked, links));
    }
    Ok(())
}

/// sdpa_bwd: batch axes and heads of the gradient, queries, keys, values, result and logarithms, in all gradients.
pub(super) fn link_sdpa_bwd(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let factors = factor_sides(program, op, 1)?;
    let mut operands = Vec::new();
    for place in 0..6 {
        operands.push(operand_side(program, op, place)?);
    }
    let results = [result_number(program, op, 0)?, result_number(program, op, 1)?, result_number(program, op, 2)?];
    if operands.iter().chain(&results).any(|side| has_split_axis(&[side])) {
        return Ok(());
    }
    let rank = query_rank(program, op, &factors[0])?;
    operands[..5].iter().chain(&results).try_for_each(|side| require_rank(program, op, side, rank))?;
    require_rank(program, op, &operands[5], rank - 1)?;
    // A gradient of a head that serves all heads of queries sums over them.
    let heads = has_equal_heads(&factors);
    let linked = LinkedAxes { rank, heads, rows: false };
    for (from, to) in operands.iter().flat_map(|from| results.iter().map(move |to| (from, to))) {
        link_operand(program, from, to, linked, links);
    }
    Ok(())
}

/// Queries, keys and values, which follow `first` other operands.
fn factor_sides(program: &Program, op: OpId, first: usize) -> Result<[LinkSide; 3], AxisMismatch> {
    let [query, key, value] = [first, first + 1, first + 2].map(|place| operand_side(program, op, place));
    Ok([query?, key?, value?])
}

fn result_number(program: &Program, op: OpId, place: usize) -> Result<LinkSide, AxisMismatch> {
    let count = program.op(op).output_tensors().count();
    let tensor = program.op(op).output_tensors().nth(place);
    let tensor = tensor.ok_or_else(|| too_few_tensors(program, op, "tensor result", place + 1, count))?;
    Ok(LinkSide::new(program, tensor))
}

/// The number of axes of the queries: at least a batch, heads, rows and elements.
fn query_rank(program: &Program, op: OpId, query: &LinkSide) -> Result<usize, AxisMismatch> {
    let rank = query.stored_positions().len();
    if rank >= 4 {
        return Ok(rank);
    }
    let message = message!(
        "`{}` needs queries with a batch, heads, rows and elements, but `{}` has {}",
        quoted_op(program, op),
        program.quoted_tensor(query.tensor),
        count_text(rank, "axis")
    );
    Err(rank_error(query.tensor, message))
}

fn require_rank(program: &Program, op: OpId, side: &LinkSide, rank: usize) -> LinkResult {
    let found = side.stored_positions().len();
    if found == rank {
        return Ok(());
    }
    let message = message!(
        "`{}` needs {} in `{}`, as its queries tell, but it has {}",
        quoted_op(program, op),
        count_text(rank, "axis"),
        program.quoted_tensor(side.tensor),
        found
    );
    Err(rank_error(side.tensor, message))
}

fn rank_error(tensor: TensorId, message: Message) -> AxisMismatch {
    AxisMismatch { code: codes::RANK, message, note: Message::default(), tensor: Some(tensor) }
}

/// Returns true if queries, keys and values have the same heads.
fn has_equal_heads([query, key, value]: &[LinkSide; 3]) -> bool {
    let Some(heads) = head_axis(query) else { return false };
    [key, value].into_iter().all(|side| {
        let Some(axis) = head_axis(side) else { return false };
        let [kind, other] =
            [(query, heads), (side, axis)].map(|(side, axis)| side.axes.axes[axis as usize].device_type());
        has_same_extent(query, side, heads, axis) || (kind.is_some() && kind == other)
    })
}

/// The same, or keys and values have one head for all.
fn has_matching_heads(program: &Program, factors: &[LinkSide; 3]) -> bool {
    let [_, key, value] = factors;
    let one = [key, value].into_iter().all(|side| head_axis(side).is_some_and(|axis| is_single(program, side, axis)));
    one || has_equal_heads(factors)
}

fn head_axis(side: &LinkSide) -> Option<u32> {
    let axes = side.stored_positions();
    axes.len().checked_sub(3).map(|at| axes[at])
}

/// Returns true if an axis has one index.
fn is_single(program: &Program, side: &LinkSide, axis: u32) -> bool {
    program.exprs().as_int(side.axes.axes[axis as usize].extent) == Some(1)
}

/// Links the axes of an operand, but not one head with several.
fn link_operand(program: &Program, from: &LinkSide, to: &LinkSide, linked: LinkedAxes, links: &mut Vec<AxisLink>) {
    let (a, b) = (from.stored_positions(), to.stored_positions());
    for axis in (0..a.len().min(b.len())).filter(|&axis| linked.holds(axis)) {
        let is_head = axis + 3 == linked.rank;
        if is_head && is_single(program, from, a[axis]) && !has_same_extent(from, to, a[axis], b[axis]) {
            continue;
        }
        link_pairs(from, to, &a[axis..=axis], &b[axis..=axis], links);
    }
}

/// Links the axes of a bias or a mask, but not one index with several. Other extents are reported as those of a term.
fn link_term(program: &Program, from: &LinkSide, to: &LinkSide, linked: LinkedAxes, links: &mut Vec<AxisLink>) {
    let (a, b) = (from.stored_positions(), to.stored_positions());
    for axis in (0..a.len().min(b.len())).filter(|&axis| linked.holds(axis)) {
        let [x, y] = [(from, a[axis]), (to, b[axis])]
            .map(|(side, axis)| program.exprs().as_int(side.axes.axes[axis as usize].extent));
        let differs = x != y && x.is_some() && (y.is_some() || x == Some(1));
        if !differs {
            link_pairs(from, to, &a[axis..=axis], &b[axis..=axis], links);
        }
    }
}
