//! The ops that share a loop if they may be reordered: `merge=graph`.
//!
//! A list scheduler over the dependences of a run of ops. Ops without a stream axis go first; then a loop opens and
//! takes every op of its axis that is ready, also those that wait for members only. The next loop is the one on the
//! longest chain of waiting loops.

use super::loops::{BodyItem, GraphNode, StreamLoop};
use hostir::analysis::storage::StorageClasses;
use hostir::ir::OpEffect;
use hostir::ir::{ExprId, OpId, Program, TensorId, Value};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// True if an op may be reordered: it only reads its operands and writes its results. (A HostUnit computes as ops do;
/// opaque kernels stay in place.)
pub(super) fn is_movable(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    let computes = match op.kind.effect() {
        OpEffect::Pure => true,
        OpEffect::Opaque => matches!(op.operands.first(), Some(Value::Unit(_))),
        _ => false,
    };
    // Scalars are bound by name, which the graph does not follow.
    computes && op.results.iter().all(|value| value.as_tensor().is_some()) && op.output_tensors().next().is_some()
}

/// The axis of a loop: class and extent.
type LoopAxis = (u32, ExprId);

/// A dependence on an earlier op.
#[derive(Clone, Copy)]
struct DependenceEdge {
    from: u32,
    to: u32,
    /// True if both may share a loop: one reads slice by slice the result of the other.
    sliced: bool,
}

/// The last accesses to one piece of memory.
#[derive(Clone, Default)]
struct LastAccess {
    writer: Option<(u32, TensorId)>,
    readers: Vec<u32>,
}

/// The ops of a run in an order that needs few loops, as items.
pub(super) fn schedule_items(program: &Program, storage: &mut StorageClasses, nodes: &[GraphNode]) -> Vec<BodyItem> {
    let edges = dependence_edges(program, storage, nodes);
    let mut scheduler = LoopScheduler::new(program, nodes, &edges);
    let mut items = Vec::new();
    loop {
        while let Some(at) = scheduler.plain.pop_first() {
            scheduler.release_op(at, false);
            items.push(BodyItem::Op(nodes[at as usize].op));
        }
        let Some(&(_, first)) = scheduler.streamed.first() else { return items };
        items.extend(scheduler.drain_loop(first).map(BodyItem::Loop));
    }
}

/// The dependences: reads wait for writes, writes for reads and writes, by storage class. In the order of `to`.
fn dependence_edges(program: &Program, storage: &mut StorageClasses, nodes: &[GraphNode]) -> Vec<DependenceEdge> {
    let mut touched: FxHashMap<usize, LastAccess> = FxHashMap::default();
    let mut edges = Vec::new();
    for (to, node) in (0..).zip(nodes) {
        let op = program.op(node.op);
        for tensor in op.input_tensors() {
            let slot = touched.entry(storage.class_of(tensor)).or_default();
            if let Some((from, written)) = slot.writer {
                edges.push(DependenceEdge { from, to, sliced: written == tensor });
            }
            slot.readers.push(to);
        }
        for tensor in op.output_tensors() {
            let slot = touched.entry(storage.class_of(tensor)).or_default();
            let writer = slot.writer.replace((to, tensor)).map(|(from, _)| from);
            let before = slot.readers.drain(..).chain(writer);
            edges.extend(before.filter(|&from| from != to).map(|from| DependenceEdge { from, to, sliced: false }));
        }
    }
    edges
}

struct LoopScheduler<'a> {
    program: &'a Program,
    nodes: &'a [GraphNode],
    /// By op: the ops that wait for it.
    after: Vec<Vec<DependenceEdge>>,
    /// The number of ops that each waits for.
    waits: Vec<u32>,
    /// The number of changes of loop in the longest chain after each op.
    loop_changes_after: Vec<u32>,
    /// Ops without a stream axis that can run.
    plain: BTreeSet<u32>,
    /// Ready ops of loops, the most urgent first.
    streamed: BTreeSet<(Reverse<u32>, u32)>,
    /// The same by axis.
    of_axis: FxHashMap<LoopAxis, BTreeSet<u32>>,
    /// By op: true if it must not share the open loop.
    excluded: Vec<bool>,
}

impl<'a> LoopScheduler<'a> {
    fn new(program: &'a Program, nodes: &'a [GraphNode], edges: &[DependenceEdge]) -> Self {
        let len = nodes.len();
        let mut scheduler = Self {
            program,
            nodes,
            after: vec![Vec::new(); len],
            waits: vec![0; len],
            loop_changes_after: vec![0; len],
            plain: BTreeSet::new(),
            streamed: BTreeSet::new(),
            of_axis: FxHashMap::default(),
            excluded: vec![false; len],
        };
        for edge in edges {
            scheduler.after[edge.from as usize].push(*edge);
            scheduler.waits[edge.to as usize] += 1;
        }
        for at in (0..len as u32).rev() {
            let steps = scheduler.after[at as usize].iter().map(|edge| {
                let changes = scheduler.loop_axis_of(at) != scheduler.loop_axis_of(edge.to);
                scheduler.loop_changes_after[edge.to as usize] + u32::from(changes)
            });
            scheduler.loop_changes_after[at as usize] = steps.max().unwrap_or(0);
        }
        for at in (0..len as u32).filter(|&at| scheduler.waits[at as usize] == 0).collect::<Vec<_>>() {
            scheduler.add_ready(at);
        }
        scheduler
    }

    fn loop_axis_of(&self, at: u32) -> Option<LoopAxis> {
        let streamed = self.nodes[at as usize].streamed?;
        Some((streamed.class, self.program.domain(streamed.domain).extent))
    }

    fn add_ready(&mut self, at: u32) {
        match self.loop_axis_of(at) {
            None => {
                self.plain.insert(at);
            }
            Some(axis) => {
                self.streamed.insert((Reverse(self.loop_changes_after[at as usize]), at));
                self.of_axis.entry(axis).or_default().insert(at);
            }
        }
    }

    /// Releases the ops that wait for an op; inside a loop, marks those that must not share it.
    fn release_op(&mut self, at: u32, in_loop: bool) -> Vec<u32> {
        let mut marked = Vec::new();
        for edge in std::mem::take(&mut self.after[at as usize]) {
            if in_loop && !edge.sliced {
                self.excluded[edge.to as usize] = true;
                marked.push(edge.to);
            }
            self.waits[edge.to as usize] -= 1;
            if self.waits[edge.to as usize] == 0 {
                self.add_ready(edge.to);
            }
        }
        marked
    }

    /// The loop that opens with an op, with all that can join it.
    fn drain_loop(&mut self, first: u32) -> Option<StreamLoop> {
        let axis = self.loop_axis_of(first)?;
        let mut found: Option<StreamLoop> = None;
        let (mut marked, mut left) = (Vec::new(), Vec::new());
        while let Some(at) = self.of_axis.get_mut(&axis).and_then(BTreeSet::pop_first) {
            let node = self.nodes[at as usize];
            let Some(streamed) = node.streamed else { continue };
            // The most urgent op determines what the loop moves.
            let opens = found.is_none() && at != first;
            match &mut found {
                _ if opens || self.excluded[at as usize] => left.push(at),
                Some(open) if !open.can_join(self.program, streamed) => left.push(at),
                Some(open) => open.push(node.op, streamed),
                None => found = Some(StreamLoop::from_op(node.op, streamed)),
            }
            if left.last() == Some(&at) {
                continue;
            }
            self.streamed.remove(&(Reverse(self.loop_changes_after[at as usize]), at));
            marked.extend(self.release_op(at, true));
            if at == first {
                // Earlier ops of the text have their turn now.
                let set = self.of_axis.entry(axis).or_default();
                set.extend(left.drain(..));
            }
        }
        for at in marked {
            self.excluded[at as usize] = false;
        }
        self.of_axis.entry(axis).or_default().extend(left);
        found
    }
}
