//! The old and new extents of the classes of axes.

use super::classes::AxisClasses;
use super::uses::{DeviceCounts, ReachableItems};
use hostir::axes::logical_axes;
use hostir::ir::scalar_names::sub_expressions;
use hostir::ir::{Expr, ExprId, Program, TensorId};

/// resize-mesh: an extent that cannot change with the number of devices.
pub(super) const RESIZE_EXTENT: &str = "H0385";

/// The extents of classes, by root.
pub(super) struct ClassExtents<'a> {
    pub(super) classes: &'a AxisClasses,
    pub(super) devices: DeviceCounts,
    /// The literal extent in the program.
    pub(super) old: Vec<Option<i64>>,
    /// The extent from now on, where it is known.
    pub(super) new: Vec<Option<i64>>,
    /// By class: true if an extent that contains the number of devices follows it.
    pub(super) follows: Vec<bool>,
}

impl<'a> ClassExtents<'a> {
    /// The literal extents: new ones of devices, and those of inputs.
    pub(super) fn of_literals(
        program: &Program,
        walked: &ReachableItems,
        classes: &'a AxisClasses,
        devices: DeviceCounts,
    ) -> Self {
        let (old, new) = (vec![None; classes.len()], vec![None; classes.len()]);
        let follows = vec![false; classes.len()];
        let mut sizes = Self { classes, devices, old, new, follows };
        for &tensor in &walked.tensors {
            for (axis, k) in logical_axes(program, tensor).axes.iter().zip(0..) {
                let root = sizes.axis_root(tensor, k);
                let counts = sizes.classes.counts_devices(root as u32);
                let literal = program.exprs().as_int(axis.extent);
                let literal = literal.or(counts.then_some(sizes.devices.old));
                sizes.old[root] = sizes.old[root].or(literal);
                if counts {
                    sizes.new[root] = Some(sizes.devices.new);
                }
            }
        }
        for tensor in program.inputs().iter().filter_map(|value| value.as_tensor()) {
            for k in 0..logical_axes(program, tensor).axes.len() as u32 {
                let root = sizes.axis_root(tensor, k);
                sizes.new[root] = sizes.new[root].or(sizes.old[root]);
            }
        }
        sizes
    }

    /// The class of an axis.
    pub(super) fn axis_root(&self, tensor: TensorId, axis: u32) -> usize {
        self.classes.class_root(self.classes.axis_node(tensor, axis)) as usize
    }
    /// The new extent of a class whose literal extent is `old`, if it changes.
    pub(super) fn new_extent(&self, root: usize, old: i64) -> Option<i64> {
        self.new[root].filter(|&new| self.old[root] == Some(old) && new != old)
    }
    /// True if the extent of an axis is a literal and changes.
    pub(super) fn has_changed_extent(&self, program: &Program, tensor: TensorId, axis: u32) -> bool {
        let axes = logical_axes(program, tensor).axes;
        let literal = axes.get(axis as usize).and_then(|axis| program.exprs().as_int(axis.extent));
        literal.is_some_and(|old| self.new_extent(self.axis_root(tensor, axis), old).is_some())
    }
}

/// Counts the occurrences of a literal in a scalar.
pub(super) fn count_literal(program: &Program, expr: ExprId, literal: i64) -> usize {
    match program.expr(expr) {
        Expr::Int(value) => usize::from(*value == literal),
        other => sub_expressions(other).iter().map(|&part| count_literal(program, part, literal)).sum(),
    }
}
