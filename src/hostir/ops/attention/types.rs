//! The types of the results of attention.

use crate::ir::{DType, Expr, IterDomain, IterType, Op, ParallelType, Program, TensorId};
use crate::ops::result_types::{DomainList, TensorType, TypeList, is_plain, stored_domains};
use smallvec::smallvec;

/// The result with the shape of the queries and the last axis of the values, the logarithms without that axis, a seed
/// of two words and an offset of one.
pub(super) fn infer_sdpa(program: &Program, op: &Op) -> Option<TypeList> {
    let [query, _, value] = plain_operands(program, op, 0)?;
    let mut rows = stored_domains(program, query);
    rows.pop()?;
    let mut axes: DomainList = rows.clone();
    axes.push(*stored_domains(program, value).last()?);
    let two = program.exprs().find_expr(&Expr::Int(2))?;
    Some(smallvec![
        TensorType::with_domains_of(program, query, axes),
        TensorType { dtype: DType::Float, ..TensorType::with_domains_of(program, query, rows) },
        state_type(program, query, smallvec![IterDomain::new(IterType::Iteration, ParallelType::Serial, two)]),
        state_type(program, query, DomainList::new()),
    ])
}

/// A state of random numbers.
fn state_type(program: &Program, query: TensorId, domains: DomainList) -> TensorType {
    TensorType { dtype: DType::UInt64, ..TensorType::with_domains_of(program, query, domains) }
}

/// The types of queries, keys and values.
pub(super) fn infer_sdpa_bwd(program: &Program, op: &Op) -> Option<TypeList> {
    Some(plain_operands(program, op, 1)?.into_iter().map(|factor| TensorType::of_copy(program, factor)).collect())
}

/// Queries, keys and values, which follow `first` other operands, if their types describe their storage.
fn plain_operands(program: &Program, op: &Op, first: usize) -> Option<[TensorId; 3]> {
    let mut tensors = op.input_tensors().skip(first);
    let factors = [tensors.next()?, tensors.next()?, tensors.next()?];
    factors.iter().all(|&tensor| is_plain(program, tensor)).then_some(factors)
}
