//! A product and a sum over devices, part by part.

use super::exchange::PartExchange;
use super::region::{DEVICES, PARTS, SumRegion, SumResult};
use super::ring::PartRing;
use crate::support::builder::OpBuilder;
use crate::support::reshard::stored_domains;
use crate::support::slices::{Slice, build_range_loop, put_message};
use hostir::ir::{BinaryOp, ExprId, IterDomain, IterType, MemoryType, Op, OpId, OpKind, ParallelType, TensorId, Value};

/// The way in which the products of a part are summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SumMethod {
    /// The sum goes around a ring of GEMMs that add to it.
    RingAccumulate,
    /// Each rank sends its product to the rank that adds them all.
    P2p,
}

/// Appends the sum of a region.
pub(super) fn emit_sum(
    build: &mut OpBuilder<'_, '_>,
    region: &SumRegion,
    method: SumMethod,
    hop: ExprId,
    out: &mut Vec<OpId>,
) {
    let sum = PartSum { region, hop };
    match method {
        SumMethod::RingAccumulate => PartRing::new(build, sum).emit_ring(build, out),
        SumMethod::P2p => PartExchange::new(build, sum).emit_exchange(build, out),
    }
    if region.result == SumResult::Replicated {
        let body = sum.gather_body(build);
        out.push(build_range_loop(build, hop, [1, region.ranks], body));
    }
}

/// A region, and the index of its loops.
#[derive(Clone, Copy)]
pub(super) struct PartSum<'r> {
    pub(super) region: &'r SumRegion,
    pub(super) hop: ExprId,
}

impl PartSum<'_> {
    /// A tensor for as many parts: `[count, m, n]`, which is not spread over devices.
    pub(super) fn part_slots(&self, build: &mut OpBuilder<'_, '_>, count: u32) -> TensorId {
        let count = build.int_expr(i64::from(count));
        let mut domains = stored_domains(build.program(), self.region.partial);
        domains.remove(DEVICES);
        for domain in &mut domains {
            *domain = IterDomain { iter: IterType::Iteration, parallel: ParallelType::Serial, ..*domain };
        }
        domains[0].extent = count;
        build.new_tensor(self.region.partial, MemoryType::Global, &domains)
    }

    /// The place of the rank's own part in the result.
    pub(super) fn own_result(&self, build: &mut OpBuilder<'_, '_>) -> Slice {
        match self.region.result {
            SumResult::Scattered => self.own_shard(build, self.region.output),
            SumResult::Replicated => Slice::whole(self.region.output).index_axis(0, build.name_expr("rank")),
        }
    }

    /// The product of a part, plus `added`. Slices stand in the order in which `hir 2` reads them inside of a statement.
    pub(super) fn gemm_statement(
        &self,
        build: &mut OpBuilder<'_, '_>,
        part: ExprId,
        into: &Slice,
        added: Option<&Slice>,
    ) -> Vec<OpId> {
        let mut ops = Vec::new();
        let result = into.emit_selects(build, &mut ops);
        let left = self.own_shard(build, self.region.factors[0]).index_axis(0, part).emit_selects(build, &mut ops);
        let right = self.right_factor(build).emit_selects(build, &mut ops);
        let scales = self.region.scales.map(|scales| scales.map(|tensor| self.part_scales(build, tensor, part)));
        let scales = scales.map(|scales| scales.map(|slice| slice.emit_selects(build, &mut ops)));
        let added = added.map(|sum| sum.emit_selects(build, &mut ops));
        let mut op = Op::new(match (scales, added) {
            (Some(_), _) => OpKind::ScaledMatmul,
            (None, Some(_)) => OpKind::MatmulAdd,
            (None, None) => OpKind::Matmul,
        });
        op.operands.extend([left, right].into_iter().chain(scales.into_iter().flatten()).chain(added).map(Value::Tensor));
        if added.is_some() {
            let args = op.kind.spec().args;
            op.kind.spec().list_given(&mut op, |place| args[place].word == Some("bias"));
        }
        op.results.push(Value::Tensor(result));
        ops.push(build.push(op));
        ops
    }

    /// True in all hops but the last.
    pub(super) fn is_passing(&self, build: &mut OpBuilder<'_, '_>) -> ExprId {
        let last = build.int_expr(i64::from(self.region.ranks) - 1);
        build.binary_expr(BinaryOp::Lt, self.hop, last)
    }

    /// Each rank sends its part to the rank `hop` behind it, and receives that of the rank `hop` before it.
    fn gather_body(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let from = self.shifted_rank(build, i64::from(self.region.ranks), BinaryOp::Sub);
        let to = self.shifted_rank(build, 0, BinaryOp::Add);
        let rank = build.name_expr("rank");
        let [received, own] = [from, rank].map(|part| Slice::whole(self.region.output).index_axis(0, part));
        let mut ops = Vec::new();
        let arrival = put_message(build, true, &received, from, &mut ops);
        let departure = put_message(build, false, &own, to, &mut ops);
        ops.extend([build.build_wait(departure), build.build_wait(arrival)]);
        ops
    }

    /// `( ( ( rank + by ) +- hop ) % ranks )`
    pub(super) fn shifted_rank(&self, build: &mut OpBuilder<'_, '_>, by: i64, op: BinaryOp) -> ExprId {
        let mut sum = build.name_expr("rank");
        if by != 0 {
            let by = build.int_expr(by);
            sum = build.binary_expr(BinaryOp::Add, sum, by);
        }
        let moved = build.binary_expr(op, sum, self.hop);
        let ranks = build.int_expr(i64::from(self.region.ranks));
        build.binary_expr(BinaryOp::Mod, moved, ranks)
    }

    /// The rank before (-1) or behind (1) this one in the ring.
    pub(super) fn neighbour(&self, build: &mut OpBuilder<'_, '_>, step: i64) -> ExprId {
        let ranks = i64::from(self.region.ranks);
        let (rank, step) = (build.name_expr("rank"), build.int_expr(step.rem_euclid(ranks)));
        let sum = build.binary_expr(BinaryOp::Add, rank, step);
        let ranks = build.int_expr(ranks);
        build.binary_expr(BinaryOp::Mod, sum, ranks)
    }

    /// The rank's own part of a tensor that is spread over devices along one axis.
    fn own_shard(&self, build: &mut OpBuilder<'_, '_>, tensor: TensorId) -> Slice {
        let domains = stored_domains(build.program(), tensor);
        let place = domains.iter().position(|domain| domain.parallel.is_device());
        Slice::whole(tensor).index_axis(place.unwrap_or(DEVICES), build.int_expr(0))
    }

    /// The scales of a part's rows, or of the columns.
    fn part_scales(&self, build: &mut OpBuilder<'_, '_>, scales: TensorId, part: ExprId) -> Slice {
        let domains = stored_domains(build.program(), scales);
        let Some(parts) = domains.get(PARTS).filter(|_| domains.len() > 2) else { return Slice::whole(scales) };
        let single = parts.is_broadcast() || build.program().exprs().as_int(parts.extent) == Some(1);
        let index = if single { build.int_expr(0) } else { part };
        self.own_shard(build, scales).index_axis(PARTS - 1, index)
    }

    fn right_factor(&self, build: &mut OpBuilder<'_, '_>) -> Slice {
        let tensor = self.region.factors[1];
        if stored_domains(build.program(), tensor).len() == 2 {
            return Slice::whole(tensor);
        }
        let zero = build.int_expr(0);
        self.own_shard(build, tensor).index_axis(PARTS - 1, zero)
    }
}
