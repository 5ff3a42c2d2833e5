//! GEMMs whose parts are summed over devices.

use crate::support::motion::{BodyMotion, consecutive_rank_count};
use hostir::analysis::storage::{allocated_tensors, count_mentions};
use hostir::axes::{LogicalAxis, logical_axes};
use hostir::ir::{OpId, ParallelType, Program, TensorId, Transfer, Value};
use hostir::plan::{RedOp, starts_from_identity};
use rustc_hash::{FxHashMap, FxHashSet};

/// The position of the device axis, and of the parts, among the axes of a GEMM.
pub(super) const DEVICES: usize = 0;
pub(super) const PARTS: usize = 1;
/// The axes of a GEMM: devices, parts, rows, columns.
const RANK: usize = 4;

/// The way in which the GEMMs of a part are summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SumMethod {
    /// The sum goes around a ring of GEMMs that add to it.
    RingAccumulate,
    /// Each rank sends its result to the rank that adds them all.
    P2p,
    /// Products are stored in the memory of the rank that keeps the sum, and summed at the end.
    Direct,
}

/// The place of the parts of a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SumResult {
    /// Part r on device r.
    Scattered,
    /// All parts on all devices.
    Replicated,
}

/// A GEMM: the only one of a sum, or a link of a chain in which each adds to the previous one.
pub(super) struct ChainGemm {
    pub(super) op: OpId,
    /// The factors, `[device, part, m, k]` and `[device, 1, k, n]`; a right factor `[k, n]` is the same on all devices.
    pub(super) factors: [TensorId; 2],
    /// The scales of 8-bit factors: of rows, `[device, part, m, 1]`, and of columns, `[device, 1, 1, n]`, or `[1, n]`
    /// and single scales that are the same on all devices. GEMMs of chains have none.
    pub(super) scales: Option<[TensorId; 2]>,
}

/// A chain of GEMMs and the sum of its parts over devices.
pub(super) struct SumRegion {
    pub(super) sum: OpId,
    /// The GEMMs in their order, at least one. They are a chain if there are no functions.
    pub(super) chain: Vec<ChainGemm>,
    /// The GEMMs and the functions of them that are summed, in their order; empty for a chain alone.
    pub(super) functions: Vec<OpId>,
    /// The tensor that is summed, `[device, part, m, n]`: the result of the last GEMM or function.
    pub(super) partial: TensorId,
    /// The sum.
    pub(super) output: TensorId,
    pub(super) result: SumResult,
    /// The number of devices, and of parts.
    pub(super) ranks: u32,
}

impl SumRegion {
    /// The ops that move into the loop.
    pub(super) fn moved_ops(&self) -> Vec<OpId> {
        if self.functions.is_empty() { self.chain.iter().map(|gemm| gemm.op).collect() } else { self.functions.clone() }
    }
}

/// The result of the search for a sum over devices that can be computed part by part.
pub(super) enum SearchOutcome {
    /// It is not a sum of a GEMM over devices.
    NoSum,
    /// It is one, but has another form.
    Kept(&'static str),
    /// It can.
    Found(SumRegion),
}

/// Finds regions in the body of a program.
pub(super) struct SumSearch<'p> {
    program: &'p Program,
    /// The number of mentions of each tensor.
    mentions: FxHashMap<TensorId, usize>,
    /// The product that makes each tensor.
    gemms: FxHashMap<TensorId, OpId>,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
    pub(super) motion: BodyMotion<'p>,
}

impl<'p> SumSearch<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let mut gemms = FxHashMap::default();
        for &id in &program.block(program.body()).ops {
            let result = program.op(id).output_tensors().next();
            if let Some(result) = result.filter(|_| is_gemm(program, id)) {
                gemms.insert(result, id);
            }
        }
        let (mentions, bound) = (count_mentions(program), allocated_tensors(program));
        Self { program, mentions, gemms, bound, motion: BodyMotion::new(program) }
    }

    /// The region that a sum of the body ends.
    pub(super) fn region_of_sum(&mut self, sum: OpId) -> SearchOutcome {
        let program = self.program;
        let op = program.op(sum);
        let (Some(partial), Some(output)) = (op.input_tensors().next(), op.output_tensors().next()) else {
            return SearchOutcome::NoSum;
        };
        let is_reduction = op.kind.transfer() == Some(Transfer::Reduction);
        if !is_reduction {
            return SearchOutcome::NoSum;
        }
        let axes = logical_axes(program, partial).axes;
        if !axes.get(DEVICES).is_some_and(LogicalAxis::is_sharded) {
            return SearchOutcome::NoSum;
        }
        let gemm = self.gemms.get(&partial).copied();
        match starts_from_identity(program, sum) {
            Some((RedOp::Sum, true)) => {}
            Some((RedOp::Sum, false)) if gemm.is_some() => return SearchOutcome::Kept("it does not start from zero"),
            _ => return SearchOutcome::NoSum,
        }
        let found = match gemm {
            Some(gemm) => Some(self.check_region(sum, gemm, [partial, output])),
            None => self.check_functions(sum, [partial, output]),
        };
        match found {
            Some(Ok(region)) => SearchOutcome::Found(region),
            Some(Err(reason)) => SearchOutcome::Kept(reason),
            None => SearchOutcome::NoSum,
        }
    }

    /// The region of a sum of functions of products; `None` for a sum of others.
    fn check_functions(
        &mut self,
        sum: OpId,
        [partial, output]: [TensorId; 2],
    ) -> Option<Result<SumRegion, &'static str>> {
        let program = self.program;
        let ranks = self.consecutive_ranks(partial, output).ok()?;
        let device = self.partial_device_type(partial, ranks).ok()?;
        let is_part = |tensor| self.partial_device_type(tensor, ranks) == Ok(device);
        let functions = ops_before_sum(program, &self.mentions, partial, &is_part);
        if functions.is_empty() {
            return None;
        }
        Some(self.check_ops(sum, &functions, device).and_then(|()| {
            let result = self.result_of_sum(output, device)?;
            let gemms = functions.iter().filter(|&&op| is_gemm(program, op));
            let chain = gemms.filter_map(|&op| self.gemm_of_functions(op)).collect();
            Ok(SumRegion { sum, chain, functions, partial, output, result, ranks })
        }))
    }

    /// Checks that ops can move to a sum, and that what they read has parts.
    fn check_ops(&mut self, sum: OpId, ops: &[OpId], device: ParallelType) -> Result<(), &'static str> {
        let program = self.program;
        if program.op(sum).output_tensors().any(|output| self.bound.contains(&output)) {
            return Err("its result has memory already");
        }
        if !(0..ops.len()).all(|place| self.motion.can_sink_with(ops[place], &ops[place + 1..], sum)) {
            return Err("something between the product and the sum changes a factor or the stream");
        }
        let made: FxHashSet<TensorId> = ops.iter().flat_map(|&op| program.op(op).output_tensors()).collect();
        let mut operands = ops.iter().flat_map(|&op| program.op(op).input_tensors());
        if operands.all(|operand| made.contains(&operand) || has_part(program, operand, device)) {
            Ok(())
        } else {
            Err("what is computed between the product and the sum reads a tensor that has no parts")
        }
    }

    fn gemm_of_functions(&self, op: OpId) -> Option<ChainGemm> {
        let mut operands = self.program.op(op).input_tensors();
        Some(ChainGemm { op, factors: [operands.next()?, operands.next()?], scales: None })
    }

    fn check_region(
        &mut self,
        sum: OpId,
        gemm: OpId,
        [partial, output]: [TensorId; 2],
    ) -> Result<SumRegion, &'static str> {
        let chain = self.chain_of_gemm(gemm, partial)?;
        if self.bound.contains(&output) {
            return Err("its result has memory already");
        }
        let sinks = (0..chain.len()).all(|place| self.motion.can_sink_with(chain[place], &chain[place + 1..], sum));
        if !sinks {
            return Err("something between the product and the sum changes a factor or the stream");
        }
        let ranks = self.consecutive_ranks(partial, output)?;
        let device = self.partial_device_type(partial, ranks)?;
        let result = self.result_of_sum(output, device)?;
        for &op in &chain {
            for made in self.program.op(op).output_tensors() {
                if self.consecutive_ranks(made, output)? != ranks || self.partial_device_type(made, ranks)? != device {
                    return Err("the products of its chain lie on different devices");
                }
            }
        }
        let chain = chain.iter().map(|&op| self.check_gemm(op, device)).collect::<Result<Vec<ChainGemm>, _>>()?;
        if chain.len() > 1 && chain.iter().any(|gemm| gemm.scales.is_some()) {
            return Err("its chain of products contains a `scaled_matmul`");
        }
        Ok(SumRegion { sum, chain, functions: Vec::new(), partial, output, result, ranks })
    }

    /// The GEMMs that a sum adds, from the first one. Only the next GEMM, or the sum, reads each result.
    fn chain_of_gemm(&self, last: OpId, partial: TensorId) -> Result<Vec<OpId>, &'static str> {
        let (mut chain, mut made) = (vec![last], partial);
        loop {
            if self.mentions.get(&made) != Some(&2) {
                return Err("the product is used again");
            }
            let op = self.program.op(chain[chain.len() - 1]);
            if !op.kind.gemm().is_some_and(|form| form.accumulates) {
                chain.reverse();
                return Ok(chain);
            }
            let added = op.input_tensors().nth(2).and_then(|added| Some((added, *self.gemms.get(&added)?)));
            let Some((added, before)) = added else {
                return Err("its chain of products does not begin with a `matmul`");
            };
            chain.push(before);
            made = added;
        }
    }

    fn check_gemm(&self, op: OpId, device: ParallelType) -> Result<ChainGemm, &'static str> {
        let made = self.program.op(op);
        let mut operands = made.input_tensors();
        let (Some(a), Some(b)) = (operands.next(), operands.next()) else { return Err("its product has no factors") };
        self.check_factors([a, b], device)?;
        let scales: Vec<TensorId> = operands.filter(|_| made.kind.gemm().is_some_and(|form| form.scaled)).collect();
        let scales = match scales.as_slice() {
            [] => None,
            &[rows, columns] => Some([rows, columns]),
            _ => return Err("its product has a bias"),
        };
        if scales.is_some_and(|scales| !scales.into_iter().all(|scales| self.has_scale_axes(scales, device))) {
            return Err(
                "the scales of its product are neither `[device, part, m, 1]`, `[device, 1, 1, n]` nor the same on all devices",
            );
        }
        Ok(ChainGemm { op, factors: [a, b], scales })
    }

    /// The number of devices, if these are 0, 1, 2 and so on.
    fn consecutive_ranks(&self, partial: TensorId, output: TensorId) -> Result<u32, &'static str> {
        let program = self.program;
        if program.tensor(partial).mesh != program.tensor(output).mesh {
            return Err("the product and the sum lie on different devices");
        }
        consecutive_rank_count(program, partial).ok_or("its devices are not 0, 1, and so on in one row")
    }

    /// The device axis of the GEMM, `[device, part, m, n]`.
    fn partial_device_type(&self, partial: TensorId, ranks: u32) -> Result<ParallelType, &'static str> {
        let program = self.program;
        let axes = logical_axes(program, partial);
        let stored: Vec<&LogicalAxis> = axes.axes.iter().filter(|axis| !axis.is_reduction()).collect();
        if axes.has_parts() || stored.len() != RANK {
            return Err("the product is not `[device, part, m, n]`");
        }
        let others = stored[PARTS..].iter().all(|axis| axis.device_type().is_none() && !axis.is_broadcast());
        let extent = stored[PARTS].extent;
        let as_many = program.exprs().as_int(extent) == Some(i64::from(ranks)) || extent == stored[DEVICES].extent;
        match stored[DEVICES].device_type() {
            Some(device) if others && as_many => Ok(device),
            Some(_) if others => {
                Err("the product has not as many parts as there are devices: write `[device, part, m, n]`")
            }
            _ => Err("the product is not `[device, part, m, n]`"),
        }
    }

    /// The place of the parts in the result of the sum.
    fn result_of_sum(&self, output: TensorId, device: ParallelType) -> Result<SumResult, &'static str> {
        let axes = logical_axes(self.program, output);
        let Some((first, rest)) = axes.axes.split_first().filter(|_| !axes.has_parts()) else {
            return Err("its result is not `[reduced device, part, m, n]`");
        };
        let Some((parts, inner)) = rest.split_first().filter(|_| first.is_reduction() && rest.len() == RANK - 1) else {
            return Err("it sums more than the device axis");
        };
        if rest.iter().any(LogicalAxis::is_reduction) {
            return Err("it sums more than the device axis");
        }
        if inner.iter().any(|axis| axis.device_type().is_some()) {
            return Err("its result is spread over devices along its rows or columns");
        }
        match parts.device_type() {
            None => Ok(SumResult::Replicated),
            Some(own) if own == device => Ok(SumResult::Scattered),
            Some(_) => Err("its result is spread over other devices"),
        }
    }

    /// True for scales that are sharded over devices along their first axis, or are the same on all devices and for all
    /// parts.
    fn has_scale_axes(&self, scales: TensorId, device: ParallelType) -> bool {
        let axes = logical_axes(self.program, scales);
        let stored = stored_axes_of(&axes.axes);
        let whole = stored.len() <= RANK - 2 && stored.iter().all(|axis| axis.device_type().is_none());
        !axes.has_parts() && (whole || stored.len() == RANK && is_sharded_first(&stored, device))
    }

    /// Checks that the left factor is `[device, part, m, k]`, the right one `[device, 1, k, n]` or `[k, n]`.
    fn check_factors(&self, factors: [TensorId; 2], device: ParallelType) -> Result<(), &'static str> {
        let [left, right] = factors.map(|tensor| logical_axes(self.program, tensor));
        let (a, b) = (stored_axes_of(&left.axes), stored_axes_of(&right.axes));
        let whole = b.len() == RANK - 2 && b.iter().all(|axis| axis.device_type().is_none());
        let batched = b.len() == RANK && is_sharded_first(&b, device) && b[PARTS].is_broadcast();
        if left.has_parts()
            || right.has_parts()
            || a.len() != RANK
            || !is_sharded_first(&a, device)
            || a[PARTS].is_broadcast()
        {
            return Err("its left factor is not `[device, part, m, k]`");
        }
        if whole || batched { Ok(()) } else { Err("its right factor is not `[device, 1, k, n]`") }
    }
}

/// True for a GEMM, also one that adds.
pub(super) fn is_gemm(program: &Program, op: OpId) -> bool {
    program.op(op).kind.gemm().is_some_and(|form| !form.transposed)
}

pub(super) fn stored_axes_of(axes: &[LogicalAxis]) -> Vec<LogicalAxis> {
    axes.iter().filter(|axis| !axis.is_reduction()).copied().collect()
}

/// True if the first axis is sharded over devices, and no other.
pub(super) fn is_sharded_first(axes: &[LogicalAxis], device: ParallelType) -> bool {
    axes.first().is_some_and(|axis| axis.device_type() == Some(device))
        && axes.iter().skip(1).all(|axis| axis.device_type().is_none())
}

/// The ops that make what is summed and whose results nothing else reads, in the order of the body: GEMMs and functions.
/// Empty without a GEMM, and if the last one is another op. `is_part` is true for results that are
/// `[device, part, m, n]`.
fn ops_before_sum(
    program: &Program,
    mentions: &FxHashMap<TensorId, usize>,
    partial: TensorId,
    is_part: &dyn Fn(TensorId) -> bool,
) -> Vec<OpId> {
    let mut found: Vec<OpId> = Vec::new();
    let mut reads: FxHashMap<TensorId, usize> = FxHashMap::default();
    reads.insert(partial, 1);
    // All readers of a result are known when its op is reached.
    for &op in program.block(program.body()).ops.iter().rev() {
        let made = program.op(op);
        let Some(result) = made.output_tensors().next().filter(|_| made.results.len() == 1) else { continue };
        let Some(&count) = reads.get(&result) else { continue };
        let is_simple = made.operands.iter().all(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_)));
        let is_ours = (is_gemm(program, op) || made.kind.is_pointwise()) && is_simple && is_part(result);
        // The op itself mentions its result, too.
        if is_ours && mentions.get(&result) == Some(&(count + 1)) {
            made.input_tensors().for_each(|operand| *reads.entry(operand).or_default() += 1);
            found.push(op);
        }
    }
    found.reverse();
    let makes_partial = found.last().is_some_and(|&op| program.op(op).output_tensors().any(|made| made == partial));
    if makes_partial && found.iter().any(|&op| is_gemm(program, op)) { found } else { Vec::new() }
}

/// True for a tensor of which the part of a hop can be sliced: `[device, part, ..]` or `[device, 1, ..]`, and one of up to
/// two axes that is the same on all devices.
fn has_part(program: &Program, tensor: TensorId, device: ParallelType) -> bool {
    let axes = logical_axes(program, tensor);
    let stored = stored_axes_of(&axes.axes);
    let is_whole = stored.len() <= 2 && stored.iter().all(|axis| axis.device_type().is_none());
    !axes.has_parts() && (is_whole || stored.len() == 4 && is_sharded_first(&stored, device))
}
