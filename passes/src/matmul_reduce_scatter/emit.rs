//! A GEMM and a sum over devices, part by part.

use super::chunks::{PartChunks, has_part_scales, split_rows};
use super::exchange::PartExchange;
use super::region::{DEVICES, PARTS, SumMethod, SumRegion, SumResult};
use super::ring::PartRing;
use crate::support::builder::OpBuilder;
use crate::support::reshard::stored_domains;
use crate::support::slices::{Slice, build_range_loop, emit_loop_on_streams, put_message};
use hostir::ir::MessageDirection;
use hostir::ir::{BinaryOp, ExprId, IterDomain, IterType, MemoryType, OpId, ParallelType, TensorId, Value};
use hostir::ops::gemm::gemm_op;

/// Names for the indices of the loops of sums.
pub(super) struct LoopNames {
    pub(super) hop: String,
    pub(super) chunk: String,
    /// Of a loop over the chunks of all hops.
    pub(super) piece: String,
}

/// The form in which the sum of a region is written.
pub(super) struct SumPlan {
    pub(super) region: SumRegion,
    pub(super) method: SumMethod,
    /// The number of chunks of each part.
    pub(super) chunks: u32,
    /// GEMMs that a ring computes while sums are in transit.
    pub(super) inside: Vec<OpId>,
}

/// Appends the sum of a region.
pub(super) fn emit_sum(build: &mut OpBuilder<'_, '_>, plan: SumPlan, names: &LoopNames, out: &mut Vec<OpId>) {
    let SumPlan { region, method, chunks, inside } = plan;
    match method {
        SumMethod::RingAccumulate => {
            let sum = PartSum { inside, ..PartSum::new(&region, build.name_expr(&names.hop)) };
            emit_ring_sum(build, sum, chunks, names, out);
        }
        SumMethod::P2p | SumMethod::Direct => {
            let piece = build.name_expr(if chunks > 1 { &names.piece } else { &names.hop });
            let exchange = PartExchange::allocate(build, &region, chunks, piece, out);
            match method {
                SumMethod::Direct => exchange.emit_direct(build, out),
                _ => exchange.emit_exchange(build, out),
            }
            // The sums are finished all at once.
            let hop = build.name_expr(&names.hop);
            PartSum::new(&region, hop).emit_gather(build, out);
        }
    }
}

fn emit_ring_sum(build: &mut OpBuilder<'_, '_>, sum: PartSum<'_>, chunks: u32, names: &LoopNames, out: &mut Vec<OpId>) {
    let ring = PartRing::allocate(build, sum, chunks, &names.chunk, out);
    let mut body = Vec::new();
    ring.emit_ring(build, &mut body);
    ring.sum.emit_gather(build, &mut body);
    match &ring.sum.chunks {
        Some(chunks) => emit_loop_on_streams(build, chunks.index, chunks.count, body, out),
        None => out.extend(body),
    }
}

/// A region, and the index of its loops.
pub(super) struct PartSum<'r> {
    pub(super) region: &'r SumRegion,
    pub(super) hop: ExprId,
    /// The chunks of each part, if there are several.
    pub(super) chunks: Option<PartChunks>,
    /// The places of results inside of a part: of a chain's GEMMs except the last, which use them in turn, or of each
    /// function.
    pub(super) kept: Vec<Slice>,
    /// GEMMs that do not need the sum, and are computed while it is in transit.
    pub(super) inside: Vec<OpId>,
}

impl<'r> PartSum<'r> {
    pub(super) fn new(region: &'r SumRegion, hop: ExprId) -> Self {
        Self { region, hop, chunks: None, kept: Vec::new(), inside: Vec::new() }
    }

    /// Allocates memory for intermediate results of a chain, for as many parts at a time. A GEMM does not read where it
    /// writes, so there are two.
    pub(super) fn chain_slots(&self, build: &mut OpBuilder<'_, '_>, count: u32, chunks: u32) -> Vec<TensorId> {
        if !self.region.functions.is_empty() {
            return self.region.functions.iter().map(|&op| self.function_slots(build, op, count)).collect();
        }
        let inside = self.region.chain.len().saturating_sub(1).min(2);
        (0..inside).map(|_| self.part_slots(build, count, chunks)).collect()
    }

    /// Takes slots for intermediate results of a chain; `number` is that of the part's slot.
    pub(super) fn use_chain_slots(&mut self, slots: &[TensorId], number: ExprId) {
        self.kept = slots.iter().map(|&slots| self.slot(slots, number)).collect();
    }

    /// A tensor for as many parts: `[count, m, n]`, or `[count, chunk, m / chunks, n]`, which is not sharded over
    /// devices.
    pub(super) fn part_slots(&self, build: &mut OpBuilder<'_, '_>, count: u32, chunks: u32) -> TensorId {
        let domains = part_domains(build, self.region.partial, count);
        let domains = if chunks > 1 { split_rows(build, domains, chunks) } else { domains };
        build.new_tensor(self.region.partial, MemoryType::Global, &domains)
    }

    /// A tensor for a function's results of as many parts.
    fn function_slots(&self, build: &mut OpBuilder<'_, '_>, op: OpId, count: u32) -> TensorId {
        let made = build.program().op(op).output_tensors().next().unwrap_or(self.region.partial);
        let domains = part_domains(build, made, count);
        build.new_tensor(made, MemoryType::Global, &domains)
    }

    /// A part of slots, of a factor or of a result: its chunk, if parts have several.
    pub(super) fn chunk_of(&self, part: Slice) -> Slice {
        match &self.chunks {
            Some(chunks) => part.index_axis(0, chunks.index),
            None => part,
        }
    }

    /// The slot of a number, or its chunk.
    pub(super) fn slot(&self, slots: TensorId, number: ExprId) -> Slice {
        self.chunk_of(Slice::whole(slots).index_axis(0, number))
    }

    /// The place of the rank's own part in a tensor with the result's parts: the result, or a tensor that shares its
    /// memory.
    pub(super) fn own_part(&self, build: &mut OpBuilder<'_, '_>, output: TensorId) -> Slice {
        match self.region.result {
            SumResult::Scattered => self.own_shard(build, output),
            SumResult::Replicated => Slice::whole(output).index_axis(0, build.name_expr("rank")),
        }
    }

    /// The result, with the rows as two axes if parts have several chunks.
    pub(super) fn output(&self) -> TensorId {
        self.chunks.as_ref().map_or(self.region.output, |chunks| chunks.output)
    }

    /// The GEMMs and functions of a part, plus `added`.
    pub(super) fn part_statements(
        &self,
        build: &mut OpBuilder<'_, '_>,
        part: ExprId,
        into: &Slice,
        added: Option<&Slice>,
    ) -> Vec<OpId> {
        let mut ops = self.leading_statements(build, part);
        ops.extend(self.adding_statement(build, part, into, added));
        ops.extend(self.later_statements(build, part, into));
        ops
    }

    /// The first GEMM of a part's chain, or its last function, plus `added`.
    pub(super) fn adding_statement(
        &self,
        build: &mut OpBuilder<'_, '_>,
        part: ExprId,
        into: &Slice,
        added: Option<&Slice>,
    ) -> Vec<OpId> {
        if !self.region.functions.is_empty() {
            return self.last_function(build, part, into, added);
        }
        self.gemm_statement(build, 0, part, self.place_of_result(0, into), added)
    }

    /// The GEMMs of a part's chain after the first, each plus the one before.
    pub(super) fn later_statements(&self, build: &mut OpBuilder<'_, '_>, part: ExprId, into: &Slice) -> Vec<OpId> {
        let mut ops = Vec::new();
        let links = if self.region.functions.is_empty() { self.region.chain.len() } else { 0 };
        for link in 1..links {
            let [before, result] = [link - 1, link].map(|link| self.place_of_result(link, into));
            ops.extend(self.gemm_statement(build, link, part, result, Some(before)));
        }
        ops
    }

    /// The place of a GEMM's result: `into` for the last one.
    fn place_of_result<'s>(&'s self, link: usize, into: &'s Slice) -> &'s Slice {
        let is_last = link + 1 == self.region.chain.len();
        self.kept.get(link % 2).filter(|_| !is_last).unwrap_or(into)
    }

    /// A GEMM of a part, plus `added`. Slices are in the order in which `hir 2` reads them inside of a statement.
    fn gemm_statement(
        &self,
        build: &mut OpBuilder<'_, '_>,
        link: usize,
        part: ExprId,
        into: &Slice,
        added: Option<&Slice>,
    ) -> Vec<OpId> {
        let gemm = &self.region.chain[link];
        let mut ops = Vec::new();
        let result = into.emit_selects(build, &mut ops);
        let factor = self.chunks.as_ref().map_or(gemm.factors[0], |chunks| chunks.lefts[link]);
        let left = self.own_shard(build, factor).index_axis(0, part);
        let left = self.chunk_of(left).emit_selects(build, &mut ops);
        let right = self.right_factor(build, gemm.factors[1]).emit_selects(build, &mut ops);
        let scales = gemm.scales.map(|scales| scales.map(|tensor| self.part_scales(build, tensor, part)));
        let scales = scales.map(|scales| scales.map(|slice| slice.emit_selects(build, &mut ops)));
        let added = added.map(|sum| sum.emit_selects(build, &mut ops));
        let op = gemm_op([left, right], scales, added);
        ops.push(build.push(op.with_result(Value::Tensor(result))));
        ops
    }

    /// `hop < limit`
    pub(super) fn is_before(&self, build: &mut OpBuilder<'_, '_>, limit: i64) -> ExprId {
        let limit = build.int_expr(limit);
        build.binary_expr(BinaryOp::Lt, self.hop, limit)
    }

    /// Appends the messages by which all ranks get all finished parts, or the chunk of each, if every rank has the
    /// whole result.
    fn emit_gather(&self, build: &mut OpBuilder<'_, '_>, out: &mut Vec<OpId>) {
        if self.region.result == SumResult::Replicated {
            let body = self.gather_body(build);
            out.push(build_range_loop(build, self.hop, [1, self.region.ranks], body));
        }
    }

    /// Sends each rank's part to the rank `hop` after it, and receives that of the rank `hop` before it.
    fn gather_body(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let from = self.shifted_rank(build, i64::from(self.region.ranks), BinaryOp::Sub);
        let to = self.shifted_rank(build, 0, BinaryOp::Add);
        let rank = build.name_expr("rank");
        let [received, own] = [from, rank].map(|part| self.slot(self.output(), part));
        let mut ops = Vec::new();
        let arrival = put_message(build, MessageDirection::Recv, &received, from, &mut ops);
        let departure = put_message(build, MessageDirection::Send, &own, to, &mut ops);
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

    /// The rank before (-1) or after (1) this one in the ring.
    pub(super) fn neighbour(&self, build: &mut OpBuilder<'_, '_>, step: i64) -> ExprId {
        let ranks = i64::from(self.region.ranks);
        let (rank, step) = (build.name_expr("rank"), build.int_expr(step.rem_euclid(ranks)));
        let sum = build.binary_expr(BinaryOp::Add, rank, step);
        let ranks = build.int_expr(ranks);
        build.binary_expr(BinaryOp::Mod, sum, ranks)
    }

    /// The rank's own shard of a tensor that is sharded over devices along one axis.
    pub(super) fn own_shard(&self, build: &mut OpBuilder<'_, '_>, tensor: TensorId) -> Slice {
        let domains = stored_domains(build.program(), tensor);
        let place = domains.iter().position(|domain| domain.parallel.is_device());
        Slice::whole(tensor).index_axis(place.unwrap_or(DEVICES), build.int_expr(0))
    }

    /// The scales of a part's rows, or of the columns.
    fn part_scales(&self, build: &mut OpBuilder<'_, '_>, scales: TensorId, part: ExprId) -> Slice {
        if has_part_scales(build.program(), scales) {
            let rows = self.chunks.as_ref().and_then(|chunks| chunks.row_scales).unwrap_or(scales);
            let own = self.own_shard(build, rows).index_axis(PARTS - 1, part);
            return self.chunk_of(own);
        }
        if stored_domains(build.program(), scales).len() <= 2 {
            return Slice::whole(scales);
        }
        let zero = build.int_expr(0);
        self.own_shard(build, scales).index_axis(PARTS - 1, zero)
    }

    fn right_factor(&self, build: &mut OpBuilder<'_, '_>, tensor: TensorId) -> Slice {
        if stored_domains(build.program(), tensor).len() == 2 {
            return Slice::whole(tensor);
        }
        let zero = build.int_expr(0);
        self.own_shard(build, tensor).index_axis(PARTS - 1, zero)
    }
}

/// The axes of as many parts of a tensor `[device, part, m, n]`: `[count, m, n]`, which are not sharded.
fn part_domains(build: &mut OpBuilder<'_, '_>, tensor: TensorId, count: u32) -> Vec<IterDomain> {
    let count = build.int_expr(i64::from(count));
    let mut domains = stored_domains(build.program(), tensor);
    domains.remove(DEVICES);
    for domain in &mut domains {
        *domain = IterDomain { iter: IterType::Iteration, parallel: ParallelType::Serial, ..*domain };
    }
    domains[0].extent = count;
    domains
}
