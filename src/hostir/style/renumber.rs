//! The canonical representative of a program: numbers in order of appearance, without redundant parts.
//!
//! Two programs that differ in numbers, redundant parentheses and blank lines only have one representative. Numbers
//! name domains, and ascend in axis order, so that a reader needs no `axes=` and no `perm=` where nvFuser's numbers
//! would need none (see [`crate::ir::order`]). The representative computes the same.

use crate::ir::OpLayout;
use crate::ir::Symbol;
use crate::ir::edit::Edit;
use crate::ir::{AttrKey, AttrValue, Op, OpId, Value};
use crate::ir::{BlockId, Program, UnitId};
use crate::ir::{DomainId, IterDomain, TensorId};
use crate::ir::{Expr, ExprId, GivenNames, MeshTextPiece, RunHints, TextFrame};
use rustc_hash::{FxHashMap, FxHashSet};

/// Numbers tensors, scalars (`i0`, keeping their letters), communications, HostUnits, streams that are known by an
/// address, and the domains of each tensor in the order of its axes. Names that are not a letter and a number stay.
/// Leaves out parentheses around what needs none, blank lines around the program and empty sections, and adds the
/// `cache_op` that nvFuser always prints. The first line is `hir 1` if the program has names or proposes values for a
/// run.
pub fn renumber_program(program: &mut Program) {
    let units: Vec<UnitId> = program.units().ids().collect();
    let (body, index) = (program.body(), program.index_definitions());
    let aliases: Vec<(TensorId, TensorId)> = program.aliases().unwrap_or_default().to_vec();
    let (inputs, outputs) = (program.inputs().to_vec(), program.outputs().to_vec());
    let mut run = ProgramRenumberer::new(program);
    let (inputs, outputs) = (run.renumber_values(&inputs), run.renumber_values(&outputs));
    run.renumber_block(body);
    for (new, original) in aliases {
        run.renumber_tensor(new);
        run.renumber_tensor(original);
    }
    if let Some(block) = index {
        run.renumber_block(block);
    }
    for unit in units {
        run.renumber_unit(unit);
    }
    run.edit.set_inputs(inputs);
    run.edit.set_outputs(outputs);
    run.finish_names();
    run.edit.drop_empty_sections();
    run.edit.commit();
}

/// The new numbers of one name space.
#[derive(Default)]
struct NumberScope {
    tensors: FxHashMap<u32, u32>,
    /// By the earlier domain with renamed extents: the number of the first one.
    domains: FxHashMap<IterDomain, u32>,
    /// Numbers of domains outside of tensors, which are identified by everything except their number.
    loops: FxHashMap<IterDomain, u32>,
    /// Domains outside of tensors.
    pool: FxHashMap<IterDomain, DomainId>,
    next_domain: u32,
}

struct ProgramRenumberer<'p> {
    edit: Edit<'p>,
    scope: NumberScope,
    done: Vec<bool>,
    /// Domains that need no visit: those of tensors.
    visited: Vec<bool>,
    exprs: FxHashMap<ExprId, ExprId>,
    names: FxHashMap<Symbol, Symbol>,
    handles: FxHashMap<u32, u32>,
    /// By address.
    streams: FxHashMap<u64, u64>,
    unit_numbers: FxHashMap<u32, u32>,
    /// By result of a permuting op.
    permutations: FxHashMap<TensorId, Box<[i64]>>,
}

impl<'p> ProgramRenumberer<'p> {
    fn new(program: &'p mut Program) -> Self {
        let done = vec![false; program.tensors().len()];
        let mut visited = vec![false; program.domains.len()];
        for (_, tensor) in program.tensors().iter() {
            visited[tensor.domains_start as usize..tensor.domains_end as usize].fill(true);
        }
        let permuting = program.ops().iter().filter(|(_, op)| op.kind.has_permutation());
        let permutations = permuting
            .filter_map(|(_, op)| Some((op.output_tensors().next()?, op.ints_attr(AttrKey::Perm)?.into())))
            .collect();
        Self {
            permutations,
            edit: Edit::new(program),
            scope: NumberScope::default(),
            done,
            visited,
            exprs: FxHashMap::default(),
            names: FxHashMap::default(),
            handles: FxHashMap::default(),
            streams: FxHashMap::default(),
            unit_numbers: FxHashMap::default(),
        }
    }

    fn renumber_unit(&mut self, id: UnitId) {
        self.scope = NumberScope::default();
        let mut unit = self.edit.program().units()[id].clone();
        unit.number = self.unit_number(unit.number);
        unit.inputs = self.renumber_values(&unit.inputs);
        unit.outputs = self.renumber_values(&unit.outputs);
        self.renumber_block(unit.body);
        self.edit.set_unit(id, unit);
    }

    fn renumber_block(&mut self, block: BlockId) {
        let ops = self.edit.program().block(block).ops.clone();
        for op in ops {
            self.renumber_op(op);
        }
    }

    fn renumber_op(&mut self, id: OpId) {
        let mut op = self.edit.program().op(id).clone();
        if let Some(number) = op.number() {
            op.number = Some(self.renumber_handle(number));
        }
        if op.kind.layout() == OpLayout::Keyed {
            self.renumber_attrs(&mut op);
            self.renumber_operands(&mut op);
        } else {
            let results: Vec<Value> = op.results.iter().map(|value| self.renumber_value(*value)).collect();
            op.results.copy_from_slice(&results);
            self.renumber_operands(&mut op);
            self.renumber_attrs(&mut op);
        }
        self.add_cache_op(&mut op);
        let blocks = op.blocks.clone();
        self.edit.set_op(id, op);
        for block in blocks {
            self.renumber_block(block);
        }
    }

    fn renumber_operands(&mut self, op: &mut Op) {
        for value in &mut op.operands {
            *value = self.renumber_value(*value);
        }
        if op.kind.layout() == OpLayout::Keyed {
            for value in &mut op.results {
                *value = self.renumber_value(*value);
            }
        }
    }

    fn renumber_attrs(&mut self, op: &mut Op) {
        for (_, value) in &mut op.attrs {
            match value {
                AttrValue::Expr(expr) => *expr = self.renumber_expr(*expr),
                AttrValue::Exprs(exprs) => exprs.iter_mut().for_each(|expr| *expr = self.renumber_expr(*expr)),
                AttrValue::Ranges(ranges) => {
                    ranges.iter_mut().flatten().for_each(|expr| *expr = self.renumber_expr(*expr));
                }
                AttrValue::Tensor(tensor) => self.renumber_tensor(*tensor),
                AttrValue::Domain(domain) => *domain = self.pool_domain(*domain),
                AttrValue::Bool(_)
                | AttrValue::Word(_)
                | AttrValue::Words(_)
                | AttrValue::Ints(_)
                | AttrValue::Bools(_) => {}
            }
        }
    }

    fn renumber_values(&mut self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|value| self.renumber_value(*value)).collect()
    }

    fn renumber_value(&mut self, value: Value) -> Value {
        match value {
            Value::Tensor(tensor) => self.renumber_tensor(tensor),
            Value::Scalar(expr) => return Value::Scalar(self.renumber_expr(expr)),
            Value::Stream(expr) => return Value::Stream(self.renumber_stream(expr)),
            Value::Handle(number) => return Value::Handle(self.renumber_handle(number)),
            Value::Op(op) => self.renumber_op(op),
            Value::Unit(number) => return Value::Unit(self.unit_number(number)),
        }
        value
    }

    fn renumber_handle(&mut self, number: u32) -> u32 {
        let next = self.handles.len() as u32;
        *self.handles.entry(number).or_insert(next)
    }

    fn unit_number(&mut self, number: u32) -> u32 {
        let next = self.unit_numbers.len() as u32;
        *self.unit_numbers.entry(number).or_insert(next)
    }

    /// A stream; addresses are counted from 1.
    fn renumber_stream(&mut self, expr: ExprId) -> ExprId {
        let Expr::Hex(address) = *self.edit.program().expr(expr) else { return self.renumber_expr(expr) };
        let next = self.streams.len() as u64 + 1;
        let address = *self.streams.entry(address).or_insert(next);
        self.edit.intern_expr(Expr::Hex(address))
    }

    /// nvFuser prints the cache hint of each copy.
    fn add_cache_op(&mut self, op: &mut Op) {
        let declared = op.kind.spec().args.iter().any(|arg| arg.key == Some(AttrKey::CacheOp));
        if !declared || op.attr(AttrKey::CacheOp).is_some() {
            return;
        }
        let word = self.edit.intern_name("Streaming");
        let at = op.attrs.iter().position(|(key, _)| *key == AttrKey::Perm).unwrap_or(op.attrs.len());
        op.attrs.insert(at, (AttrKey::CacheOp, AttrValue::Word(word)));
    }

    /// Moves names of handles and streams to their new numbers; removes blank lines around the program.
    fn finish_names(&mut self) {
        let mut given = self.edit.program().given_names().clone();
        let handles = given.handles.iter().filter_map(|(number, name)| Some((*self.handles.get(number)?, *name)));
        given.handles = handles.collect();
        let streams = given.streams.iter().filter_map(|(address, name)| Some((*self.streams.get(address)?, *name)));
        given.streams = streams.collect();
        let program = self.edit.program();
        let occurring = program.tensors().iter().filter(|(id, _)| self.done[crate::ir::Id::index(*id)]);
        let (mut is_named, mut meshes) = (false, FxHashSet::default());
        for (_, tensor) in occurring {
            is_named |= tensor.name.is_some();
            meshes.extend(tensor.mesh);
        }
        given.meshes.retain(|mesh, _| meshes.contains(mesh));
        given.sized.texts.retain(|mesh, _| meshes.contains(mesh));
        let pieces = given.sized.texts.values_mut().flatten().filter_map(|piece| match piece {
            MeshTextPiece::Name(name) => Some(name),
            MeshTextPiece::Text(_) => None,
        });
        for name in pieces.chain(given.sized.sizes.iter_mut().map(|size| &mut size.name)) {
            *name = self.names.get(name).copied().unwrap_or(*name);
        }
        let is_named = is_named
            || given != GivenNames::default()
            || program.units().iter().any(|(_, unit)| unit.name.is_some())
            || *program.run_hints() != RunHints::default();
        let mut hints = program.run_hints().clone();
        let blank_before = program.source().has_detached_comments();
        hints.sizes.iter_mut().for_each(|(name, _)| *name = self.names.get(name).copied().unwrap_or(*name));
        self.edit.set_given_names(given);
        self.edit.set_run_hints(hints);
        let version = is_named.then_some(1);
        self.edit.set_frame(TextFrame { blank_before, blank_after: 0, blank_end: 0, version });
    }

    fn renumber_tensor(&mut self, id: TensorId) {
        let index = crate::ir::Id::index(id);
        if std::mem::replace(&mut self.done[index], true) {
            return;
        }
        let mut tensor = self.edit.program().tensor(id).clone();
        let next = self.scope.tensors.len() as u32;
        tensor.number = *self.scope.tensors.entry(tensor.number).or_insert(next);
        if let Some(logical) = &mut tensor.logical {
            logical.iter_mut().for_each(|extent| *extent = self.renumber_expr(*extent));
        }
        let order = self.number_order(id);
        let start = tensor.domains_start;
        self.edit.set_tensor(id, tensor);
        let old = self.edit.program().domains(id).to_vec();
        let first = self.scope.next_domain;
        self.scope.next_domain += old.len() as u32;
        let mut rank = vec![0; old.len()];
        order.iter().zip(0..).for_each(|(&at, place)| rank[at as usize] = place);
        for (at, domain) in old.into_iter().enumerate() {
            let key = self.renumber_extents(domain);
            let number = first + rank[at];
            self.scope.domains.entry(key).or_insert(number);
            self.edit.set_domain(DomainId(start + at as u32), IterDomain { number: Some(number), ..key });
        }
    }

    /// The order in which a tensor's domains get ascending numbers: that of its axes. For the result of a permuting op
    /// it is that of the operand's axes, so that the text needs no `perm=`.
    fn number_order(&self, id: TensorId) -> Vec<u32> {
        let program = self.edit.program();
        let axes = program.logical_axes(id).to_vec();
        let Some(perm) = self.permutations.get(&id) else { return axes };
        let domains = program.domains(id);
        let (mut order, reduced): (Vec<u32>, Vec<u32>) =
            axes.iter().partition(|at| !domains[**at as usize].is_reduction());
        if order.len() == perm.len() {
            let mut places: Vec<usize> = (0..order.len()).collect();
            places.sort_by_key(|&k| perm[k]);
            order = places.iter().map(|&k| order[k]).collect();
        }
        order.extend(reduced);
        order
    }

    /// A domain outside of tensors gets the number of the first tensor's domain that was completely equal; the others
    /// share a number if they differ in theirs alone.
    fn pool_domain(&mut self, id: DomainId) -> DomainId {
        if self.visited[id.0 as usize] {
            return id;
        }
        let mut domain = self.renumber_extents(*self.edit.program().domain(id));
        domain.number = Some(match self.scope.domains.get(&domain) {
            Some(number) => *number,
            None => {
                let next = self.scope.next_domain;
                let number = *self.scope.loops.entry(IterDomain { number: None, ..domain }).or_insert(next);
                self.scope.next_domain = next.max(number + 1);
                number
            }
        });
        let edit = &mut self.edit;
        *self.scope.pool.entry(domain).or_insert_with(|| edit.add_domain(domain))
    }

    /// A domain with its scalars renamed.
    fn renumber_extents(&mut self, mut domain: IterDomain) -> IterDomain {
        for bound in [&mut domain.start, &mut domain.stop, &mut domain.expanded].into_iter().flatten() {
            *bound = self.renumber_expr(*bound);
        }
        domain.extent = self.renumber_expr(domain.extent);
        domain
    }

    fn renumber_expr(&mut self, id: ExprId) -> ExprId {
        if let Some(&known) = self.exprs.get(&id) {
            return known;
        }
        let expr = self.edit.program().expr(id).clone();
        if let Some(tensor) = expr.named_tensor() {
            self.renumber_tensor(tensor);
        }
        let new = match expr.map_parts(|part| self.renumber_expr(part)) {
            Expr::Name(name) => Expr::Name(self.renumber_name(name)),
            // Redundant parentheses.
            Expr::Set(inner) => {
                self.exprs.insert(id, inner);
                return inner;
            }
            other => other,
        };
        let new = self.edit.intern_expr(new);
        self.exprs.insert(id, new);
        new
    }

    fn renumber_name(&mut self, name: Symbol) -> Symbol {
        let text = self.edit.program().name(name);
        let Some(prefix) = numbered_prefix(text) else { return name };
        if let Some(&known) = self.names.get(&name) {
            return known;
        }
        let text = format!("{prefix}{}", self.names.len());
        let new = self.edit.intern_name(&text);
        self.names.insert(name, new);
        new
    }
}

/// `i` of `i84`, for the letters that nvFuser numbers scalars with.
fn numbered_prefix(text: &str) -> Option<&str> {
    let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = ["i", "b", "d", "f", "c", "ptr", "a", "s", "var", "f4x2_"];
    (prefix.len() < text.len() && known.contains(&prefix)).then_some(prefix)
}
