//! Which axes of a program's tensors are one axis.
//!
//! Two axes are in one class if a chain of ops maps one to the other, broadcasts included: nvFuser's
//! `IdModel` with its BROADCAST graph. Union-find with path halving, joined by size: near linear.

use crate::axes::logical_axes;
use crate::ir::{OpId, Program, TensorId};

/// Classes of axes. Positions are logical, reductions included.
#[derive(Debug)]
pub struct AxisMap {
    /// The first node of each tensor; one more at the end.
    starts: Vec<u32>,
    parents: Vec<u32>,
    /// Printed position of each node's axis.
    printed: Vec<u32>,
    /// Whether each tensor's axes are made by splits.
    split: Vec<bool>,
}

/// An axis of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedAxis {
    /// Logical position, reductions included.
    pub axis: u32,
    /// Position among the printed domains; `u32::MAX` for an axis given by `logical=`.
    pub printed: u32,
}

impl AxisMap {
    /// The classes that the given ops make.
    pub fn new(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Self {
        Self::by_links(program, ops, true)
    }
    /// The classes without broadcasts: all axes of a class have one extent.
    pub fn exact(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Self {
        Self::by_links(program, ops, false)
    }

    fn by_links(program: &Program, ops: impl IntoIterator<Item = OpId>, broadcasts: bool) -> Self {
        let mut map = Self::nodes(program);
        let mut sizes = vec![1u32; map.parents.len()];
        let mut links = Vec::new();
        for op in ops {
            links.clear();
            program.op(op).kind.spec().axes(program, op, &mut links);
            for link in links.iter().filter(|link| broadcasts || !link.broadcast) {
                if let (Some(a), Some(b)) = (map.node(link.from), map.node(link.to)) {
                    map.join(a, b, &mut sizes);
                }
            }
        }
        for node in 0..map.parents.len() as u32 {
            map.parents[node as usize] = map.root(node);
        }
        map
    }

    /// One class an axis.
    fn nodes(program: &Program) -> Self {
        let count = program.tensors().len();
        let (mut starts, mut split) = (Vec::with_capacity(count + 1), Vec::with_capacity(count));
        let mut printed = Vec::new();
        for tensor in program.tensors().ids() {
            starts.push(printed.len() as u32);
            let axes = logical_axes(program, tensor);
            split.push(axes.split);
            printed.extend(axes.axes.iter().map(|axis| axis.printed));
        }
        starts.push(printed.len() as u32);
        Self { starts, parents: (0..printed.len() as u32).collect(), printed, split }
    }

    /// The class of an axis; `None` for a tensor made later than the map, or an axis it does not have.
    pub fn class(&self, tensor: TensorId, axis: u32) -> Option<u32> {
        Some(self.parents[self.node((tensor, axis))? as usize])
    }
    /// The axes of a tensor that are in a class.
    pub fn of_class(&self, tensor: TensorId, class: u32) -> impl Iterator<Item = MappedAxis> {
        self.nodes_of(tensor)
            .filter(move |&(_, node)| self.parents[node as usize] == class)
            .map(|(axis, node)| MappedAxis { axis, printed: self.printed[node as usize] })
    }
    /// Printed positions of a tensor's axes, in the order of the axes.
    pub fn printed(&self, tensor: TensorId) -> impl Iterator<Item = u32> {
        self.nodes_of(tensor).map(|(_, node)| self.printed[node as usize])
    }
    /// Whether the axes of a tensor are made by splits, and so claim nothing.
    pub fn is_split(&self, tensor: TensorId) -> bool {
        self.split.get(tensor.0 as usize).copied().unwrap_or(false)
    }

    fn nodes_of(&self, tensor: TensorId) -> impl Iterator<Item = (u32, u32)> + use<> {
        let at = tensor.0 as usize;
        let bound = |at: usize| self.starts.get(at).copied();
        let (start, end) = bound(at).zip(bound(at + 1)).unwrap_or((0, 0));
        (start..end).map(move |node| (node - start, node))
    }

    fn node(&self, (tensor, axis): (TensorId, u32)) -> Option<u32> {
        let start = self.starts.get(tensor.0 as usize)?;
        let node = start + axis;
        (node < *self.starts.get(tensor.0 as usize + 1)?).then_some(node)
    }

    fn root(&mut self, mut node: u32) -> u32 {
        while self.parents[node as usize] != node {
            let up = self.parents[self.parents[node as usize] as usize];
            self.parents[node as usize] = up;
            node = up;
        }
        node
    }

    fn join(&mut self, a: u32, b: u32, sizes: &mut [u32]) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (root, child) = if sizes[a as usize] >= sizes[b as usize] { (a, b) } else { (b, a) };
        self.parents[child as usize] = root;
        sizes[root as usize] += sizes[child as usize];
    }
}
