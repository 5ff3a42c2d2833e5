//! `rank=R`: the ops of one rank.
//!
//! As in nvFuser's `involvedDevices(..).count(my_device)`, an op stays if a mesh of its tensors contains the rank. Such
//! an op may name tensors of other ranks (a root sends data that a receiver never has), which the text still has to
//! declare: their slices and allocations stay too, and an op that would have computed one becomes an allocation, which
//! does nothing on a rank outside of the tensor's mesh.

use crate::support::builder::OpBuilder;
use hostir::ir::{BlockId, OpId, Program, TensorId, Value};
use hostir::ir::{CommunicationEffect, OpEffect};
use rustc_hash::{FxHashMap, FxHashSet};

/// The ops of a program that stay for one rank.
struct OwnRankFilter {
    kept: FxHashSet<OpId>,
    /// Tensors that the text has to declare.
    named: FxHashSet<TensorId>,
}

/// Keeps the ops of `rank`. Returns the number of removed ones.
pub(super) fn keep_own_ops(build: &mut OpBuilder<'_, '_>, rank: u32) -> u64 {
    let filter = OwnRankFilter::new(build.program(), rank);
    let body = build.program().body();
    let mut declared = FxHashSet::default();
    let mut dropped = 0;
    filter_block(build, &filter, body, &mut declared, &mut dropped);
    dropped
}

impl OwnRankFilter {
    fn new(program: &Program, rank: u32) -> Self {
        let mut posts: PostsByNumber = FxHashMap::default();
        let mut ops = Vec::new();
        program.walk(program.body(), &mut |id| {
            if let Some(number) = program.op(id).number() {
                posts.entry(number).or_default().push(id);
            }
            ops.push(id);
        });
        let mut found = Self { kept: FxHashSet::default(), named: FxHashSet::default() };
        found.named.extend(program.outputs().iter().filter_map(|output| output.as_tensor()));
        for &id in &ops {
            if is_involved(program, &posts, id, rank) {
                found.keep_op(program, id);
            }
        }
        // Backwards: a slice of a slice names the tensor of an earlier op.
        for &id in ops.iter().rev() {
            let op = program.op(id);
            let says = op.kind.is_allocation() || op.kind.effect() == OpEffect::Alias;
            if says && op.output_tensors().any(|tensor| found.named.contains(&tensor)) {
                found.keep_op(program, id);
            }
        }
        found
    }

    fn keep_op(&mut self, program: &Program, id: OpId) {
        let op = program.op(id);
        self.kept.insert(id);
        self.named.extend(op.all_tensors());
    }
}

/// The statements that start what a Wait for a number waits for; several start the elements of an array.
type PostsByNumber = FxHashMap<u32, Vec<OpId>>;

/// Whether the rank has a part in an op; a team that is computed may contain it.
fn is_involved(program: &Program, posts: &PostsByNumber, id: OpId, rank: u32) -> bool {
    let op = program.op(id);
    match op.kind.communication() {
        Some(CommunicationEffect::Wait) => op.operands.iter().all(|operand| match operand {
            Value::Handle(number) => posts
                .get(number)
                .is_none_or(|started| started.iter().any(|&post| is_involved(program, posts, post, rank))),
            _ => true,
        }),
        Some(CommunicationEffect::Collective | CommunicationEffect::Permute) => {
            program.computed_team(op).is_some()
                || program.team_of(op, rank).unwrap_or_default().contains(&i64::from(rank))
        }
        _ => {
            let mut tensors = op.all_tensors().peekable();
            tensors.peek().is_none()
                || tensors.any(|tensor| program.tensor_mesh(tensor).is_none_or(|m| m.contains(rank)))
        }
    }
}

/// Rewrites a block and its nested blocks. `declared` are the tensors that earlier ops declare.
fn filter_block(
    build: &mut OpBuilder<'_, '_>,
    filter: &OwnRankFilter,
    id: BlockId,
    declared: &mut FxHashSet<TensorId>,
    dropped: &mut u64,
) {
    let ops = build.program().block(id).ops.clone();
    let mut out = Vec::with_capacity(ops.len());
    for &op in &ops {
        let results: Vec<TensorId> = build.program().op(op).output_tensors().collect();
        if filter.kept.contains(&op) {
            let blocks = build.program().op(op).blocks.clone();
            for &inner in &blocks {
                filter_block(build, filter, inner, declared, dropped);
            }
            declared.extend(results);
            let all_empty = blocks.iter().all(|&inner| build.program().block(inner).ops.is_empty());
            if blocks.is_empty() || !all_empty {
                out.push(op);
            }
            continue;
        }
        *dropped += 1;
        for tensor in results {
            if filter.named.contains(&tensor) && declared.insert(tensor) {
                build.origin = op;
                out.push(build.build_allocate(tensor));
            }
        }
    }
    if out != ops {
        build.edit.set_block(id, out);
    }
}
