//! The types of GEMMs' results. They end in the contracted axis, as a reduction.

use crate::ir::{IterDomain, IterType, Op, Program, TensorId};
use crate::ops::result_types::{TensorType, stored_domains};

/// [.., M, K] x [.., K, N] -> [.., M, N, r(K)]; one-dimensional operands lose M or N.
pub(super) fn infer_matmul(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let &[a, b, ..] = operands else { return None };
    let (left, right) = (stored_domains(program, a), stored_domains(program, b));
    let (&k, rows) = left.split_last()?;
    let (batch_a, m) = rows.split_at(rows.len().saturating_sub(1));
    let (batch_b, n) = match right.as_slice() {
        [] => return None,
        [_] => (&right[..0], None),
        [batch @ .., _, n] => (batch, Some(*n)),
    };
    let longer = if batch_a.len() >= batch_b.len() { batch_a } else { batch_b };
    let batch = (0..longer.len()).map(|at| {
        let side = |list: &[IterDomain]| {
            let at = (at + list.len()).checked_sub(longer.len())?;
            list.get(at).copied()
        };
        [side(batch_a), side(batch_b)].into_iter().flatten().find(|domain| !domain.is_broadcast()).unwrap_or(longer[at])
    });
    let domains = batch.chain(m.iter().copied()).chain(n).chain([contracted(k)]).collect();
    Some(TensorType::with_domains_of(program, a, domains))
}

/// As matmul, with the element type of the accumulator.
pub(super) fn infer_matmul_add(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let dtype = program.tensor(*operands.get(2)?).dtype;
    Some(TensorType { dtype, ..infer_matmul(program, op, operands)? })
}

/// `[.., K] x [N, K] (+ [N]) -> [.., N, r(K)]`.
pub(super) fn infer_linear(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let &[a, weight, ..] = operands else { return None };
    let (left, right) = (stored_domains(program, a), stored_domains(program, weight));
    let (&k, rows) = left.split_last()?;
    let n = match right.as_slice() {
        [n, _] => Some(*n),
        [_] => None,
        _ => return None,
    };
    let domains = rows.iter().copied().chain(n).chain([contracted(k)]).collect();
    Some(TensorType::with_domains_of(program, a, domains))
}

/// The reduction that a product leaves of its contracted axis.
pub(super) fn contracted(k: IterDomain) -> IterDomain {
    IterDomain { iter: IterType::Reduction, ..k }
}
