//! The ops that make two extents equal, which an error about two sizes has to name.

use super::SizeSolver;
use crate::ir::{OpId, TensorId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// An axis of a tensor.
pub(super) type AxisOf = (TensorId, u32);

/// The reason that two nodes are of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinReason {
    /// The nodes.
    pub(super) nodes: (u32, u32),
    /// An op and the axes that it makes equal; `None`: an axis and the name of its extent.
    pub(super) op: Option<(OpId, AxisOf, AxisOf)>,
    /// True for the axes of two tensors that share memory.
    pub(super) is_alias: bool,
}

/// A way between two nodes.
#[derive(Clone, Default, Debug)]
pub(super) struct JoinPath {
    /// The ops on the way.
    pub(super) ops: Vec<OpJoin>,
    /// True if tensors that share memory are on the path.
    pub(super) has_alias: bool,
}

/// An op on the path between two nodes, and the axes that it joins, in the direction of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpJoin {
    /// The op.
    pub(super) op: OpId,
    /// The axis on the side of the start.
    pub(super) first: AxisOf,
    /// The axis on the side of the end.
    pub(super) second: AxisOf,
}

impl SizeSolver<'_> {
    /// The ops on a shortest path from one node to another.
    pub(super) fn joins_between(&self, from: u32, to: u32) -> JoinPath {
        let mut next: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (index, join) in self.joins.iter().enumerate() {
            next.entry(join.nodes.0).or_default().push(index);
            next.entry(join.nodes.1).or_default().push(index);
        }
        // By node: the join that led there.
        let mut reached: FxHashMap<u32, Option<usize>> = FxHashMap::from_iter([(from, None)]);
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front().filter(|node| *node != to) {
            for &index in next.get(&node).into_iter().flatten() {
                let other = self.other_end(index, node);
                if let Entry::Vacant(entry) = reached.entry(other) {
                    entry.insert(Some(index));
                    open.push_back(other);
                }
            }
        }
        let (mut ops, mut node, mut has_alias) = (Vec::new(), to, false);
        while let Some(&Some(index)) = reached.get(&node) {
            ops.extend(self.op_join(index, node));
            has_alias |= self.joins[index].is_alias;
            node = self.other_end(index, node);
        }
        ops.reverse();
        ops.dedup_by(|next: &mut OpJoin, kept| {
            let is_same = next.op == kept.op && next.first == kept.second;
            if is_same {
                kept.second = next.second;
            }
            is_same
        });
        JoinPath { ops, has_alias }
    }

    /// The op of a join that leads to a node.
    fn op_join(&self, join: usize, node: u32) -> Option<OpJoin> {
        let JoinReason { nodes, op, .. } = self.joins[join];
        let (op, one, other) = op?;
        let (first, second) = if node == nodes.1 { (one, other) } else { (other, one) };
        Some(OpJoin { op, first, second })
    }

    fn other_end(&self, join: usize, node: u32) -> u32 {
        let (a, b) = self.joins[join].nodes;
        if a == node { b } else { a }
    }
}
