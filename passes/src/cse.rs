//! cse: computes equal things once.
//!
//! The language is not SSA and its ops run on streams, so "the same op on the same operands" is not enough. One forward
//! walk keeps, for each block, the ops whose results are still valid, and the times at which each tensor was last
//! written and bound; [`ProgramFacts`] has the facts about the whole program.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::rewrite;
use hostir::analysis::storage::{
    StorageClasses, TensorAccess, described_tensors, interface_tensors, visit_accesses, visit_host_ops,
};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{
    AttrKey, AttrValue, BlockId, DomainId, IdVec, IterDomain, Op, OpEffect, OpId, Program, TensorId, Value, quoted_op,
};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// cse: an op was replaced by an earlier equal one.
const REPLACED: &str = "H0313";
/// cse: an op was kept although it equals an earlier one.
const NOT_REPLACED: &str = "H0314";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "cse",
    summary: "Compute equal values once",
    description: "\
Within one block, a compute op that equals an earlier one (same function, operands and attributes, results
of one type) is removed and its result replaced by the earlier one; so is a view that equals an earlier one.

Both results must be written once and only there, must not be freed, and nothing in between may write an
operand, change the stream, communicate or launch a kernel. Inputs and outputs are never replaced. The
allocation of a replaced result stays; `dce` removes it.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "ops-replaced", help: "compute ops replaced by an earlier one" },
        StatisticSpec { name: "views-replaced", help: "views replaced by an earlier one" },
    ],
    action: PassAction::Rewrite(run_cse),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T3_g_float[iS3{i0}]) :
  T1_l_float[iS1{i0}]
     = expf(T0);
  T2_l_float[iS2{i0}]
     = expf(T0);
  T3_g_float[iS3{i0}]
     = T1
     + T2;
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T3_g_float[iS3{i0}]) :
  T1_l_float[iS1{i0}]
     = expf(T0);
  T3_g_float[iS3{i0}]
     = T1
     + T1;
} // %HostIrContainer
";

fn run_cse(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let mut walk = CseWalk::new(edit.program());
    if let Some(block) = edit.program().index_definitions() {
        // Their tensors count as mentioned; the ops themselves stay.
        let program = edit.program();
        program.walk(block, &mut |_| walk.at += 1);
    }
    let body = edit.program().body();
    walk.walk_block(edit, cx, body);
    let removed = walk.removed;
    if !removed.is_empty() {
        rewrite::retain_ops(edit, body, &|op| !removed.contains(&op));
        rewrite::drop_lost_comments(edit);
    }
    Ok(())
}

/// The facts about a tensor that need the whole program.
#[derive(Clone, Copy, Default)]
struct TensorFacts {
    /// Number of views bound to it.
    views: u32,
    /// Number of allocations of it.
    allocations: u32,
    /// The last allocation.
    allocation: Option<(OpId, BlockId, u32)>,
    /// The time of its first mention except by its allocation.
    first_mention: Option<u32>,
    /// True if it is an input or output, freed, or described by a scalar.
    pinned: bool,
}

/// An op that names a tensor.
#[derive(Clone, Copy)]
struct Mention {
    op: OpId,
    /// Its block; `None` for the definition of an index.
    block: Option<BlockId>,
    at: u32,
}

impl TensorFacts {
    /// True if one view binds the tensor, and nothing else does.
    fn is_bound_once(&self) -> bool {
        self.views == 1 && self.allocations == 0
    }
}

/// The facts that need the whole program. Times are positions in text order.
struct ProgramFacts {
    tensors: IdVec<TensorId, TensorFacts>,
    /// Number of ops that write into a storage class.
    writes: Vec<u32>,
}

impl ProgramFacts {
    fn from_program(program: &Program, storage: &mut StorageClasses) -> Self {
        let len = program.tensors().len();
        let mut facts = Self { tensors: IdVec::filled(TensorFacts::default(), len), writes: vec![0; len] };
        for tensor in interface_tensors(program).chain(described_tensors(program)) {
            facts.tensors[tensor].pinned = true;
        }
        let mut blocks = vec![program.body()];
        visit_host_ops(program, &mut |op| blocks.extend_from_slice(&program.op(op).blocks));
        let mut op_blocks: IdVec<OpId, Option<BlockId>> = IdVec::filled(None, program.ops().len());
        for block in blocks {
            program.block(block).ops.iter().for_each(|&op| op_blocks[op] = Some(block));
        }
        let mut at = 0;
        visit_host_ops(program, &mut |op| {
            let mention = Mention { op, block: op_blocks[op], at };
            visit_accesses(program, op, &mut |tensor, access| {
                facts.note_access(program, mention, tensor, access);
                if matches!(access, TensorAccess::Write | TensorAccess::Both | TensorAccess::Free) {
                    facts.writes[storage.class_of(tensor)] += 1;
                }
            });
            at += 1;
        });
        facts
    }

    fn note_access(&mut self, program: &Program, mention: Mention, tensor: TensorId, access: TensorAccess) {
        let Mention { op, block, at } = mention;
        let facts = &mut self.tensors[tensor];
        let allocates = program.op(op).kind.effect() == OpEffect::Allocate;
        facts.pinned |= access == TensorAccess::Free;
        if access == TensorAccess::Bind && allocates {
            facts.allocations += 1;
            facts.allocation = block.map(|block| (op, block, at));
            return;
        }
        facts.views += u32::from(access == TensorAccess::Bind);
        // ALLOCATE may name its own result as `buffer=`.
        if !(allocates && program.op(op).output_tensors().any(|result| result == tensor)) {
            facts.first_mention.get_or_insert(at);
        }
    }
}

/// An op whose result can be used again, and the time at which it ran.
#[derive(Clone, Copy)]
struct AvailableOp {
    op: OpId,
    at: u32,
}

type AvailableTable = FxHashMap<u64, SmallVec<[AvailableOp; 1]>>;

/// One walk over the program in text order.
struct CseWalk {
    storage: StorageClasses,
    facts: ProgramFacts,
    /// The tensor to use instead.
    renamed: IdVec<TensorId, Option<TensorId>>,
    /// The time at which an op last wrote into a storage class.
    last_write: Vec<u32>,
    /// The time at which a tensor was last bound or freed.
    last_bind: IdVec<TensorId, u32>,
    /// The time at which an op last changed streams, communicated or had an opaque effect.
    last_fence: u32,
    /// The time at which a scalar or stream was last defined.
    last_definition: u32,
    /// Position of the current op; starts at 1, so that 0 means never.
    at: u32,
    removed: FxHashSet<OpId>,
}

impl CseWalk {
    fn new(program: &Program) -> Self {
        let len = program.tensors().len();
        let mut storage = StorageClasses::from_program(program);
        let facts = ProgramFacts::from_program(program, &mut storage);
        Self {
            storage,
            facts,
            renamed: IdVec::filled(None, len),
            last_write: vec![0; len],
            last_bind: IdVec::filled(0, len),
            last_fence: 0,
            last_definition: 0,
            at: 0,
            removed: FxHashSet::default(),
        }
    }

    fn walk_block(&mut self, edit: &mut Edit<'_>, cx: &mut PassCx<'_>, block: BlockId) {
        let mut table = AvailableTable::default();
        for op in edit.program().block(block).ops.clone() {
            self.at += 1;
            self.rename_operands(edit, op);
            if self.replace_op(edit, cx, op, &table) {
                self.removed.insert(op);
                continue;
            }
            self.record_effects(edit.program(), op);
            for inner in edit.program().op(op).blocks.clone() {
                self.walk_block(edit, cx, inner);
            }
            if is_candidate(edit.program().op(op)) {
                let entry = AvailableOp { op, at: self.at };
                table.entry(hash(edit.program().op(op))).or_default().push(entry);
            }
        }
    }

    /// Records what `op` does to what is known.
    fn record_effects(&mut self, program: &Program, op: OpId) {
        let at = self.at;
        if matches!(program.op(op).kind.effect(), OpEffect::Stream(_) | OpEffect::Communicate(_) | OpEffect::Opaque) {
            self.last_fence = at;
        }
        if program.op(op).results.iter().any(|value| value.as_tensor().is_none()) {
            self.last_definition = at;
        }
        visit_accesses(program, op, &mut |tensor, access| match access {
            TensorAccess::Write | TensorAccess::Both => self.last_write[self.storage.class_of(tensor)] = at,
            TensorAccess::Bind | TensorAccess::Free => self.last_bind[tensor] = at,
            TensorAccess::Read | TensorAccess::Name => {}
        });
    }

    /// Replaces the result of `op` by that of an equal earlier op, if that keeps the meaning.
    fn replace_op(&mut self, edit: &Edit<'_>, cx: &mut PassCx<'_>, id: OpId, table: &AvailableTable) -> bool {
        let program = edit.program();
        let op = program.op(id);
        if !is_candidate(op) {
            return false;
        }
        let Some(found) = table.get(&hash(op)) else { return false };
        for earlier in found.iter().rev() {
            if !are_equal_ops(op, program.op(earlier.op)) || !self.still_holds(program, *earlier) {
                continue;
            }
            let pair = (single_result(program, earlier.op), single_result(program, id));
            let (Some(kept), Some(dropped)) = pair else { continue };
            if kept == dropped {
                self.count_replacement(program, cx, id, earlier.op);
                return true;
            }
            match self.replacement_obstacle(program, *earlier, kept, dropped) {
                None => {
                    self.renamed[dropped] = Some(kept);
                    self.count_replacement(program, cx, id, earlier.op);
                    return true;
                }
                Some(why) => cx.add_remark(|| {
                    let text = message!("`{}` equals an earlier op but is kept: {}", quoted_op(program, id), why);
                    Diag::error(NOT_REPLACED, program.op_span(id), text)
                        .with_label(program.op_span(earlier.op), "the earlier op")
                }),
            }
        }
        false
    }

    fn count_replacement(&self, program: &Program, cx: &mut PassCx<'_>, id: OpId, earlier: OpId) {
        let kind = program.op(id).kind;
        let is_view = kind.effect() == OpEffect::Alias;
        cx.add_count(if is_view { "views-replaced" } else { "ops-replaced" }, 1);
        cx.add_remark(|| {
            let text = message!("`{}` was replaced by an equal earlier op", quoted_op(program, id));
            Diag::error(REPLACED, program.op_span(id), text).with_label(program.op_span(earlier), "the earlier op")
        });
    }

    /// True if running `earlier` again now would give the same result.
    fn still_holds(&mut self, program: &Program, earlier: AvailableOp) -> bool {
        let op = program.op(earlier.op);
        if self.last_definition > earlier.at || op.all_tensors().any(|t| self.last_bind[t] > earlier.at) {
            return false;
        }
        if op.kind.effect() == OpEffect::Alias {
            return true;
        }
        let (inputs, outputs): (SmallVec<[TensorId; 4]>, SmallVec<[TensorId; 2]>) =
            (op.input_tensors().collect(), op.output_tensors().collect());
        self.last_fence < earlier.at
            && inputs.into_iter().all(|t| self.last_write[self.storage.class_of(t)] < earlier.at)
            && outputs.into_iter().all(|t| self.last_write[self.storage.class_of(t)] <= earlier.at)
    }

    /// The reason why uses of `dropped` cannot use `kept` instead.
    fn replacement_obstacle(
        &mut self,
        program: &Program,
        earlier: AvailableOp,
        kept: TensorId,
        dropped: TensorId,
    ) -> Option<&'static str> {
        let (a, b) = (self.facts.tensors[kept], self.facts.tensors[dropped]);
        if b.pinned {
            return Some("its result is an input, an output, deallocated, or described by a scalar");
        }
        if !is_same_type(program, kept, dropped) {
            return Some("the types of the results differ");
        }
        // Positions of `Facts` start at 0, those of the walk at 1.
        if b.first_mention.is_some_and(|first| first + 1 < self.at) {
            return Some("its result is used earlier");
        }
        let is_view = program.op(earlier.op).kind.effect() == OpEffect::Alias;
        if is_view {
            let fine = a.is_bound_once() && b.is_bound_once() && !a.pinned;
            return (!fine).then_some("one of the results is bound again elsewhere");
        }
        if a.views + b.views > 0 {
            return Some("one of the results is a view");
        }
        let classes = [self.storage.class_of(kept), self.storage.class_of(dropped)];
        if classes.iter().any(|&class| self.facts.writes[class] != 1) {
            return Some("one of the results is written, communicated or deallocated elsewhere");
        }
        if program.inputs().contains(&Value::Tensor(kept)) {
            return Some("the earlier result is an input");
        }
        (!is_same_allocation(program, &a, &b, earlier.at))
            .then_some("the results are not allocated in one block before their first use")
    }

    /// Makes `op` use the tensors that replace others.
    fn rename_operands(&self, edit: &mut Edit<'_>, id: OpId) {
        let program = edit.program();
        let mut touched = false;
        visit_accesses(program, id, &mut |tensor, _| touched |= self.renamed[tensor].is_some());
        if !touched {
            return;
        }
        let mut op = program.op(id).clone();
        let mut inner = Vec::new();
        for value in op.operands.iter_mut().chain(op.results.iter_mut()) {
            match value {
                Value::Tensor(tensor) => *tensor = self.renamed[*tensor].unwrap_or(*tensor),
                Value::Op(op) => inner.push(*op),
                Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) => {}
            }
        }
        let before = program.op(id).input_tensors().collect::<SmallVec<[TensorId; 4]>>();
        for (_, value) in &mut op.attrs {
            match value {
                AttrValue::Tensor(tensor) => *tensor = self.renamed[*tensor].unwrap_or(*tensor),
                AttrValue::Domain(domain) => *domain = self.renamed_domain(program, &before, *domain),
                _ => {}
            }
        }
        edit.set_op(id, op);
        for op in inner {
            self.rename_operands(edit, op);
        }
    }

    /// The domain at the same position of the tensor that replaces the owner of `domain`.
    fn renamed_domain(&self, program: &Program, tensors: &[TensorId], domain: DomainId) -> DomainId {
        for &tensor in tensors {
            let Some(kept) = self.renamed[tensor] else { continue };
            let (old, new) = (program.tensor(tensor), program.tensor(kept));
            if (old.domains_start..old.domains_end).contains(&domain.0) {
                return DomainId(domain.0 - old.domains_start + new.domains_start);
            }
        }
        domain
    }
}

/// True if an op may be replaced by an equal one.
fn is_candidate(op: &Op) -> bool {
    matches!(op.kind.effect(), OpEffect::Pure | OpEffect::Alias)
        && op.blocks.is_empty()
        && (op.attr(AttrKey::Seed).is_some() || !op.kind.takes_seed())
        && op.results.len() == 1
        && op.results[0].as_tensor().is_some()
}

fn single_result(program: &Program, op: OpId) -> Option<TensorId> {
    program.op(op).output_tensors().next()
}

fn hash(op: &Op) -> u64 {
    let mut hasher = FxHasher::default();
    op.kind.hash(&mut hasher);
    op.operands.hash(&mut hasher);
    for (key, value) in &op.attrs {
        key.hash(&mut hasher);
        if let AttrValue::Expr(expr) = value {
            expr.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn are_equal_ops(a: &Op, b: &Op) -> bool {
    a.kind == b.kind && a.number == b.number && a.operands == b.operands && a.attrs == b.attrs
}

/// True if two tensors differ only in their numbers and those of their domains.
fn is_same_type(program: &Program, a: TensorId, b: TensorId) -> bool {
    let (x, y) = (program.tensor(a), program.tensor(b));
    let declared = x.memory == y.memory
        && x.dtype == y.dtype
        && x.mesh == y.mesh
        && x.axes == y.axes
        && x.split == y.split
        && x.logical == y.logical
        && x.unit == y.unit;
    let (xs, ys) = (program.domains(a), program.domains(b));
    declared && xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| *x == IterDomain { number: x.number, ..*y })
}

/// True if both tensors are allocated alike in one block before `at`, or neither is allocated.
fn is_same_allocation(program: &Program, a: &TensorFacts, b: &TensorFacts, at: u32) -> bool {
    match (a.allocations, b.allocations) {
        (0, 0) => true,
        (1, 1) => {
            let (Some((a, a_block, a_at)), Some((b, b_block, _))) = (a.allocation, b.allocation) else {
                return false;
            };
            let [a, b] = [a, b].map(|op| program.op(op).attr(AttrKey::MemType));
            a_block == b_block && a_at + 1 < at && a == b
        }
        _ => false,
    }
}
