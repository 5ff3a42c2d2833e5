//! `launch`: kernels of the user.

use super::ProgramWriter;
use crate::ir::{ExprId, Op, TensorId, Value};
use crate::ops::user_launch::{LaunchParts, launch_parts};

impl ProgramWriter<'_> {
    /// Returns true if the launch has all its parts, and its reference has a name.
    pub(super) fn can_write_launch(&self, op: &Op) -> bool {
        launch_parts(op).is_some_and(|parts| parts.reference.is_none() || self.reference_name(op).is_some())
    }

    fn reference_name(&self, op: &Op) -> Option<&str> {
        let unit = self.program.posted_unit(op)?;
        self.units.get(unit.0 as usize).map(|name| &**name)
    }

    /// `launch "axpy.cu"::axpy[grid, block, shared](A, n, C) reads(A) writes(C)`
    pub(super) fn write_launch(&mut self, op: &Op) {
        let Some(parts) = launch_parts(op) else { return };
        let reference = self.reference_name(op).map(str::to_owned);
        self.push("launch \"");
        self.push(self.program.name(parts.file));
        self.push("\"::");
        self.push(self.program.name(parts.entry));
        self.write_launch_extents(&parts);
        self.push("(");
        self.write_operands(&parts.arguments);
        self.push(")");
        self.write_launch_reads(&parts.reads);
        self.write_launch_writes(op);
        if let Some(name) = reference {
            self.push(" reference=");
            self.push(&name);
        }
        if let Some(group) = parts.group {
            self.push(" group=");
            self.write_expr(group);
        }
    }

    /// `[grid, block, shared]`
    fn write_launch_extents(&mut self, parts: &LaunchParts) {
        self.push("[");
        self.write_extent_list(&parts.grid);
        self.push(", ");
        self.write_extent_list(&parts.block);
        if let Some(shared) = parts.shared {
            self.push(", ");
            self.write_expr(shared);
        }
        self.push("]");
    }

    fn write_extent_list(&mut self, extents: &[ExprId]) {
        if let [extent] = extents {
            return self.write_expr(*extent);
        }
        self.push("(");
        self.write_expr_list(extents);
        self.push(")");
    }

    fn write_launch_reads(&mut self, reads: &[TensorId]) {
        if reads.is_empty() {
            return;
        }
        self.push(" reads(");
        let values: Vec<Value> = reads.iter().map(|&tensor| Value::Tensor(tensor)).collect();
        self.write_operands(&values);
        self.push(")");
    }

    fn write_launch_writes(&mut self, op: &Op) {
        if op.results.is_empty() {
            return;
        }
        self.push(" writes(");
        self.write_targets(op);
        self.push(")");
    }
}
