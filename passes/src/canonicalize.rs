//! canonicalize: simplifies a program without changing its meaning.
//!
//! Four steps: fold scalar expressions; take constant branches and drop loops that never run ([`RegionReferences`]
//! decides what may be dropped); drop stream changes and waits without effect; drop empty blocks and sections.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::fold::ExprFolder;
use crate::support::rewrite;
use hostir::analysis::storage::{TensorAccess, described_tensors, interface_tensors, visit_accesses, visit_host_ops};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, BlockId, CommentPlace, Expr, ExprId, Op, OpId, Program, TensorId, Value, quoted_head};
use hostir::ir::{OpEffect, StreamEffect};
use rustc_hash::{FxHashMap, FxHashSet};

/// canonicalize: an op was simplified.
const SIMPLIFIED: &str = "H0311";
/// canonicalize: an op was kept.
const NOT_SIMPLIFIED: &str = "H0312";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "canonicalize",
    summary: "Simplify scalars, constant branches, empty loops and stream changes",
    description: "\
- Scalar expressions of ops: constants are folded, `x * 1`, `x / 1`, `x + 0`, `( x )` become `x`. Types of
  scalars are not written down, so identities apply only to values that are certainly integers: `i0`, loop
  indices of stream loops, `rank`, `numberOfStreams` and values computed from them. Overflow and division by
  zero stay.
- `IF` with a constant condition becomes its branch. Loops over no iteration, and loops and branches
  without an op, are removed. A loop of one iteration stays.
- `SetCurrentStream` to the stream that is current, or directly before another one, is removed; so is
  `Synchronize` of the current stream with itself.

A branch stays if it alone defines or communicates a value that something else needs. Extents of tensors do
not change.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "ops-folded", help: "ops with a simplified scalar" },
        StatisticSpec { name: "branches-taken", help: "branches with a constant condition" },
        StatisticSpec { name: "loops-removed", help: "loops without iterations" },
        StatisticSpec { name: "stream-ops-removed", help: "stream changes and waits without effect" },
    ],
    action: PassAction::Rewrite(run_canonicalize),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{8}, iS1{i1}]) -> (T1_g_float[iS2{8}, iS3{i1}]) :
  T1_g_float[iS2{8}, iS3{i1}] = ALLOCATE(buffer=T1, mem_type=global, size=( ( 4 * 2 ) * i1 ), zero_init=false, resets_to_zero=false)
  SetCurrentStream to Stream 1
  IF Manual ( 2 < 8 ):
    SetCurrentStream to Stream 1
    T1
       = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{8}, iS1{i1}]) -> (T1_g_float[iS2{8}, iS3{i1}]) :
  T1_g_float[iS2{8}, iS3{i1}] = ALLOCATE(buffer=T1, mem_type=global, size=( 8 * i1 ), zero_init=false, resets_to_zero=false)
  SetCurrentStream to Stream 1
  T1
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";

fn run_canonicalize(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    fold_scalars(edit, cx);
    let body = edit.program().body();
    let mut control = ControlFolder {
        regions: RegionReferences::from_program(edit.program()),
        above: FxHashMap::default(),
        end_of: FxHashMap::default(),
    };
    control.fold_block(edit, cx, body);
    control.move_comments(edit);
    let mut dropped = FxHashSet::default();
    let once = bound_once(edit.program(), body);
    StreamOpFolder { program: edit.program(), once, dropped: &mut dropped }.fold_block(body, None);
    cx.add_count("stream-ops-removed", dropped.len() as u64);
    rewrite::retain_ops(edit, body, &|op| !dropped.contains(&op));
    rewrite::drop_lost_comments(edit);
    Ok(())
}

// ---- scalars ----

fn fold_scalars(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) {
    let mut ops = Vec::new();
    edit.program().walk(edit.program().body(), &mut |op| ops.push(op));
    let bound = bound_streams(edit.program(), &ops);
    let mut folder = ExprFolder::default();
    for id in ops {
        if folded_op(edit, &mut folder, &bound, id) {
            cx.add_count("ops-folded", 1);
            cx.add_remark(|| {
                let program = edit.program();
                let text = message!("simplified a scalar of `{}`", quoted_head(program.op(id).kind.name()));
                Diag::error(SIMPLIFIED, program.op_span(id), text)
            });
        }
    }
}

/// The expressions to which `Stream x` is bound by name: a folded index must not become such a name.
fn bound_streams(program: &Program, ops: &[OpId]) -> FxHashSet<ExprId> {
    let results = ops.iter().flat_map(|&op| program.op(op).results.iter());
    results
        .filter_map(|value| match value {
            Value::Stream(name) => Some(*name),
            Value::Tensor(_) | Value::Scalar(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => None,
        })
        .collect()
}

fn folded_op(edit: &mut Edit<'_>, folder: &mut ExprFolder, bound: &FxHashSet<ExprId>, id: OpId) -> bool {
    let mut op = edit.program().op(id).clone();
    for value in &mut op.operands {
        match value {
            Value::Scalar(expr) => *expr = folder.fold_expr(edit, *expr),
            Value::Stream(index) => {
                let folded = folder.fold_expr(edit, *index);
                if !bound.contains(&folded) {
                    *index = folded;
                }
            }
            Value::Tensor(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {}
        }
    }
    for (_, value) in &mut op.attrs {
        value.exprs_mut().iter_mut().for_each(|expr| *expr = folder.fold_expr(edit, *expr));
    }
    if let Some(team) = edit.program().computed_team(&op).map(|members| edit.program().team_attr(members)) {
        op.set_attr(AttrKey::Team, &team);
    }
    let old = edit.program().op(id).clone();
    if op == old {
        return false;
    }
    edit.set_op(id, op);
    // A folded constant may be one that the verifier rejects, such as an index past the end of its axis. Such a program
    // fails when it runs; this pass does not report it.
    let mut found = Diags::default();
    old.kind.spec().verify(edit.program(), id, &mut found);
    if found.has_errors() {
        edit.set_op(id, old);
        return false;
    }
    true
}

// ---- branches and loops ----

/// The future of a control op.
enum ControlFate {
    /// It stays.
    Keep,
    /// Only these ops of it run, once: the block, if there is one.
    Take(Option<BlockId>),
    /// It never runs.
    Never,
}

/// The fate of an op with blocks: a branch has a condition, loops have bounds.
fn control_fate(program: &Program, op: &Op) -> ControlFate {
    let [start, stop] = [AttrKey::Start, AttrKey::Stop].map(|key| stated_int(program, op, key));
    if op.kind.is_branch() {
        return match op.operands.first().and_then(|value| value.as_scalar()).map(|c| program.expr(c)) {
            Some(Expr::Bool(true)) => ControlFate::Take(op.blocks.first().copied()),
            Some(Expr::Bool(false)) => ControlFate::Take(op.blocks.get(1).copied()),
            _ => ControlFate::Keep,
        };
    }
    if !op.kind.is_loop() {
        return ControlFate::Keep;
    }
    let Some(domain) = op.domain_attr(AttrKey::Domain).map(|id| program.domain(id)) else {
        return fate_of_loop(program, op, start.flatten(), stop.flatten());
    };
    if domain.start.is_some() || domain.stop.is_some() {
        return ControlFate::Keep;
    }
    let stop = stop.unwrap_or_else(|| program.exprs().as_int(domain.extent));
    fate_of_loop(program, op, start.unwrap_or(Some(0)), stop)
}

/// The value of a bound that an op states; the inner `None` if it is not constant.
fn stated_int(program: &Program, op: &Op, key: AttrKey) -> Option<Option<i64>> {
    op.expr_attr(key).map(|expr| program.exprs().as_int(expr))
}

/// The future of a loop with these bounds.
fn fate_of_loop(program: &Program, op: &Op, start: Option<i64>, stop: Option<i64>) -> ControlFate {
    let step = stated_int(program, op, AttrKey::Step);
    let forward = step.is_none_or(|step| step.is_some_and(|step| step > 0));
    let empty = matches!((start, stop), (Some(start), Some(stop)) if start >= stop);
    if forward && empty { ControlFate::Never } else { ControlFate::Keep }
}

struct ControlFolder {
    regions: RegionReferences,
    /// The new places of comments above and after a removed op.
    above: FxHashMap<OpId, CommentPlace>,
    /// The new places of comments at the end of a removed block.
    end_of: FxHashMap<BlockId, CommentPlace>,
}

impl ControlFolder {
    fn fold_block(&mut self, edit: &mut Edit<'_>, cx: &mut PassCx<'_>, block: BlockId) {
        let ops = edit.program().block(block).ops.clone();
        let mut kept = Vec::with_capacity(ops.len());
        for (index, &op) in ops.iter().enumerate() {
            let after = ops.get(index + 1).map_or(CommentPlace::EndOf(block), |&next| CommentPlace::Above(next));
            self.fold_op(edit, cx, op, after, &mut kept);
        }
        if kept != ops {
            edit.set_block(block, kept);
        }
    }

    fn fold_op(
        &mut self,
        edit: &mut Edit<'_>,
        cx: &mut PassCx<'_>,
        id: OpId,
        after: CommentPlace,
        kept: &mut Vec<OpId>,
    ) {
        let blocks = edit.program().op(id).blocks.clone();
        let fate = control_fate(edit.program(), edit.program().op(id));
        let taken = match fate {
            ControlFate::Keep => None,
            ControlFate::Take(block) => Some(block),
            ControlFate::Never => Some(None),
        };
        let mut lost: Vec<BlockId> = blocks.to_vec();
        lost.retain(|&block| taken.is_some_and(|taken| taken != Some(block)));
        if taken.is_none() || !self.regions.remove(edit.program(), &lost) {
            if taken.is_some() {
                cx.add_remark(|| obstacle_remark(edit.program(), id));
            }
            blocks.iter().for_each(|&block| self.fold_block(edit, cx, block));
            kept.push(id);
            return;
        }
        let taken_branch = matches!(fate, ControlFate::Take(_));
        cx.add_count(if taken_branch { "branches-taken" } else { "loops-removed" }, 1);
        cx.add_remark(|| removal_remark(edit.program(), id));
        let Some(block) = taken.flatten() else { return };
        self.fold_block(edit, cx, block);
        let inlined = &edit.program().block(block).ops;
        self.above.insert(id, inlined.first().map_or(after, |&first| CommentPlace::Above(first)));
        self.end_of.insert(block, after);
        kept.extend_from_slice(inlined);
    }

    fn move_comments(&self, edit: &mut Edit<'_>) {
        if self.above.is_empty() && self.end_of.is_empty() {
            return;
        }
        let mut comments = edit.program().source().comments.clone();
        for comment in &mut comments {
            while let Some(place) = self.moved(comment.place) {
                comment.place = place;
            }
        }
        if comments != edit.program().source().comments {
            edit.set_comments(comments);
        }
    }

    /// The new place of a comment, if its old one is removed.
    fn moved(&self, place: CommentPlace) -> Option<CommentPlace> {
        match place {
            CommentPlace::Above(op) | CommentPlace::Trailing(op) => self.above.get(&op).copied(),
            CommentPlace::StartOf(block) | CommentPlace::EndOf(block) => self.end_of.get(&block).copied(),
            _ => None,
        }
    }
}

fn removal_remark(program: &Program, op: OpId) -> Diag {
    let text = message!(
        "`{}` was simplified, because its bounds or condition are constant",
        quoted_head(program.op(op).kind.name())
    );
    Diag::error(SIMPLIFIED, program.op_span(op), text)
}

fn obstacle_remark(program: &Program, op: OpId) -> Diag {
    let name = quoted_head(program.op(op).kind.name());
    let text = message!(
        "`{}` is kept although part of it never runs: that part defines something that is used elsewhere",
        name
    );
    Diag::error(NOT_SIMPLIFIED, program.op_span(op), text)
}

/// Something that ops define and others name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ReferenceKey {
    Tensor(TensorId),
    Handle(u32),
}

/// Ops that name something, in text order, and whether each defines it.
type ReferenceList = Vec<(OpId, bool)>;

/// A stand-in for the caller, who defines the inputs first and reads the outputs last.
const CALLER: OpId = OpId(u32::MAX);

/// The definitions and uses of everything that has a name, which decide whether a region may be removed.
struct RegionReferences {
    all: FxHashMap<ReferenceKey, ReferenceList>,
}

impl RegionReferences {
    fn from_program(program: &Program) -> Self {
        let mut all: FxHashMap<ReferenceKey, ReferenceList> = FxHashMap::default();
        for tensor in program.inputs().iter().filter_map(|value| value.as_tensor()) {
            all.entry(ReferenceKey::Tensor(tensor)).or_default().push((CALLER, true));
        }
        visit_host_ops(program, &mut |op| {
            visit_references(program, op, &mut |key, defines| {
                all.entry(key).or_default().push((op, defines));
            });
        });
        for tensor in interface_tensors(program).chain(described_tensors(program)) {
            all.entry(ReferenceKey::Tensor(tensor)).or_default().push((CALLER, false));
        }
        Self { all }
    }

    /// True if ops may be removed as far as one of their names is concerned: its remaining uses have to start with a
    /// definition, as they do now.
    fn is_free(&self, key: ReferenceKey, ops: &FxHashSet<OpId>) -> bool {
        let all = self.all.get(&key).map_or(&[][..], Vec::as_slice);
        all.iter().find(|(op, _)| !ops.contains(op)).is_none_or(|(_, defines)| *defines)
            || !all.iter().any(|(op, defines)| *defines && ops.contains(op))
    }

    /// Removes the blocks if nothing else needs their definitions; returns false otherwise.
    fn remove(&mut self, program: &Program, blocks: &[BlockId]) -> bool {
        let mut ops = FxHashSet::default();
        let mut keys = Vec::new();
        let mut scalars = false;
        for &block in blocks {
            program.walk(block, &mut |op| {
                ops.insert(op);
                visit_references(program, op, &mut |key, _| keys.push(key));
                scalars |= defines_scalar(program.op(op));
            });
        }
        if scalars || !keys.iter().all(|key| self.is_free(*key, &ops)) {
            return false;
        }
        for key in &keys {
            if let Some(all) = self.all.get_mut(key) {
                all.retain(|(op, _)| !ops.contains(op));
            }
        }
        true
    }
}

/// Calls `visit` for everything that an op names, with true for a definition.
fn visit_references(program: &Program, id: OpId, visit: &mut dyn FnMut(ReferenceKey, bool)) {
    let op = program.op(id);
    visit_accesses(program, id, &mut |tensor, access| {
        let defines = match access {
            TensorAccess::Write | TensorAccess::Bind => true,
            TensorAccess::Both => op.output_tensors().any(|result| result == tensor),
            TensorAccess::Read | TensorAccess::Free | TensorAccess::Name => false,
        };
        visit(ReferenceKey::Tensor(tensor), defines);
    });
    for value in &op.operands {
        if let Value::Handle(number) = value {
            visit(ReferenceKey::Handle(*number), false);
        }
    }
    if let Some(number) = op.number() {
        visit(ReferenceKey::Handle(number), true);
    }
}

// ---- streams ----

/// Names that are bound by one GetCurrentStream outside of loops. A second one keeps an older binding, so the name need
/// not mean the stream that is current there.
fn bound_once(program: &Program, block: BlockId) -> FxHashSet<ExprId> {
    let mut counts: FxHashMap<ExprId, u32> = FxHashMap::default();
    program.walk(block, &mut |id| {
        let op = program.op(id);
        count_bound_stream(op, &mut counts);
        if op.kind.is_loop() {
            for &block in &op.blocks {
                program.walk(block, &mut |inner| count_bound_stream(program.op(inner), &mut counts));
            }
        }
    });
    // The order does not matter: each entry is examined on its own.
    let all = counts.into_iter().collect::<Vec<_>>();
    all.into_iter().filter(|(_, count)| *count == 1).map(|(stream, _)| stream).collect()
}

/// Adds one to the count of the stream that the op binds, if it binds one.
fn count_bound_stream(op: &Op, counts: &mut FxHashMap<ExprId, u32>) {
    if let Some(stream) = stream_of(op).filter(|_| op.kind.is_stream_naming()) {
        *counts.entry(stream).or_default() += 1;
    }
}

fn stream_of(op: &Op) -> Option<ExprId> {
    op.operands.iter().chain(&op.results).find_map(|value| match value {
        Value::Stream(stream) => Some(*stream),
        Value::Tensor(_) | Value::Scalar(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => None,
    })
}

/// Collects stream ops without effect.
struct StreamOpFolder<'a> {
    program: &'a Program,
    /// See [`bound_once`].
    once: FxHashSet<ExprId>,
    dropped: &'a mut FxHashSet<OpId>,
}

impl StreamOpFolder<'_> {
    /// `current` is the stream known to be current when the block starts. Returns the one known to be
    /// current when it ends.
    fn fold_block(&mut self, block: BlockId, mut current: Option<ExprId>) -> Option<ExprId> {
        // A SetCurrentStream directly before the present op, with the stream current before it.
        let mut pending: Option<(OpId, Option<ExprId>)> = None;
        let program = self.program;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            let stream = stream_of(op);
            match op.kind.effect() {
                OpEffect::Stream(StreamEffect::Choose) => {
                    if let Some((overwritten, before)) = pending.take() {
                        self.dropped.insert(overwritten);
                        current = before;
                    }
                    if current.is_some() && current == stream {
                        self.dropped.insert(id);
                    } else {
                        pending = Some((id, current));
                        current = stream;
                    }
                    continue;
                }
                OpEffect::Stream(StreamEffect::Synchronize) if current.is_some() && current == stream => {
                    self.dropped.insert(id);
                    continue;
                }
                OpEffect::Stream(StreamEffect::Name) => {
                    current = current.or(stream.filter(|stream| self.once.contains(stream)));
                }
                _ if !op.blocks.is_empty() => current = self.fold_inner_blocks(op, current),
                // A scalar that is defined again may change the meaning of `Stream x`.
                _ if defines_scalar(op) => current = None,
                _ => {}
            }
            pending = None;
        }
        current
    }

    fn fold_inner_blocks(&mut self, op: &Op, current: Option<ExprId>) -> Option<ExprId> {
        // The body of a loop runs after itself, and its index may hide a name.
        let entry = if op.kind.is_branch() { current } else { None };
        let program = self.program;
        let mut changes = false;
        for &block in &op.blocks {
            self.fold_block(block, entry);
            program.walk(block, &mut |id| {
                let op = program.op(id);
                let binds = op.kind.is_stream_choice() || op.kind.is_stream_naming();
                changes |= binds || defines_scalar(op);
            });
        }
        if changes { None } else { current }
    }
}

fn defines_scalar(op: &Op) -> bool {
    op.results.iter().any(|value| value.as_scalar().is_some())
}
