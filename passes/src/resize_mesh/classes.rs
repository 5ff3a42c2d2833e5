//! The axes and loops that count devices.
//!
//! Axes that ops link have one extent, so they are one class; a loop whose index picks slices of an axis is in the
//! axis's class. A class counts devices if one of its axes is sharded over them, if `rank` picks its slices, or if a
//! loop's index is a peer, a root, or compared with a device number.

use super::uses::{DeviceCounts, ReachableItems, ScalarRole, ScalarUse};
use hostir::axes::logical_axes;
use hostir::ir::scalar_names::sub_expressions;
use hostir::ir::{AttrKey, BinaryOp, Expr, ExprId, ParallelType, Partition, Program, Symbol, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Classes of axes and loops.
pub(super) struct AxisClasses {
    /// The first axis of each tensor; then the loops.
    starts: Vec<u32>,
    partition: Partition,
    /// By node; holds for roots.
    device: Vec<bool>,
    /// By loop: true if some axis or device determines its range.
    tied: Vec<bool>,
    /// Names that hold device numbers everywhere.
    names: FxHashSet<Symbol>,
}

impl AxisClasses {
    pub(super) fn new(program: &Program, walked: &ReachableItems, devices: DeviceCounts) -> Self {
        let mut starts = vec![0];
        for tensor in program.tensors().ids() {
            let axes = logical_axes(program, tensor).axes.len() as u32;
            starts.push(starts[tensor.0 as usize] + axes);
        }
        let nodes = starts[starts.len() - 1] as usize + walked.loops.len();
        let known = ["rank", "deviceIdx.x"].iter().filter_map(|name| program.names().find_symbol(name));
        let mut classes = Self {
            starts,
            partition: Partition::of_singletons(nodes),
            device: vec![false; nodes],
            tied: vec![false; walked.loops.len()],
            names: known.collect(),
        };
        classes.mark_device_axes(program, walked);
        classes.join_linked(program, walked);
        classes.join_loop_domains(program, walked);
        classes.partition.flatten();
        while walked.uses.iter().fold(false, |any, one| classes.learn_use(program, one, devices) | any) {}
        classes
    }

    /// The node of an axis.
    pub(super) fn axis_node(&self, tensor: TensorId, axis: u32) -> u32 {
        self.starts[tensor.0 as usize] + axis
    }
    /// The node of a loop.
    pub(super) fn loop_node(&self, number: u32) -> u32 {
        self.starts[self.starts.len() - 1] + number
    }
    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.partition.element_count()
    }
    /// The class of a node.
    pub(super) fn class_root(&self, node: u32) -> u32 {
        self.partition.class_of(node)
    }
    /// True if a node counts devices.
    pub(super) fn counts_devices(&self, node: u32) -> bool {
        self.device[self.class_root(node) as usize]
    }
    /// True if a loop's range is determined.
    pub(super) fn is_tied(&self, number: u32) -> bool {
        self.tied[number as usize] || self.counts_devices(self.loop_node(number))
    }
    /// True if a scalar depends on device numbers.
    pub(super) fn is_device_scalar(&self, program: &Program, one: &ScalarUse, expr: ExprId) -> bool {
        match program.expr(expr) {
            Expr::Name(name) => match one.innermost_loop(*name) {
                Some(number) => self.counts_devices(self.loop_node(number)),
                None => self.names.contains(name),
            },
            other => sub_expressions(other).iter().any(|&part| self.is_device_scalar(program, one, part)),
        }
    }
    /// The node of the axis along which a slice is picked. A broadcast has one slice for all indices, so neither says
    /// anything about the other.
    pub(super) fn sliced_axis_node(&self, program: &Program, kind: ScalarRole) -> Option<u32> {
        let ScalarRole::Slice(tensor, Some(printed)) = kind else { return None };
        let axes = logical_axes(program, tensor);
        let axis = axes.of_printed(printed)?;
        let broadcast = axes.axes.get(axis as usize).is_some_and(|axis| axis.is_broadcast());
        (!broadcast).then(|| self.axis_node(tensor, axis))
    }

    fn mark_device_axes(&mut self, program: &Program, walked: &ReachableItems) {
        for &tensor in &walked.tensors {
            for (axis, k) in logical_axes(program, tensor).axes.iter().zip(0..) {
                let node = self.axis_node(tensor, k) as usize;
                self.device[node] = axis.parallel == ParallelType::DIDx;
            }
        }
    }

    fn join_linked(&mut self, program: &Program, walked: &ReachableItems) {
        let mut links = Vec::new();
        for &op in &walked.ops {
            links.clear();
            program.op(op).kind.spec().axes(program, op, &mut links);
            for link in links.iter().filter(|link| !link.broadcast) {
                let (a, b) = (self.axis_node(link.from.0, link.from.1), self.axis_node(link.to.0, link.to.1));
                self.join_nodes(a, b);
            }
        }
    }

    /// Joins loops with axes: a loop over a domain with the number of one axis's runs over that axis.
    fn join_loop_domains(&mut self, program: &Program, walked: &ReachableItems) {
        let mut by_number: FxHashMap<Option<u32>, Option<u32>> = FxHashMap::default();
        for &tensor in walked.tensors.iter().filter(|&&t| program.tensor(t).unit.is_none()) {
            for (axis, k) in logical_axes(program, tensor).axes.iter().zip(0..) {
                let node = self.axis_node(tensor, k);
                let number = axis.domain_number(program, tensor);
                by_number.entry(number).and_modify(|known| *known = None).or_insert(Some(node));
            }
        }
        for (&op, number) in walked.loops.iter().zip(0..) {
            let domain = program.op(op).domain_attr(AttrKey::Domain);
            let domain = domain.map(|domain| program.domain(domain).number);
            let axis = domain.filter(Option::is_some).and_then(|number| by_number.get(&number));
            if let Some(&Some(node)) = axis {
                self.join_nodes(self.loop_node(number), node);
                self.tied[number as usize] = true;
            }
        }
    }

    /// Learns from one scalar; returns true if that was new.
    fn learn_use(&mut self, program: &Program, one: &ScalarUse, devices: DeviceCounts) -> bool {
        let mut new = self.learn_parts(program, one, one.expr, devices);
        match one.kind {
            ScalarRole::Slice(..) => {
                if let Some(node) = self.sliced_axis_node(program, one.kind) {
                    new |= self.learn_slice(program, one, node);
                }
            }
            ScalarRole::Peer | ScalarRole::Root => new |= self.mark_loops(program, one, one.expr),
            ScalarRole::Define(name) if self.is_device_scalar(program, one, one.expr) => {
                new |= self.names.insert(name);
            }
            _ => {}
        }
        new
    }

    fn learn_slice(&mut self, program: &Program, one: &ScalarUse, node: u32) -> bool {
        let mut new = false;
        let mut names = Vec::new();
        collect_names(program, one.expr, &mut names);
        for number in names.iter().filter_map(|&name| one.innermost_loop(name)) {
            new |= !std::mem::replace(&mut self.tied[number as usize], true);
        }
        let exact = program.exprs().as_name(one.expr).and_then(|name| one.innermost_loop(name));
        if let Some(number) = exact {
            new |= self.join_nodes(self.loop_node(number), node);
        } else if self.is_device_scalar(program, one, one.expr) && !self.is_rotation(program, one, &names) {
            new |= self.mark_class(node);
        }
        new
    }

    /// True for `( rank + i ) % 4` without other evidence that i counts devices: it may only be the order in which the
    /// slices of some axis are processed.
    fn is_rotation(&self, program: &Program, one: &ScalarUse, names: &[Symbol]) -> bool {
        let modulo = matches!(program.expr(one.expr), Expr::Binary(BinaryOp::Mod, ..));
        let loops = names.iter().filter_map(|&name| one.innermost_loop(name));
        modulo && loops.into_iter().any(|number| !self.counts_devices(self.loop_node(number)))
    }

    /// Learns from `( rank + i ) % D` and `i == rank` that i is a device number too.
    fn learn_parts(&mut self, program: &Program, one: &ScalarUse, expr: ExprId, devices: DeviceCounts) -> bool {
        let mut new = false;
        if let Expr::Binary(op, a, b) = *program.expr(expr) {
            let modulo = op == BinaryOp::Mod && program.exprs().as_int(b) == Some(devices.old);
            let modulo = modulo && !matches!(one.kind, ScalarRole::Slice(..));
            if modulo && self.is_device_scalar(program, one, a) {
                new |= self.mark_loops(program, one, a);
            }
            if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
                for (this, other) in [(a, b), (b, a)] {
                    let named = matches!(program.expr(this), Expr::Name(_));
                    if named && self.is_device_scalar(program, one, other) {
                        new |= self.mark_loops(program, one, this);
                    }
                }
            }
        }
        for part in sub_expressions(program.expr(expr)) {
            new |= self.learn_parts(program, one, part, devices);
        }
        new
    }

    fn mark_loops(&mut self, program: &Program, one: &ScalarUse, expr: ExprId) -> bool {
        let mut names = Vec::new();
        collect_names(program, expr, &mut names);
        let mut new = false;
        for number in names.iter().filter_map(|&name| one.innermost_loop(name)) {
            new |= self.mark_class(self.loop_node(number));
        }
        new
    }

    fn mark_class(&mut self, node: u32) -> bool {
        let root = self.class_root(node) as usize;
        !std::mem::replace(&mut self.device[root], true)
    }

    fn join_nodes(&mut self, a: u32, b: u32) -> bool {
        let joined = self.partition.join_classes(a, b);
        if let Some((kept, gone)) = joined {
            self.device[kept as usize] |= self.device[gone as usize];
        }
        joined.is_some()
    }
}

fn collect_names(program: &Program, expr: ExprId, names: &mut Vec<Symbol>) {
    match program.expr(expr) {
        Expr::Name(name) => names.push(*name),
        other => sub_expressions(other).iter().for_each(|&part| collect_names(program, part, names)),
    }
}
