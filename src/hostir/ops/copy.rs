//! Copies of whole tensors, with or without a permutation of their axes.

use super::result_types::{TensorType, infer_copy, stored_domains};
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::axes::pairing::{
    self, AxisMismatch, AxisPositions, LinkResult, LinkSide, both_sides, equal_rank_positions, link_pairs,
};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{
    AttrKey, AttrValue, AxisLink, Op, OpId, OpIdentity, OpKind, Program, StandaloneRule, Symbol, TensorId, Transfer,
    Value,
};
use crate::plan::{BufferView, PlanBuilder, emit_copy_to_result};

/// Cache hints.
pub const CACHE_OPS: &[&str] = &["AllLevels", "Streaming", "Global"];

/// `Set`.
pub const SET: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Set",
        standalone: StandaloneRule::Yes,
        transfer: Some(Transfer::Copy),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Copies a tensor or a scalar.",
    args: &[
        ArgSpec::operand(ArgKind::Operand),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
    ],
    relate: Some(pairing::link_copy),
    infer: Infer::Result(infer_copy),
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lower_set),
};

/// `Set.Permute`.
pub const SET_PERMUTE: OpSpec = OpSpec {
    identity: OpIdentity { name: "Set.Permute", ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Copies a tensor with its axes permuted.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
        ArgSpec::tight("perm", AttrKey::Perm, ArgKind::Ints).optional(),
    ],
    relate: Some(link_permute),
    infer: Infer::Result(infer_permute),
    checks: &[tensor_checks::check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lower_set_permute),
};

/// `SegmenterSet`.
pub const SEGMENTER_SET: OpSpec = OpSpec {
    identity: OpIdentity { name: "SegmenterSet", ..OpIdentity::TENSOR_OP },
    summary: "Copies a tensor at the border of two segments.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_OPS)).optional(),
    ],
    ..SET
};

/// `SegmenterSet.Permute`.
pub const SEGMENTER_SET_PERMUTE: OpSpec = OpSpec {
    identity: OpIdentity { name: "SegmenterSet.Permute", ..OpIdentity::TENSOR_OP },
    summary: "Copies a tensor at the border of two segments with its axes permuted.",
    ..SET_PERMUTE
};

/// `Set( T0, cache_op=Streaming )`, without its result.
pub fn copy_op(operand: Value, cache_op: Symbol) -> Op {
    let attrs = vec![(AttrKey::CacheOp, AttrValue::Word(cache_op))];
    Op { attrs, ..Op::new(OpKind::Set) }.with_operand(operand)
}

/// `Set.Permute( T0, cache_op=Streaming )`, without its result: axis k of this is axis `order[k]` of the operand.
pub fn permute_op(tensor: TensorId, cache_op: Symbol, order: &[usize]) -> Op {
    let order = order.iter().map(|&k| k as i64).collect();
    let attrs = vec![(AttrKey::CacheOp, AttrValue::Word(cache_op)), (AttrKey::Perm, AttrValue::Ints(order))];
    Op { attrs, ..Op::new(OpKind::SetPermute) }.with_operand(Value::Tensor(tensor))
}

/// Set.Permute: axis k of the result is axis `perm[k]` of the operand.
///
/// # Errors
/// If an operand or the result is missing, their ranks differ, or `perm=` is no permutation of the result's axes.
pub fn link_permute(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    // Without numbers the text does not determine the axes.
    let Some(perm) = program.op(op).ints_attr(AttrKey::Perm) else { return Ok(()) };
    let order: Option<AxisPositions> = perm.iter().map(|&k| u32::try_from(k).ok()).collect();
    let order = order.filter(|order| order.len() == b.len() && is_permutation(order));
    let Some(order) = order else { return Err(permutation_mismatch(program, &to, b.len())) };
    let sources: AxisPositions = order.iter().map(|&k| a[k as usize]).collect();
    link_pairs(&from, &to, &sources, &b, links);
    Ok(())
}

/// The operand's stored axes in the order of `perm=`.
fn infer_permute(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let operand = *operands.first()?;
    let domains = stored_domains(program, operand);
    let perm = op.ints_attr(AttrKey::Perm)?;
    let order = completed_order(perm, domains.len()).into_iter().map(|from| domains.get(from).copied());
    Some(TensorType::with_domains_of(program, operand, order.collect::<Option<_>>()?))
}

/// An order with each position once: a repeated one is replaced by one that is missing, so that a wrong permutation has
/// one error.
pub(crate) fn completed_order(perm: &[i64], rank: usize) -> Vec<usize> {
    let given: Vec<Option<usize>> =
        perm.iter().map(|&from| usize::try_from(from).ok().filter(|&from| from < rank)).collect();
    let mut missing = (0..rank).filter(|from| !given.contains(&Some(*from)));
    let order =
        given.iter().enumerate().map(|(at, from)| match from.filter(|from| !given[..at].contains(&Some(*from))) {
            Some(from) => from,
            None => missing.next().unwrap_or(rank),
        });
    order.collect()
}

fn is_permutation(order: &[u32]) -> bool {
    let mut seen = 0u64;
    for &k in order {
        if k as usize >= order.len().min(64) || seen >> k & 1 == 1 {
            return false;
        }
        seen |= 1 << k;
    }
    true
}

fn permutation_mismatch(program: &Program, to: &LinkSide, rank: usize) -> AxisMismatch {
    let name = program.quoted_tensor(to.tensor);
    AxisMismatch {
        code: codes::PERMUTATION,
        message: message!("`perm=` of `{}` is not a permutation of its {} axes", name, rank),
        note: message!("list each of 0 to {} once", rank.saturating_sub(1)),
        tensor: Some(to.tensor),
    }
}

/// `Set` of a tensor copies it; `Set` of a scalar names it.
///
/// # Errors
/// If the operand has no value on this rank, its shape differs from the result's, or the result cannot be allocated;
/// for a scalar, if it cannot be evaluated.
pub fn lower_set(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    if op.output_tensors().next().is_none() {
        return super::pointwise::bind_scalar(cx, op, "");
    }
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let src = cx.input_view(input)?;
    emit_copy_to_result(cx, input, src, result)
}

/// `Set.Permute`: the result's axes in printed order are the input's stored axes in the order of the
/// result's domain numbers, unless `perm=` says otherwise.
///
/// # Errors
/// If the permutation is unknown or does not fit the operand's axes, the operand has no value on this rank, or the
/// result cannot be allocated.
pub fn lower_set_permute(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let source = cx.input_view(input)?;
    let perm = op_permutation(cx, op, result)?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.len() != source.dims.len() || sorted.iter().enumerate().any(|(i, &p)| i != p) {
        let message = format!(
            "`perm` {perm:?} is not a permutation of the {} axes of {}",
            source.dims.len(),
            cx.tensor_name(input)
        );
        return Err(cx.error_here(codes::SHAPES, message));
    }
    let dims = perm.iter().map(|&from| source.dims[from]).collect();
    emit_copy_to_result(cx, input, BufferView { dims, ..source }, result)
}

fn op_permutation(cx: &PlanBuilder<'_>, op: &Op, result: TensorId) -> Result<Vec<usize>, Diag> {
    let Some(perm) = op.ints_attr(AttrKey::Perm) else {
        let message = format!("the permutation of {} is unknown", cx.tensor_name(result));
        return Err(cx
            .error_here(codes::NEEDED, message)
            .with_note("the domains of the result have no numbers: add `perm={...}`"));
    };
    Ok(perm.iter().map(|&p| usize::try_from(p).unwrap_or(usize::MAX)).collect())
}
