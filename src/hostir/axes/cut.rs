//! Axes that a split shards over devices or streams, of tensors whose axes are given.
//!
//! A domain over devices or streams comes, in the order of the axes, directly before the domain with the rest of its
//! axis.

use super::{AxisList, ceil_div_dividend, plain_axis};
use crate::ir::{BinaryOp, Expr, ExprId, ParallelType, Program, TensorId};
use smallvec::SmallVec;

/// The domain over devices or streams that an axis has, if any.
#[derive(Clone, Copy)]
enum DistributedDomain {
    None,
    /// The domain is a part of the axis.
    Cut(u32),
    /// The domain is the axis.
    Whole(u32),
}

/// The axes that `logical` gives; those that the printed domains shard over devices, with their parallel type.
pub(super) fn given_axes(program: &Program, tensor: TensorId, logical: &[ExprId]) -> AxisList {
    let mut axes: AxisList = logical.iter().map(|&extent| plain_axis(extent)).collect();
    let domains = program.domains(tensor);
    if !domains.iter().any(|domain| domain.is_sharded()) {
        return axes;
    }
    let Some(distributed) = find_distributed_domains(program, tensor, logical) else { return axes };
    for (axis, distributed) in axes.iter_mut().zip(distributed) {
        let (place, is_cut) = match distributed {
            DistributedDomain::None => continue,
            DistributedDomain::Cut(place) => (place, true),
            DistributedDomain::Whole(place) => (place, false),
        };
        let domain = &domains[place as usize];
        if domain.is_sharded() {
            axis.parallel = domain.parallel;
            axis.parts = is_cut.then_some(domain.extent);
        }
    }
    axes
}

/// The stream axis of a tensor whose axes are given.
pub(super) fn given_stream_axis(program: &Program, tensor: TensorId) -> Option<u32> {
    let logical = program.tensor(tensor).logical.as_deref()?;
    let distributed = find_distributed_domains(program, tensor, logical)?;
    let domains = program.domains(tensor);
    let axis = distributed.iter().position(|distributed| match *distributed {
        DistributedDomain::None => false,
        DistributedDomain::Cut(place) | DistributedDomain::Whole(place) => {
            domains[place as usize].parallel == ParallelType::Stream
        }
    });
    axis.map(|axis| axis as u32)
}

/// The device or stream domain of each given axis; `None` if the printed domains are not these axes and their parts.
fn find_distributed_domains(
    program: &Program,
    tensor: TensorId,
    logical: &[ExprId],
) -> Option<SmallVec<[DistributedDomain; 8]>> {
    let domains = program.domains(tensor);
    let mut found: SmallVec<[DistributedDomain; 8]> = SmallVec::new();
    let mut waiting: Option<u32> = None;
    let order = program.logical_axes(tensor);
    for place in order.into_iter().filter(|&place| !domains[place as usize].is_reduction()) {
        let domain = &domains[place as usize];
        if let Some(outer) = waiting.take() {
            let parts = domains[outer as usize].extent;
            let whole = *logical.get(found.len())?;
            if !domain.is_distributed() && is_product(program, whole, parts, domain.extent) {
                found.push(DistributedDomain::Cut(outer));
                continue;
            }
            if whole != parts {
                return None;
            }
            found.push(DistributedDomain::Whole(outer));
        }
        if domain.is_distributed() {
            waiting = Some(place);
        } else if *logical.get(found.len())? == domain.extent {
            found.push(DistributedDomain::None);
        } else {
            return None;
        }
    }
    if let Some(last) = waiting {
        if *logical.get(found.len())? != domains[last as usize].extent {
            return None;
        }
        found.push(DistributedDomain::Whole(last));
    }
    (found.len() == logical.len()).then_some(found)
}

/// Returns true if an axis of extent `whole` consists of `parts` parts of extent `inner`.
fn is_product(program: &Program, whole: ExprId, parts: ExprId, inner: ExprId) -> bool {
    match merged_extent(program, parts, inner) {
        Some(Expr::Int(product)) => program.exprs().as_int(whole) == Some(product),
        Some(expr) => *program.expr(whole) == expr,
        None => false,
    }
}

/// The extent of an axis that consists of `parts` parts of extent `inner`: `i0` for `ceilDiv(i0, parts)`, a product of
/// numbers, or `( parts * inner )`. `None` if the inner extent is another quotient.
pub(crate) fn merged_extent(program: &Program, parts: ExprId, inner: ExprId) -> Option<Expr> {
    if let Some(whole) = ceil_div_dividend(program, inner, parts) {
        return Some(program.expr(whole).clone());
    }
    if super::is_ceil_div(program, inner) {
        return None;
    }
    match (program.exprs().as_int(parts), program.exprs().as_int(inner)) {
        (Some(parts), Some(inner)) => parts.checked_mul(inner).map(Expr::Int),
        _ => Some(Expr::Binary(BinaryOp::Mul, parts, inner)),
    }
}
