//! The loop that exchanges one part in each iteration and computes it.
//!
//! In iteration h rank r computes the part of rank `r + h`: it receives it, sends its own part for rank `r - h`, and
//! sends the results back. Its own part does not travel. It is the first one, computed while others arrive, or without
//! arrivals the last one, computed while the results of others travel. Parts arrive in memory of the program, to which
//! other ranks may copy (`put`); results are copied by those that get them (`get`), also to memory that no other rank
//! reaches, such as tensors of torch.

use super::parts::{Exchange, PartAxes, PartForm};
use super::region::{ExchangeRegion, PartFunction};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{declare_domains, stored_domains};
use crate::support::slices::{Slice, emit_loop_on_streams, get_message, iteration_stream, put_message};
use hostir::ir::MessageDirection;
use hostir::ir::{BinaryOp, ExprId, IterDomain, MemoryType, OpId, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Appends the memory of a region and its loop over `hop`.
pub(super) fn emit_loop(build: &mut OpBuilder<'_, '_>, region: &ExchangeRegion, hop: ExprId, out: &mut Vec<OpId>) {
    let ranks = region.axes.ranks;
    let parts = PartLoop::allocate(build, region, hop, out);
    let (own, other) = (parts.own_part(build), parts.other_part(build));
    let own_hop = build.int_expr(if region.arrivals.is_empty() { i64::from(ranks) - 1 } else { 0 });
    let is_own = build.binary_expr(BinaryOp::Eq, hop, own_hop);
    let iteration = vec![build.build_branch(is_own, own, other)];
    emit_loop_on_streams(build, hop, ranks, iteration, out);
}

/// A region, and the tensors of its loop.
struct PartLoop<'r> {
    region: &'r ExchangeRegion,
    hop: ExprId,
    /// The part of an iteration: the number of the rank whose rows it has.
    part: ExprId,
    /// The rank for which an iteration sends a part, and whose results it gets.
    other: ExprId,
    /// The tensors that something else reads: they are whole.
    whole: FxHashSet<TensorId>,
    /// By the result of an exchange: where its parts arrive, `[part, ..]`.
    arrived: FxHashMap<TensorId, TensorId>,
    /// By a result that other ranks cannot read: its copy, `[part, ..]`.
    copies: FxHashMap<TensorId, TensorId>,
}

/// The places of exchanged parts in an iteration, by the result of the exchange.
type PartPlaces = FxHashMap<TensorId, Slice>;

impl<'r> PartLoop<'r> {
    /// Appends the memory of a loop: for whole results, parts that arrive, what is computed of parts, and copies.
    fn allocate(build: &mut OpBuilder<'_, '_>, region: &'r ExchangeRegion, hop: ExprId, out: &mut Vec<OpId>) -> Self {
        let (mut arrived, mut copies) = (FxHashMap::default(), FxHashMap::default());
        // Before what is computed is declared anew.
        for exchange in &region.arrivals {
            arrived.insert(exchange.result, new_parts(build, exchange.result, region.axes));
        }
        for source in region.returns.iter().map(|exchange| exchange.source) {
            if region.unreadable.contains(&source) {
                copies.entry(source).or_insert_with(|| new_parts(build, source, region.axes));
            }
        }
        let whole: FxHashSet<TensorId> = region.kept.iter().copied().collect();
        let computed = region.functions.iter().map(|function| function.result);
        let local: Vec<TensorId> = computed.filter(|made| !whole.contains(made)).collect();
        for &tensor in &local {
            let domains = part_domains(build, tensor, region.axes);
            declare_domains(build, tensor, &domains);
        }
        let results = region.kept.iter().copied().chain(region.returns.iter().map(|exchange| exchange.result));
        let places = region.arrivals.iter().map(|exchange| arrived[&exchange.result]);
        let copied = region.returns.iter().filter_map(|exchange| copies.get(&exchange.source).copied());
        let mut tensors: Vec<TensorId> = results.chain(places).chain(local).collect();
        copied.for_each(|copy| tensors.extend((!tensors.contains(&copy)).then_some(copy)));
        out.extend(tensors.into_iter().map(|tensor| build.build_allocate(tensor)));
        let (shift, ranks) = (i64::from(region.arrivals.is_empty()), i64::from(region.axes.ranks));
        let part = later_rank(build, hop, shift, ranks);
        let other = earlier_rank(build, hop, shift, ranks);
        Self { region, hop, part, other, whole, arrived, copies }
    }

    /// The rank's own part, from its own memory to its own memory.
    fn own_part(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let rank = build.name_expr("rank");
        let mut places = PartPlaces::default();
        for exchange in &self.region.arrivals {
            places.insert(exchange.result, self.sent_part(build, exchange, rank));
        }
        let mut ops = Vec::new();
        self.keep_arrivals(build, &places, &mut ops);
        self.emit_functions(build, &places, &mut ops);
        for exchange in &self.region.returns {
            let result = slice_of_part(build, exchange.result, exchange.axes, rank);
            let source = self.place_of(build, exchange.source, &places);
            emit_copy(build, &result, &source, &mut ops);
        }
        ops
    }

    /// The part of another rank: it arrives, and its results return.
    fn other_part(&self, build: &mut OpBuilder<'_, '_>) -> Vec<OpId> {
        let (mut ops, mut places) = (Vec::new(), PartPlaces::default());
        let mut arrivals = Vec::new();
        for exchange in &self.region.arrivals {
            let place = Slice::whole(self.arrived[&exchange.result]).index_axis(0, self.part);
            arrivals.push(put_message(build, MessageDirection::Recv, &place, self.part, &mut ops));
            places.insert(exchange.result, place);
        }
        let departures = self.send_parts(build, &mut ops);
        ops.extend(arrivals.into_iter().map(|arrival| build.build_wait(arrival)));
        self.emit_functions(build, &places, &mut ops);
        self.keep_arrivals(build, &places, &mut ops);
        self.return_results(build, &places, &mut ops);
        ops.extend(departures.into_iter().map(|departure| build.build_wait(departure)));
        ops
    }

    /// Appends the sends of parts on the stream that follows those of the iterations, so that copies are in order.
    fn send_parts(&self, build: &mut OpBuilder<'_, '_>, ops: &mut Vec<OpId>) -> Vec<u32> {
        if self.region.arrivals.is_empty() {
            return Vec::new();
        }
        let (worker, copies) = (iteration_stream(build, self.hop), build.name_expr("numberOfStreams"));
        ops.extend([build.build_set_current_stream(copies), build.build_synchronize(worker)]);
        let mut departures = Vec::new();
        for exchange in &self.region.arrivals {
            let part = self.sent_part(build, exchange, self.other);
            departures.push(put_message(build, MessageDirection::Send, &part, self.other, ops));
        }
        ops.push(build.build_set_current_stream(worker));
        departures
    }

    /// Appends the messages by which results of a part return to its rank, and those of the rank's own part arrive.
    fn return_results(&self, build: &mut OpBuilder<'_, '_>, places: &PartPlaces, ops: &mut Vec<OpId>) {
        let mut waits = Vec::new();
        for exchange in &self.region.returns {
            let mut source = self.place_of(build, exchange.source, places);
            if let Some(&copy) = self.copies.get(&exchange.source) {
                let copied = Slice::whole(copy).index_axis(0, self.part);
                emit_copy(build, &copied, &source, ops);
                source = copied;
            }
            let result = slice_of_part(build, exchange.result, exchange.axes, self.other);
            waits.push(get_message(build, MessageDirection::Send, &source, self.part, ops));
            waits.push(get_message(build, MessageDirection::Recv, &result, self.other, ops));
        }
        ops.extend(waits.into_iter().map(|message| build.build_wait(message)));
    }

    /// Appends copies of parts to the exchanged tensors that something else reads.
    fn keep_arrivals(&self, build: &mut OpBuilder<'_, '_>, places: &PartPlaces, ops: &mut Vec<OpId>) {
        for exchange in &self.region.arrivals {
            if self.whole.contains(&exchange.result) {
                let whole = slice_of_part(build, exchange.result, self.region.axes, self.part);
                emit_copy(build, &whole, &places[&exchange.result], ops);
            }
        }
    }

    fn emit_functions(&self, build: &mut OpBuilder<'_, '_>, places: &PartPlaces, ops: &mut Vec<OpId>) {
        self.region.functions.iter().for_each(|function| self.emit_function(build, function, places, ops));
    }

    /// Appends a product or function of a part. Slices are in the order in which `hir 2` reads them inside of a
    /// statement.
    fn emit_function(
        &self,
        build: &mut OpBuilder<'_, '_>,
        function: &PartFunction,
        places: &PartPlaces,
        ops: &mut Vec<OpId>,
    ) {
        let mut op = build.program().op(function.op).clone();
        let result = self.place_of(build, function.result, places).emit_selects(build, ops);
        let mut forms = function.operands.iter();
        for value in &mut op.operands {
            if let (Value::Tensor(operand), Some(&form)) = (*value, forms.next()) {
                let slice = match form {
                    PartForm::Computed => self.place_of(build, operand, places),
                    PartForm::OfPart => slice_of_part(build, operand, self.region.axes, self.part),
                    PartForm::OfAll => {
                        let zero = build.int_expr(0);
                        slice_of_part(build, operand, self.region.axes, zero)
                    }
                    PartForm::Whole => Slice::whole(operand),
                };
                *value = Value::Tensor(slice.emit_selects(build, ops));
            }
        }
        op.results.clear();
        ops.push(build.push(op.with_result(Value::Tensor(result))));
    }

    /// The part that goes to a rank.
    fn sent_part(&self, build: &mut OpBuilder<'_, '_>, exchange: &Exchange, rank: ExprId) -> Slice {
        slice_of_part(build, exchange.source, exchange.axes.exchanged(), rank)
    }

    /// The place of the iteration's part of a tensor of the region.
    fn place_of(&self, build: &mut OpBuilder<'_, '_>, tensor: TensorId, places: &PartPlaces) -> Slice {
        if let Some(place) = places.get(&tensor) {
            return place.clone();
        }
        if self.whole.contains(&tensor) {
            return slice_of_part(build, tensor, self.region.axes, self.part);
        }
        Slice::whole(tensor).index_axis(0, self.part)
    }
}

fn emit_copy(build: &mut OpBuilder<'_, '_>, to: &Slice, from: &Slice, ops: &mut Vec<OpId>) {
    let (to, from) = (to.emit_selects(build, ops), from.emit_selects(build, ops));
    ops.push(build.build_set(to, from));
}

/// A part of the rank's own of a tensor of parts.
fn slice_of_part(build: &mut OpBuilder<'_, '_>, tensor: TensorId, axes: PartAxes, part: ExprId) -> Slice {
    let own = build.int_expr(0);
    let [first, second] = axes.in_order(own, part);
    Slice::whole(tensor).index_axis(0, first).index_axis(0, second)
}

/// A tensor for the parts of one that is spread over devices: `[part, ..]` on each.
fn new_parts(build: &mut OpBuilder<'_, '_>, tensor: TensorId, axes: PartAxes) -> TensorId {
    let domains = part_domains(build, tensor, axes);
    build.new_tensor(tensor, MemoryType::Global, &domains)
}

/// The axes of a tensor of parts without that of devices.
fn part_domains(build: &OpBuilder<'_, '_>, tensor: TensorId, axes: PartAxes) -> Vec<IterDomain> {
    let mut domains = stored_domains(build.program(), tensor);
    domains.remove(axes.device_place());
    domains.iter_mut().for_each(|domain| domain.rfactor = false);
    domains
}

/// `( ( ( rank + hop ) + by ) % ranks )`
fn later_rank(build: &mut OpBuilder<'_, '_>, hop: ExprId, by: i64, ranks: i64) -> ExprId {
    let rank = build.name_expr("rank");
    let mut sum = build.binary_expr(BinaryOp::Add, rank, hop);
    if by != 0 {
        let by = build.int_expr(by);
        sum = build.binary_expr(BinaryOp::Add, sum, by);
    }
    let ranks = build.int_expr(ranks);
    build.binary_expr(BinaryOp::Mod, sum, ranks)
}

/// `( ( ( rank + ( ranks - by ) ) - hop ) % ranks )`
fn earlier_rank(build: &mut OpBuilder<'_, '_>, hop: ExprId, by: i64, ranks: i64) -> ExprId {
    let (rank, added) = (build.name_expr("rank"), build.int_expr(ranks - by));
    let sum = build.binary_expr(BinaryOp::Add, rank, added);
    let difference = build.binary_expr(BinaryOp::Sub, sum, hop);
    let ranks = build.int_expr(ranks);
    build.binary_expr(BinaryOp::Mod, difference, ranks)
}
