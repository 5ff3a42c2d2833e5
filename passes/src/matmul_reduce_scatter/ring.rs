//! A ring of GEMMs that add.
//!
//! Part p travels through ranks p + 1, p + 2, .., p, each of which adds its GEMM: in hop h rank r works on part
//! `r - 1 - h`, on which the rank before worked in hop h - 1.

use super::chunks::PartChunks;
use super::emit::PartSum;
use crate::support::builder::OpBuilder;
use crate::support::slices::{Slice, bind_caller_stream, build_range_loop, put_message};
use hostir::ir::MessageDirection;
use hostir::ir::{BinaryOp, ExprId, OpId, TensorId};

pub(super) struct PartRing<'r> {
    pub(super) sum: PartSum<'r>,
    /// The sums that arrive, and those that are sent, by hop: `[hop, m, n]`, or `[hop, chunk, m / chunks, n]`.
    arrived: TensorId,
    sent: TensorId,
    /// The stream of the ring, if copies on another one send sums.
    caller: Option<ExprId>,
}

impl<'r> PartRing<'r> {
    /// Appends the memory of a ring.
    pub(super) fn allocate(
        build: &mut OpBuilder<'_, '_>,
        mut sum: PartSum<'r>,
        chunks: u32,
        index: &str,
        out: &mut Vec<OpId>,
    ) -> Self {
        let region = sum.region;
        let [arrived, sent] = [0; 2].map(|_| sum.part_slots(build, region.ranks - 1, chunks));
        // Hops follow each other on one stream.
        let kept = sum.chain_slots(build, 1, chunks);
        out.extend([arrived, sent].iter().chain(&kept).map(|&tensor| build.build_allocate(tensor)));
        out.push(build.build_allocate(region.output));
        for &gemm in &sum.inside {
            let results: Vec<TensorId> = build.program().op(gemm).output_tensors().collect();
            out.extend(results.into_iter().map(|result| build.build_allocate(result)));
        }
        if chunks > 1 {
            let index = build.name_expr(index);
            sum.chunks = Some(PartChunks::share_memory(build, region, chunks, index, out));
        }
        let only = build.int_expr(0);
        sum.use_chain_slots(&kept, only);
        // GEMMs inside leave time for copies, beside which a GEMM is faster than one that stores in another rank's
        // memory.
        let caller = if sum.inside.is_empty() { None } else { Some(bind_caller_stream(build, out)) };
        Self { sum, arrived, sent, caller }
    }

    /// Appends the loop: in each hop a message in, a GEMM, a message out; in the last one the rank's own part.
    pub(super) fn emit_ring(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        let (hop, region) = (self.sum.hop, self.sum.region);
        let part = self.sum.shifted_rank(build, i64::from(region.ranks) - 1, BinaryOp::Sub);
        let passing = self.passing_hop(build, part);
        let own = self.sum.own_part(build, self.sum.output());
        let own = self.sum.chunk_of(own);
        let before = self.sum_before(build);
        let ending = self.sum.part_statements(build, part, &own, Some(&before));
        let travels = self.sum.is_before(build, i64::from(region.ranks) - 1);
        let body = vec![build.build_branch(travels, passing, ending)];
        out.push(build_range_loop(build, hop, [0, region.ranks], body));
    }

    fn passing_hop(&self, build: &mut OpBuilder<'_, '_>, part: ExprId) -> Vec<OpId> {
        let hop = self.sum.hop;
        let [arrived, sent] = [self.arrived, self.sent].map(|sums| self.sum.slot(sums, hop));
        let (before, after) = (self.sum.neighbour(build, -1), self.sum.neighbour(build, 1));
        let mut ops = Vec::new();
        let arrival = put_message(build, MessageDirection::Recv, &arrived, before, &mut ops);
        ops.extend(self.sum.leading_statements(build, part));
        let zero = build.int_expr(0);
        let first = build.binary_expr(BinaryOp::Eq, hop, zero);
        let last_sum = self.sum_before(build);
        let fresh = self.sum.adding_statement(build, part, &sent, None);
        let adding = self.sum.adding_statement(build, part, &sent, Some(&last_sum));
        ops.push(build.build_branch(first, fresh, adding));
        ops.extend(self.sum.later_statements(build, part, &sent));
        let departure = self.send_sum(build, &sent, after, &mut ops);
        ops.extend(self.gemms_inside(build));
        ops.extend([build.build_wait(departure), build.build_wait(arrival)]);
        ops
    }

    /// Appends the message that sends a sum; returns its handle.
    fn send_sum(&self, build: &mut OpBuilder<'_, '_>, sent: &Slice, after: ExprId, ops: &mut Vec<OpId>) -> u32 {
        let Some(caller) = self.caller else { return put_message(build, MessageDirection::Send, sent, after, ops) };
        let copies = build.name_expr("numberOfStreams");
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(caller)]);
        let departure = put_message(build, MessageDirection::Send, sent, after, ops);
        ops.push(build.build_set_current_stream(caller));
        departure
    }

    /// The independent GEMMs, distributed over the hops in which sums are in transit.
    fn gemms_inside(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let (inside, hops) = (&self.sum.inside, self.sum.region.ranks as usize - 1);
        if hops == 1 {
            return inside.clone();
        }
        let hop_of = |place: usize| place * hops / inside.len();
        let mut ops = Vec::new();
        for hop in 0..hops {
            let own: Vec<OpId> = (0..inside.len()).filter(|&at| hop_of(at) == hop).map(|at| inside[at]).collect();
            if !own.is_empty() {
                let number = build.int_expr(hop as i64);
                let is_now = build.binary_expr(BinaryOp::Eq, self.sum.hop, number);
                ops.push(build.build_branch(is_now, own, Vec::new()));
            }
        }
        ops
    }

    /// The sum that arrived in the hop before.
    fn sum_before(&self, build: &mut OpBuilder<'_, '_>) -> Slice {
        let one = build.int_expr(1);
        let before = build.binary_expr(BinaryOp::Sub, self.sum.hop, one);
        self.sum.slot(self.arrived, before)
    }
}
