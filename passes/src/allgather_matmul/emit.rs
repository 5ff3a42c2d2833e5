//! The loop that gathers one part in each iteration, and multiplies it.
//!
//! In iteration h rank r works on part `r + h`, which rank `r + h` sends it, and sends its own part to rank `r - h`.
//! Iteration 0 is its own part.

use super::region::{GatherRegion, GatheredProduct, ROW_SCALES, is_whole};
use crate::support::builder::OpBuilder;
use crate::support::reshard::stored_domains;
use crate::support::slices::{Slice, emit_loop_on_streams, iteration_stream, put_message};
use hostir::ir::{BinaryOp, ExprId, IterDomain, MemoryType, OpId, ParallelType, TensorId, Value};

/// Appends a loop over `hop`.
pub(super) fn emit_loop(build: &mut OpBuilder<'_, '_>, region: &GatherRegion, hop: ExprId, out: &mut Vec<OpId>) {
    let gathered = region.copy.map_or_else(|| gathered_tensor(build, region.source), |copy| copy.result);
    let scales = region.scales.map(|scales| gathered_tensor(build, scales));
    out.extend([Some(gathered), scales].into_iter().flatten().map(|tensor| build.build_allocate(tensor)));
    out.extend(region.products.iter().map(|product| build.build_allocate(product.result)));
    let gather = GatherLoop { region, gathered, scales, hop };
    let iteration = gather.iteration(build);
    emit_loop_on_streams(build, hop, region.ranks, iteration, out);
}

/// A tensor for all parts: `[part, m, k]` on every device.
fn gathered_tensor(build: &mut OpBuilder<'_, '_>, source: TensorId) -> TensorId {
    let mut domains: Vec<IterDomain> = stored_domains(build.program(), source);
    domains[0].parallel = ParallelType::Serial;
    build.new_tensor(source, MemoryType::Global, &domains)
}

struct GatherLoop<'r> {
    region: &'r GatherRegion,
    gathered: TensorId,
    /// The gathered scales of the operand's rows.
    scales: Option<TensorId>,
    hop: ExprId,
}

/// A part of the operand, and the scales of its rows.
struct Part {
    rows: Slice,
    scales: Option<Slice>,
}

impl Part {
    fn new(rows: TensorId, scales: Option<TensorId>, at: ExprId) -> Self {
        let scales = scales.map(|scales| Slice::whole(scales).index_axis(0, at));
        Self { rows: Slice::whole(rows).index_axis(0, at), scales }
    }
    fn slices(&self) -> impl Iterator<Item = &Slice> {
        std::iter::once(&self.rows).chain(&self.scales)
    }
}

impl GatherLoop<'_> {
    fn iteration(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let zero = build.int_expr(0);
        let part = self.shifted_rank(build, BinaryOp::Add);
        let own = Part::new(self.region.source, self.region.scales, zero);
        let arrived = Part::new(self.gathered, self.scales, part);
        let mut here = self.copy_own_part(build, &own.rows, &arrived.rows);
        here.extend(self.products(build, &own, part));
        let mut there = Vec::new();
        let arrivals = arrived.slices().map(|slice| put_message(build, true, slice, part, &mut there));
        let arrivals: Vec<u32> = arrivals.collect();
        let departures = self.send_own_part(build, &own, &mut there);
        there.extend(arrivals.into_iter().map(|arrival| build.build_wait(arrival)));
        there.extend(self.products(build, &arrived, part));
        there.extend(departures.into_iter().map(|departure| build.build_wait(departure)));
        let first = build.binary_expr(BinaryOp::Eq, self.hop, zero);
        vec![build.build_branch(first, here, there)]
    }

    /// The rank's own part of a gathered copy that the program has.
    fn copy_own_part(&self, build: &mut OpBuilder<'_, '_>, own: &Slice, place: &Slice) -> Vec<OpId> {
        let mut ops = Vec::new();
        if self.region.copy.is_some() {
            let (out, input) = (place.emit_selects(build, &mut ops), own.emit_selects(build, &mut ops));
            ops.push(build.build_set(out, input));
        }
        ops
    }

    /// Sends on the stream behind those of the iterations, so that copies follow each other.
    fn send_own_part(&self, build: &mut OpBuilder<'_, '_>, own: &Part, ops: &mut Vec<OpId>) -> Vec<u32> {
        let (worker, copies) = (iteration_stream(build, self.hop), build.name_expr("numberOfStreams"));
        let to = self.shifted_rank(build, BinaryOp::Sub);
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(worker)]);
        let departures = own.slices().map(|slice| put_message(build, false, slice, to, ops)).collect();
        ops.push(build.build_set_current_stream(worker));
        departures
    }

    /// The products of a part.
    fn products(&self, build: &mut OpBuilder<'_, '_>, left: &Part, part: ExprId) -> Vec<OpId> {
        let mut ops = Vec::new();
        for product in &self.region.products {
            emit_product(build, product, left, part, &mut ops);
        }
        ops
    }

    /// The rank `hop` behind this one, or before it.
    fn shifted_rank(&self, build: &mut OpBuilder<'_, '_>, op: BinaryOp) -> ExprId {
        let ranks = build.int_expr(i64::from(self.region.ranks));
        let mut base = build.name_expr("rank");
        if op == BinaryOp::Sub {
            base = build.binary_expr(BinaryOp::Add, base, ranks);
        }
        let moved = build.binary_expr(op, base, self.hop);
        build.binary_expr(BinaryOp::Mod, moved, ranks)
    }
}

fn emit_product(
    build: &mut OpBuilder<'_, '_>,
    product: &GatheredProduct,
    left: &Part,
    part: ExprId,
    ops: &mut Vec<OpId>,
) {
    let zero = build.int_expr(0);
    let made = own_columns(product, product.result, zero).index_axis(0, part).emit_selects(build, ops);
    let mut operands = vec![left.rows.emit_selects(build, ops)];
    for (place, &tensor) in product.others.iter().enumerate() {
        if let Some(scales) = left.scales.as_ref().filter(|_| place == ROW_SCALES) {
            operands.push(scales.emit_selects(build, ops));
            continue;
        }
        let whole = is_whole(&stored_domains(build.program(), tensor));
        let own = if whole { Slice::whole(tensor) } else { own_columns(product, tensor, zero).index_axis(0, zero) };
        operands.push(own.emit_selects(build, ops));
    }
    let mut op = build.program().op(product.op).clone();
    op.operands = operands.into_iter().map(Value::Tensor).collect();
    op.results = [Value::Tensor(made)].into_iter().collect();
    ops.push(build.push(op));
}

/// A tensor, or the rank's part of it where columns lie across devices.
fn own_columns(product: &GatheredProduct, tensor: TensorId, zero: ExprId) -> Slice {
    let whole = Slice::whole(tensor);
    if product.sharded { whole.index_axis(0, zero) } else { whole }
}
