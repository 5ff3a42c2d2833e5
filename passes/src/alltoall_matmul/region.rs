//! Products of parts that are exchanged before or after, with the functions between.
//!
//! A region is all that is connected to a product through tensors of parts: products and functions of these, exchanges
//! that bring what they read, and exchanges of what they make.

use super::parts::{Exchange, PartAxes, PartForm};
use crate::support::motion::BodyMotion;
use hostir::analysis::storage::{TensorAccess, allocated_tensors, count_mentions, visit_accesses, visit_host_ops};
use hostir::axes::logical_axes;
use hostir::ir::{OpId, Program, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The number of axes of a product of parts, at least: parts, devices, rows, columns.
const GEMM_AXES: usize = 4;

const APART: &str = "something between the ops of its parts reads or changes their tensors";
const BOUND: &str = "its result has memory already";
const REWRITTEN: &str = "its tensors are written more than once";
const ALONE: &str = "no product of its parts is beside it";

/// A product or a function of parts.
pub(super) struct PartFunction {
    pub(super) op: OpId,
    pub(super) result: TensorId,
    /// The tensors among its operands, in their order.
    pub(super) operands: Vec<PartForm>,
}

/// Ops that are taken part by part.
pub(super) struct ExchangeRegion {
    /// The axes of the tensors that are computed.
    pub(super) axes: PartAxes,
    /// The exchanges that bring parts.
    pub(super) arrivals: Vec<Exchange>,
    /// The products, and functions of parts.
    pub(super) functions: Vec<PartFunction>,
    /// The exchanges that take results back.
    pub(super) returns: Vec<Exchange>,
    /// The tensors of parts that something else reads, in the order of the body.
    pub(super) kept: Vec<TensorId>,
    /// The tensors that return, but are not in memory of the loop: other ranks may not reach them.
    pub(super) unreadable: Vec<TensorId>,
    /// The op in whose place the loop is.
    pub(super) place: OpId,
}

impl ExchangeRegion {
    fn of_gemm(gemm: OpId, axes: PartAxes) -> Self {
        Self {
            axes,
            arrivals: Vec::new(),
            functions: Vec::new(),
            returns: Vec::new(),
            kept: Vec::new(),
            unreadable: Vec::new(),
            place: gemm,
        }
    }

    /// All ops, in the order of the body.
    pub(super) fn ops(&self, motion: &BodyMotion<'_>) -> Vec<OpId> {
        let exchanges = self.exchanges().map(|exchange| exchange.op);
        let mut ops: Vec<OpId> = exchanges.chain(self.functions.iter().map(|function| function.op)).collect();
        ops.sort_by_key(|&op| motion.place_of(op));
        ops
    }

    pub(super) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.arrivals.iter().chain(&self.returns)
    }

    pub(super) fn gemm_count(&self, program: &Program) -> usize {
        self.functions.iter().filter(|function| is_gemm(program, function.op)).count()
    }
}

/// Finds regions in the body of a program.
pub(super) struct ExchangeSearch<'p> {
    program: &'p Program,
    pub(super) motion: BodyMotion<'p>,
    /// The exchanges that are not taken in parts, in the order of the body, with the reasons.
    pub(super) kept: Vec<(OpId, String)>,
    exchanges: FxHashMap<OpId, Exchange>,
    /// The op of the body that makes each tensor, and those that read it.
    makers: FxHashMap<TensorId, OpId>,
    readers: FxHashMap<TensorId, Vec<OpId>>,
    mentions: FxHashMap<TensorId, usize>,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
    /// Tensors that several ops write, or the caller.
    rewritten: FxHashSet<TensorId>,
    taken: FxHashSet<OpId>,
}

impl<'p> ExchangeSearch<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let (mut makers, mut readers) = (FxHashMap::default(), FxHashMap::<TensorId, Vec<OpId>>::default());
        for &id in &program.block(program.body()).ops {
            makers.extend(program.op(id).output_tensors().map(|tensor| (tensor, id)));
            program.op(id).input_tensors().for_each(|tensor| readers.entry(tensor).or_default().push(id));
        }
        Self {
            program,
            motion: BodyMotion::new(program),
            kept: Vec::new(),
            exchanges: FxHashMap::default(),
            makers,
            readers,
            mentions: count_mentions(program),
            bound: allocated_tensors(program),
            rewritten: rewritten_tensors(program),
            taken: FxHashSet::default(),
        }
    }

    /// The regions, in the order of their first products.
    pub(super) fn find_regions(&mut self) -> Vec<ExchangeRegion> {
        let program = self.program;
        let ops = &program.block(program.body()).ops;
        let mut reasons: FxHashMap<OpId, String> = FxHashMap::default();
        let mut found: Vec<OpId> = Vec::new();
        for &id in ops {
            let Some(exchange) = Exchange::of_op(program, id) else { continue };
            found.push(id);
            match exchange.and_then(|exchange| self.check_result(exchange.result).map(|()| exchange)) {
                Ok(exchange) => drop(self.exchanges.insert(id, exchange)),
                Err(reason) => drop(reasons.insert(id, reason.to_owned())),
            }
        }
        let mut regions = Vec::new();
        for &id in ops.iter().filter(|_| !found.is_empty()) {
            let Some(region) = self.region_of_gemm(id) else { continue };
            match self.place_region(region) {
                Ok(region) => regions.push(region),
                Err(refused) => reasons.extend(refused.exchanges().map(|exchange| (exchange.op, APART.to_owned()))),
            }
        }
        let taken: FxHashSet<OpId> = regions.iter().flat_map(ExchangeRegion::exchanges).map(|found| found.op).collect();
        for op in found.into_iter().filter(|op| !taken.contains(op)) {
            let reason = reasons.remove(&op).unwrap_or_else(|| self.reason_of_lone_exchange(op));
            self.kept.push((op, reason));
        }
        regions
    }

    /// The region of a product that no other region has; `None` without an exchange.
    fn region_of_gemm(&mut self, gemm: OpId) -> Option<ExchangeRegion> {
        let program = self.program;
        if self.taken.contains(&gemm) || !is_gemm(program, gemm) {
            return None;
        }
        let axes = PartAxes::of_tensor(program, program.op(gemm).output_tensors().next()?)?;
        self.check_function(gemm, axes).ok()?;
        let mut region = ExchangeRegion::of_gemm(gemm, axes);
        let mut waiting = vec![gemm];
        self.taken.insert(gemm);
        while let Some(op) = waiting.pop() {
            let next = self.add_op(&mut region, op);
            waiting.extend(next.into_iter().filter(|&op| self.is_member(op, axes) && self.taken.insert(op)));
        }
        region.exchanges().next()?;
        region.functions.sort_by_key(|function| self.motion.place_of(function.op));
        region.arrivals.sort_by_key(|exchange| self.motion.place_of(exchange.op));
        region.returns.sort_by_key(|exchange| self.motion.place_of(exchange.op));
        self.find_memory(&mut region);
        Some(region)
    }

    /// Adds an op to a region; returns the ops that are connected to it by tensors of its parts.
    fn add_op(&self, region: &mut ExchangeRegion, op: OpId) -> Vec<OpId> {
        let program = self.program;
        let made = program.op(op).output_tensors().filter_map(|tensor| self.readers.get(&tensor)).flatten().copied();
        let read = program.op(op).input_tensors().filter_map(|tensor| self.makers.get(&tensor).copied());
        match self.exchanges.get(&op) {
            Some(exchange) if exchange.axes == region.axes => {
                region.arrivals.push(*exchange);
                made.collect()
            }
            Some(exchange) => {
                region.returns.push(*exchange);
                read.collect()
            }
            None => {
                region.functions.extend(self.check_function(op, region.axes).ok());
                made.chain(read).collect()
            }
        }
    }

    /// True for an op that a region of these axes may have. An exchange is one of those that bring parts, or that take
    /// them back.
    fn is_member(&self, op: OpId, axes: PartAxes) -> bool {
        match self.exchanges.get(&op) {
            Some(exchange) => exchange.axes == axes || exchange.axes.exchanged() == axes,
            None => self.check_function(op, axes).is_ok(),
        }
    }

    /// A product or a function of which one part can be computed, or the reason why none is beside an exchange.
    fn check_function(&self, id: OpId, axes: PartAxes) -> Result<PartFunction, String> {
        let (program, op) = (self.program, self.program.op(id));
        let is_simple = op.operands.iter().all(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_)));
        let is_ours = is_simple && (is_gemm(program, id) || op.kind.is_pointwise());
        let made = op.output_tensors().next().filter(|_| is_ours && op.results.len() == 1);
        let Some(result) = made.filter(|&made| PartAxes::of_tensor(program, made) == Some(axes)) else {
            return Err(ALONE.to_owned());
        };
        let axis_count = stored_axis_count(program, result);
        if is_gemm(program, id) && axis_count < GEMM_AXES {
            return Err(ALONE.to_owned());
        }
        self.check_result(result)?;
        let mut operands = Vec::with_capacity(op.operands.len());
        for operand in op.input_tensors() {
            let Some(form) = axes.operand_form(program, operand, axis_count) else {
                let what = if is_gemm(program, id) { "product" } else { "function" };
                let (made, read) = (program.tensor_name(result), program.tensor_name(operand));
                return Err(format!("the {what} `{made}` beside it reads `{read}`, which has no parts"));
            };
            operands.push(form);
        }
        Ok(PartFunction { op: id, result, operands })
    }

    fn check_result(&self, result: TensorId) -> Result<(), &'static str> {
        match result {
            result if self.bound.contains(&result) => Err(BOUND),
            result if self.rewritten.contains(&result) => Err(REWRITTEN),
            _ => Ok(()),
        }
    }

    /// Finds the tensors of a region that something else reads, those that other ranks cannot, and the operands that
    /// the loop makes itself.
    fn find_memory(&self, region: &mut ExchangeRegion) {
        let program = self.program;
        let arrived: Vec<TensorId> = region.arrivals.iter().map(|exchange| exchange.result).collect();
        let made: Vec<TensorId> =
            arrived.iter().copied().chain(region.functions.iter().map(|function| function.result)).collect();
        let members: FxHashSet<TensorId> = made.iter().copied().collect();
        let mut reads: FxHashMap<TensorId, usize> = FxHashMap::default();
        for function in &mut region.functions {
            for (tensor, form) in program.op(function.op).input_tensors().zip(&mut function.operands) {
                *reads.entry(tensor).or_default() += 1;
                if members.contains(&tensor) {
                    *form = PartForm::Computed;
                }
            }
        }
        region.returns.iter().for_each(|exchange| *reads.entry(exchange.source).or_default() += 1);
        // The op that makes a tensor mentions it, too.
        let known = |tensor: &TensorId| 1 + reads.get(tensor).copied().unwrap_or(0);
        region.kept = made.into_iter().filter(|tensor| self.mentions.get(tensor) > Some(&known(tensor))).collect();
        let outputs: FxHashSet<TensorId> = program.outputs().iter().filter_map(|value| value.as_tensor()).collect();
        let sources = region.returns.iter().map(|exchange| exchange.source);
        region.unreadable = sources.filter(|source| outputs.contains(source) || arrived.contains(source)).collect();
    }

    /// A region at the place of its last op, or of its first one; the same region if it has no place.
    fn place_region(&mut self, mut region: ExchangeRegion) -> Result<ExchangeRegion, ExchangeRegion> {
        let ops = region.ops(&self.motion);
        let last = ops.last().copied().filter(|_| self.motion.can_sink_group(&ops));
        let first = ops.first().copied().filter(|_| last.is_none() && self.motion.can_hoist_group(&ops));
        match last.or(first) {
            Some(place) => {
                region.place = place;
                Ok(region)
            }
            None => Err(region),
        }
    }

    /// The reason why no region has an exchange of parts.
    fn reason_of_lone_exchange(&self, op: OpId) -> String {
        let Some(exchange) = self.exchanges.get(&op) else { return ALONE.to_owned() };
        let readers = self.readers.get(&exchange.result).into_iter().flatten();
        let sides = readers.map(|&op| (op, exchange.axes));
        let makers = self.makers.get(&exchange.source).map(|&op| (op, exchange.axes.exchanged()));
        let mut products = sides.chain(makers).filter(|(op, _)| is_gemm(self.program, *op));
        products.find_map(|(op, axes)| self.check_function(op, axes).err()).unwrap_or_else(|| ALONE.to_owned())
    }
}

/// True for a product of two factors, also one that adds.
fn is_gemm(program: &Program, op: OpId) -> bool {
    program.op(op).kind.gemm().is_some_and(|form| !form.transposed && !form.scaled)
}

fn stored_axis_count(program: &Program, tensor: TensorId) -> usize {
    logical_axes(program, tensor).stored_positions().len()
}

/// The tensors that several ops write, or that the caller gives.
fn rewritten_tensors(program: &Program) -> FxHashSet<TensorId> {
    let mut written: FxHashSet<TensorId> = program.inputs().iter().filter_map(|value| value.as_tensor()).collect();
    let mut again = written.clone();
    visit_host_ops(program, &mut |op| {
        visit_accesses(program, op, &mut |tensor, access| {
            if matches!(access, TensorAccess::Write | TensorAccess::Both) && !written.insert(tensor) {
                again.insert(tensor);
            }
        });
    });
    again
}
