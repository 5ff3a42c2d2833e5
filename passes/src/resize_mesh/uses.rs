//! The scalars of a program with their places and the loops around them.

use hostir::ir::Effect;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{
    AttrKey, AttrValue, BlockId, ExprId, Op, OpId, ParallelType, Program, Symbol, TensorId, Value,
};
use smallvec::SmallVec;

/// The purpose of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It picks a slice of a tensor along one of its printed domains.
    Slice(TensorId, Option<u32>),
    /// It names the other side of a message.
    Peer,
    /// It names the root of a communication.
    Root,
    /// It names a stream.
    Stream,
    /// It is where a loop starts (by number among the loops).
    Start(u32),
    /// It is where a loop stops.
    Stop(u32),
    /// It is how far a loop steps.
    Step(u32),
    /// It defines a name.
    Define(Symbol),
    /// A condition, or anything else that the host computes.
    Other,
}

/// The place of a scalar in an op.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Operand(usize),
    Attr(AttrKey),
}

/// One scalar of an op.
#[derive(Clone)]
pub(super) struct Use {
    pub(super) op: OpId,
    slot: Slot,
    pub(super) kind: Kind,
    pub(super) expr: ExprId,
    /// The loops around it, innermost last: index and number.
    pub(super) loops: SmallVec<[(Symbol, u32); 2]>,
}

impl Use {
    /// Puts another scalar in its place.
    pub(super) fn put(&self, op: &mut Op, expr: ExprId) {
        match self.slot {
            Slot::Operand(at) => {
                if let Some(Value::Scalar(slot) | Value::Stream(slot)) = op.operands.get_mut(at) {
                    *slot = expr;
                }
            }
            Slot::Attr(key) => op.set_attr(key, &AttrValue::Expr(expr)),
        }
    }
    /// The innermost loop of that index.
    pub(super) fn loop_of(&self, name: Symbol) -> Option<u32> {
        self.loops.iter().rev().find(|(index, _)| *index == name).map(|(_, number)| *number)
    }
}

/// Everything that is part of the program.
pub(super) struct Walked {
    /// All ops; those of a HostUnit where it is first posted.
    pub(super) ops: Vec<OpId>,
    /// All tensors, in the order of their numbers in the arena.
    pub(super) tensors: Vec<TensorId>,
    /// All loops.
    pub(super) loops: Vec<OpId>,
    /// Their scalars.
    pub(super) uses: Vec<Use>,
}

impl Walked {
    pub(super) fn new(program: &Program) -> Self {
        let mut walk = Walk {
            program,
            out: Self { ops: Vec::new(), tensors: Vec::new(), loops: Vec::new(), uses: Vec::new() },
            scope: SmallVec::new(),
            units: vec![false; program.units().len()],
            seen: vec![false; program.tensors().len()],
        };
        walk.values(program.inputs());
        walk.values(program.outputs());
        if let Some(block) = program.index_definitions() {
            walk.block(block);
        }
        walk.block(program.body());
        for (_, unit) in program.units().iter() {
            walk.unit(unit.number);
        }
        let Walk { mut out, seen, .. } = walk;
        out.tensors = program.tensors().ids().filter(|t| seen[t.0 as usize]).collect();
        out
    }
}

struct Walk<'a> {
    program: &'a Program,
    out: Walked,
    scope: SmallVec<[(Symbol, u32); 2]>,
    units: Vec<bool>,
    seen: Vec<bool>,
}

impl Walk<'_> {
    fn values(&mut self, values: &[Value]) {
        for tensor in values.iter().filter_map(|value| value.tensor()) {
            self.seen[tensor.0 as usize] = true;
        }
    }

    fn unit(&mut self, number: u32) {
        let Some(id) = self.program.unit_by_number(number) else { return };
        if std::mem::replace(&mut self.units[id.0 as usize], true) {
            return;
        }
        let unit = &self.program.units()[id];
        self.values(&unit.inputs);
        self.values(&unit.outputs);
        let scope = std::mem::take(&mut self.scope);
        self.block(unit.body);
        self.scope = scope;
    }

    fn block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            self.op(id);
        }
    }

    fn op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        self.out.ops.push(id);
        self.values(&op.operands);
        self.values(&op.results);
        let index = if op.blocks.is_empty() { None } else { loop_index(program, op) };
        let number = self.out.loops.len() as u32;
        if index.is_some() {
            self.out.loops.push(id);
        }
        for (at, value) in op.operands.iter().enumerate() {
            match *value {
                Value::Stream(expr) => self.found(id, Slot::Operand(at), Kind::Stream, expr),
                Value::Scalar(expr) => {
                    if let Some(kind) = operand_kind(program, op) {
                        self.found(id, Slot::Operand(at), kind, expr);
                    }
                }
                Value::Op(inner) => self.op(inner),
                Value::Unit(unit) => self.unit(unit),
                Value::Tensor(_) | Value::Handle(_) => {}
            }
        }
        for (key, value) in &op.attrs {
            if let AttrValue::Expr(expr) = value
                && let Some(kind) = attr_kind(program, op, *key, number)
            {
                self.found(id, Slot::Attr(*key), kind, *expr);
            }
        }
        self.scope.extend(index.map(|name| (name, number)));
        for &block in &op.blocks {
            self.block(block);
        }
        if index.is_some() {
            self.scope.pop();
        }
    }

    fn found(&mut self, op: OpId, slot: Slot, kind: Kind, expr: ExprId) {
        let loops = self.scope.clone();
        self.out.uses.push(Use { op, slot, kind, expr, loops });
    }
}

/// Scalars that ops compute with, element by element, count nothing.
fn operand_kind(program: &Program, op: &Op) -> Option<Kind> {
    let defined = op.results.first().and_then(|value| value.scalar());
    match defined.and_then(|expr| program.exprs().as_name(expr)) {
        Some(name) => Some(Kind::Define(name)),
        None if op.kind.effect() == Effect::Control => Some(Kind::Other),
        None => None,
    }
}

fn attr_kind(program: &Program, op: &Op, key: AttrKey, number: u32) -> Option<Kind> {
    let is_loop = !op.blocks.is_empty();
    Some(match key {
        AttrKey::Index if !is_loop => {
            Kind::Slice(op.input_tensors().next()?, selected(program, op))
        }
        AttrKey::StreamIndex => Kind::Slice(op.input_tensors().next()?, streamed(program, op)),
        AttrKey::Peer | AttrKey::SendPeer | AttrKey::RecvPeer => Kind::Peer,
        AttrKey::Root => Kind::Root,
        AttrKey::Start if is_loop => Kind::Start(number),
        AttrKey::Stop if is_loop => Kind::Stop(number),
        AttrKey::Step if is_loop => Kind::Step(number),
        AttrKey::NumExperts => Kind::Other,
        _ => return None,
    })
}

/// The printed position of a select's axis.
fn selected(program: &Program, op: &Op) -> Option<u32> {
    let tensor = program.tensor(op.input_tensors().next()?);
    let domain = op.domain(AttrKey::Axis)?;
    let range = tensor.domains_start..tensor.domains_end;
    range.contains(&domain.0).then(|| domain.0 - tensor.domains_start)
}

/// The printed position of the result's stream axis: the axis of the operand at its place.
fn streamed(program: &Program, op: &Op) -> Option<u32> {
    let domains = program.domains(op.output_tensors().next()?);
    let at = domains.iter().position(|domain| domain.parallel == ParallelType::Stream)?;
    u32::try_from(at).ok()
}

/// From how many devices to how many.
#[derive(Clone, Copy)]
pub(super) struct Devices {
    pub(super) old: i64,
    pub(super) new: i64,
}
