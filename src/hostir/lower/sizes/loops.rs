//! Sizes that only a loop ties to others.
//!
//! Before a program is cut into slices, ops state which extents are equal (`T1 = Set( T0 )`); with slices they do not.
//! A loop over a whole domain states it again in two cases. If it selects slice `i` of an axis, with its index
//! unchanged or rotated by the rank, it runs along that axis; if its index names peers or roots of communications, it
//! runs along the devices. Both are conventions, not laws: they give a size to extents that have none otherwise, and
//! never contradict.

use super::{KnownSize, SizeSolver, SizeSource, evaluate_extent};
use crate::diag::message;
use crate::ir::scalar_names::loop_index;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, BlockId, Expr, ExprId, IndexDefinitions, OpEffect, OpId, Program, Symbol, TensorId,
};
use crate::plan::ExtentEnv;

/// The range that a loop follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoopTarget {
    /// An axis of a tensor, by its place among the printed domains.
    Axis(u32),
    /// So many devices.
    Devices(i64),
}

/// A loop over a whole domain, and the axis or devices that it runs along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LoopTie {
    /// The extent of the loop's domain.
    extent: ExprId,
    /// The tensor that is sliced or communicated.
    tensor: TensorId,
    along: LoopTarget,
}

/// The ties of all loops, in program order.
fn loop_ties(program: &Program) -> Vec<LoopTie> {
    let definitions = IndexDefinitions::new(program);
    let mut loops = LoopWalk { program, definitions, open: Vec::new(), found: Vec::new() };
    loops.visit_block(program.body());
    loops.found
}

/// A walk over the loops of a program.
struct LoopWalk<'p> {
    program: &'p Program,
    definitions: IndexDefinitions,
    /// The loops around a statement: index, and extent if the loop covers a domain.
    open: Vec<(Symbol, Option<ExprId>)>,
    found: Vec<LoopTie>,
}

impl LoopWalk<'_> {
    fn visit_block(&mut self, block: BlockId) {
        let program = self.program;
        for &id in &program.block(block).ops {
            if !self.open.is_empty() {
                let tie = self.slice_tie(id).or_else(|| self.peer_tie(id));
                self.found.extend(tie);
            }
            let op = program.op(id);
            let index = loop_index(program, op).filter(|_| !op.blocks.is_empty());
            if let Some(index) = index {
                let bounded = [AttrKey::Start, AttrKey::Stop, AttrKey::Step];
                let whole = bounded.iter().all(|&key| op.attr(key).is_none());
                let domain = op.domain_attr(AttrKey::Domain).filter(|_| whole);
                self.open.push((index, domain.map(|domain| program.domain(domain).extent)));
            }
            for &inner in &op.blocks {
                self.visit_block(inner);
            }
            if index.is_some() {
                self.open.pop();
            }
        }
    }

    /// A select with the bare index of an enclosing loop, or with the index in another order: `( rank + i ) % n`, n the
    /// loop's extent.
    fn slice_tie(&self, id: OpId) -> Option<LoopTie> {
        let program = self.program;
        let op = program.op(id);
        if op.kind.effect() != OpEffect::Alias {
            return None;
        }
        let index = self.definitions.expand_expr(program, op.expr_attr(AttrKey::Index)?);
        let (_, extent) = self.open.iter().rev().find(|(name, extent)| match *program.expr(index) {
            Expr::Name(found) => found == *name,
            Expr::Binary(BinaryOp::Mod, inner, count) => {
                Some(count) == *extent && self.definitions.depends_on(program, inner, *name)
            }
            _ => false,
        })?;
        let Some(AttrValue::Domain(domain)) = op.attr(AttrKey::Axis) else { return None };
        let tensor = op.input_tensors().next()?;
        let printed = domain.0.checked_sub(program.tensor(tensor).domains_start)?;
        Some(LoopTie { extent: (*extent)?, tensor, along: LoopTarget::Axis(printed) })
    }

    /// A communication whose peer or root depends on the index of an enclosing loop.
    fn peer_tie(&self, id: OpId) -> Option<LoopTie> {
        let program = self.program;
        let op = program.op(id);
        let rank = op.expr_attr(AttrKey::Peer).or_else(|| op.expr_attr(AttrKey::Root))?;
        let mut loops = self.open.iter().rev();
        let (_, extent) = loops.find(|(name, _)| self.definitions.depends_on(program, rank, *name))?;
        let tensor = op.input_tensors().chain(op.output_tensors()).next()?;
        let team = program.team_size(op);
        let count = team.or_else(|| program.tensor_mesh(tensor).map(|mesh| mesh.devices.len()))?;
        let along = LoopTarget::Devices(i64::try_from(count).ok()?);
        Some(LoopTie { extent: (*extent)?, tensor, along })
    }
}

impl SizeSolver<'_> {
    /// Gives one extent without a value the one that a loop implies; returns true if there was one.
    pub(super) fn follow_loops(&mut self, env: &ExtentEnv) -> bool {
        let ties = self.ties.take().unwrap_or_else(|| loop_ties(self.program));
        // Consequences come first: a loop is the weakest of all reasons.
        let progress = ties.iter().any(|tie| self.follow_tie(tie, env));
        self.ties = Some(ties);
        progress
    }

    fn follow_tie(&mut self, tie: &LoopTie, env: &ExtentEnv) -> bool {
        let looped = evaluate_extent(self.program, env, None, tie.extent).ok();
        let name = self.program.quoted_tensor(tie.tensor);
        let (node, value, why) = match tie.along {
            LoopTarget::Devices(count) => match (looped, self.program.expr(tie.extent)) {
                (None, Expr::Name(extent)) => {
                    let why = message!("a loop runs over {} devices", count);
                    (self.sizes.name_node(None, *extent), count, why)
                }
                _ => return false,
            },
            LoopTarget::Axis(printed) => {
                let axes = self.axes.axes_of(tie.tensor);
                let axis = axes.iter().position(|axis| axis.printed == printed);
                let axis = axis.filter(|&axis| !axes[axis].is_broadcast());
                let Some(node) = axis.and_then(|axis| self.axis_node(tie.tensor, axis as u32)) else {
                    return false;
                };
                let root = self.sizes.find_root(node) as usize;
                let value = self.sizes.known[root].as_ref().map(|known| known.value);
                let why = message!("a loop takes one slice of {} per iteration", name);
                match (value, looped, self.program.expr(tie.extent)) {
                    (None, Some(looped), _) => (node, looped, why),
                    (Some(value), None, Expr::Name(extent)) => (self.sizes.name_node(None, *extent), value, why),
                    _ => return false,
                }
            }
        };
        let span = Some(self.tensor_span(tie.tensor));
        self.sizes.fix_node(node, KnownSize { value, span, why: why.into(), source: SizeSource::Derived });
        true
    }
}
