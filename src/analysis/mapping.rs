//! Which axes of a program's tensors are one axis.
//!
//! Two axes are in one class if a chain of ops maps one to the other, broadcasts included: nvFuser's
//! `IdModel` with its BROADCAST graph. Union-find with path halving, joined by size: near linear.

use crate::ir::{OpId, Program, TensorId};

/// Classes of axes. Positions are logical, reductions included.
#[derive(Debug)]
pub struct AxisMap {
    /// The first node of each tensor; one more at the end.
    starts: Vec<u32>,
    parents: Vec<u32>,
}

impl AxisMap {
    /// The classes that the given ops make.
    pub fn new(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Self {
        let mut starts = Vec::with_capacity(program.tensors().len() + 1);
        let mut nodes = 0;
        for tensor in program.tensors().ids() {
            starts.push(nodes);
            let logical = program.tensor(tensor).logical.as_ref().map(|axes| axes.len());
            nodes += logical.unwrap_or_else(|| program.domains(tensor).len()) as u32;
        }
        starts.push(nodes);
        let mut map = Self { starts, parents: (0..nodes).collect() };
        let mut sizes = vec![1u32; nodes as usize];
        let mut links = Vec::new();
        for op in ops {
            links.clear();
            (program.op(op).kind.spec().axes)(program, op, &mut links);
            for link in &links {
                if let (Some(a), Some(b)) = (map.node(link.from), map.node(link.to)) {
                    map.join(a, b, &mut sizes);
                }
            }
        }
        map
    }
    /// The class of an axis; `None` for a tensor made later than the map, or an axis it does not have.
    pub fn class(&self, tensor: TensorId, axis: u32) -> Option<u32> {
        Some(self.find(self.node((tensor, axis))?))
    }

    fn node(&self, (tensor, axis): (TensorId, u32)) -> Option<u32> {
        let start = self.starts.get(tensor.0 as usize)?;
        let node = start + axis;
        (node < *self.starts.get(tensor.0 as usize + 1)?).then_some(node)
    }

    fn find(&self, mut node: u32) -> u32 {
        while self.parents[node as usize] != node {
            node = self.parents[node as usize];
        }
        node
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
