//! Sizes that only a loop ties to others.
//!
//! Of a program before it was cut into slices, ops say which extents are equal (`T1 = Set( T0 )`); of the
//! slices they do not. Two things about a loop over a whole domain say it again: it selects slice `i` of an
//! axis, with its index as it is or turned by the rank, and so goes along that axis; or its index names peers or roots of
//! communications, and so it goes along the devices. Both are conventions, not laws: they give a size to what
//! has none otherwise, and never contradict.

use super::{Known, Solver, evaluate};
use crate::ir::Definitions;
use crate::ir::Effect;
use crate::ir::scalar_names::loop_index;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, BlockId, Expr, ExprId, OpId, Program, Symbol, TensorId,
};
use crate::plan::Env;

/// What a loop goes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Along {
    /// An axis of a tensor, by its place among the printed domains.
    Axis(u32),
    /// So many devices.
    Devices(i64),
}

/// A loop over a whole domain, and what it goes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tie {
    /// The extent of the loop's domain.
    extent: ExprId,
    /// The tensor that is sliced or communicated.
    tensor: TensorId,
    along: Along,
}

/// The ties of all loops, in program order.
fn ties(program: &Program) -> Vec<Tie> {
    let definitions = Definitions::new(program);
    let mut loops = Loops { program, definitions, open: Vec::new(), found: Vec::new() };
    loops.visit(program.body());
    loops.found
}

/// A walk over the loops of a program.
struct Loops<'p> {
    program: &'p Program,
    definitions: Definitions,
    /// The loops around a statement: index, and extent if the loop covers a domain.
    open: Vec<(Symbol, Option<ExprId>)>,
    found: Vec<Tie>,
}

impl Loops<'_> {
    fn visit(&mut self, block: BlockId) {
        let program = self.program;
        for &id in &program.block(block).ops {
            if !self.open.is_empty() {
                let tie = self.slice(id).or_else(|| self.peers(id));
                self.found.extend(tie);
            }
            let op = program.op(id);
            let index = loop_index(program, op).filter(|_| !op.blocks.is_empty());
            if let Some(index) = index {
                let bounded = [AttrKey::Start, AttrKey::Stop, AttrKey::Step];
                let whole = bounded.iter().all(|&key| op.attr(key).is_none());
                let domain = op.domain(AttrKey::Domain).filter(|_| whole);
                self.open.push((index, domain.map(|domain| program.domain(domain).extent)));
            }
            for &inner in &op.blocks {
                self.visit(inner);
            }
            if index.is_some() {
                self.open.pop();
            }
        }
    }

    /// A select with the bare index of a loop around it, or with the index in another order: `( rank + i ) % n`,
    /// n the loop's extent.
    fn slice(&self, id: OpId) -> Option<Tie> {
        let program = self.program;
        let op = program.op(id);
        if op.kind.effect() != Effect::Alias {
            return None;
        }
        let index = self.definitions.expand(program, op.expr(AttrKey::Index)?);
        let goes = |(name, extent): &&(Symbol, Option<ExprId>)| match *program.expr(index) {
            Expr::Name(found) => found == *name,
            Expr::Binary(BinaryOp::Mod, inner, count) => {
                Some(count) == *extent && self.definitions.depends(program, inner, *name)
            }
            _ => false,
        };
        let (_, extent) = self.open.iter().rev().find(goes)?;
        let Some(AttrValue::Domain(domain)) = op.attr(AttrKey::Axis) else { return None };
        let tensor = op.input_tensors().next()?;
        let printed = domain.0.checked_sub(program.tensor(tensor).domains_start)?;
        Some(Tie { extent: (*extent)?, tensor, along: Along::Axis(printed) })
    }

    /// A communication whose peer or root is computed from the index of a loop around it.
    fn peers(&self, id: OpId) -> Option<Tie> {
        let program = self.program;
        let op = program.op(id);
        let rank = op.expr(AttrKey::Peer).or_else(|| op.expr(AttrKey::Root))?;
        let looped =
            |(name, _): &&(Symbol, Option<ExprId>)| self.definitions.depends(program, rank, *name);
        let (_, extent) = self.open.iter().rev().find(looped)?;
        let tensor = op.input_tensors().chain(op.output_tensors()).next()?;
        let team = op.ints(AttrKey::Team).map(<[i64]>::len);
        let count = team.or_else(|| program.tensor_mesh(tensor).map(|mesh| mesh.devices.len()))?;
        let along = Along::Devices(i64::try_from(count).ok()?);
        Some(Tie { extent: (*extent)?, tensor, along })
    }
}

impl Solver<'_> {
    /// Gives one thing that has no value the one that a loop says it has; whether there is one.
    pub(super) fn follow_loops(&mut self, env: &Env) -> bool {
        let ties = self.ties.take().unwrap_or_else(|| ties(self.program));
        // What follows from it comes first: a loop is the weakest of all reasons.
        let progress = ties.iter().any(|tie| self.follow(tie, env));
        self.ties = Some(ties);
        progress
    }

    fn follow(&mut self, tie: &Tie, env: &Env) -> bool {
        let looped = evaluate(self.program, env, None, tie.extent).ok();
        let name = self.program.tensor_name(tie.tensor);
        let (node, value, why) = match tie.along {
            Along::Devices(count) => match (looped, self.program.expr(tie.extent)) {
                (None, Expr::Name(extent)) => {
                    let why = format!("a loop goes along {count} devices");
                    (self.name_node(None, *extent), count, why)
                }
                _ => return false,
            },
            Along::Axis(printed) => {
                let axes = self.axes.of(tie.tensor);
                let axis = axes.iter().position(|axis| axis.printed == printed);
                let axis = axis.filter(|&axis| !axes[axis].is_broadcast());
                let Some(node) = axis.and_then(|axis| self.axis_node(tie.tensor, axis as u32))
                else {
                    return false;
                };
                let root = self.root(node) as usize;
                let value = self.known[root].as_ref().map(|known| known.value);
                let why = format!("a loop takes {name} slice by slice");
                match (value, looped, self.program.expr(tie.extent)) {
                    (None, Some(looped), _) => (node, looped, why),
                    (Some(value), None, Expr::Name(extent)) => {
                        (self.name_node(None, *extent), value, why)
                    }
                    _ => return false,
                }
            }
        };
        let span = Some(self.span(tie.tensor));
        self.fix(node, Known { value, span, why });
        true
    }
}
