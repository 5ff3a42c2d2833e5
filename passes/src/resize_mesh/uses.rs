//! The scalars of a program with their places and the loops around them.

use hostir::ir::scalar_names::loop_index;
use hostir::ir::{AttrKey, AttrValue, BlockId, ExprId, Op, OpId, ParallelType, Program, Symbol, TensorId, Value};
use smallvec::SmallVec;

/// The purpose of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarRole {
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
    /// A condition, or another value that the host computes.
    Other,
}

/// The place of a scalar in an op.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScalarSlot {
    Operand(usize),
    Attr(AttrKey),
}

/// One scalar of an op.
#[derive(Clone)]
pub(super) struct ScalarUse {
    pub(super) op: OpId,
    slot: ScalarSlot,
    pub(super) kind: ScalarRole,
    pub(super) expr: ExprId,
    /// The loops around it, innermost last: index and number.
    pub(super) loops: SmallVec<[(Symbol, u32); 2]>,
}

impl ScalarUse {
    /// Puts another scalar in its place.
    pub(super) fn put_expr(&self, op: &mut Op, expr: ExprId) {
        match self.slot {
            ScalarSlot::Operand(at) => {
                if let Some(Value::Scalar(slot) | Value::Stream(slot)) = op.operands.get_mut(at) {
                    *slot = expr;
                }
            }
            ScalarSlot::Attr(key) => op.set_attr(key, &AttrValue::Expr(expr)),
        }
    }
    /// The innermost loop of that index.
    pub(super) fn innermost_loop(&self, name: Symbol) -> Option<u32> {
        self.loops.iter().rev().find(|(index, _)| *index == name).map(|(_, number)| *number)
    }
}

/// Everything that is part of the program.
pub(super) struct ReachableItems {
    /// All ops; those of a HostUnit at its first PostOnStream.
    pub(super) ops: Vec<OpId>,
    /// All tensors, in the order of their numbers in the arena.
    pub(super) tensors: Vec<TensorId>,
    /// All loops.
    pub(super) loops: Vec<OpId>,
    /// Their scalars.
    pub(super) uses: Vec<ScalarUse>,
}

impl ReachableItems {
    pub(super) fn new(program: &Program) -> Self {
        let mut walk = ScalarWalk {
            program,
            out: Self { ops: Vec::new(), tensors: Vec::new(), loops: Vec::new(), uses: Vec::new() },
            scope: SmallVec::new(),
            units: vec![false; program.units().len()],
            seen: vec![false; program.tensors().len()],
        };
        walk.walk_values(program.inputs());
        walk.walk_values(program.outputs());
        if let Some(block) = program.index_definitions() {
            walk.walk_block(block);
        }
        walk.walk_block(program.body());
        for (_, unit) in program.units().iter() {
            walk.walk_unit(unit.number);
        }
        let ScalarWalk { mut out, seen, .. } = walk;
        out.tensors = program.tensors().ids().filter(|t| seen[t.0 as usize]).collect();
        out
    }
}

struct ScalarWalk<'a> {
    program: &'a Program,
    out: ReachableItems,
    scope: SmallVec<[(Symbol, u32); 2]>,
    units: Vec<bool>,
    seen: Vec<bool>,
}

impl ScalarWalk<'_> {
    fn walk_values(&mut self, values: &[Value]) {
        for tensor in values.iter().filter_map(|value| value.as_tensor()) {
            self.seen[tensor.0 as usize] = true;
        }
    }

    fn walk_unit(&mut self, number: u32) {
        let Some(id) = self.program.unit_by_number(number) else { return };
        if std::mem::replace(&mut self.units[id.0 as usize], true) {
            return;
        }
        let unit = &self.program.units()[id];
        self.walk_values(&unit.inputs);
        self.walk_values(&unit.outputs);
        let scope = std::mem::take(&mut self.scope);
        self.walk_block(unit.body);
        self.scope = scope;
    }

    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            self.walk_op(id);
        }
    }

    fn walk_op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        self.out.ops.push(id);
        self.walk_values(&op.operands);
        self.walk_values(&op.results);
        let index = if op.blocks.is_empty() { None } else { loop_index(program, op) };
        let number = self.out.loops.len() as u32;
        if index.is_some() {
            self.out.loops.push(id);
        }
        for (at, value) in op.operands.iter().enumerate() {
            match *value {
                Value::Stream(expr) => self.add_use(id, ScalarSlot::Operand(at), ScalarRole::Stream, expr),
                Value::Scalar(expr) => {
                    if let Some(kind) = operand_kind(program, op) {
                        self.add_use(id, ScalarSlot::Operand(at), kind, expr);
                    }
                }
                Value::Op(inner) => self.walk_op(inner),
                Value::Unit(unit) => self.walk_unit(unit),
                Value::Tensor(_) | Value::Handle(_) => {}
            }
        }
        for (key, value) in &op.attrs {
            if let AttrValue::Expr(expr) = value
                && let Some(kind) = attr_kind(program, op, *key, number)
            {
                self.add_use(id, ScalarSlot::Attr(*key), kind, *expr);
            }
        }
        self.scope.extend(index.map(|name| (name, number)));
        for &block in &op.blocks {
            self.walk_block(block);
        }
        if index.is_some() {
            self.scope.pop();
        }
    }

    fn add_use(&mut self, op: OpId, slot: ScalarSlot, kind: ScalarRole, expr: ExprId) {
        let loops = self.scope.clone();
        self.out.uses.push(ScalarUse { op, slot, kind, expr, loops });
    }
}

/// The role of an op's scalar operands: those of element-wise computations count nothing.
fn operand_kind(program: &Program, op: &Op) -> Option<ScalarRole> {
    let defined = op.results.first().and_then(|value| value.as_scalar());
    match defined.and_then(|expr| program.exprs().as_name(expr)) {
        Some(name) => Some(ScalarRole::Define(name)),
        None if op.kind.is_control() => Some(ScalarRole::Other),
        None => None,
    }
}

fn attr_kind(program: &Program, op: &Op, key: AttrKey, number: u32) -> Option<ScalarRole> {
    let is_loop = !op.blocks.is_empty();
    Some(match key {
        AttrKey::Index if !is_loop => ScalarRole::Slice(op.input_tensors().next()?, selected_position(program, op)),
        AttrKey::StreamIndex => ScalarRole::Slice(op.input_tensors().next()?, stream_axis_position(program, op)),
        AttrKey::Peer | AttrKey::SendPeer | AttrKey::RecvPeer => ScalarRole::Peer,
        AttrKey::Root => ScalarRole::Root,
        AttrKey::Start if is_loop => ScalarRole::Start(number),
        AttrKey::Stop if is_loop => ScalarRole::Stop(number),
        AttrKey::Step if is_loop => ScalarRole::Step(number),
        AttrKey::NumExperts => ScalarRole::Other,
        _ => return None,
    })
}

/// The printed position of a select's axis.
fn selected_position(program: &Program, op: &Op) -> Option<u32> {
    let tensor = program.tensor(op.input_tensors().next()?);
    let domain = op.domain_attr(AttrKey::Axis)?;
    let range = tensor.domains_start..tensor.domains_end;
    range.contains(&domain.0).then(|| domain.0 - tensor.domains_start)
}

/// The printed position of the result's stream axis: the axis of the operand at its place.
fn stream_axis_position(program: &Program, op: &Op) -> Option<u32> {
    let domains = program.domains(op.output_tensors().next()?);
    let at = domains.iter().position(|domain| domain.parallel == ParallelType::Stream)?;
    u32::try_from(at).ok()
}

/// From how many devices to how many.
#[derive(Clone, Copy)]
pub(super) struct DeviceCounts {
    pub(super) old: i64,
    pub(super) new: i64,
}
