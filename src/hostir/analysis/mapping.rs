//! The axis map: classes of corresponding axes of a program's tensors.
//!
//! Two axes are in one class if a chain of ops maps one to the other, broadcasts included: nvFuser's
//! `IdModel` with its BROADCAST graph.

use crate::axes::logical_axes;
use crate::ir::{OpId, Partition, Program, TensorId};

/// Classes of axes. Positions are logical, reductions included.
#[derive(Debug)]
pub struct AxisMap {
    /// The first node of each tensor, and the number of nodes at the end.
    starts: Vec<u32>,
    /// By node: the class of its axis.
    classes: Vec<u32>,
    /// Printed position of each node's axis.
    printed: Vec<u32>,
    /// For each tensor: true if splits made its axes.
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
        Self::from_links(program, ops, true)
    }
    /// The classes without broadcasts: all axes of a class have one extent.
    pub fn exact_classes(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Self {
        Self::from_links(program, ops, false)
    }

    fn from_links(program: &Program, ops: impl IntoIterator<Item = OpId>, broadcasts: bool) -> Self {
        let mut map = Self::singleton_classes(program);
        let mut classes = Partition::of_singletons(map.printed.len());
        let mut links = Vec::new();
        for op in ops {
            links.clear();
            program.op(op).kind.spec().axes(program, op, &mut links);
            for link in links.iter().filter(|link| broadcasts || !link.broadcast) {
                if let (Some(a), Some(b)) =
                    (map.axis_node(link.from.0, link.from.1), map.axis_node(link.to.0, link.to.1))
                {
                    classes.join_classes(a, b);
                }
            }
        }
        map.classes = classes.into_classes();
        map
    }

    /// The nodes of all axes, without their classes.
    fn singleton_classes(program: &Program) -> Self {
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
        Self { starts, classes: Vec::new(), printed, split }
    }

    /// The class of an axis; `None` for a tensor that was created after the map, or an axis that it does not have.
    pub fn class_of(&self, tensor: TensorId, axis: u32) -> Option<u32> {
        Some(self.classes[self.axis_node(tensor, axis)? as usize])
    }
    /// The axes of a tensor that are in a class.
    pub fn axes_of_class(&self, tensor: TensorId, class: u32) -> impl Iterator<Item = MappedAxis> {
        self.tensor_nodes(tensor)
            .filter(move |&(_, node)| self.classes[node as usize] == class)
            .map(|(axis, node)| MappedAxis { axis, printed: self.printed[node as usize] })
    }
    /// Printed positions of a tensor's axes, in the order of the axes.
    pub fn printed_positions(&self, tensor: TensorId) -> impl Iterator<Item = u32> {
        self.tensor_nodes(tensor).map(|(_, node)| self.printed[node as usize])
    }
    /// Returns true if splits make the axes of a tensor, which therefore carry no claim.
    pub fn is_split(&self, tensor: TensorId) -> bool {
        self.split.get(tensor.0 as usize).copied().unwrap_or(false)
    }

    fn tensor_nodes(&self, tensor: TensorId) -> impl Iterator<Item = (u32, u32)> + use<> {
        let at = tensor.0 as usize;
        let bounds = self.starts.get(at).zip(self.starts.get(at + 1));
        let (start, end) = bounds.map_or((0, 0), |(&start, &end)| (start, end));
        (start..end).map(move |node| (node - start, node))
    }

    fn axis_node(&self, tensor: TensorId, axis: u32) -> Option<u32> {
        let start = self.starts.get(tensor.0 as usize)?;
        let node = start + axis;
        (node < *self.starts.get(tensor.0 as usize + 1)?).then_some(node)
    }
}
