//! Which ops make two extents one: what an error about two sizes has to name.

use super::SizeSolver;
use crate::diag::Diag;
use crate::ir::{OpId, TensorId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// Statements that an error shows; those between them are left out.
const MOST_OPS: usize = 3;

/// An axis of a tensor.
type AxisOf = (TensorId, u32);

/// Why two nodes are of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinReason {
    /// The nodes.
    pub(super) nodes: (u32, u32),
    /// An op and the axes that it makes equal; `None`: an axis and the name of its extent.
    pub(super) op: Option<(OpId, AxisOf, AxisOf)>,
}

impl SizeSolver<'_> {
    /// Adds the ops that join two nodes to the error that these have two sizes.
    pub(super) fn explain_joins(&self, mut diag: Diag, from: u32, to: u32) -> Diag {
        for (op, one, other) in self.joins_between(from, to).into_iter().take(MOST_OPS) {
            let [one, other] =
                [one, other].map(|(tensor, axis)| format!("axis {axis} of {}", self.program.tensor_name(tensor)));
            let (span, text) = (self.program.op_span(op), format!("{one} is as long as {other}"));
            diag = match diag.primary {
                Some(_) => diag.with_label(span, text),
                None => {
                    let notes = diag.notes;
                    let placed = Diag::error(diag.code, span, diag.message).with_primary_text(text);
                    notes.into_iter().fold(placed, Diag::with_note)
                }
            };
        }
        diag
    }

    /// The ops on a shortest way from one node to another.
    fn joins_between(&self, from: u32, to: u32) -> Vec<(OpId, AxisOf, AxisOf)> {
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
        let (mut ops, mut node) = (Vec::new(), to);
        while let Some(&Some(index)) = reached.get(&node) {
            ops.extend(self.joins[index].op);
            node = self.other_end(index, node);
        }
        ops.reverse();
        ops.dedup_by_key(|(op, ..)| *op);
        ops
    }

    fn other_end(&self, join: usize, node: u32) -> u32 {
        let (a, b) = self.joins[join].nodes;
        if a == node { b } else { a }
    }
}
