//! Products of rows that lie across devices.

use crate::support::motion::{BodyMotion, consecutive_rank_count};
use crate::support::reshard::stored_domains;
use crate::support::storage::{allocated_tensors, count_mentions};
use hostir::axes::logical_axes;
use hostir::ir::{IterDomain, OpId, OpKind, ParallelType, Program, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The place of the scales of a product's rows among the operands behind the left one.
pub(super) const ROW_SCALES: usize = 1;

/// A product of a region.
#[derive(Clone)]
pub(super) struct GatheredProduct {
    pub(super) op: OpId,
    pub(super) result: TensorId,
    /// The operands behind the left one.
    pub(super) others: Vec<TensorId>,
    /// The scales of the operand's rows, `[device, m, 1]`, if they are gathered with it.
    pub(super) scales: Option<TensorId>,
    /// True for `[device, part, m, n]`, whose right factor is `[device, 1, k, n]`.
    pub(super) sharded: bool,
}

/// A `Set` of the operand that gathers it.
#[derive(Clone, Copy)]
pub(super) struct GatheredCopy {
    pub(super) op: OpId,
    pub(super) result: TensorId,
}

/// Products that share the operand which is gathered.
pub(super) struct GatherRegion {
    /// The operand, `[device, m, k]`.
    pub(super) source: TensorId,
    /// The scales of its rows, `[device, m, 1]`, which all products share.
    pub(super) scales: Option<TensorId>,
    pub(super) products: Vec<GatheredProduct>,
    /// Broadcasts of the operand that only these products read.
    pub(super) broadcasts: Vec<OpId>,
    /// A copy of the operand that every device has whole: the loop gathers into it.
    pub(super) copy: Option<GatheredCopy>,
    /// The number of devices, and of parts.
    pub(super) ranks: u32,
}

/// Finds regions in the body of a program.
pub(super) struct GatherSearch<'p> {
    program: &'p Program,
    pub(super) motion: BodyMotion<'p>,
    /// Products of gathered rows that stay, and why.
    pub(super) kept: Vec<(OpId, &'static str)>,
    mentions: FxHashMap<TensorId, usize>,
    /// The broadcast that makes each tensor.
    broadcasts: FxHashMap<TensorId, OpId>,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
}

impl<'p> GatherSearch<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let mut broadcasts = FxHashMap::default();
        for &id in &program.block(program.body()).ops {
            if let (OpKind::Broadcast, Some(result)) = (program.op(id).kind, program.op(id).output_tensors().next()) {
                broadcasts.insert(result, id);
            }
        }
        Self {
            program,
            motion: BodyMotion::new(program),
            kept: Vec::new(),
            mentions: count_mentions(program),
            broadcasts,
            bound: allocated_tensors(program),
        }
    }

    /// The regions, in the order of their first products.
    pub(super) fn find_regions(&mut self) -> Vec<GatherRegion> {
        let mut regions: Vec<GatherRegion> = Vec::new();
        for &id in &self.program.block(self.program.body()).ops {
            let Some(source) = self.gathered_operand(id) else { continue };
            match self.check_product(id, source) {
                Err(reason) => self.kept.push((id, reason)),
                Ok((product, ranks)) => self.add_product(&mut regions, product, source, ranks),
            }
        }
        let mut taken = FxHashSet::default();
        for region in &mut regions {
            region.broadcasts = self.private_broadcasts(region);
            // A loop gathers into it; a later one over the same operand has memory of its own.
            region.copy = self.find_copy(region).filter(|copy| taken.insert(copy.op));
        }
        regions
    }

    fn add_product(&mut self, regions: &mut Vec<GatherRegion>, product: GatheredProduct, source: TensorId, ranks: u32) {
        // The last loop over the operand: what is written to it in between would be seen by neither.
        let last = regions.iter_mut().rev().find(|region| region.source == source && region.scales == product.scales);
        match last.filter(|region| self.motion.can_hoist(product.op, region.products[0].op)) {
            Some(region) => region.products.push(product),
            None => regions.push(GatherRegion {
                source,
                scales: product.scales,
                products: vec![product],
                broadcasts: Vec::new(),
                copy: None,
                ranks,
            }),
        }
    }

    /// The first copy of a region's operand to `[part, m, k]` on every device that may stand where the loop does.
    fn find_copy(&mut self, region: &GatherRegion) -> Option<GatheredCopy> {
        let program = self.program;
        let found = program.block(program.body()).ops.iter().find_map(|&id| {
            let op = program.op(id);
            let (source, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
            let is_copy = op.kind == OpKind::Set && source == region.source;
            (is_copy && self.is_gathered_form(source, result, region.ranks)).then_some(GatheredCopy { op: id, result })
        })?;
        let first = region.products[0].op;
        let is_before = self.motion.place_of(found.op) < self.motion.place_of(first);
        let moves =
            if is_before { self.motion.can_sink(found.op, first) } else { self.motion.can_hoist(found.op, first) };
        moves.then_some(found)
    }

    /// True if a tensor is `[part, m, k]` on every device for a source that is `[device, m, k]`.
    fn is_gathered_form(&self, source: TensorId, result: TensorId, ranks: u32) -> bool {
        let program = self.program;
        let [rows, made] = [source, result].map(|tensor| stored_domains(program, tensor));
        let plain = !self.bound.contains(&result) && !logical_axes(program, result).split;
        let one_mesh = program.tensor(source).mesh == program.tensor(result).mesh;
        plain && one_mesh && made.len() == rows.len() && is_local(&made) && self.is_part_axis(&made[0], &rows[0], ranks)
    }

    /// The broadcasts of a region's operand that nothing but its products reads.
    fn private_broadcasts(&self, region: &GatherRegion) -> Vec<OpId> {
        let mut uses: FxHashMap<TensorId, usize> = FxHashMap::default();
        for product in &region.products {
            let left = self.program.op(product.op).input_tensors().next();
            let scales = product.scales.and(product.others.get(ROW_SCALES).copied());
            left.into_iter().chain(scales).for_each(|tensor| *uses.entry(tensor).or_default() += 1);
        }
        let made = uses.into_iter().filter_map(|(tensor, count)| {
            let op = self.broadcasts.get(&tensor)?;
            (self.mentions.get(&tensor) == Some(&(count + 1))).then_some(*op)
        });
        let mut made: Vec<OpId> = made.collect();
        made.sort_unstable();
        made
    }

    /// The tensor that a product needs from all devices: its left operand, or what that is a broadcast of.
    fn gathered_operand(&self, id: OpId) -> Option<TensorId> {
        let program = self.program;
        let op = program.op(id);
        let is_product = matches!(op.kind, OpKind::Matmul | OpKind::Linear | OpKind::ScaledMatmul);
        if !is_product || !hostir::analysis::is_resharding(program, id) {
            return None;
        }
        let left = op.input_tensors().next()?;
        let source = self.broadcast_source(left)?;
        let first = stored_domains(program, source).into_iter().next()?;
        first.parallel.is_device().then_some(source)
    }

    /// What a tensor is a broadcast of, or itself.
    fn broadcast_source(&self, tensor: TensorId) -> Option<TensorId> {
        match self.broadcasts.get(&tensor) {
            Some(&made) => self.program.op(made).input_tensors().next(),
            None => Some(tensor),
        }
    }

    /// The scales of a product's rows, `[device, m, 1]`, if they lie as the rows do.
    fn row_scales(&self, id: OpId, others: &[TensorId], rows: &[IterDomain]) -> Option<TensorId> {
        let scales = others.get(ROW_SCALES).filter(|_| self.program.op(id).kind == OpKind::ScaledMatmul)?;
        let source = self.broadcast_source(*scales)?;
        let (domains, device) = (stored_domains(self.program, source), rows.first()?.parallel);
        let alike = domains.len() == 3 && domains[0].parallel == device && is_local(&domains[1..]);
        let made = stored_domains(self.program, *scales);
        (alike && (*scales == source || is_widened(&made, device))).then_some(source)
    }

    fn check_product(&mut self, id: OpId, source: TensorId) -> Result<(GatheredProduct, u32), &'static str> {
        let program = self.program;
        let op = program.op(id);
        let tensors: Vec<TensorId> = op.input_tensors().collect();
        let (Some((&left, others)), Some(result)) = (tensors.split_first(), op.output_tensors().next()) else {
            return Err("it has no operands");
        };
        if self.bound.contains(&result) {
            return Err("its result has memory already");
        }
        if op.all_tensors().chain([source]).any(|tensor| logical_axes(program, tensor).split) {
            return Err("an axis of its tensors is split");
        }
        let ranks = consecutive_rank_count(program, source);
        let one_mesh = op.all_tensors().all(|tensor| program.tensor(tensor).mesh == program.tensor(source).mesh);
        let Some(ranks) = ranks.filter(|_| one_mesh) else {
            return Err("its tensors do not lie on devices 0, 1, and so on in one row");
        };
        let scales = self.row_scales(id, others, &stored_domains(program, source));
        let right: Vec<TensorId> = match scales {
            Some(_) => others.iter().enumerate().filter(|(at, _)| *at != ROW_SCALES).map(|(_, &other)| other).collect(),
            None => others.to_vec(),
        };
        let unlike = right.get(ROW_SCALES).is_some_and(|scales| !is_whole(&stored_domains(program, *scales)));
        if op.kind == OpKind::ScaledMatmul && scales.is_none() && unlike {
            return Err("the scales of its rows do not lie as the rows do");
        }
        let sharded = self.check_axes(id, [source, left, result], &right, ranks)?;
        let gathered = [Some(&left), scales.and(others.get(ROW_SCALES))];
        let made = gathered.into_iter().flatten().filter_map(|tensor| self.broadcasts.get(tensor).copied());
        if made.collect::<Vec<OpId>>().into_iter().any(|made| !self.motion.can_repeat(made, id)) {
            return Err("something between it and the broadcast changes the operand");
        }
        Ok((GatheredProduct { op: id, result, others: others.to_vec(), scales, sharded }, ranks))
    }

    /// Checks the axes of a product; true if columns of its right factor lie across devices.
    fn check_axes(
        &self,
        id: OpId,
        [source, left, result]: [TensorId; 3],
        others: &[TensorId],
        ranks: u32,
    ) -> Result<bool, &'static str> {
        let program = self.program;
        let [rows, factor, made] = [source, left, result].map(|tensor| stored_domains(program, tensor));
        let right: Vec<Vec<IterDomain>> = others.iter().map(|&tensor| stored_domains(program, tensor)).collect();
        if rows.len() != 3 || !is_local(&rows[1..]) {
            return Err("its left operand is not `[device, m, k]`");
        }
        if left == source {
            let plain = made.len() == 3 && self.is_part_axis(&made[0], &rows[0], ranks) && is_local(&made);
            let whole = right.iter().all(|domains| is_whole(domains));
            return if plain && whole {
                Ok(false)
            } else {
                Err("it is not `[device, m, k]` and `[k, n]` to `[part, m, n]`")
            };
        }
        let device = rows[0].parallel;
        let widened = is_widened(&factor, device);
        let mut spread = right.iter().map(|domains| is_spread_first(domains, device) && self.is_single(&domains[1]));
        let columns = spread.next() == Some(true) && spread.zip(&right[1..]).all(|(fits, all)| fits || is_whole(all));
        let batched = matches!(program.op(id).kind, OpKind::Matmul | OpKind::ScaledMatmul)
            && is_spread_first(&made, device)
            && self.is_part_axis(&made[1], &rows[0], ranks);
        match widened && columns && batched {
            true => Ok(true),
            false => Err("it is not `[1, device, m, k]` and `[device, 1, k, n]` to `[device, part, m, n]`"),
        }
    }

    /// True if an axis has one element.
    fn is_single(&self, axis: &IterDomain) -> bool {
        axis.is_broadcast() || self.program.exprs().as_int(axis.extent) == Some(1)
    }

    /// True if an axis of a result counts the devices' parts.
    fn is_part_axis(&self, axis: &IterDomain, devices: &IterDomain, ranks: u32) -> bool {
        let literal = self.program.exprs().as_int(axis.extent) == Some(i64::from(ranks));
        !axis.parallel.is_device() && (literal || axis.extent == devices.extent)
    }
}

/// True if operands of these axes are the same for all parts and on all devices: weights, biases, single scales.
pub(super) fn is_whole(domains: &[IterDomain]) -> bool {
    domains.len() <= 2 && is_local(domains)
}

fn is_local(domains: &[IterDomain]) -> bool {
    domains.iter().all(|domain| !domain.parallel.is_device())
}

/// True if four axes are those of a broadcast to `[1, device, ..]`.
fn is_widened(domains: &[IterDomain], device: ParallelType) -> bool {
    domains.len() == 4 && domains[0].is_broadcast() && domains[1].parallel == device
}

/// True if the first of four axes lies across devices, and no other.
fn is_spread_first(domains: &[IterDomain], device: ParallelType) -> bool {
    domains.len() == 4 && domains[0].parallel == device && is_local(&domains[1..])
}
