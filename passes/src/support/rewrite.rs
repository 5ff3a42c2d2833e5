//! Changes that several passes make: rebuilds blocks without some ops, and moves their comments.

use super::builder::OpBuilder;
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, CommentPlace, OpId, SourceComment};
use rustc_hash::{FxHashMap, FxHashSet};

/// Unlinks the ops of `block`, and of the blocks inside, for which `keep` is false, and control ops whose blocks are
/// empty then (they have no effect of their own). Returns true if ops are left.
pub(crate) fn retain_ops(edit: &mut Edit<'_>, block: BlockId, keep: &dyn Fn(OpId) -> bool) -> bool {
    let ops = edit.program().block(block).ops.clone();
    let mut kept = Vec::with_capacity(ops.len());
    for &op in &ops {
        if !keep(op) {
            continue;
        }
        if is_control(edit, op) && !retain_inside(edit, op, keep) {
            continue;
        }
        kept.push(op);
    }
    let left = !kept.is_empty();
    if kept.len() != ops.len() {
        edit.set_block(block, kept);
    }
    left
}

fn retain_inside(edit: &mut Edit<'_>, op: OpId, keep: &dyn Fn(OpId) -> bool) -> bool {
    let blocks = edit.program().op(op).blocks.clone();
    let mut left = false;
    for block in blocks {
        left |= retain_ops(edit, block, keep);
    }
    left
}

fn is_control(edit: &Edit<'_>, op: OpId) -> bool {
    let op = edit.program().op(op);
    op.kind.is_control() && !op.blocks.is_empty()
}

/// Drops the comments of ops and blocks that are no longer part of the program.
pub(crate) fn drop_lost_comments(edit: &mut Edit<'_>) {
    let program = edit.program();
    if program.source().comments.is_empty() {
        return;
    }
    let (ops, blocks) = reachable_ops(edit);
    let kept: Vec<SourceComment> = program
        .source()
        .comments
        .iter()
        .filter(|comment| match comment.place {
            CommentPlace::Above(op) | CommentPlace::Trailing(op) => ops.contains(&op),
            CommentPlace::StartOf(block) | CommentPlace::EndOf(block) => blocks.contains(&block),
            _ => true,
        })
        .cloned()
        .collect();
    if kept.len() != program.source().comments.len() {
        edit.set_comments(kept);
    }
}

/// The new places of the comments of replaced ops.
#[derive(Default)]
pub(crate) struct CommentMoves {
    /// By the replaced op: the op whose line gets the comments above it, and the one that gets its trailing comment.
    /// For look-ups only.
    to: FxHashMap<OpId, (OpId, OpId)>,
}

impl CommentMoves {
    /// Hands the comments of `from` on.
    pub(crate) fn add_move(&mut self, from: OpId, above: OpId, trailing: OpId) {
        self.to.insert(from, (above, trailing));
    }
}

/// Moves the comments of replaced ops to those in their place.
pub(crate) fn move_comments(edit: &mut Edit<'_>, moves: &CommentMoves) {
    let mut comments = edit.program().source().comments.clone();
    let mut moved = false;
    for comment in &mut comments {
        let place = match comment.place {
            CommentPlace::Above(op) => moves.to.get(&op).map(|to| CommentPlace::Above(to.0)),
            CommentPlace::Trailing(op) => moves.to.get(&op).map(|to| CommentPlace::Trailing(to.1)),
            _ => None,
        };
        if let Some(place) = place {
            comment.place = place;
            moved = true;
        }
    }
    if moved {
        edit.set_comments(comments);
    }
}

/// Everything that is printed: for membership tests only.
fn reachable_ops(edit: &Edit<'_>) -> (FxHashSet<OpId>, FxHashSet<BlockId>) {
    let program = edit.program();
    let mut roots: Vec<BlockId> = program.units().iter().map(|(_, unit)| unit.body).collect();
    roots.push(program.body());
    roots.extend(program.index_definitions());
    let mut ops = FxHashSet::default();
    let mut blocks: FxHashSet<BlockId> = roots.iter().copied().collect();
    for root in roots {
        program.walk(root, &mut |op| {
            ops.insert(op);
            blocks.extend(program.op(op).blocks.iter().copied());
        });
    }
    (ops, blocks)
}

/// Rebuilds the body of a program. `replace` appends the replacement of an op of `work`; all others stay. `work` is in
/// the order of the body.
pub(crate) fn rebuild_body<W>(
    build: &mut OpBuilder<'_, '_>,
    work: Vec<(OpId, W)>,
    mut replace: impl FnMut(&mut OpBuilder<'_, '_>, OpId, W, &mut Vec<OpId>),
) {
    let body = build.program().body();
    let ops = build.program().block(body).ops.clone();
    let mut out = Vec::with_capacity(ops.len() + 4 * work.len());
    let mut work = work.into_iter().peekable();
    for op in ops {
        match work.next_if(|(id, _)| *id == op) {
            None => out.push(op),
            Some((_, what)) => {
                build.origin = op;
                replace(build, op, what, &mut out);
            }
        }
    }
    build.edit.set_block(body, out);
}
