//! Which tensors may share memory, and how ops touch them.
//!
//! The language is not SSA: a tensor may be bound by a view, allocated, and written several times. So
//! passes reason about *storage classes*: tensors that any view, alias or allocation ties together.
//! The classes ignore order and control flow, which errs on the side of sharing.

use hostir::ir::Effect;
use hostir::ir::{Id, Op, OpId, Partition, Program, TensorId, Value};

/// The way in which an op touches a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
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
    /// Names it without touching its elements (the operand of a view).
    Name,
}

/// Calls `visit` for every tensor that `op` touches, ops inside of it (`ShareMemHandles`) included,
/// its blocks not.
pub(crate) fn accesses(program: &Program, op: OpId, visit: &mut dyn FnMut(TensorId, Access)) {
    let op = program.op(op);
    let (operand, result) = match op.kind.effect() {
        Effect::Pure => (Access::Read, Access::Write),
        Effect::Alias | Effect::Allocate => (Access::Name, Access::Bind),
        Effect::Free => (Access::Free, Access::Free),
        Effect::Control => (Access::Name, Access::Name),
        Effect::Communicate => (Access::Read, Access::Both),
        Effect::Stream | Effect::Opaque => (Access::Both, Access::Both),
    };
    for tensor in tensors_of_attrs(op) {
        visit(tensor, Access::Name);
    }
    for value in &op.operands {
        visit_value(program, *value, operand, visit);
    }
    for value in &op.results {
        visit_value(program, *value, result, visit);
    }
}

fn visit_value(
    program: &Program,
    value: Value,
    access: Access,
    visit: &mut dyn FnMut(TensorId, Access),
) {
    match value {
        Value::Tensor(tensor) => visit(tensor, access),
        Value::Op(inner) => accesses(program, inner, visit),
        Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) => {}
    }
}

fn tensors_of_attrs(op: &Op) -> impl Iterator<Item = TensorId> + '_ {
    op.attrs.iter().filter_map(|(_, value)| value.tensor())
}

/// Storage classes.
#[derive(Clone)]
pub(crate) struct Storage {
    classes: Partition,
}

impl Storage {
    /// The classes of a program.
    pub(crate) fn of(program: &Program) -> Self {
        let mut storage = Self { classes: Partition::of_singletons(program.tensors().len()) };
        for (new, original) in program.aliases().unwrap_or_default() {
            storage.join(*new, *original);
        }
        walk_all(program, &mut |id| {
            let op = program.op(id);
            if !matches!(op.kind.effect(), Effect::Alias | Effect::Allocate) {
                return;
            }
            let others = op.operands.iter().filter_map(|value| value.tensor());
            for other in others.chain(tensors_of_attrs(op)) {
                for result in op.output_tensors() {
                    storage.join(result, other);
                }
            }
        });
        storage
    }
    /// The class of a tensor, as the index of one of its tensors.
    pub(crate) fn class(&mut self, tensor: TensorId) -> usize {
        self.classes.find_class(tensor.0) as usize
    }
    fn join(&mut self, a: TensorId, b: TensorId) {
        self.classes.join_classes(a.0, b.0);
    }
}

/// Visits every op of the host program in text order: index definitions, then the body. HostUnits are
/// name spaces of their own and not visited.
pub(crate) fn walk_all(program: &Program, visit: &mut dyn FnMut(OpId)) {
    if let Some(block) = program.index_definitions() {
        program.walk(block, visit);
    }
    program.walk(program.body(), visit);
}

/// Tensors that the caller sees: those among the inputs and outputs, and in the table of aliases.
pub(crate) fn interface(program: &Program) -> impl Iterator<Item = TensorId> + '_ {
    let aliases = program.aliases().unwrap_or_default().iter().flat_map(|(a, b)| [*a, *b]);
    let values = program.inputs().iter().chain(program.outputs());
    values.filter_map(|value| value.tensor()).chain(aliases)
}

/// Tensors that a `getMetaData(T)` names anywhere.
pub(crate) fn described(program: &Program) -> impl Iterator<Item = TensorId> + '_ {
    let exprs = program.exprs();
    (0..exprs.len()).filter_map(|index| match exprs.get(hostir::ir::ExprId::new(index)) {
        hostir::ir::Expr::MetaData(tensor) => Some(*tensor),
        _ => None,
    })
}

/// True if a text names a tensor: by its number, or as the user does.
pub(crate) fn is_tensor_name(program: &Program, tensor: TensorId, text: &str) -> bool {
    text == format!("T{}", program.tensor(tensor).number) || text == program.tensor_name(tensor)
}
