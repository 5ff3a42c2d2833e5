//! The ops that go into one HostUnit, and the order of units and ops.
//!
//! Every op gets a level. An op that stays has the highest level of its producers; so has a fused op, but one more
//! after a producer that stays. A path from one fused op to another through an op that stays raises the level, so fused
//! ops of one level never wait for each other that way, and those that feed each other share a unit. A group whose
//! consumers are all of a higher level moves up to the first that is fused. All steps are linear.

use crate::support::reshard::is_tensor_op;
use hostir::analysis::is_standalone;
use hostir::analysis::storage::StorageClasses;
use hostir::ir::OpEffect;
use hostir::ir::{OpId, Partition, Program};

/// A part of the body.
pub(super) enum BodyRun {
    /// An op that nothing moves across.
    Barrier(OpId),
    /// Groups in the order in which they run.
    Groups(Vec<SegmentGroup>),
}

/// The ops at one place.
pub(super) enum SegmentGroup {
    /// An op that stays.
    Single(OpId),
    /// Ops of one HostUnit, in order.
    Fused(Vec<OpId>),
}

const NONE: u32 = u32::MAX;

/// Divides the body at the ops that nothing may cross, and groups the ops between.
pub(super) fn split_runs(program: &Program, storage: &mut StorageClasses, ops: &[OpId]) -> Vec<BodyRun> {
    let mut graph = SegmentGraph::new(program.tensors().len());
    let mut runs = Vec::new();
    for &op in ops {
        let pure = program.op(op).kind.effect() == OpEffect::Pure;
        if !pure || !is_tensor_op(program, op) {
            runs.extend(graph.finish_run());
            runs.push(BodyRun::Barrier(op));
            continue;
        }
        if graph.has_write_conflict(program, storage, op) || graph.reads_alias(program, storage, op) {
            runs.extend(graph.finish_run());
        }
        graph.add_op(program, storage, op);
    }
    runs.extend(graph.finish_run());
    runs
}

/// The ops between two barriers.
struct SegmentGraph {
    ops: Vec<OpId>,
    fused: Vec<bool>,
    /// Edges from producer to consumer, by consumer.
    edges: Vec<(u32, u32)>,
    /// By storage class: the run that accessed it last, and its writer in that run.
    last_accesses: Vec<(u32, u32)>,
    run: u32,
}

impl SegmentGraph {
    fn new(tensors: usize) -> Self {
        Self {
            ops: Vec::new(),
            fused: Vec::new(),
            edges: Vec::new(),
            last_accesses: vec![(NONE, NONE); tensors],
            run: 0,
        }
    }

    /// True if an op writes a tensor that an earlier one has accessed.
    fn has_write_conflict(&self, program: &Program, storage: &mut StorageClasses, op: OpId) -> bool {
        let mut results = program.op(op).output_tensors();
        results.any(|tensor| self.last_accesses[storage.class_of(tensor)].0 == self.run)
    }

    /// True if an op reads an alias of a tensor that an earlier one has written. A unit has no aliases.
    fn reads_alias(&self, program: &Program, storage: &mut StorageClasses, op: OpId) -> bool {
        let mut operands = program.op(op).input_tensors();
        operands.any(|tensor| {
            let (run, writer) = self.last_accesses[storage.class_of(tensor)];
            run == self.run
                && writer != NONE
                && !program.op(self.ops[writer as usize]).output_tensors().any(|t| t == tensor)
        })
    }

    fn add_op(&mut self, program: &Program, storage: &mut StorageClasses, id: OpId) {
        let at = self.ops.len() as u32;
        let op = program.op(id);
        for tensor in op.input_tensors() {
            let slot = &mut self.last_accesses[storage.class_of(tensor)];
            if slot.0 != self.run {
                *slot = (self.run, NONE);
            } else if slot.1 != NONE {
                self.edges.push((slot.1, at));
            }
        }
        for tensor in op.output_tensors() {
            self.last_accesses[storage.class_of(tensor)] = (self.run, at);
        }
        self.ops.push(id);
        self.fused.push(belongs_in_unit(program, id));
    }

    /// Ends the run.
    fn finish_run(&mut self) -> Option<BodyRun> {
        self.run += 1;
        let ops = std::mem::take(&mut self.ops);
        let fused = std::mem::take(&mut self.fused);
        let edges = std::mem::take(&mut self.edges);
        if ops.is_empty() {
            return None;
        }
        let mut classes = LevelClasses::new(&fused, &edges);
        classes.join_levels(&edges);
        classes.lift_to_consumers(&edges);
        Some(BodyRun::Groups(classes.ordered_groups(&ops, &edges)))
    }
}

/// Lists of numbers by number, in one vector.
struct NumberLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl NumberLists {
    fn new(len: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; len + 1];
        for (key, _) in pairs.clone() {
            starts[key as usize + 1] += 1;
        }
        for k in 0..len {
            starts[k + 1] += starts[k];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[len] as usize];
        for (key, item) in pairs {
            items[next[key as usize] as usize] = item;
            next[key as usize] += 1;
        }
        Self { starts, items }
    }
    fn list_of(&self, key: u32) -> &[u32] {
        &self.items[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }
}

/// Levels, and classes of fused ops.
struct LevelClasses<'a> {
    fused: &'a [bool],
    levels: Vec<u32>,
    classes: Partition,
}

impl<'a> LevelClasses<'a> {
    fn new(fused: &'a [bool], edges: &[(u32, u32)]) -> Self {
        let mut levels = vec![0u32; fused.len()];
        // Edges are sorted by consumer, and producers come before consumers.
        for &(from, to) in edges {
            let (from, to) = (from as usize, to as usize);
            let up = u32::from(fused[to] && !fused[from]);
            levels[to] = levels[to].max(levels[from] + up);
        }
        Self { fused, levels, classes: Partition::of_singletons(fused.len()) }
    }

    fn join_levels(&mut self, edges: &[(u32, u32)]) {
        for &(from, to) in edges {
            let (a, b) = (from as usize, to as usize);
            if self.fused[a] && self.fused[b] && self.levels[a] == self.levels[b] {
                self.classes.join_classes(from, to);
            }
        }
    }

    fn class_members(&mut self) -> NumberLists {
        let roots = self.classes.clone().into_classes();
        NumberLists::new(roots.len(), roots.iter().copied().zip(0..))
    }

    /// Moves classes up to their first fused consumer, the highest first.
    fn lift_to_consumers(&mut self, edges: &[(u32, u32)]) {
        let consumers = NumberLists::new(self.fused.len(), edges.iter().copied());
        let members = self.class_members();
        let len = self.fused.len() as u32;
        let mut roots: Vec<u32> =
            (0..len).filter(|&at| self.fused[at as usize] && !members.list_of(at).is_empty()).collect();
        roots.sort_by_key(|&root| std::cmp::Reverse(self.levels[root as usize]));
        for root in roots {
            let level = self.levels[root as usize];
            let (mut target, mut limit) = (u32::MAX, u32::MAX);
            for &consumer in members.list_of(root).iter().flat_map(|&member| consumers.list_of(member)) {
                let found = self.levels[consumer as usize];
                if !self.fused[consumer as usize] {
                    limit = limit.min(found);
                } else if found > level {
                    target = target.min(found);
                }
            }
            if target == u32::MAX || target > limit {
                continue;
            }
            for &member in members.list_of(root) {
                self.levels[member as usize] = target;
            }
            for &member in members.list_of(root) {
                for &consumer in consumers.list_of(member) {
                    let same = self.levels[consumer as usize] == target;
                    if same && self.fused[consumer as usize] {
                        self.classes.join_classes(member, consumer);
                    }
                }
            }
        }
    }

    /// The groups in an order in which each follows those that it needs, else in text order.
    fn ordered_groups(mut self, ops: &[OpId], edges: &[(u32, u32)]) -> Vec<SegmentGroup> {
        let members = self.class_members();
        let producers = NumberLists::new(ops.len(), edges.iter().map(|&(from, to)| (to, from)));
        let mut opened = vec![false; ops.len()];
        let mut done = vec![false; ops.len()];
        let mut groups = Vec::new();
        for at in 0..ops.len() as u32 {
            let mut stack = vec![self.classes.find_class(at)];
            while let Some(&root) = stack.last() {
                if done[root as usize] {
                    stack.pop();
                } else if std::mem::replace(&mut opened[root as usize], true) {
                    stack.pop();
                    done[root as usize] = true;
                    groups.push(self.make_group(ops, members.list_of(root)));
                } else {
                    for &producer in members.list_of(root).iter().flat_map(|&m| producers.list_of(m)) {
                        let first = self.classes.find_class(producer);
                        if !opened[first as usize] {
                            stack.push(first);
                        }
                    }
                }
            }
        }
        groups
    }

    fn make_group(&self, ops: &[OpId], members: &[u32]) -> SegmentGroup {
        match members {
            &[one] if !self.fused[one as usize] => SegmentGroup::Single(ops[one as usize]),
            _ => SegmentGroup::Fused(members.iter().map(|&at| ops[at as usize]).collect()),
        }
    }
}

/// True for a tensor op that is not standalone.
pub(super) fn belongs_in_unit(program: &Program, op: OpId) -> bool {
    let pure = program.op(op).kind.effect() == OpEffect::Pure;
    pure && is_tensor_op(program, op) && !is_standalone(program, op)
}
