//! The numbers of occurrences of tensors and handles in a program, and their order.

use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, AttrValue, BlockId, ExprId, IterDomain, OpId, Program, TensorId, Value};
use rustc_hash::FxHashMap;

/// The places where tensors and handles occur.
pub(super) struct OccurrenceTable {
    /// For each tensor, the number of its occurrences in its scope.
    pub(super) tensors: Vec<u32>,
    /// For each tensor, the last slice that makes it.
    pub(super) slices: Vec<Option<OpId>>,
    /// For each number of a communication, the number of its occurrences.
    pub(super) handles: FxHashMap<u32, u32>,
    /// For each loop in a domain of a tensor that occurs before: the tensor and the position of the domain.
    pub(super) loop_axes: FxHashMap<OpId, (TensorId, u32)>,
    /// Tensors in the order of their first occurrence.
    pub(super) order: Vec<TensorId>,
}

impl OccurrenceTable {
    /// Visits a whole program.
    pub(super) fn new(program: &Program) -> Self {
        let table = Self {
            tensors: vec![0; program.tensors().len()],
            slices: vec![None; program.tensors().len()],
            handles: FxHashMap::default(),
            loop_axes: FxHashMap::default(),
            order: Vec::new(),
        };
        let mut walk = OccurrenceWalk { program, table, owners: loop_domains(program) };
        walk.visit_program();
        walk.table
    }
}

/// The domains of loops, which have no owner yet.
fn loop_domains(program: &Program) -> FxHashMap<IterDomain, Option<(TensorId, u32)>> {
    let mut domains = FxHashMap::default();
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        if let Some(domain) = op.domain_attr(AttrKey::Domain) {
            domains.insert(*program.domain(domain), None);
        }
    });
    domains
}

struct OccurrenceWalk<'p> {
    program: &'p Program,
    table: OccurrenceTable,
    /// The first tensor of this scope that has each loop's domain.
    owners: FxHashMap<IterDomain, Option<(TensorId, u32)>>,
}

impl OccurrenceWalk<'_> {
    fn visit_program(&mut self) {
        let program = self.program;
        self.visit_values(program.inputs());
        self.visit_values(program.outputs());
        self.visit_block(program.body());
        for &(new, original) in program.aliases().unwrap_or_default() {
            self.visit_tensor(new);
            self.visit_tensor(original);
        }
        if let Some(block) = program.index_definitions() {
            self.visit_block(block);
        }
        for (_, unit) in program.units().iter() {
            self.owners.values_mut().for_each(|owner| *owner = None);
            self.visit_values(&unit.inputs);
            self.visit_values(&unit.outputs);
            self.visit_block(unit.body);
        }
        for at in 0..program.exprs().len() {
            if let Some(tensor) = program.expr(ExprId(at as u32)).named_tensor() {
                // The tensor needs a name wherever it occurs.
                self.table.tensors[tensor.0 as usize] += 2;
            }
        }
    }

    fn visit_block(&mut self, block: BlockId) {
        let program = self.program;
        for &id in &program.block(block).ops {
            self.visit_op(id);
            for &inner in &program.op(id).blocks {
                self.visit_block(inner);
            }
        }
    }

    fn visit_op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        if let Some(number) = op.number() {
            *self.table.handles.entry(number).or_default() += 1;
        }
        self.visit_values(&op.results);
        self.visit_values(&op.operands);
        for (_, value) in &op.attrs {
            if let AttrValue::Tensor(tensor) = value {
                self.visit_tensor(*tensor);
            }
        }
        if is_host_select(op.kind) {
            for tensor in op.output_tensors() {
                self.table.slices[tensor.0 as usize] = Some(id);
            }
        }
        self.visit_loop(id);
    }

    fn visit_loop(&mut self, id: OpId) {
        let Some(domain) = self.program.op(id).domain_attr(AttrKey::Domain) else { return };
        if let Some(Some(owner)) = self.owners.get(self.program.domain(domain)) {
            self.table.loop_axes.insert(id, *owner);
            self.table.tensors[owner.0.0 as usize] += 1;
        }
    }

    fn visit_values(&mut self, values: &[Value]) {
        for value in values {
            match value {
                Value::Tensor(tensor) => self.visit_tensor(*tensor),
                Value::Handle(number) => *self.table.handles.entry(*number).or_default() += 1,
                Value::Op(op) => self.visit_op(*op),
                Value::Scalar(_) | Value::Stream(_) | Value::Unit(_) => {}
            }
        }
    }

    fn visit_tensor(&mut self, tensor: TensorId) {
        let count = &mut self.table.tensors[tensor.0 as usize];
        *count += 1;
        if *count > 1 {
            return;
        }
        self.table.order.push(tensor);
        if self.owners.is_empty() {
            return;
        }
        for (at, domain) in self.program.domains(tensor).iter().enumerate() {
            if let Some(owner @ None) = self.owners.get_mut(domain) {
                *owner = Some((tensor, at as u32));
            }
        }
    }
}
