//! The ring in the place of a product and a sum.
//!
//! Part p travels through ranks p + 1, p + 2, .., p, each of which adds its product: in hop h rank r works on part
//! `r - 1 - h`, which the rank before worked on in hop h - 1.

use super::region::{DEVICES, PARTS, RingRegion, SumResult};
use crate::support::builder::OpBuilder;
use crate::support::reshard::stored_domains;
use crate::support::slices::{Slice, build_range_loop, put_message};
use hostir::ir::{BinaryOp, ExprId, IterDomain, IterType, MemoryType, Op, OpId, OpKind, ParallelType, TensorId, Value};

/// Appends a ring.
pub(super) fn emit_ring(build: &mut OpBuilder<'_, '_>, region: &RingRegion, hop: ExprId, out: &mut Vec<OpId>) {
    let ring = Ring::new(build, region, hop);
    out.extend([ring.arrived, ring.sent, region.output].map(|tensor| build.build_allocate(tensor)));
    let body = ring.hop_body(build);
    out.push(build_range_loop(build, hop, [0, region.ranks], body));
    if region.result == SumResult::Replicated {
        let body = ring.gather_body(build);
        out.push(build_range_loop(build, hop, [1, region.ranks], body));
    }
}

struct Ring<'r> {
    region: &'r RingRegion,
    hop: ExprId,
    /// The sums that arrive, and those that are sent, by hop: `[hop, m, n]`.
    arrived: TensorId,
    sent: TensorId,
}

impl<'r> Ring<'r> {
    fn new(build: &mut OpBuilder<'_, '_>, region: &'r RingRegion, hop: ExprId) -> Self {
        let slots = build.int_expr(i64::from(region.ranks) - 1);
        let mut domains = stored_domains(build.program(), region.partial);
        domains.remove(DEVICES);
        for domain in &mut domains {
            *domain = IterDomain { iter: IterType::Iteration, parallel: ParallelType::Serial, ..*domain };
        }
        domains[0].extent = slots;
        let [arrived, sent] = [0; 2].map(|_| build.new_tensor(region.partial, MemoryType::Global, &domains));
        Self { region, hop, arrived, sent }
    }

    /// One hop: a message in, a GEMM, a message out; in the last one the rank's own part.
    fn hop_body(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let last = build.int_expr(i64::from(self.region.ranks) - 1);
        let travels = build.binary_expr(BinaryOp::Lt, self.hop, last);
        let passing = self.passing_hop(build);
        let own = match self.region.result {
            SumResult::Scattered => self.own_shard(build, self.region.output),
            SumResult::Replicated => Slice::whole(self.region.output).index_axis(0, build.name_expr("rank")),
        };
        let ending = self.gemm_statement(build, &own, true);
        vec![build.build_branch(travels, passing, ending)]
    }

    fn passing_hop(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let [arrived, sent] = [self.arrived, self.sent].map(|sums| Slice::whole(sums).index_axis(0, self.hop));
        let (before, behind) = (self.neighbour(build, -1), self.neighbour(build, 1));
        let mut ops = Vec::new();
        let arrival = put_message(build, true, &arrived, before, &mut ops);
        let zero = build.int_expr(0);
        let first = build.binary_expr(BinaryOp::Eq, self.hop, zero);
        let (fresh, adding) = (self.gemm_statement(build, &sent, false), self.gemm_statement(build, &sent, true));
        ops.push(build.build_branch(first, fresh, adding));
        let departure = put_message(build, false, &sent, behind, &mut ops);
        ops.extend([build.build_wait(departure), build.build_wait(arrival)]);
        ops
    }

    /// The product of the hop's part, with the sum that arrived in the hop before if it `adds`. Slices stand in the order
    /// in which `hir 2` reads them inside of a statement.
    fn gemm_statement(&self, build: &mut OpBuilder<'_, '_>, into: &Slice, adds: bool) -> Vec<OpId> {
        let mut ops = Vec::new();
        let result = into.emit(build, &mut ops);
        let part = self.shifted_rank(build, i64::from(self.region.ranks) - 1, BinaryOp::Sub);
        let left = self.own_shard(build, self.region.factors[0]).index_axis(0, part).emit(build, &mut ops);
        let right = self.right_factor(build).emit(build, &mut ops);
        let sum = adds.then(|| {
            let one = build.int_expr(1);
            let before = build.binary_expr(BinaryOp::Sub, self.hop, one);
            Slice::whole(self.arrived).index_axis(0, before).emit(build, &mut ops)
        });
        let mut op = Op::new(if adds { OpKind::MatmulAdd } else { OpKind::Matmul });
        op.operands.extend([left, right].into_iter().chain(sum).map(Value::Tensor));
        op.results.push(Value::Tensor(result));
        ops.push(build.push(op));
        ops
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
    fn shifted_rank(&self, build: &mut OpBuilder<'_, '_>, by: i64, op: BinaryOp) -> ExprId {
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
    fn neighbour(&self, build: &mut OpBuilder<'_, '_>, step: i64) -> ExprId {
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

    fn right_factor(&self, build: &mut OpBuilder<'_, '_>) -> Slice {
        let tensor = self.region.factors[1];
        if stored_domains(build.program(), tensor).len() == 2 {
            return Slice::whole(tensor);
        }
        let zero = build.int_expr(0);
        self.own_shard(build, tensor).index_axis(PARTS - 1, zero)
    }
}
