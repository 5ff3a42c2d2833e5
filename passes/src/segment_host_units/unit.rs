//! A HostUnit from a group of ops.

use crate::support::builder::OpBuilder;
use hostir::analysis::storage::{StorageClasses, interface_tensors, visit_host_ops};
use hostir::ir::scalar_names::{RUNTIME, sub_expressions};
use hostir::ir::{
    AttrValue, DomainId, Expr, ExprId, HostUnit, Id, IterDomain, Op, OpId, Program, Tensor, TensorId, UnitId, Value,
};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// The uses of tensors and scalars in the host program.
pub(super) struct HostUses {
    /// By tensor: the number of its uses as an operand and as an output of the program.
    reads: Vec<u32>,
    /// By tensor: true if others may share its memory.
    shared: Vec<bool>,
    /// The scalars among the program's inputs.
    scalars: FxHashSet<ExprId>,
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
        let scalars = program.inputs().iter().filter_map(|value| value.as_scalar()).collect();
        Self { reads, shared, scalars }
    }
}

/// By tensor of the host program: what the group has of it that is made a unit. One table serves all groups.
pub(super) struct GroupTensors {
    /// The number of the group, from 1.
    group: u32,
    rows: Vec<GroupTensor>,
}

/// A tensor in a group.
#[derive(Clone, Copy, Default)]
struct GroupTensor {
    /// The group that the row is about: for others it is empty.
    group: u32,
    /// True if an op of the group writes it.
    is_made: bool,
    /// Its reads in the group after that.
    reads: u32,
    /// The unit's own tensor for it.
    own: Option<TensorId>,
}

impl GroupTensors {
    pub(super) fn of_program(program: &Program) -> Self {
        Self { group: 0, rows: vec![GroupTensor::default(); program.tensors().len()] }
    }
    fn start_group(&mut self) {
        self.group += 1;
    }
    /// The row of a tensor, and true if it is the first time in this group that somebody asks for it.
    fn tensor_row(&mut self, tensor: TensorId) -> (&mut GroupTensor, bool) {
        let row = &mut self.rows[tensor.index()];
        let is_new = row.group != self.group;
        if is_new {
            *row = GroupTensor { group: self.group, ..GroupTensor::default() };
        }
        (row, is_new)
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
pub(super) fn make_unit(
    build: &mut OpBuilder<'_, '_>,
    uses: &HostUses,
    tensors: &mut GroupTensors,
    ops: &[OpId],
) -> OpId {
    let ports = unit_interface(build.program(), uses, tensors, ops);
    for &tensor in ports.inputs.iter().chain(&ports.outputs) {
        build.make_global(tensor);
    }
    let number = build.next_unit_number();
    let body = build.edit.add_block(ops.to_vec());
    let unit = UnitId::new(build.program().units().len());
    let mut inside = UnitTensors { unit, tensors };
    let scalars: Vec<Value> = ports.scalars.iter().map(|&scalar| Value::Scalar(scalar)).collect();
    let mut inputs = inside.map_values(build, &ports.inputs);
    inputs.extend_from_slice(&scalars);
    let outputs = inside.map_values(build, &ports.outputs);
    for &op in ops {
        inside.map_op(build, op);
    }
    build.edit.add_unit(HostUnit { number, name: None, inputs, outputs, body, is_elided: false });
    build.origin = ops.first().copied().unwrap_or(build.origin);
    let operands = ports.inputs.iter().map(|&tensor| Value::Tensor(tensor)).chain(scalars);
    build.build_post_on_stream(number, operands, &ports.outputs)
}

fn unit_interface(program: &Program, uses: &HostUses, tensors: &mut GroupTensors, ops: &[OpId]) -> UnitInterface {
    let mut ports = UnitInterface::default();
    let mut scalars = HostScalars::default();
    tensors.start_group();
    for &id in ops {
        let op = program.op(id);
        for tensor in op.input_tensors() {
            let (row, is_new) = tensors.tensor_row(tensor);
            if row.is_made {
                row.reads += 1;
            } else if is_new {
                ports.inputs.push(tensor);
            }
        }
        scalars.add_op(program, uses, ops, op, &mut ports.scalars);
        for tensor in op.output_tensors() {
            let (row, _) = tensors.tensor_row(tensor);
            (row.is_made, row.reads) = (true, 0);
        }
    }
    for tensor in ops.iter().flat_map(|&op| program.op(op).output_tensors()) {
        let inside = tensors.tensor_row(tensor).0.reads;
        let all = uses.reads[tensor.index()];
        if all > inside || all == 0 || uses.shared[tensor.index()] {
            ports.outputs.push(tensor);
        }
    }
    ports
}

/// The host program's scalars that the ops of a group read.
#[derive(Default)]
struct HostScalars {
    known: FxHashSet<ExprId>,
    /// The extents of the group's tensors, which a unit knows without inputs for them; `None` until a name is read.
    extents: Option<FxHashSet<ExprId>>,
}

impl HostScalars {
    /// Appends those that an op of the group is the first to read, in order.
    fn add_op(&mut self, program: &Program, uses: &HostUses, group: &[OpId], op: &Op, found: &mut Vec<ExprId>) {
        let mut stack: Vec<ExprId> = op.operands.iter().filter_map(|value| value.as_scalar()).collect();
        op.attrs.iter().for_each(|(_, value)| stack.extend_from_slice(value.exprs()));
        stack.reverse();
        while let Some(expr) = stack.pop() {
            match program.expr(expr) {
                Expr::Name(name) if RUNTIME.contains(&program.name(*name)) => {}
                Expr::Name(_) => {
                    let extents = self.extents.get_or_insert_with(|| tensor_extents(program, uses, group));
                    if !extents.contains(&expr) && self.known.insert(expr) {
                        found.push(expr);
                    }
                }
                other => stack.extend(sub_expressions(other).into_iter().rev()),
            }
        }
    }
}

/// The extents of a group's tensors that are no inputs of the program.
fn tensor_extents(program: &Program, uses: &HostUses, ops: &[OpId]) -> FxHashSet<ExprId> {
    let tensors = ops.iter().flat_map(|&id| program.op(id).all_tensors());
    let extents = tensors.flat_map(|tensor| program.domains(tensor)).map(|domain| domain.extent);
    extents.filter(|extent| !uses.scalars.contains(extent)).collect()
}

/// The unit's own tensors, under the numbers of the host program's.
struct UnitTensors<'t> {
    unit: UnitId,
    tensors: &'t mut GroupTensors,
}

impl UnitTensors<'_> {
    fn map_values(&mut self, build: &mut OpBuilder<'_, '_>, tensors: &[TensorId]) -> Vec<Value> {
        tensors.iter().map(|&tensor| Value::Tensor(self.map_tensor(build, tensor))).collect()
    }

    fn map_tensor(&mut self, build: &mut OpBuilder<'_, '_>, tensor: TensorId) -> TensorId {
        let unit = self.unit;
        let (row, _) = self.tensors.tensor_row(tensor);
        *row.own.get_or_insert_with(|| {
            let program = build.program();
            let domains: SmallVec<[IterDomain; 6]> = program.domains(tensor).into();
            let new = Tensor { unit: Some(unit), ..program.tensor(tensor).clone() };
            let span = program.tensor_span(tensor);
            build.edit.add_tensor(new, &domains, span)
        })
    }

    /// Puts the unit's tensors into an op.
    fn map_op(&mut self, build: &mut OpBuilder<'_, '_>, id: OpId) {
        let mut op = build.program().op(id).clone();
        let old: SmallVec<[TensorId; 4]> = op.input_tensors().collect();
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
