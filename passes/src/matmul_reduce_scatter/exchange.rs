//! Partial results that are copied while later ones are computed, and one sum at the end.
//!
//! In hop h rank r works on part `r + 1 + h` and sends it to the rank of that number; its own part comes last. Copies
//! are on a stream of their own, so that they are in order. The results of a part are stored by the numbers of the
//! ranks that computed them, so all parts are summed in the same order.
//!
//! With direct stores the messages are on the stream of the GEMMs, and all receives come before them: then on GPUs each
//! GEMM stores in the memory of the rank that keeps the sum, or one launch does so for all parts.

use super::chunks::PartChunks;
use super::emit::PartSum;
use super::region::SumRegion;
use crate::support::builder::OpBuilder;
use crate::support::slices::{build_range_loop, emit_loop_on_streams, iteration_stream, put_message};
use hostir::ir::MessageDirection;
use hostir::ir::{BinaryOp, ExprId, OpId, TensorId};

pub(super) struct PartExchange<'r> {
    sum: PartSum<'r>,
    /// The index of the loop: the hop, or a count of the chunks of all hops.
    piece: ExprId,
    chunks: u32,
    /// The partial results of the rank's own part, by the ranks that computed them.
    arrived: TensorId,
    /// The GEMM results that are sent, by hop.
    sent: TensorId,
}

impl<'r> PartExchange<'r> {
    /// Appends the memory of an exchange. `piece` is the index of its loop.
    pub(super) fn allocate(
        build: &mut OpBuilder<'_, '_>,
        region: &'r SumRegion,
        chunks: u32,
        piece: ExprId,
        out: &mut Vec<OpId>,
    ) -> Self {
        let mut sum = PartSum::new(region, piece);
        let [arrived, sent] = [region.ranks, region.ranks - 1].map(|count| sum.part_slots(build, count, chunks));
        let kept = sum.chain_slots(build, region.ranks, chunks);
        out.extend([arrived, sent].iter().chain(&kept).map(|&tensor| build.build_allocate(tensor)));
        out.push(build.build_allocate(region.output));
        if chunks > 1 {
            let count = build.int_expr(i64::from(chunks));
            sum.hop = build.binary_expr(BinaryOp::Div, piece, count);
            let index = build.binary_expr(BinaryOp::Mod, piece, count);
            sum.chunks = Some(PartChunks::share_memory(build, region, chunks, index, out));
        }
        sum.use_chain_slots(&kept, sum.hop);
        Self { sum, piece, chunks, arrived, sent }
    }

    /// Appends the loops over streams, and the sum.
    pub(super) fn emit_exchange(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        let ranks = self.sum.region.ranks;
        let passing = self.sum.is_before(build, i64::from(ranks) - 1);
        let (travelling, ending) = (self.passing_hop(build), self.last_hop(build));
        let iteration = vec![build.build_branch(passing, travelling, ending)];
        emit_loop_on_streams(build, self.piece, ranks * self.chunks, iteration, out);
        let result = self.sum.own_part(build, self.sum.output()).emit_selects(build, out);
        out.push(build.build_sum(result, self.arrived));
    }

    /// Appends the receives, the products with their messages, and the sum, all on one stream.
    pub(super) fn emit_direct(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        let ranks = self.sum.region.ranks;
        let from = self.sum.shifted_rank(build, i64::from(ranks) - 1, BinaryOp::Sub);
        let arrived = self.sum.slot(self.arrived, from);
        let mut receives = Vec::new();
        let arrivals = put_message(build, MessageDirection::Recv, &arrived, from, &mut receives);
        receives.last().into_iter().for_each(|&post| build.set_handle_element(post, self.piece));
        out.push(build_range_loop(build, self.piece, [0, ranks - 1], receives));
        let to = self.sum.shifted_rank(build, 1, BinaryOp::Add);
        let sent = self.sum.slot(self.sent, self.sum.hop);
        let mut stores = self.sum.part_statements(build, to, &sent, None);
        let departure = put_message(build, MessageDirection::Send, &sent, to, &mut stores);
        stores.push(build.build_wait(departure));
        let (passing, ending) = (self.sum.is_before(build, i64::from(ranks) - 1), self.last_hop(build));
        let hop = vec![build.build_branch(passing, stores, ending)];
        out.push(build_range_loop(build, self.piece, [0, ranks], hop));
        out.push(build.build_wait(arrivals));
        let result = self.sum.own_part(build, self.sum.output()).emit_selects(build, out);
        out.push(build.build_sum(result, self.arrived));
    }

    fn passing_hop(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let ranks = i64::from(self.sum.region.ranks);
        let to = self.sum.shifted_rank(build, 1, BinaryOp::Add);
        let from = self.sum.shifted_rank(build, ranks - 1, BinaryOp::Sub);
        let arrived = self.sum.slot(self.arrived, from);
        let sent = self.sum.slot(self.sent, self.sum.hop);
        let mut ops = Vec::new();
        let arrival = put_message(build, MessageDirection::Recv, &arrived, from, &mut ops);
        ops.extend(self.sum.part_statements(build, to, &sent, None));
        let (worker, copies) = (iteration_stream(build, self.piece), build.name_expr("numberOfStreams"));
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(worker)]);
        let departure = put_message(build, MessageDirection::Send, &sent, to, &mut ops);
        ops.push(build.build_set_current_stream(worker));
        ops.extend([build.build_wait(departure), build.build_wait(arrival)]);
        ops
    }

    fn last_hop(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let rank = build.name_expr("rank");
        let own = self.sum.slot(self.arrived, rank);
        self.sum.part_statements(build, rank, &own, None)
    }
}
