//! GEMMs of rows that are sharded over devices.

use super::operands::{GatheredOperand, GatheredScales, OperandOrigins, PartOperand, RowGemmAxes, is_local};
use crate::support::motion::{BodyMotion, consecutive_rank_count};
use crate::support::reshard::stored_domains;
use hostir::analysis::storage::{allocated_tensors, count_mentions};
use hostir::axes::{LogicalAxis, logical_axes};
use hostir::ir::{GemmForm, OpId, Program, TensorId, Transfer};
use hostir::plan::{RedOp, starts_from_identity};
use rustc_hash::{FxHashMap, FxHashSet};

/// The place of the scales of rows among the operands of a `scaled_matmul`.
const ROW_SCALES: usize = 2;

/// A GEMM of a region.
#[derive(Clone)]
pub(super) struct GatheredGemm {
    pub(super) op: OpId,
    /// The GEMM, or the sum of its parts.
    pub(super) result: TensorId,
    pub(super) operands: Vec<PartOperand>,
    /// The scales of the operand's rows, if they are gathered with it.
    scales: Option<GatheredScales>,
    /// True for `[device, part, m, n]`, false for `[part, m, n]`.
    pub(super) sharded: bool,
    /// The sum of the GEMM's parts, which nothing else reads.
    pub(super) sum: Option<OpId>,
    /// The op that transposes what is gathered.
    permute: Option<OpId>,
    broadcast: Option<OpId>,
}

/// A `Set` of the operand that gathers it.
#[derive(Clone, Copy)]
pub(super) struct GatheredCopy {
    pub(super) op: OpId,
    pub(super) result: TensorId,
}

/// GEMMs that share the gathered operand.
pub(super) struct GatherRegion {
    /// The operand, `[device, m, k]`.
    pub(super) source: TensorId,
    /// The scales of its rows, `[device, m, 1]`, which all GEMMs share.
    pub(super) scales: Option<TensorId>,
    pub(super) gemms: Vec<GatheredGemm>,
    /// Transposes of other operands that move to the first GEMM's place.
    pub(super) moved: Vec<OpId>,
    /// A complete copy of the operand on every device: the loop gathers into it.
    pub(super) copy: Option<GatheredCopy>,
    /// The number of devices, and of parts.
    pub(super) ranks: u32,
}

/// Finds regions in the body of a program.
pub(super) struct GatherSearch<'p> {
    program: &'p Program,
    pub(super) motion: BodyMotion<'p>,
    /// GEMMs of gathered rows that are not rewritten, with the reasons.
    pub(super) kept: Vec<(OpId, &'static str)>,
    mentions: FxHashMap<TensorId, usize>,
    origins: OperandOrigins<'p>,
    /// The op that sums each tensor.
    sums: FxHashMap<TensorId, OpId>,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
}

impl<'p> GatherSearch<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let mut sums = FxHashMap::default();
        for &id in &program.block(program.body()).ops {
            let op = program.op(id);
            let is_sum = op.kind.transfer() == Some(Transfer::Reduction)
                && starts_from_identity(program, id) == Some((RedOp::Sum, true));
            if let Some(tensor) = op.input_tensors().next().filter(|_| is_sum) {
                sums.insert(tensor, id);
            }
        }
        Self {
            program,
            motion: BodyMotion::new(program),
            kept: Vec::new(),
            mentions: count_mentions(program),
            origins: OperandOrigins::new(program),
            sums,
            bound: allocated_tensors(program),
        }
    }

    /// The regions, in the order of their first GEMMs.
    pub(super) fn find_regions(&mut self) -> Vec<GatherRegion> {
        let program = self.program;
        let mut regions: Vec<GatherRegion> = Vec::new();
        for &id in &program.block(program.body()).ops {
            let op = program.op(id);
            let is_product = op.kind.gemm().is_some_and(|form| !form.accumulates);
            if !is_product || !hostir::analysis::is_resharding(program, id) {
                continue;
            }
            let Some(gathered) = self.origins.find_gathered(op) else { continue };
            match self.check_gemm(id, gathered) {
                Err(reason) => self.kept.push((id, reason)),
                Ok((gemm, ranks)) => self.add_gemm(&mut regions, gemm, gathered.source, ranks),
            }
        }
        let mut taken = FxHashSet::default();
        for region in &mut regions {
            // A loop gathers into it; a later one over the same operand has memory of its own.
            region.copy = self.find_copy(region).filter(|copy| taken.insert(copy.op));
        }
        regions
    }

    fn add_gemm(&mut self, regions: &mut Vec<GatherRegion>, gemm: GatheredGemm, source: TensorId, ranks: u32) {
        // The last loop over the operand: neither loop would see a write between them.
        let scales = gemm.scales.map(|scales| scales.source);
        let last = regions.iter_mut().rev().find(|region| region.source == source && region.scales == scales);
        if let Some(region) = last
            && let Some(moved) = self.join_with(&gemm, region)
        {
            region.gemms.push(gemm);
            region.moved.extend(moved);
            return;
        }
        regions.push(GatherRegion { source, scales, gemms: vec![gemm], moved: Vec::new(), copy: None, ranks });
    }

    /// The transposes that move along if a GEMM, and the sum of its parts, are computed at the place of a region's
    /// first GEMM; `None` if that is impossible.
    fn join_with(&mut self, gemm: &GatheredGemm, region: &GatherRegion) -> Option<Vec<OpId>> {
        let first = region.gemms[0].op;
        let own = self.origins.transposes_of(self.program.op(gemm.op));
        let after = own.into_iter().filter(|&op| self.motion.place_of(op) > self.motion.place_of(first));
        let moved: Vec<OpId> = after.filter(|op| !region.moved.contains(op) && Some(*op) != gemm.permute).collect();
        let passed: Vec<OpId> = moved.iter().chain(&region.moved).chain(&gemm.permute).copied().collect();
        let free = moved.iter().all(|&op| self.motion.can_precede(op, &[], first));
        let summed = gemm.sum.is_none_or(|_| self.motion.is_untouched(gemm.result, first, gemm.op));
        (free && summed && self.motion.can_precede(gemm.op, &passed, first)).then_some(moved)
    }

    /// The first copy of a region's operand to `[part, m, k]` on every device that may be at the loop's place.
    fn find_copy(&mut self, region: &GatherRegion) -> Option<GatheredCopy> {
        let program = self.program;
        let found = program.block(program.body()).ops.iter().find_map(|&id| {
            let op = program.op(id);
            let (source, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
            let is_copy = op.kind.transfer() == Some(Transfer::Copy) && source == region.source;
            (is_copy && self.is_gathered_form(source, result, region.ranks)).then_some(GatheredCopy { op: id, result })
        })?;
        let first = region.gemms[0].op;
        let is_before = self.motion.place_of(found.op) < self.motion.place_of(first);
        let moves =
            if is_before { self.motion.can_sink(found.op, first) } else { self.motion.can_hoist(found.op, first) };
        moves.then_some(found)
    }

    /// True if a tensor is `[part, m, k]` on every device for a source that is `[device, m, k]`.
    fn is_gathered_form(&self, source: TensorId, result: TensorId, ranks: u32) -> bool {
        let program = self.program;
        let [rows, made] = [source, result].map(|tensor| stored_domains(program, tensor));
        let plain = !self.bound.contains(&result) && !logical_axes(program, result).has_parts();
        let one_mesh = program.tensor(source).mesh == program.tensor(result).mesh;
        let axes = RowGemmAxes { rows: &rows, factor: &rows, made: &made, ranks };
        plain && one_mesh && made.len() == rows.len() && is_local(&made) && axes.is_part_axis(program, &made[0])
    }

    /// The broadcasts and transposes of gathered operands that only the GEMMs of regions read.
    pub(super) fn private_ops(&self, regions: &[GatherRegion]) -> Vec<OpId> {
        let gemms: Vec<&GatheredGemm> = regions.iter().flat_map(|region| &region.gemms).collect();
        let mut readers: FxHashMap<OpId, usize> = FxHashMap::default();
        for gemm in &gemms {
            let read = [gemm.permute.or(gemm.broadcast), gemm.scales.and_then(|scales| scales.broadcast)];
            read.into_iter().flatten().for_each(|op| *readers.entry(op).or_default() += 1);
        }
        let mut private: Vec<OpId> = Vec::new();
        for gemm in &gemms {
            let Some(permute) = gemm.permute.filter(|op| !private.contains(op)) else { continue };
            if self.has_no_other_reader(permute, &readers) {
                private.push(permute);
                gemm.broadcast.into_iter().for_each(|op| *readers.entry(op).or_default() += 1);
            }
        }
        let scales = gemms.iter().filter_map(|gemm| gemm.scales?.broadcast);
        let broadcasts: FxHashSet<OpId> = gemms.iter().filter_map(|gemm| gemm.broadcast).chain(scales).collect();
        private.extend(broadcasts.into_iter().filter(|&op| self.has_no_other_reader(op, &readers)));
        private.sort_unstable();
        private
    }

    fn has_no_other_reader(&self, op: OpId, readers: &FxHashMap<OpId, usize>) -> bool {
        let result = self.program.op(op).output_tensors().next();
        let known = readers.get(&op).copied().unwrap_or(0);
        result.is_some_and(|tensor| self.mentions.get(&tensor) == Some(&(known + 1)))
    }

    fn check_gemm(&mut self, id: OpId, gathered: GatheredOperand) -> Result<(GatheredGemm, u32), &'static str> {
        let program = self.program;
        let op = program.op(id);
        let Some(made) = op.output_tensors().next() else { return Err("it has no result") };
        let (sum, result) = match self.sum_of_parts(id, made, gathered.broadcast.is_some()) {
            Some((sum, result)) => (Some(sum), result),
            None => (None, made),
        };
        if [made, result].iter().any(|tensor| self.bound.contains(tensor)) {
            return Err("its result has memory already");
        }
        let tensors = || op.all_tensors().chain([gathered.source, result]);
        if tensors().any(|tensor| logical_axes(program, tensor).has_parts()) {
            return Err("an axis of its tensors is split");
        }
        let ranks = consecutive_rank_count(program, gathered.source);
        let one_mesh = tensors().all(|tensor| program.tensor(tensor).mesh == program.tensor(gathered.source).mesh);
        let Some(ranks) = ranks.filter(|_| one_mesh) else {
            return Err("its tensors do not lie on devices 0, 1, and so on in one row");
        };
        let GemmOperandForm { operands, sharded, scales } = self.check_operands(id, made, gathered, ranks)?;
        let origins = [gathered.broadcast, gathered.permute, scales.and_then(|scales| scales.broadcast)];
        if origins.into_iter().flatten().any(|origin| !self.motion.can_repeat(origin, id)) {
            return Err("something between it and the broadcast changes the operand");
        }
        let GatheredOperand { permute, broadcast, .. } = gathered;
        Ok((GatheredGemm { op: id, result, operands, scales, sharded, sum, permute, broadcast }, ranks))
    }

    /// The forms in which the GEMM of a part takes its operands.
    fn check_operands(
        &self,
        id: OpId,
        made: TensorId,
        gathered: GatheredOperand,
        ranks: u32,
    ) -> Result<GemmOperandForm, &'static str> {
        let program = self.program;
        let op = program.op(id);
        let gemm = op.kind.gemm().unwrap_or(GemmForm::PLAIN);
        let operands: Vec<TensorId> = op.input_tensors().collect();
        let [rows, factor, made] =
            [gathered.source, operands[gathered.place], made].map(|tensor| stored_domains(program, tensor));
        if rows.len() != 3 || !is_local(&rows[1..]) {
            return Err("its gathered operand is not `[device, m, k]`");
        }
        let axes = RowGemmAxes { rows: &rows, factor: &factor, made: &made, ranks };
        let widened = gathered.broadcast.is_some();
        let sharded = axes.has_device_axis(program, widened)?;
        let with_scales = operands.get(ROW_SCALES).filter(|_| gemm.scaled);
        let scales = with_scales.and_then(|&tensor| axes.row_scales(&self.origins, tensor, widened));
        let mut form = GemmOperandForm { operands: Vec::with_capacity(operands.len()), sharded, scales };
        for (&tensor, place) in operands.iter().zip(0..) {
            let operand = if place == gathered.place {
                Some(PartOperand::Gathered { transposed: gathered.permute.is_some() })
            } else if place == ROW_SCALES && scales.is_some() {
                Some(PartOperand::GatheredScales)
            } else {
                axes.classify(program, tensor, sharded)
            };
            let taken = operand.filter(|&operand| is_taken(gemm, operand, place, sharded));
            form.operands.push(taken.ok_or_else(|| refusal_of_operand(gemm, place, sharded))?);
        }
        Ok(form)
    }

    /// The sum of a GEMM over its parts, and the result, if nothing else reads the GEMM. Ranks add the parts in
    /// different orders, so each must have a result of its own.
    fn sum_of_parts(&mut self, id: OpId, made: TensorId, sharded: bool) -> Option<(OpId, TensorId)> {
        if !sharded {
            return None;
        }
        let program = self.program;
        let sum = *self.sums.get(&made)?;
        let result = program.op(sum).output_tensors().next()?;
        let axes = logical_axes(program, result).axes;
        let one_sum =
            axes.iter().enumerate().all(|(place, axis): (usize, &LogicalAxis)| axis.is_reduction() == (place == 1));
        let is_next = self.motion.place_of(id) < self.motion.place_of(sum);
        let alone = self.mentions.get(&made) == Some(&2) && program.op(id).kind.gemm().is_some_and(GemmForm::is_plain);
        let one_type = program.tensor(made).dtype == program.tensor(result).dtype;
        let moves = alone && one_type && one_sum && is_next && self.motion.can_hoist(sum, id);
        moves.then_some((sum, result))
    }
}

/// The operands of the GEMM of a part.
struct GemmOperandForm {
    operands: Vec<PartOperand>,
    /// True for `[device, part, m, n]`, false for `[part, m, n]`.
    sharded: bool,
    scales: Option<GatheredScales>,
}

/// True if the GEMM of a part may take an operand at a position. Only `matmul` takes parts of others, transposes and
/// gathered right factors; no `linear` has a device axis.
fn is_taken(gemm: GemmForm, operand: PartOperand, place: usize, sharded: bool) -> bool {
    match operand {
        PartOperand::Gathered { transposed } if !gemm.is_plain() => {
            place == 0 && !transposed && (gemm.scaled || !sharded)
        }
        PartOperand::Part(_) => gemm.is_plain(),
        // A right factor without columns across devices would give a result that is the same on all devices.
        PartOperand::Whole(_) => place > 1 || !sharded,
        PartOperand::Gathered { .. } | PartOperand::GatheredScales | PartOperand::Columns(_) => true,
    }
}

fn refusal_of_operand(gemm: GemmForm, place: usize, sharded: bool) -> &'static str {
    if gemm.scaled && place == ROW_SCALES {
        return "the scales of its rows do not lie as the rows do";
    }
    match sharded {
        true => "its other operand is not `[device, 1, k, n]` or `[device, part, k, n]`",
        false => "its other operand is not `[k, n]` or `[part, k, n]`",
    }
}
