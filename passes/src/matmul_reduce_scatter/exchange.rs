//! Products that travel by copies while later ones are computed, and one sum at the end.
//!
//! In hop h rank r works on part `r + 1 + h` and sends it to the rank of that number; its own part comes last. Copies
//! are on a stream of their own, so that they follow each other. The products of a part are kept by the numbers of the
//! ranks that made them, so all parts are summed in the same order.

use super::emit::PartSum;
use crate::support::builder::OpBuilder;
use crate::support::slices::{Slice, bind_caller_stream, build_range_loop, put_message};
use hostir::ir::{BinaryOp, ExprId, OpId, TensorId};

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
    pub(super) fn emit(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        let (hop, region) = (self.sum.hop, self.sum.region);
        out.extend([self.arrived, self.sent, region.output].map(|tensor| build.build_allocate(tensor)));
        let (worker, main) = (self.worker_stream(build), bind_caller_stream(build, out));
        let fork = vec![build.build_set_current_stream(worker), build.build_synchronize(main)];
        out.push(build_range_loop(build, hop, [0, region.ranks], fork));
        let mut body = vec![build.build_set_current_stream(worker)];
        let (travels, passing, ending) = (self.sum.is_passing(build), self.passing_hop(build), self.last_hop(build));
        body.push(build.build_branch(travels, passing, ending));
        body.extend([build.build_set_current_stream(main), build.build_synchronize(worker)]);
        out.push(build_range_loop(build, hop, [0, region.ranks], body));
        let result = self.sum.own_result(build).emit(build, out);
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
        let (worker, copies) = (self.worker_stream(build), build.name_expr("numberOfStreams"));
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

    /// `( hop % numberOfStreams )`
    fn worker_stream(&self, build: &mut OpBuilder<'_, '_>) -> ExprId {
        let streams = build.name_expr("numberOfStreams");
        build.binary_expr(BinaryOp::Mod, self.sum.hop, streams)
    }
}
