//! The tensors that may share memory, and the ways in which ops access them.
//!
//! The language is not SSA: a tensor may be bound by a view, allocated, and written several times. So
//! passes reason about *storage classes*: tensors that any view, alias or allocation ties together.
//! The classes ignore order and control flow, which errs on the side of sharing.

use crate::ir::OpEffect;
use crate::ir::{AttrKey, Id, Op, OpId, Partition, Program, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The way in which an op touches a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TensorAccess {
    /// Reads its elements.
    Read,
    /// Writes its elements.
    Write,
    /// May do both, now or until somebody waits.
    Both,
    /// Binds it to memory: a view or an allocation.
    Bind,
    /// Ends its life.
    Free,
    /// Names it without accessing its elements (the operand of a view).
    Name,
}

/// Calls `visit` for every tensor that `op` accesses, with the ops inside of it (`ShareMemHandles`), but not its
/// blocks.
pub fn visit_accesses(program: &Program, op: OpId, visit: &mut dyn FnMut(TensorId, TensorAccess)) {
    let op = program.op(op);
    let (operand, result) = match op.kind.effect() {
        OpEffect::Pure | OpEffect::Observe => (TensorAccess::Read, TensorAccess::Write),
        OpEffect::Alias | OpEffect::Allocate => (TensorAccess::Name, TensorAccess::Bind),
        OpEffect::Free => (TensorAccess::Free, TensorAccess::Free),
        OpEffect::Control(_) => (TensorAccess::Name, TensorAccess::Name),
        OpEffect::Communicate(_) => (TensorAccess::Read, TensorAccess::Both),
        OpEffect::Opaque if op.attr(AttrKey::Kernel).is_some() => (TensorAccess::Read, TensorAccess::Write),
        OpEffect::Stream(_) | OpEffect::Opaque => (TensorAccess::Both, TensorAccess::Both),
    };
    for tensor in attr_tensors(op) {
        visit(tensor, TensorAccess::Name);
    }
    for value in &op.operands {
        visit_value(program, *value, operand, visit);
    }
    for value in &op.results {
        visit_value(program, *value, result, visit);
    }
}

fn visit_value(program: &Program, value: Value, access: TensorAccess, visit: &mut dyn FnMut(TensorId, TensorAccess)) {
    match value {
        Value::Tensor(tensor) => visit(tensor, access),
        Value::Op(inner) => visit_accesses(program, inner, visit),
        Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) => {}
    }
}

fn attr_tensors(op: &Op) -> impl Iterator<Item = TensorId> + '_ {
    op.attrs.iter().filter_map(|(_, value)| value.tensor())
}

/// Storage classes.
#[derive(Clone)]
pub struct StorageClasses {
    classes: Partition,
}

impl StorageClasses {
    /// The classes of a program.
    pub fn from_program(program: &Program) -> Self {
        let mut storage = Self { classes: Partition::of_singletons(program.tensors().len()) };
        for (new, original) in program.aliases().unwrap_or_default() {
            storage.join_tensors(*new, *original);
        }
        visit_host_ops(program, &mut |id| {
            let op = program.op(id);
            if !matches!(op.kind.effect(), OpEffect::Alias | OpEffect::Allocate) {
                return;
            }
            let others = op.operands.iter().filter_map(|value| value.as_tensor());
            for other in others.chain(attr_tensors(op)) {
                for result in op.output_tensors() {
                    storage.join_tensors(result, other);
                }
            }
        });
        storage
    }
    /// The class of a tensor, as the index of one of its tensors.
    pub fn class_of(&mut self, tensor: TensorId) -> usize {
        self.classes.find_class(tensor.0) as usize
    }
    fn join_tensors(&mut self, a: TensorId, b: TensorId) {
        self.classes.join_classes(a.0, b.0);
    }
}

/// Visits every op of the host program in text order: index definitions, then the body. HostUnits are name spaces of
/// their own, which it does not visit.
pub fn visit_host_ops(program: &Program, visit: &mut dyn FnMut(OpId)) {
    if let Some(block) = program.index_definitions() {
        program.walk(block, visit);
    }
    program.walk(program.body(), visit);
}

/// Tensors that the caller sees: those among the inputs and outputs, and in the table of aliases.
pub fn interface_tensors(program: &Program) -> impl Iterator<Item = TensorId> + '_ {
    let aliases = program.aliases().unwrap_or_default().iter().flat_map(|(a, b)| [*a, *b]);
    let values = program.inputs().iter().chain(program.outputs());
    values.filter_map(|value| value.as_tensor()).chain(aliases)
}

/// Tensors that a scalar names anywhere: `getMetaData(T)`, the extents of a ragged axis.
pub fn described_tensors(program: &Program) -> impl Iterator<Item = TensorId> + '_ {
    let exprs = program.exprs();
    (0..exprs.len()).filter_map(|index| exprs.get(crate::ir::ExprId::new(index)).named_tensor())
}

/// True if a text names a tensor: by its number, or by the user's name.
pub fn is_tensor_name(program: &Program, tensor: TensorId, text: &str) -> bool {
    text == format!("T{}", program.tensor(tensor).number) || text == program.tensor_name(tensor)
}

/// The number of mentions of each tensor: one for each access of an op, each place among inputs, outputs and aliases,
/// and each `getMetaData`.
pub fn count_mentions(program: &Program) -> FxHashMap<TensorId, usize> {
    let mut mentions: FxHashMap<TensorId, usize> = FxHashMap::default();
    let seen = interface_tensors(program).chain(described_tensors(program));
    seen.for_each(|tensor| *mentions.entry(tensor).or_default() += 1);
    visit_host_ops(program, &mut |op| {
        visit_accesses(program, op, &mut |tensor, _| *mentions.entry(tensor).or_default() += 1);
    });
    mentions
}

/// The tensors that an ALLOCATE gives memory.
pub fn allocated_tensors(program: &Program) -> FxHashSet<TensorId> {
    let mut found = FxHashSet::default();
    visit_host_ops(program, &mut |op| {
        if program.op(op).kind.effect() == OpEffect::Allocate {
            found.extend(program.op(op).output_tensors());
        }
    });
    found
}
