//! Tensors with a chunk axis in the place of those without.

use super::class::{ChunkOptions, Class, contracts};
use crate::support::builder::{Build, domain_id};
use crate::support::reshard::{Moved, declare_domains, stored_domains};
use hostir::analysis::is_standalone;
use hostir::axes::logical_axes;
use hostir::ir::OpKind;
use hostir::ir::{
    AttrKey, AttrValue, BinaryOp, DomainId, Expr, ExprId, IterDomain, IterType, MemoryType, Op,
    OpId, ParallelType, TensorId, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites the ops of the body one after the other.
pub(super) struct Rewriter<'b, 'e, 'p> {
    build: &'b mut Build<'e, 'p>,
    class: &'b Class,
    config: ChunkOptions,
    /// The tensor with chunks for each tensor of the class: itself where it is declared anew.
    chunked: FxHashMap<TensorId, TensorId>,
    /// Operands with more broadcast axes, by what was added: (before which axis, how many).
    widened: FxHashMap<(TensorId, usize, usize), TensorId>,
    /// Tensors that ops of the body have made so far.
    made: FxHashSet<TensorId>,
    /// The ops that cut inputs: before everything else, so that they stand between no two ops of a loop.
    head: Vec<OpId>,
    out: Done,
    /// Outputs to fold.
    folds: Vec<(TensorId, TensorId, OpId)>,
}

/// The output of a rewriter.
#[derive(Default)]
pub(super) struct Done {
    pub(super) ops: Vec<OpId>,
    pub(super) moved: Moved,
    pub(super) tensors: u64,
    pub(super) changed: u64,
}

impl<'b, 'e, 'p> Rewriter<'b, 'e, 'p> {
    pub(super) fn new(
        build: &'b mut Build<'e, 'p>,
        class: &'b Class,
        config: ChunkOptions,
    ) -> Self {
        Self {
            build,
            class,
            config,
            chunked: FxHashMap::default(),
            widened: FxHashMap::default(),
            made: FxHashSet::default(),
            head: Vec::new(),
            out: Done::default(),
            folds: Vec::new(),
        }
    }

    /// Folds the outputs.
    pub(super) fn finish(mut self) -> Done {
        for (tensor, chunks, origin) in std::mem::take(&mut self.folds) {
            self.build.origin = origin;
            self.fold(tensor, chunks);
        }
        self.head.append(&mut self.out.ops);
        self.out.ops = self.head;
        self.out
    }

    /// One op of the body.
    pub(super) fn op(&mut self, id: OpId) {
        self.rewrite(id);
        self.made.extend(self.build.program().op(id).output_tensors());
    }

    fn rewrite(&mut self, id: OpId) {
        let mut op: Op = self.build.program().op(id).clone();
        if !self.class.touches(&op) {
            self.out.ops.push(id);
            return;
        }
        self.build.origin = id;
        self.out.changed += 1;
        let contracted = contracts(self.build.program(), id, self.class);
        let parallel = match self.config.stream && is_standalone(self.build.program(), id) {
            true => ParallelType::Stream,
            false => ParallelType::Serial,
        };
        let result = op.output_tensors().next();
        self.attributes(&mut op);
        self.operands(&mut op, contracted);
        if contracted && let Some(result) = result {
            self.partial_products(id, op, result, parallel);
            return;
        }
        for value in &mut op.results {
            if let Value::Tensor(tensor) = *value {
                *value = Value::Tensor(self.result(tensor, parallel, id));
            }
        }
        self.number_permuted(&op);
        self.build.edit.set_op(id, op);
        self.out.ops.push(id);
    }

    /// The chunks that a permuting op makes are numbered as it permutes.
    fn number_permuted(&mut self, op: &Op) {
        let result = op.output_tensors().next();
        let result = result.filter(|made| self.chunked.values().any(|chunks| chunks == made));
        if let (Some(result), Some(perm)) = (result, op.ints(AttrKey::Perm)) {
            let order: Vec<usize> = perm.iter().filter_map(|&k| usize::try_from(k).ok()).collect();
            self.build.number_permuted(result, &order);
        }
    }

    // ---- operands ----

    fn operands(&mut self, op: &mut Op, contracted: bool) {
        // Axes of pointwise operands pair by position; products align theirs at the end.
        let positional = op.kind == OpKind::Pointwise;
        let product = op.kind == OpKind::Matmul;
        let most = op.input_tensors().map(|tensor| self.batch_axes(tensor)).max();
        for value in &mut op.operands {
            let Value::Tensor(tensor) = *value else { continue };
            let known = self.chunked.get(&tensor).copied();
            *value = Value::Tensor(match self.class.stored(tensor) {
                Some(_) => {
                    let chunks = known.unwrap_or_else(|| self.unfold(tensor));
                    let missing = most.unwrap_or(0).saturating_sub(self.batch_axes(tensor));
                    match product && missing > 0 {
                        true => self.widen(chunks, 1, missing),
                        false => chunks,
                    }
                }
                None if positional && !contracted => self.widen(tensor, 0, 1),
                None => tensor,
            });
        }
    }

    /// The number of batch axes that the value of a tensor of the program had.
    fn batch_axes(&self, tensor: TensorId) -> usize {
        let count = logical_axes(self.build.program(), tensor).stored().len();
        let anew =
            self.chunked.get(&tensor) == Some(&tensor) && self.class.stored(tensor).is_some();
        (count - usize::from(anew)).saturating_sub(2)
    }

    /// A tensor with `count` broadcast axes before axis `at`.
    fn widen(&mut self, tensor: TensorId, at: usize, count: usize) -> TensorId {
        if let Some(&wide) = self.widened.get(&(tensor, at, count)) {
            return wide;
        }
        let mut domains = stored_domains(self.build.program(), tensor);
        let one = self.build.int(1);
        let mut flags = vec![false; domains.len()];
        for _ in 0..count {
            domains.insert(at, plain(IterType::Broadcast, ParallelType::Serial, one));
            flags.insert(at, true);
        }
        let wide = self.build.tensor(tensor, MemoryType::Local, &domains);
        let op = self.build.broadcast(wide, tensor, flags.into());
        match self.made.contains(&tensor) {
            true => self.out.ops.push(op),
            false => self.head.push(op),
        }
        self.widened.insert((tensor, at, count), wide);
        wide
    }

    /// Cuts an input into chunks.
    fn unfold(&mut self, tensor: TensorId) -> TensorId {
        let mut domains = stored_domains(self.build.program(), tensor);
        let place = self.place(tensor);
        let [outer, inner] = self.halves(domains[place], ParallelType::Serial);
        domains[place] = inner;
        domains.insert(place, outer);
        let cut = self.build.tensor(tensor, MemoryType::Local, &domains);
        let view = self.build.view(cut, tensor);
        self.head.push(view);
        let mut chunks = cut;
        if place > 0 {
            let mut order: Vec<usize> = (0..domains.len()).filter(|&k| k != place).collect();
            order.insert(0, place);
            let (front, permute) = self.permuted(tensor, cut, &order);
            self.head.push(permute);
            chunks = front;
        }
        self.out.tensors += 1;
        self.chunked.insert(tensor, chunks);
        chunks
    }

    // ---- results ----

    /// The tensor that an op writes instead.
    fn result(&mut self, tensor: TensorId, parallel: ParallelType, origin: OpId) -> TensorId {
        let Some(cut) = self.class.cut(tensor) else { return tensor };
        if let Some(&known) = self.chunked.get(&tensor) {
            return known;
        }
        self.out.tensors += 1;
        let program = self.build.program();
        let output = program.outputs().iter().any(|value| value.tensor() == Some(tensor));
        let domains = self.chunk_domains(tensor, parallel);
        let chunks = if output && !cut.reduced {
            let new = self.build.tensor(tensor, MemoryType::Local, &domains);
            self.folds.push((tensor, new, origin));
            new
        } else {
            self.redeclare(tensor, &domains);
            tensor
        };
        self.chunked.insert(tensor, chunks);
        chunks
    }

    /// The domains of a tensor with a chunk axis, in logical order.
    fn chunk_domains(&mut self, tensor: TensorId, parallel: ParallelType) -> Vec<IterDomain> {
        let axis = self.class.cut(tensor).map_or(0, |cut| cut.axis as usize);
        let axes = logical_axes(self.build.program(), tensor).axes;
        let mut domains: Vec<IterDomain> =
            axes.iter().map(|a| self.build.program().domains(tensor)[a.printed as usize]).collect();
        let [outer, inner] = self.halves(domains[axis], parallel);
        domains[axis] = inner;
        domains.insert(0, outer);
        domains
    }

    /// An axis in two: chunks, and what is in one.
    fn halves(&mut self, domain: IterDomain, parallel: ParallelType) -> [IterDomain; 2] {
        let reduced = domain.iter == IterType::Reduction;
        let parallel = match domain.parallel {
            ParallelType::Stream => ParallelType::Stream,
            _ if reduced => ParallelType::Serial,
            _ => parallel,
        };
        let (factor, extent) = (self.build.int(self.config.factor), self.inner());
        [plain(domain.iter, parallel, factor), plain(domain.iter, ParallelType::Serial, extent)]
    }

    /// The extent of what is in one chunk.
    fn inner(&mut self) -> ExprId {
        let (extent, factor) = (self.class.extent, self.config.factor);
        match self.build.program().exprs().as_int(extent) {
            Some(value) => self.build.int(value / factor),
            None => {
                let factor = self.build.int(factor);
                self.build.binary(BinaryOp::Div, extent, factor)
            }
        }
    }

    /// Gives a tensor other domains; its axes in their order, but for one at the front.
    fn redeclare(&mut self, tensor: TensorId, domains: &[IterDomain]) {
        let program = self.build.program();
        let axes = logical_axes(program, tensor).axes;
        let old: Vec<DomainId> =
            axes.iter().map(|axis| domain_id(program, tensor, axis.printed)).collect();
        let new = declare_domains(self.build, tensor, domains);
        // Behind the chunk axis come the old ones; of a contracted axis none is left.
        old.into_iter().zip(new.into_iter().skip(1)).for_each(|(old, new)| {
            self.out.moved.replace(old, new);
        });
    }

    /// Puts the chunks of an output together.
    fn fold(&mut self, tensor: TensorId, chunks: TensorId) {
        let place = self.place(tensor);
        let mut whole = chunks;
        if place > 0 {
            let mut order: Vec<usize> =
                (1..stored_domains(self.build.program(), chunks).len()).collect();
            order.insert(place, 0);
            let (back, permute) = self.permuted(tensor, chunks, &order);
            self.out.ops.push(permute);
            whole = back;
        }
        let view = self.build.view(tensor, whole);
        self.out.ops.push(view);
        self.whole_extent(tensor);
    }

    /// The output's axis is as long as the inputs': nothing else would say so any more.
    fn whole_extent(&mut self, tensor: TensorId) {
        let Some(axis) = self.class.stored(tensor) else { return };
        let printed = logical_axes(self.build.program(), tensor).axes[axis as usize].printed;
        let id = domain_id(self.build.program(), tensor, printed);
        let domain = *self.build.program().domain(id);
        if domain.extent != self.class.extent {
            self.build.edit.set_domain(id, IterDomain { extent: self.class.extent, ..domain });
        }
    }

    /// A product along chunks of the contracted axis: one for each chunk, and their sum.
    fn partial_products(&mut self, id: OpId, mut op: Op, result: TensorId, parallel: ParallelType) {
        let rest = stored_domains(self.build.program(), result);
        let contracted = self.class.cut(result).is_some();
        let (factor, inner) = (self.build.int(self.config.factor), self.inner());
        let mut domains = vec![plain(IterType::Iteration, parallel, factor)];
        domains.extend(rest.iter().map(|d| IterDomain { parallel: unstreamed(d), ..*d }));
        if contracted {
            domains.push(plain(IterType::Reduction, ParallelType::Serial, inner));
        }
        let parts = self.build.tensor(result, MemoryType::Local, &domains);
        op.results = [Value::Tensor(parts)].into_iter().collect();
        self.build.edit.set_op(id, op);
        self.out.ops.push(id);
        let mut domains = vec![plain(IterType::Reduction, ParallelType::Serial, factor)];
        domains.extend(rest);
        self.redeclare(result, &domains);
        let sum = self.build.sum(result, parts);
        self.out.ops.push(sum);
        self.out.tensors += 1;
    }

    // ---- helpers ----

    /// The place of the cut axis among the stored ones.
    fn place(&self, tensor: TensorId) -> usize {
        let stored = logical_axes(self.build.program(), tensor).stored();
        let axis = self.class.stored(tensor);
        stored.iter().position(|&k| Some(k) == axis).unwrap_or(0)
    }

    /// A permutation and its result: `order[k]` is the place of its k-th axis in `domains`, the operand's.
    fn permuted(&mut self, like: TensorId, operand: TensorId, order: &[usize]) -> (TensorId, OpId) {
        let domains = stored_domains(self.build.program(), operand);
        let printed: Vec<IterDomain> = order
            .iter()
            .map(|&k| IterDomain { parallel: unstreamed(&domains[k]), ..domains[k] })
            .collect();
        let new = self.build.tensor(like, MemoryType::Local, &printed);
        self.build.number_permuted(new, order);
        let permute = self.build.permute(new, operand, order);
        (new, permute)
    }

    /// Lists that have an entry for each axis get one for the chunk axis.
    fn attributes(&mut self, op: &mut Op) {
        let (factor, inner) = (self.build.int(self.config.factor), self.inner());
        let (zero, one) = (self.build.int(0), self.build.int(1));
        let about = op.input_tensors().next().or(op.output_tensors().next());
        let Some(about) = about.filter(|&tensor| self.class.stored(tensor).is_some()) else {
            return;
        };
        let place = self.original_place(about);
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
                        *dim = self.build.edit.expr(Expr::Int(at + 1));
                    }
                }
                _ => {}
            }
        }
    }

    /// The place of the cut axis among the stored ones before it was cut.
    fn original_place(&self, tensor: TensorId) -> usize {
        match self.chunked.get(&tensor) == Some(&tensor) {
            // Declared anew: the chunk axis stands before the others, whose order is what it was.
            true => {
                let axis = self.class.stored(tensor).unwrap_or(0);
                let axes = logical_axes(self.build.program(), tensor).axes;
                let before = axes.iter().skip(1).take(axis as usize);
                before.filter(|axis| !axis.is_reduction()).count()
            }
            false => self.place(tensor),
        }
    }
}

/// The parallel type of an axis, streams left out.
fn unstreamed(domain: &IterDomain) -> ParallelType {
    match domain.parallel {
        ParallelType::Stream => ParallelType::Serial,
        other => other,
    }
}

fn plain(iter: IterType, parallel: ParallelType, extent: ExprId) -> IterDomain {
    IterDomain {
        iter,
        parallel,
        number: 0,
        extent,
        start: None,
        stop: None,
        expanded: None,
        rfactor: false,
        padded: false,
        clustered: false,
    }
}
