//! Replaces tensors by tensors with a chunk axis.

use super::class::{ChunkOptions, ChunkedAxes, is_contracted};
use crate::support::builder::{OpBuilder, printed_domain};
use crate::support::reshard::{MovedDomains, declare_domains, stored_domains};
use hostir::analysis::is_standalone;
use hostir::axes::logical_axes;
use hostir::ir::{
    AttrKey, AttrValue, DomainId, Expr, ExprId, IterDomain, IterType, MemoryType, Op, OpId, ParallelType, TensorId,
    Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites the ops of the body one after the other.
pub(super) struct ChunkRewriter<'b, 'e, 'p> {
    build: &'b mut OpBuilder<'e, 'p>,
    class: &'b ChunkedAxes,
    config: ChunkOptions,
    /// The tensor with chunks for each tensor of the class; the tensor itself if it is declared again.
    chunked: FxHashMap<TensorId, TensorId>,
    /// Operands with more broadcast axes, by the added ones: (before which axis, how many).
    widened: FxHashMap<(TensorId, usize, usize), TensorId>,
    /// Tensors that ops of the body have defined so far.
    made: FxHashSet<TensorId>,
    /// The ops that split inputs: before everything else, so that they are between no two ops of a loop.
    head: Vec<OpId>,
    out: RewriteOutcome,
    /// Outputs to fold.
    folds: Vec<(TensorId, TensorId, OpId)>,
}

/// The output of a rewriter.
#[derive(Default)]
pub(super) struct RewriteOutcome {
    pub(super) ops: Vec<OpId>,
    pub(super) moved: MovedDomains,
    pub(super) tensors: u64,
    pub(super) changed: u64,
}

impl<'b, 'e, 'p> ChunkRewriter<'b, 'e, 'p> {
    pub(super) fn new(build: &'b mut OpBuilder<'e, 'p>, class: &'b ChunkedAxes, config: ChunkOptions) -> Self {
        Self {
            build,
            class,
            config,
            chunked: FxHashMap::default(),
            widened: FxHashMap::default(),
            made: FxHashSet::default(),
            head: Vec::new(),
            out: RewriteOutcome::default(),
            folds: Vec::new(),
        }
    }

    /// Folds the outputs.
    pub(super) fn finish(mut self) -> RewriteOutcome {
        for (tensor, chunks, origin) in std::mem::take(&mut self.folds) {
            self.build.origin = origin;
            self.fold_output(tensor, chunks);
        }
        self.head.append(&mut self.out.ops);
        self.out.ops = self.head;
        self.out
    }

    /// One op of the body.
    pub(super) fn rewrite_op(&mut self, id: OpId) {
        self.rewrite_chunked_op(id);
        self.made.extend(self.build.program().op(id).output_tensors());
    }

    fn rewrite_chunked_op(&mut self, id: OpId) {
        let mut op: Op = self.build.program().op(id).clone();
        if !self.class.needs_chunking(&op) {
            self.out.ops.push(id);
            return;
        }
        self.build.origin = id;
        self.out.changed += 1;
        let contracted = is_contracted(self.build.program(), id, self.class);
        let parallel = match self.config.stream && is_standalone(self.build.program(), id) {
            true => ParallelType::Stream,
            false => ParallelType::Serial,
        };
        let result = op.output_tensors().next();
        self.extend_attributes(&mut op);
        self.rewrite_operands(&mut op, contracted);
        if contracted && let Some(result) = result {
            self.emit_partial_gemms(id, op, result, parallel);
            return;
        }
        for value in &mut op.results {
            if let Value::Tensor(tensor) = *value {
                *value = Value::Tensor(self.chunked_result(tensor, parallel, id));
            }
        }
        self.number_permuted_chunks(&op);
        self.build.edit.set_op(id, op);
        self.out.ops.push(id);
    }

    /// Numbers the chunks of a permuting op in its order.
    fn number_permuted_chunks(&mut self, op: &Op) {
        let result = op.output_tensors().next();
        let result = result.filter(|made| self.chunked.values().any(|chunks| chunks == made));
        if let (Some(result), Some(perm)) = (result, op.ints_attr(AttrKey::Perm)) {
            let order: Vec<usize> = perm.iter().filter_map(|&k| usize::try_from(k).ok()).collect();
            self.build.number_permuted_axes(result, &order);
        }
    }

    // ---- operands ----

    fn rewrite_operands(&mut self, op: &mut Op, contracted: bool) {
        // Axes of pointwise operands pair by position; GEMMs align theirs at the end.
        let positional = op.kind.is_pointwise();
        let gemm = op.kind.gemm().is_some_and(|form| !form.transposed);
        let most = op.input_tensors().map(|tensor| self.batch_axes(tensor)).max();
        for value in &mut op.operands {
            let Value::Tensor(tensor) = *value else { continue };
            let known = self.chunked.get(&tensor).copied();
            *value = Value::Tensor(match self.class.stored_chunked_axis(tensor) {
                Some(_) => {
                    let chunks = known.unwrap_or_else(|| self.unfold_input(tensor));
                    let missing = most.unwrap_or(0).saturating_sub(self.batch_axes(tensor));
                    match gemm && missing > 0 {
                        true => self.widen_tensor(chunks, 1, missing),
                        false => chunks,
                    }
                }
                None if positional && !contracted => self.widen_tensor(tensor, 0, 1),
                None => tensor,
            });
        }
    }

    /// The number of batch axes of a tensor of the original program.
    fn batch_axes(&self, tensor: TensorId) -> usize {
        let count = logical_axes(self.build.program(), tensor).stored_positions().len();
        let anew = self.chunked.get(&tensor) == Some(&tensor) && self.class.stored_chunked_axis(tensor).is_some();
        (count - usize::from(anew)).saturating_sub(2)
    }

    /// A tensor with `count` broadcast axes before axis `at`.
    fn widen_tensor(&mut self, tensor: TensorId, at: usize, count: usize) -> TensorId {
        if let Some(&wide) = self.widened.get(&(tensor, at, count)) {
            return wide;
        }
        let mut domains = stored_domains(self.build.program(), tensor);
        let one = self.build.int_expr(1);
        let mut flags = vec![false; domains.len()];
        for _ in 0..count {
            domains.insert(at, plain_domain(IterType::Broadcast, ParallelType::Serial, one));
            flags.insert(at, true);
        }
        let wide = self.build.new_tensor(tensor, MemoryType::Local, &domains);
        let op = self.build.build_broadcast(wide, tensor, flags.into());
        match self.made.contains(&tensor) {
            true => self.out.ops.push(op),
            false => self.head.push(op),
        }
        self.widened.insert((tensor, at, count), wide);
        wide
    }

    /// Cuts an input into chunks.
    fn unfold_input(&mut self, tensor: TensorId) -> TensorId {
        let mut domains = stored_domains(self.build.program(), tensor);
        let place = self.chunked_axis_position(tensor);
        let [outer, inner] = self.split_domain(domains[place], ParallelType::Serial);
        domains[place] = inner;
        domains.insert(place, outer);
        let cut = self.build.new_tensor(tensor, MemoryType::Local, &domains);
        let view = self.build.build_view(cut, tensor);
        self.head.push(view);
        let mut chunks = cut;
        if place > 0 {
            let mut order: Vec<usize> = (0..domains.len()).filter(|&k| k != place).collect();
            order.insert(0, place);
            let (front, permute) = self.permute_operand(tensor, cut, &order);
            self.head.push(permute);
            chunks = front;
        }
        self.out.tensors += 1;
        self.chunked.insert(tensor, chunks);
        chunks
    }

    // ---- results ----

    /// The tensor that an op writes instead.
    fn chunked_result(&mut self, tensor: TensorId, parallel: ParallelType, origin: OpId) -> TensorId {
        let Some(cut) = self.class.chunked_axis(tensor) else { return tensor };
        if let Some(&known) = self.chunked.get(&tensor) {
            return known;
        }
        self.out.tensors += 1;
        let program = self.build.program();
        let output = program.outputs().iter().any(|value| value.as_tensor() == Some(tensor));
        let domains = self.chunk_domains(tensor, parallel);
        let chunks = if output && !cut.reduced {
            let new = self.build.new_tensor(tensor, MemoryType::Local, &domains);
            self.folds.push((tensor, new, origin));
            new
        } else {
            self.redeclare_tensor(tensor, &domains);
            tensor
        };
        self.chunked.insert(tensor, chunks);
        chunks
    }

    /// The domains of a tensor with a chunk axis, in logical order.
    fn chunk_domains(&mut self, tensor: TensorId, parallel: ParallelType) -> Vec<IterDomain> {
        let axis = self.class.chunked_axis(tensor).map_or(0, |cut| cut.axis as usize);
        let axes = logical_axes(self.build.program(), tensor).axes;
        let mut domains: Vec<IterDomain> =
            axes.iter().map(|a| self.build.program().domains(tensor)[a.printed as usize]).collect();
        let [outer, inner] = self.split_domain(domains[axis], parallel);
        domains[axis] = inner;
        domains.insert(0, outer);
        domains
    }

    /// An axis in two: chunks, and what is in one.
    fn split_domain(&mut self, domain: IterDomain, parallel: ParallelType) -> [IterDomain; 2] {
        let reduced = domain.iter == IterType::Reduction;
        let parallel = match domain.parallel {
            ParallelType::Stream => ParallelType::Stream,
            _ if reduced => ParallelType::Serial,
            _ => parallel,
        };
        let (factor, extent) = (self.build.int_expr(self.config.factor), self.chunk_extent());
        [plain_domain(domain.iter, parallel, factor), plain_domain(domain.iter, ParallelType::Serial, extent)]
    }

    /// The extent of what is in one chunk.
    fn chunk_extent(&mut self) -> ExprId {
        self.build.part_extent_expr(self.class.extent, self.config.factor)
    }

    /// Gives a tensor other domains; its axes keep their order, except for one at the front.
    fn redeclare_tensor(&mut self, tensor: TensorId, domains: &[IterDomain]) {
        let program = self.build.program();
        let axes = logical_axes(program, tensor).axes;
        let old: Vec<DomainId> = axes.iter().map(|axis| printed_domain(program, tensor, axis.printed)).collect();
        let new = declare_domains(self.build, tensor, domains);
        // After the chunk axis come the old ones; a contracted axis disappears.
        old.into_iter().zip(new.into_iter().skip(1)).for_each(|(old, new)| {
            self.out.moved.replace_domain(old, new);
        });
    }

    /// Puts the chunks of an output together.
    fn fold_output(&mut self, tensor: TensorId, chunks: TensorId) {
        let place = self.chunked_axis_position(tensor);
        let mut whole = chunks;
        if place > 0 {
            let mut order: Vec<usize> = (1..stored_domains(self.build.program(), chunks).len()).collect();
            order.insert(place, 0);
            let (back, permute) = self.permute_operand(tensor, chunks, &order);
            self.out.ops.push(permute);
            whole = back;
        }
        let view = self.build.build_view(tensor, whole);
        self.out.ops.push(view);
        self.restore_whole_extent(tensor);
    }

    /// Makes the output's axis as long as the inputs': nothing else in the program implies it any more.
    fn restore_whole_extent(&mut self, tensor: TensorId) {
        let Some(axis) = self.class.stored_chunked_axis(tensor) else { return };
        let printed = logical_axes(self.build.program(), tensor).axes[axis as usize].printed;
        let id = printed_domain(self.build.program(), tensor, printed);
        let domain = *self.build.program().domain(id);
        if domain.extent != self.class.extent {
            self.build.edit.set_domain(id, IterDomain { extent: self.class.extent, ..domain });
        }
    }

    /// Appends a GEMM along chunks of the contracted axis: one for each chunk, and their sum.
    fn emit_partial_gemms(&mut self, id: OpId, mut op: Op, result: TensorId, parallel: ParallelType) {
        let rest = stored_domains(self.build.program(), result);
        let contracted = self.class.chunked_axis(result).is_some();
        let (factor, inner) = (self.build.int_expr(self.config.factor), self.chunk_extent());
        let mut domains = vec![plain_domain(IterType::Iteration, parallel, factor)];
        domains.extend(rest.iter().map(|d| IterDomain { parallel: parallel_without_stream(d), ..*d }));
        if contracted {
            domains.push(plain_domain(IterType::Reduction, ParallelType::Serial, inner));
        }
        let parts = self.build.new_tensor(result, MemoryType::Local, &domains);
        op.results = [Value::Tensor(parts)].into_iter().collect();
        self.build.edit.set_op(id, op);
        self.out.ops.push(id);
        let mut domains = vec![plain_domain(IterType::Reduction, ParallelType::Serial, factor)];
        domains.extend(rest);
        self.redeclare_tensor(result, &domains);
        let sum = self.build.build_sum(result, parts);
        self.out.ops.push(sum);
        self.out.tensors += 1;
    }

    // ---- helpers ----

    /// The position of the split axis among the stored ones.
    fn chunked_axis_position(&self, tensor: TensorId) -> usize {
        let stored = logical_axes(self.build.program(), tensor).stored_positions();
        let axis = self.class.stored_chunked_axis(tensor);
        stored.iter().position(|&k| Some(k) == axis).unwrap_or(0)
    }

    /// A permutation and its result: `order[k]` is the position of its k-th axis in `domains`, the operand's.
    fn permute_operand(&mut self, like: TensorId, operand: TensorId, order: &[usize]) -> (TensorId, OpId) {
        let domains = stored_domains(self.build.program(), operand);
        let printed: Vec<IterDomain> = order
            .iter()
            .map(|&k| IterDomain { parallel: parallel_without_stream(&domains[k]), ..domains[k] })
            .collect();
        let new = self.build.new_tensor(like, MemoryType::Local, &printed);
        self.build.number_permuted_axes(new, order);
        let permute = self.build.build_permute(new, operand, order);
        (new, permute)
    }

    /// Extends lists that have an entry for each axis by one for the chunk axis.
    fn extend_attributes(&mut self, op: &mut Op) {
        let (factor, inner) = (self.build.int_expr(self.config.factor), self.chunk_extent());
        let (zero, one) = (self.build.int_expr(0), self.build.int_expr(1));
        let about = op.input_tensors().next().or(op.output_tensors().next());
        let Some(about) = about.filter(|&tensor| self.class.stored_chunked_axis(tensor).is_some()) else {
            return;
        };
        let place = self.original_axis_position(about);
        for (key, value) in &mut op.attrs {
            match (*key, value) {
                (AttrKey::Flags, AttrValue::Bools(flags)) => {
                    *flags = std::iter::once(false).chain(flags.iter().copied()).collect();
                }
                (AttrKey::Perm, AttrValue::Ints(perm)) => {
                    *perm = std::iter::once(0).chain(perm.iter().map(|k| k + 1)).collect();
                }
                (AttrKey::Ranges, AttrValue::Ranges(ranges)) => {
                    let mut list = ranges.to_vec();
                    if let Some(range) = list.get_mut(place) {
                        *range = [zero, inner, one];
                    }
                    list.insert(0, [zero, factor, one]);
                    *ranges = list.into();
                }
                (AttrKey::Widths, AttrValue::Exprs(widths)) => {
                    *widths = [zero, zero].into_iter().chain(widths.iter().copied()).collect();
                }
                (AttrKey::Extents, AttrValue::Exprs(extents)) => {
                    let mut list = extents.to_vec();
                    if let Some(extent) = list.get_mut(place) {
                        *extent = inner;
                    }
                    list.insert(0, factor);
                    *extents = list.into();
                }
                (AttrKey::Dim, AttrValue::Expr(dim)) => {
                    if let Some(at) = self.build.program().exprs().as_int(*dim) {
                        *dim = self.build.edit.intern_expr(Expr::Int(at + 1));
                    }
                }
                _ => {}
            }
        }
    }

    /// The original position of the split axis among the stored ones.
    fn original_axis_position(&self, tensor: TensorId) -> usize {
        match self.chunked.get(&tensor) == Some(&tensor) {
            // Declared again: the chunk axis comes before the others, which keep their order.
            true => {
                let axis = self.class.stored_chunked_axis(tensor).unwrap_or(0);
                let axes = logical_axes(self.build.program(), tensor).axes;
                let before = axes.iter().skip(1).take(axis as usize);
                before.filter(|axis| !axis.is_reduction()).count()
            }
            false => self.chunked_axis_position(tensor),
        }
    }
}

/// The parallel type of an axis, without streams.
fn parallel_without_stream(domain: &IterDomain) -> ParallelType {
    match domain.parallel {
        ParallelType::Stream => ParallelType::Serial,
        other => other,
    }
}

/// A domain with a number that a declaration replaces.
fn plain_domain(iter: IterType, parallel: ParallelType, extent: ExprId) -> IterDomain {
    IterDomain { number: Some(0), ..IterDomain::new(iter, parallel, extent) }
}
