//! Sizes of HostUnits that follow from their PostOnStream ops.

use super::{GivenExtent, KnownSize, SizeSolver, SizeSource, evaluate_extent};
use crate::diag::Message;
use crate::ir::{Expr, OpId, TensorId, UnitId, Value};
use crate::ops::launch::launch_call;
use crate::plan::ExtentEnv;

impl SizeSolver<'_> {
    /// Joins the axes of a unit's tensors with those of the operands of a PostOnStream.
    pub(super) fn link_unit(&mut self, op: OpId) {
        let Some(call) = launch_call(self.program, op) else { return };
        self.link_unit_scalars(op, call.unit);
        let unit = &self.program.units()[call.unit];
        let pairs = call.inputs.iter().zip(&unit.inputs).chain(call.outputs.iter().zip(&unit.outputs));
        let pairs: Vec<(TensorId, TensorId)> =
            pairs.filter_map(|(&outer, inner)| Some((outer, inner.as_tensor()?))).collect();
        for (outer, inner) in pairs {
            if self.axes.axes_of(outer).len() == self.axes.axes_of(inner).len() {
                for axis in 0..self.axes.axes_of(outer).len() as u32 {
                    self.link_axes(outer, axis, inner, axis);
                }
            }
        }
    }

    /// Gives a scalar input of a unit that is the extent of one of its tensors the value that a PostOnStream passes.
    fn link_unit_scalars(&mut self, post: OpId, unit: UnitId) {
        let program = self.program;
        for (outer, inner) in program.posted_inputs(program.op(post), unit) {
            let (Value::Scalar(value), Value::Scalar(inner)) = (outer, inner) else { continue };
            let Some(inner) = program.exprs().as_name(inner) else { continue };
            let Some(&node) = self.sizes.name_nodes.get(&(Some(unit), inner)) else { continue };
            let host = match program.expr(value) {
                Expr::Name(name) => self.sizes.name_nodes.get(&(None, *name)).copied(),
                _ => None,
            };
            match host {
                Some(host) => self.sizes.union_nodes(node, host),
                None => self.unit_scalars.push(GivenExtent { node, value, post }),
            }
        }
    }

    /// Gives extents of units the values of the expressions that PostOnStream ops pass; returns true if any is new.
    pub(super) fn solve_unit_scalars(&mut self, env: &ExtentEnv) -> bool {
        let mut progress = false;
        for given in std::mem::take(&mut self.unit_scalars) {
            let Ok(value) = evaluate_extent(self.program, env, None, given.value) else {
                self.unit_scalars.push(given);
                continue;
            };
            let root = self.sizes.find_root(given.node);
            progress |= self.sizes.known[root as usize].is_none();
            let span = Some(self.program.op_span(given.post));
            let why = Message::from("the operands of this `PostOnStream`");
            self.sizes.fix_node(given.node, KnownSize { value, span, why: why.into(), source: SizeSource::Derived });
        }
        progress
    }

    /// Gives a name of a HostUnit without another value (because it occurs only in `( i0 / 4 )`, say) the value of that
    /// name in the host program; returns true if there was one.
    pub(super) fn name_units(&mut self) -> bool {
        let mut progress = false;
        for index in 0..self.sizes.names.len() {
            let (unit, name, node) = self.sizes.names[index];
            let root = self.sizes.find_root(node) as usize;
            let host = self.sizes.name_nodes.get(&(None, name)).copied();
            if let (Some(_), Some(host), None) = (unit, host, &self.sizes.known[root]) {
                let host = self.sizes.find_root(host) as usize;
                progress |= self.sizes.known[host].is_some();
                self.sizes.known[root] = self.sizes.known[host].clone();
            }
        }
        progress
    }
}
