//! A HostUnit from a group of ops.

use crate::support::builder::OpBuilder;
use hostir::analysis::storage::{StorageClasses, interface_tensors, visit_host_ops};
use hostir::ir::scalar_names::{RUNTIME, sub_expressions};
use hostir::ir::{
    AttrValue, DomainId, Expr, ExprId, HostUnit, Id, IterDomain, Op, OpId, Program, Tensor, TensorId, UnitId, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The reads of each tensor in the host program.
pub(super) struct HostUses {
    /// By tensor: the number of its uses as an operand and as an output of the program.
    reads: Vec<u32>,
    /// By tensor: true if others may share its memory.
    shared: Vec<bool>,
}

impl HostUses {
    pub(super) fn from_program(program: &Program, storage: &mut StorageClasses) -> Self {
        let len = program.tensors().len();
        let mut reads = vec![0; len];
        visit_host_ops(program, &mut |id| {
            let op = program.op(id);
            op.input_tensors().for_each(|tensor| reads[tensor.index()] += 1);
        });
        interface_tensors(program).for_each(|tensor| reads[tensor.index()] += 1);
        let mut sizes = vec![0u32; len];
        for tensor in program.tensors().ids() {
            sizes[storage.class_of(tensor)] += 1;
        }
        let shared = program.tensors().ids().map(|t| sizes[storage.class_of(t)] > 1).collect();
        Self { reads, shared }
    }
}

/// Inputs and outputs of a group.
#[derive(Default)]
struct UnitInterface {
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    scalars: Vec<ExprId>,
}

/// Makes the unit and returns its PostOnStream.
pub(super) fn make_unit(build: &mut OpBuilder<'_, '_>, uses: &HostUses, ops: &[OpId]) -> OpId {
    let ports = unit_interface(build.program(), uses, ops);
    for &tensor in ports.inputs.iter().chain(&ports.outputs) {
        build.make_global(tensor);
    }
    let number = build.next_unit_number();
    let body = build.edit.add_block(ops.to_vec());
    let empty = HostUnit { number, name: None, inputs: Vec::new(), outputs: Vec::new(), body, is_elided: false };
    let unit = build.edit.add_unit(empty);
    let mut inside = UnitTensors { unit, tensors: FxHashMap::default() };
    let scalars: Vec<Value> = ports.scalars.iter().map(|&scalar| Value::Scalar(scalar)).collect();
    let mut inputs: Vec<Value> = inside.map_values(build, &ports.inputs);
    inputs.extend_from_slice(&scalars);
    let outputs = inside.map_values(build, &ports.outputs);
    for &op in ops {
        inside.map_op(build, op);
    }
    build.edit.set_unit(unit, HostUnit { number, name: None, inputs, outputs, body, is_elided: false });
    build.origin = ops.first().copied().unwrap_or(build.origin);
    let operands = ports.inputs.iter().map(|&tensor| Value::Tensor(tensor)).chain(scalars);
    build.build_post_on_stream(number, operands, &ports.outputs)
}

fn unit_interface(program: &Program, uses: &HostUses, ops: &[OpId]) -> UnitInterface {
    let mut ports = UnitInterface::default();
    let mut made: FxHashMap<TensorId, u32> = FxHashMap::default();
    let mut known: FxHashSet<Value> = FxHashSet::default();
    let extents = tensor_extents(program, ops);
    for &id in ops {
        let op = program.op(id);
        for tensor in op.input_tensors() {
            match made.get_mut(&tensor) {
                Some(reads) => *reads += 1,
                None if known.insert(Value::Tensor(tensor)) => ports.inputs.push(tensor),
                None => {}
            }
        }
        for scalar in host_scalars(program, &extents, op) {
            if known.insert(Value::Scalar(scalar)) {
                ports.scalars.push(scalar);
            }
        }
        made.extend(op.output_tensors().map(|tensor| (tensor, 0)));
    }
    for tensor in ops.iter().flat_map(|&op| program.op(op).output_tensors()) {
        let inside = made.get(&tensor).copied().unwrap_or(0);
        let all = uses.reads[tensor.index()];
        if all > inside || all == 0 || uses.shared[tensor.index()] {
            ports.outputs.push(tensor);
        }
    }
    ports
}

/// The extents of a group's tensors, which a unit knows without inputs for them.
fn tensor_extents(program: &Program, ops: &[OpId]) -> FxHashSet<ExprId> {
    let tensors = ops.iter().map(|&id| program.op(id));
    let tensors = tensors.flat_map(|op| op.all_tensors());
    let inputs: FxHashSet<ExprId> = program.inputs().iter().filter_map(|value| value.as_scalar()).collect();
    let extents = tensors.flat_map(|tensor| program.domains(tensor)).map(|domain| domain.extent);
    extents.filter(|extent| !inputs.contains(extent)).collect()
}

/// The host program's scalars that an op reads, in order.
fn host_scalars(program: &Program, extents: &FxHashSet<ExprId>, op: &Op) -> Vec<ExprId> {
    let mut stack: Vec<ExprId> = op.operands.iter().filter_map(|value| value.as_scalar()).collect();
    op.attrs.iter().for_each(|(_, value)| stack.extend_from_slice(value.exprs()));
    stack.reverse();
    let mut found = Vec::new();
    while let Some(expr) = stack.pop() {
        match program.expr(expr) {
            Expr::Name(name) if RUNTIME.contains(&program.name(*name)) => {}
            Expr::Name(_) if !extents.contains(&expr) => found.push(expr),
            other => stack.extend(sub_expressions(other).into_iter().rev()),
        }
    }
    found
}

/// The unit's own tensors, under the numbers of the host program's.
struct UnitTensors {
    unit: UnitId,
    tensors: FxHashMap<TensorId, TensorId>,
}

impl UnitTensors {
    fn map_values(&mut self, build: &mut OpBuilder<'_, '_>, tensors: &[TensorId]) -> Vec<Value> {
        tensors.iter().map(|&tensor| Value::Tensor(self.map_tensor(build, tensor))).collect()
    }

    fn map_tensor(&mut self, build: &mut OpBuilder<'_, '_>, tensor: TensorId) -> TensorId {
        let unit = self.unit;
        *self.tensors.entry(tensor).or_insert_with(|| {
            let program = build.program();
            let domains: Vec<IterDomain> = program.domains(tensor).to_vec();
            let new = Tensor { unit: Some(unit), ..program.tensor(tensor).clone() };
            let span = program.tensor_span(tensor);
            build.edit.add_tensor(new, &domains, span)
        })
    }

    /// Puts the unit's tensors into an op.
    fn map_op(&mut self, build: &mut OpBuilder<'_, '_>, id: OpId) {
        let mut op = build.program().op(id).clone();
        let old: Vec<TensorId> = op.input_tensors().collect();
        for value in op.operands.iter_mut().chain(&mut op.results) {
            if let Value::Tensor(tensor) = value {
                *tensor = self.map_tensor(build, *tensor);
            }
        }
        for (_, value) in &mut op.attrs {
            match value {
                AttrValue::Tensor(tensor) => *tensor = self.map_tensor(build, *tensor),
                AttrValue::Domain(domain) => {
                    if let Some(new) = self.map_domain(build, &old, *domain) {
                        *domain = new;
                    }
                }
                _ => {}
            }
        }
        build.edit.set_op(id, op);
    }

    /// The unit's domain for one of an operand's.
    fn map_domain(
        &mut self,
        build: &mut OpBuilder<'_, '_>,
        operands: &[TensorId],
        domain: DomainId,
    ) -> Option<DomainId> {
        let program = build.program();
        let owner = operands.iter().copied().find(|&tensor| {
            let tensor = program.tensor(tensor);
            (tensor.domains_start..tensor.domains_end).contains(&domain.0)
        })?;
        let at = domain.0 - program.tensor(owner).domains_start;
        let new = self.map_tensor(build, owner);
        Some(DomainId(build.program().tensor(new).domains_start + at))
    }
}
