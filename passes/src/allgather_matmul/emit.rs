//! The loop that gathers one part in each iteration and multiplies it.
//!
//! In iteration h rank r works on part `r + h`, which rank `r + h` sends it, and sends its own part to rank `r - h`.
//! Iteration 0 is its own part.

use super::operands::PartOperand;
use super::region::{GatherRegion, GatheredGemm};
use crate::support::builder::OpBuilder;
use crate::support::reshard::stored_domains;
use crate::support::slices::{Slice, emit_loop_on_streams, get_message, iteration_stream, put_message};
use hostir::ir::MessageDirection;
use hostir::ir::{BinaryOp, ExprId, IterDomain, MemoryType, Op, OpId, OpKind, ParallelType, TensorId, Value};

/// The way in which a loop makes the program's gathered copy.
#[derive(Clone, Copy)]
pub(super) struct CopyMethod {
    /// True if parts arrive in memory of the loop, not in the copy; each is copied after its GEMMs.
    pub(super) in_buffer: bool,
    /// True if the rank's own part comes back from the rank to which it was sent first.
    pub(super) own_returns: bool,
}

/// Appends a loop over `hop`.
pub(super) fn emit_loop(
    build: &mut OpBuilder<'_, '_>,
    region: &GatherRegion,
    method: CopyMethod,
    hop: ExprId,
    out: &mut Vec<OpId>,
) {
    let copy = region.copy.map(|copy| copy.result);
    let in_copy = copy.filter(|_| !method.in_buffer);
    let gathered = in_copy.unwrap_or_else(|| gathered_tensor(build, region.source));
    let scales = region.scales.map(|scales| gathered_tensor(build, scales));
    let apart = copy.filter(|_| in_copy.is_none());
    let tensors = [Some(gathered), scales, apart];
    out.extend(tensors.into_iter().flatten().map(|tensor| build.build_allocate(tensor)));
    out.extend(region.gemms.iter().map(|gemm| build.build_allocate(gemm.result)));
    let gather =
        GatherLoop { region, gathered, scales, copy, own_returns: method.own_returns && region.ranks > 1, hop };
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
    /// The gathered copy that the program has.
    copy: Option<TensorId>,
    /// True if the rank's own part of it comes back from another rank.
    own_returns: bool,
    hop: ExprId,
}

/// The part of an iteration.
struct LoopPart {
    /// Its place, and the scales of its rows.
    rows: Slice,
    scales: Option<Slice>,
    number: ExprId,
    /// True for the rank's own part, which comes first.
    first: bool,
}

impl LoopPart {
    fn slices(&self) -> impl Iterator<Item = &Slice> {
        std::iter::once(&self.rows).chain(&self.scales)
    }
}

impl GatherLoop<'_> {
    fn iteration(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let (zero, number) = (build.int_expr(0), self.shifted_rank(build, BinaryOp::Add));
        let own = LoopPart {
            rows: Slice::whole(self.region.source).index_axis(0, zero),
            scales: self.region.scales.map(|scales| Slice::whole(scales).index_axis(0, zero)),
            number,
            first: true,
        };
        let arrived = LoopPart {
            rows: Slice::whole(self.gathered).index_axis(0, number),
            scales: self.scales.map(|scales| Slice::whole(scales).index_axis(0, number)),
            number,
            first: false,
        };
        let mut here = self.gemms(build, &own);
        if !self.own_returns {
            here.extend(self.copy_part(build, &own));
        }
        let mut there = Vec::new();
        let arrivals =
            arrived.slices().map(|slice| put_message(build, MessageDirection::Recv, slice, number, &mut there));
        let arrivals: Vec<u32> = arrivals.collect();
        let departures = self.send_own_part(build, &own, &mut there);
        there.extend(arrivals.into_iter().map(|arrival| build.build_wait(arrival)));
        let returned = self.copy.filter(|_| self.own_returns).map(|copy| self.return_own_part(build, copy, &arrived));
        let (starts, ends) = returned.unzip();
        there.extend(starts);
        there.extend(self.gemms(build, &arrived));
        if self.copy.is_some_and(|copy| copy != self.gathered) {
            there.extend(self.copy_part(build, &arrived));
        }
        there.extend(ends);
        there.extend(departures.into_iter().map(|departure| build.build_wait(departure)));
        let first = build.binary_expr(BinaryOp::Eq, self.hop, zero);
        vec![build.build_branch(first, here, there)]
    }

    /// Copies a part to the program's gathered copy. Nothing waits for the copy; before the GEMMs it would delay them.
    fn copy_part(&self, build: &mut OpBuilder<'_, '_>, part: &LoopPart) -> Vec<OpId> {
        let mut ops = Vec::new();
        if let Some(copy) = self.copy {
            let place = Slice::whole(copy).index_axis(0, part.number);
            let (out, input) = (place.emit_selects(build, &mut ops), part.rows.emit_selects(build, &mut ops));
            ops.push(build.build_set(out, input));
        }
        ops
    }

    /// Starts and ends the return of the rank's own part, in the first iteration in which one arrives: a rank signals
    /// it ready, and pulls its own from the rank that has it.
    fn return_own_part(&self, build: &mut OpBuilder<'_, '_>, copy: TensorId, arrived: &LoopPart) -> (OpId, OpId) {
        let (own, from) = (build.name_expr("rank"), self.shifted_rank(build, BinaryOp::Sub));
        let mut ops = Vec::new();
        let offered = get_message(build, MessageDirection::Send, &arrived.rows, arrived.number, &mut ops);
        let place = Slice::whole(copy).index_axis(0, own);
        let returned = self.on_copy_stream(build, &mut ops, |build, ops| {
            get_message(build, MessageDirection::Recv, &place, from, ops)
        });
        let waits = [offered, returned].map(|message| build.build_wait(message)).to_vec();
        let one = build.int_expr(1);
        let [start, end] = [ops, waits].map(|ops| {
            let is_first = build.binary_expr(BinaryOp::Eq, self.hop, one);
            build.build_branch(is_first, ops, Vec::new())
        });
        (start, end)
    }

    fn send_own_part(&self, build: &mut OpBuilder<'_, '_>, own: &LoopPart, ops: &mut Vec<OpId>) -> Vec<u32> {
        let to = self.shifted_rank(build, BinaryOp::Sub);
        let send = |build: &mut OpBuilder<'_, '_>, ops: &mut Vec<OpId>| {
            own.slices().map(|slice| put_message(build, MessageDirection::Send, slice, to, ops)).collect()
        };
        self.on_copy_stream(build, ops, send)
    }

    /// Appends messages on the stream that follows the iterations, so that copies are in order.
    fn on_copy_stream<R>(
        &self,
        build: &mut OpBuilder<'_, '_>,
        ops: &mut Vec<OpId>,
        emit: impl FnOnce(&mut OpBuilder<'_, '_>, &mut Vec<OpId>) -> R,
    ) -> R {
        let (worker, copies) = (iteration_stream(build, self.hop), build.name_expr("numberOfStreams"));
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(worker)]);
        let made = emit(build, ops);
        ops.push(build.build_set_current_stream(worker));
        made
    }

    /// The GEMMs of a part: first the independent ones, then those that are added to the sums of earlier parts.
    fn gemms(&self, build: &mut OpBuilder<'_, '_>, part: &LoopPart) -> Vec<OpId> {
        let mut ops = Vec::new();
        let (sums, alone): (Vec<_>, Vec<_>) = self.region.gemms.iter().partition(|gemm| gemm.sum.is_some());
        alone.into_iter().for_each(|gemm| self.emit_gemm(build, gemm, part, &mut ops));
        if !sums.is_empty() && !part.first {
            ops.push(self.follow_iteration_before(build));
        }
        sums.into_iter().for_each(|gemm| self.emit_gemm(build, gemm, part, &mut ops));
        ops
    }

    /// The GEMM of a part. Slices are in the order in which `hir 2` reads them inside of a statement.
    fn emit_gemm(&self, build: &mut OpBuilder<'_, '_>, gemm: &GatheredGemm, part: &LoopPart, ops: &mut Vec<OpId>) {
        let zero = build.int_expr(0);
        let transposed = self.transpose_part(build, gemm, part, ops);
        let place = own_columns(gemm, gemm.result, zero);
        let place = if gemm.sum.is_some() { place } else { place.index_axis(0, part.number) };
        let made = place.emit_selects(build, ops);
        let mut operands: Vec<TensorId> = Vec::new();
        for &operand in &gemm.operands {
            let slice = match operand {
                PartOperand::Gathered { .. } => transposed.map_or(part.rows.clone(), Slice::whole),
                PartOperand::GatheredScales => {
                    part.scales.clone().expect("scales of rows are gathered for all products of a region or none")
                }
                PartOperand::Columns(tensor) => own_columns(gemm, tensor, zero).index_axis(0, zero),
                PartOperand::Whole(tensor) => Slice::whole(tensor),
                PartOperand::Part(tensor) => own_columns(gemm, tensor, zero).index_axis(0, part.number),
            };
            operands.push(slice.emit_selects(build, ops));
        }
        let mut op = build.program().op(gemm.op).clone();
        if gemm.sum.is_some() && !part.first {
            op = Op::new(OpKind::MatmulAdd);
            operands.push(place.emit_selects(build, ops));
        }
        op.operands = operands.into_iter().map(Value::Tensor).collect();
        op.results = [Value::Tensor(made)].into_iter().collect();
        ops.push(build.push(op));
    }

    /// The transpose of a part, if a GEMM reads it. GPUs do not carry it out: the GEMM reads the part itself.
    fn transpose_part(
        &self,
        build: &mut OpBuilder<'_, '_>,
        gemm: &GatheredGemm,
        part: &LoopPart,
        ops: &mut Vec<OpId>,
    ) -> Option<TensorId> {
        if !gemm.operands.contains(&PartOperand::Gathered { transposed: true }) {
            return None;
        }
        let rows = part.rows.emit_selects(build, ops);
        let mut domains = stored_domains(build.program(), rows);
        domains.reverse();
        let turned = build.new_tensor(self.region.source, MemoryType::Local, &domains);
        build.number_permuted_axes(turned, &[1, 0]);
        ops.push(build.build_permute(turned, rows, &[1, 0]));
        Some(turned)
    }

    /// Waits for the stream of the previous iteration, which added to the same sums.
    fn follow_iteration_before(&self, build: &mut OpBuilder<'_, '_>) -> OpId {
        let one = build.int_expr(1);
        let before = build.binary_expr(BinaryOp::Sub, self.hop, one);
        let stream = iteration_stream(build, before);
        build.build_synchronize(stream)
    }

    /// The rank that is `hop` after this one, or before it.
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

/// A tensor, or the rank's shard of it if its columns are sharded over devices.
fn own_columns(gemm: &GatheredGemm, tensor: TensorId, zero: ExprId) -> Slice {
    let whole = Slice::whole(tensor);
    if gemm.sharded { whole.index_axis(0, zero) } else { whole }
}
