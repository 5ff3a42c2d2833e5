//! Products that travel by copies while later ones are computed, and one sum at the end.
//!
//! In hop h rank r works on part `r + 1 + h` and sends it to the rank of that number; its own part comes last. Copies
//! are on a stream of their own, so that they follow each other. The products of a part are kept by the numbers of the
//! ranks that made them, so all parts are summed in the same order.

use super::emit::PartSum;
use crate::support::builder::OpBuilder;
use crate::support::slices::{Slice, emit_loop_on_streams, iteration_stream, put_message};
use hostir::ir::{BinaryOp, OpId, TensorId};

pub(super) struct PartExchange<'r> {
    sum: PartSum<'r>,
    /// The products of the rank's own part, by the ranks that made them.
    arrived: TensorId,
    /// The products that are sent, by hop.
    sent: TensorId,
}

impl<'r> PartExchange<'r> {
    pub(super) fn new(build: &mut OpBuilder<'_, '_>, sum: PartSum<'r>) -> Self {
        let ranks = sum.region.ranks;
        let [arrived, sent] = [ranks, ranks - 1].map(|count| sum.part_slots(build, count));
        Self { sum, arrived, sent }
    }

    /// Appends the loops over streams, and the sum.
    pub(super) fn emit_exchange(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        let (hop, region) = (self.sum.hop, self.sum.region);
        out.extend([self.arrived, self.sent, region.output].map(|tensor| build.build_allocate(tensor)));
        let (travels, passing, ending) = (self.sum.is_passing(build), self.passing_hop(build), self.last_hop(build));
        let iteration = vec![build.build_branch(travels, passing, ending)];
        emit_loop_on_streams(build, hop, region.ranks, iteration, out);
        let result = self.sum.own_result(build).emit_selects(build, out);
        out.push(build.build_sum(result, self.arrived));
    }

    fn passing_hop(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let (hop, ranks) = (self.sum.hop, i64::from(self.sum.region.ranks));
        let to = self.sum.shifted_rank(build, 1, BinaryOp::Add);
        let from = self.sum.shifted_rank(build, ranks - 1, BinaryOp::Sub);
        let arrived = Slice::whole(self.arrived).index_axis(0, from);
        let sent = Slice::whole(self.sent).index_axis(0, hop);
        let mut ops = Vec::new();
        let arrival = put_message(build, true, &arrived, from, &mut ops);
        ops.extend(self.sum.gemm_statement(build, to, &sent, None));
        let (worker, copies) = (iteration_stream(build, hop), build.name_expr("numberOfStreams"));
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(worker)]);
        let departure = put_message(build, false, &sent, to, &mut ops);
        ops.push(build.build_set_current_stream(worker));
        ops.extend([build.build_wait(departure), build.build_wait(arrival)]);
        ops
    }

    fn last_hop(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let rank = build.name_expr("rank");
        let own = Slice::whole(self.arrived).index_axis(0, rank);
        self.sum.gemm_statement(build, rank, &own, None)
    }
}
