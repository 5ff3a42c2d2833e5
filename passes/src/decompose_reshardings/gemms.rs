//! GEMMs that are contracted across devices.

use crate::support::builder::{OpBuilder, printed_domain};
use crate::support::reshard::{
    MovedDomains, OpLinks, declare_domains, declare_local_tensor, refuse_mixed_meshes, refuse_splits, stored_axes,
    stored_domains,
};
use hostir::analysis::is_resharding;
use hostir::axes::logical_axes;
use hostir::ir::{DomainId, IterDomain, IterType, Op, OpId, ParallelType, Program, TensorId};

/// A GEMM whose contracted axis is sharded over devices.
pub(super) struct ShardedGemm {
    a: TensorId,
    b: TensorId,
    bias: Option<TensorId>,
    result: TensorId,
    /// The contracted axis of `a`.
    axis: IterDomain,
    /// True if `b` is `[.., N, K]`, not `[.., K, N]`.
    transposed: bool,
}

/// A GEMM whose operands both have their contracted axis sharded over the same devices.
pub(super) fn match_sharded_gemm(program: &Program, id: OpId) -> Option<ShardedGemm> {
    let op: &Op = program.op(id);
    // All are GEMMs; no link shows that the weight of a linear is transposed.
    let transposed = op.kind.gemm().filter(|form| !form.scaled)?.transposed;
    if !is_resharding(program, id) || refuse_splits(program, id).is_err() || refuse_mixed_meshes(program, id).is_err() {
        return None;
    }
    let mut operands = op.input_tensors();
    let (a, b, bias) = (operands.next()?, operands.next()?, operands.next());
    let result = op.output_tensors().next()?;
    let [of_a, of_b] = [a, b].map(|tensor| logical_axes(program, tensor).stored_positions().len());
    if a == b || of_a < 2 || of_b < 2 || (transposed && of_b > 2) {
        return None;
    }
    if program.tensor(a).mesh != program.tensor(b).mesh {
        return None;
    }
    let links = OpLinks::from_op(program, id);
    let stored = stored_axes(program, a);
    let &(k, axis) = stored.last()?;
    let other = links.linked_axis(a, k, b)?;
    let (mine, theirs) = (logical_axes(program, a).axes[k as usize], logical_axes(program, b).axes[other as usize]);
    let across = mine.device_type().is_some() && mine.device_type() == theirs.device_type();
    across.then_some(ShardedGemm { a, b, bias, result, axis, transposed })
}

/// The GEMM of each device's shard, its sum over devices, and the bias.
pub(super) fn decompose_gemm(
    build: &mut OpBuilder<'_, '_>,
    moved: &mut MovedDomains,
    id: OpId,
    gemm: &ShardedGemm,
    out: &mut Vec<OpId>,
) {
    let program = build.program();
    let rank = stored_axes(program, gemm.result).len();
    let (of_a, of_b) = (stored_axes(program, gemm.a).len(), stored_axes(program, gemm.b).len());
    // The position of the contracted axis among those of the GEMM.
    let place = if gemm.transposed { rank } else { rank - 1 };
    let missing = rank + 1;
    let (a, b) = if gemm.transposed {
        // [.., M, 1, K] and [.., 1, N, K]
        (widen_tensor(build, gemm.a, &[of_a - 1]), widen_in_front(build, gemm.b, missing - of_b))
    } else {
        // [.., M, K, 1] and [.., 1, K, N]
        let left = widen_at(build, gemm.a, missing - of_a - 1, Some(of_a));
        (left, widen_at(build, gemm.b, missing - of_b - 1, Some(of_b - 2)))
    };
    out.extend(a.1);
    out.extend(b.1);
    let parts = declare_partial_results(build, id, gemm, place);
    out.push(build.build_pointwise("*", parts, [a.0, b.0]));
    let reduced = IterDomain { iter: IterType::Reduction, parallel: ParallelType::Serial, ..gemm.axis };
    let mut sums = stored_domains(build.program(), gemm.result);
    sums.insert(place, reduced);
    match gemm.bias {
        None => {
            redeclare_reduced(build, moved, gemm.result, &sums);
            out.push(build.build_sum(gemm.result, parts));
        }
        Some(bias) => {
            let mesh = build.program().tensor(gemm.result).mesh;
            let sum = declare_local_tensor(build, gemm.result, mesh, &sums);
            out.push(build.build_sum(sum, parts));
            let missing = rank - stored_axes(build.program(), bias).len();
            let wide = widen_in_front(build, bias, missing);
            out.extend(wide.1);
            let kept = stored_domains(build.program(), gemm.result);
            redeclare_reduced(build, moved, gemm.result, &kept);
            out.push(build.build_pointwise("+", gemm.result, [sum, wide.0]));
        }
    }
}

/// The tensor of partial results: each axis is distributed as in the operand that it comes from, or over the result's
/// streams.
fn declare_partial_results(build: &mut OpBuilder<'_, '_>, id: OpId, gemm: &ShardedGemm, place: usize) -> TensorId {
    let program = build.program();
    let links = OpLinks::from_op(program, id);
    let mut list = Vec::new();
    for (k, domain) in stored_axes(program, gemm.result) {
        let device = [gemm.a, gemm.b].into_iter().find_map(|tensor| {
            let at = links.linked_axis(gemm.result, k, tensor)?;
            logical_axes(program, tensor).axes.get(at as usize)?.device_type()
        });
        let stream = (domain.parallel == ParallelType::Stream).then_some(ParallelType::Stream);
        let parallel = device.or(stream).unwrap_or(ParallelType::Serial);
        list.push(IterDomain { parallel, rfactor: false, ..domain });
    }
    list.insert(place, gemm.axis);
    let mesh = program.tensor(gemm.a).mesh;
    declare_local_tensor(build, gemm.result, mesh, &list)
}

/// A tensor with broadcast axes before these places, and the op that makes it.
fn widen_tensor(build: &mut OpBuilder<'_, '_>, tensor: TensorId, places: &[usize]) -> (TensorId, Option<OpId>) {
    if places.is_empty() {
        return (tensor, None);
    }
    let mut list = stored_domains(build.program(), tensor);
    let mut flags = vec![false; list.len()];
    let one = build.int_expr(1);
    for &at in places.iter().rev() {
        let like = list[at.min(list.len() - 1)];
        list.insert(at, broadcast_domain(like, one));
        flags.insert(at, true);
    }
    let mesh = build.program().tensor(tensor).mesh;
    let wide = declare_local_tensor(build, tensor, mesh, &list);
    let op = build.build_broadcast(wide, tensor, flags.into());
    (wide, Some(op))
}

fn broadcast_domain(like: IterDomain, one: hostir::ir::ExprId) -> IterDomain {
    IterDomain { padded: like.padded, clustered: like.clustered, number: like.number, ..IterDomain::broadcast(one) }
}

fn widen_in_front(build: &mut OpBuilder<'_, '_>, tensor: TensorId, count: usize) -> (TensorId, Option<OpId>) {
    widen_at(build, tensor, count, None)
}

/// Adds leading broadcast axes, and one more before position `at`.
fn widen_at(
    build: &mut OpBuilder<'_, '_>,
    tensor: TensorId,
    front: usize,
    at: Option<usize>,
) -> (TensorId, Option<OpId>) {
    let places: Vec<usize> = std::iter::repeat_n(0, front).chain(at).collect();
    widen_tensor(build, tensor, &places)
}

/// Declares a tensor with other reduced axes; the stored ones stay, in order.
fn redeclare_reduced(build: &mut OpBuilder<'_, '_>, moved: &mut MovedDomains, tensor: TensorId, list: &[IterDomain]) {
    let program = build.program();
    let old: Vec<DomainId> = logical_axes(program, tensor)
        .axes
        .iter()
        .filter(|axis| !axis.is_reduction())
        .map(|axis| printed_domain(program, tensor, axis.printed))
        .collect();
    let new = declare_domains(build, tensor, list).into_iter().zip(list);
    let stored = new.filter(|(_, domain)| !domain.is_reduction()).map(|(id, _)| id);
    old.into_iter().zip(stored).for_each(|(old, new)| moved.replace_domain(old, new));
}
