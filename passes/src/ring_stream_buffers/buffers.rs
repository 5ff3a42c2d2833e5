//! The tensors that one loop slices, and the program's uses of each.

use hostir::analysis::storage::{TensorAccess, described_tensors, interface_tensors, visit_accesses, visit_host_ops};
use hostir::diag::Message;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{
    AttrKey, AttrValue, BinaryOp, DomainId, Expr, ExprId, Id, IdVec, IndexDefinitions, IterType, OpEffect, OpId,
    Program, Symbol, TensorId,
};
use smallvec::SmallVec;

/// A tensor that a loop slices.
pub(super) struct LoopBuffer {
    pub(super) tensor: TensorId,
    /// Its allocation.
    pub(super) allocate: OpId,
    /// The ops that slice it.
    pub(super) selects: Vec<OpId>,
    /// The axis along which.
    pub(super) axis: DomainId,
    /// The loop.
    pub(super) looped: OpId,
}

/// The reason why a buffer stays as it is, with the op that causes it.
pub(super) type KeepReason = (OpId, Message);

/// The uses of each tensor by the program.
pub(super) struct TensorUses {
    found: IdVec<TensorId, UseRecord>,
    /// Tensors that loops slice, in program order.
    pub(super) sliced: Vec<TensorId>,
    /// True if the caller sees the tensor.
    seen: IdVec<TensorId, bool>,
}

#[derive(Clone, Default)]
struct UseRecord {
    allocates: SmallVec<[OpId; 1]>,
    /// Selects with the loop of the body that contains them.
    selects: Vec<(OpId, Option<OpId>)>,
    /// Any other use.
    other: Option<OpId>,
    /// The loop of the body that contains all uses: `Some(None)` outside of loops or in several.
    only_loop: Option<Option<OpId>>,
}

impl TensorUses {
    pub(super) fn new(program: &Program) -> Self {
        let count = program.tensors().len();
        let mut uses = Self {
            found: IdVec::filled(UseRecord::default(), count),
            sliced: Vec::new(),
            seen: IdVec::filled(false, count),
        };
        interface_tensors(program).chain(described_tensors(program)).for_each(|tensor| uses.seen[tensor] = true);
        let mut outside = vec![true; program.ops().len()];
        for &top in &program.block(program.body()).ops {
            let looped = loop_index(program, program.op(top)).map(|_| top);
            let looped = looped.filter(|_| !program.op(top).blocks.is_empty());
            uses.note_op(program, top, None);
            outside[top.index()] = false;
            program.walk_inside(top, &mut |op| {
                outside[op.index()] = false;
                uses.note_op(program, op, looped);
            });
        }
        visit_host_ops(program, &mut |op| {
            if outside[op.index()] {
                uses.note_op(program, op, None);
            }
        });
        uses
    }

    fn note_op(&mut self, program: &Program, id: OpId, looped: Option<OpId>) {
        let op = program.op(id);
        let select = op.attr(AttrKey::Index).is_some() && op.kind.effect() == OpEffect::Alias;
        let base = op.input_tensors().next().filter(|_| select);
        visit_accesses(program, id, &mut |tensor, access| {
            let found = &mut self.found[tensor];
            match found.only_loop {
                None => found.only_loop = Some(looped),
                Some(only_loop) if only_loop != looped => found.only_loop = Some(None),
                Some(_) => {}
            }
            let effect = op.kind.effect();
            if base == Some(tensor) && access == TensorAccess::Name {
                if looped.is_some() && found.selects.is_empty() {
                    self.sliced.push(tensor);
                }
                found.selects.push((id, looped));
            } else if effect == OpEffect::Allocate && access == TensorAccess::Bind && looped.is_none() {
                found.allocates.push(id);
            } else if access != TensorAccess::Free || looped.is_some() {
                found.other.get_or_insert(id);
            }
        });
    }

    /// True if all uses of a tensor are in one loop of the body.
    pub(super) fn is_within(&self, tensor: TensorId, looped: OpId) -> bool {
        self.found[tensor].only_loop == Some(Some(looped)) && !self.seen[tensor]
    }

    /// A tensor as a buffer; `None` for a tensor that is no buffer of a loop, or has its slots already.
    pub(super) fn match_buffer(&self, program: &Program, tensor: TensorId) -> Result<Option<LoopBuffer>, KeepReason> {
        let found = &self.found[tensor];
        let Some(&(first, looped)) = found.selects.first() else {
            return self.not_a_buffer_reason(tensor);
        };
        let &[allocate] = found.allocates.as_slice() else {
            return match found.allocates.get(1) {
                Some(&second) => Err((second, "it is allocated more than once".to_owned().into())),
                None => Ok(None),
            };
        };
        if self.seen[tensor] {
            return Err((allocate, "it is an input or output".to_owned().into()));
        }
        if let Some(op) = found.other {
            return Err((op, "it is used as a whole here".to_owned().into()));
        }
        let ranges = program.tensor(tensor).domains_start..program.tensor(tensor).domains_end;
        let (Some(axis), Some(index)) = sliced_by(program, first) else { return Ok(None) };
        let Some(looped) = looped.filter(|_| ranges.contains(&axis.0)) else {
            return Err((first, "it is sliced outside of a loop".to_owned().into()));
        };
        let sliced = program.domain(axis);
        if sliced.iter != IterType::Iteration || sliced.parallel.is_device() {
            let why = "this axis has no slices in memory, so all iterations use the same memory";
            return Err((first, why.into()));
        }
        for &(op, other) in &found.selects {
            if other != Some(looped) {
                return Err((op, "it is sliced by two loops".to_owned().into()));
            }
            if sliced_by(program, op) != (Some(axis), Some(index)) {
                return Err((op, "this slice differs from the first one".to_owned().into()));
            }
        }
        let allocation = program.op(allocate);
        let cleared = allocation.attr(AttrKey::ZeroInit) == Some(&AttrValue::Bool(true));
        if cleared || allocation.attr(AttrKey::Alias).is_some() {
            let why = "it is initialized or aliased when it is allocated";
            return Err((allocate, why.into()));
        }
        if program.tensor(tensor).memory == hostir::ir::MemoryType::Symmetric {
            return Err((allocate, "other ranks access symmetric memory".to_owned().into()));
        }
        let Some(name) = loop_index(program, program.op(looped)) else { return Ok(None) };
        let definitions = IndexDefinitions::new(program);
        let index = definitions.expand_expr(program, index);
        let streams = program.names().find_symbol("numberOfStreams");
        if streams.is_some_and(|streams| is_slot(program, index, name, streams)) {
            return Ok(None);
        }
        if !definitions.depends_on(program, index, name) {
            return Err((first, "all iterations use the same slice".to_owned().into()));
        }
        let selects = found.selects.iter().map(|(op, _)| *op).collect();
        Ok(Some(LoopBuffer { tensor, allocate, selects, axis, looped }))
    }

    /// Called only for tensors that the option names.
    fn not_a_buffer_reason(&self, tensor: TensorId) -> Result<Option<LoopBuffer>, KeepReason> {
        let op = self.found[tensor].allocates.first().copied().or(self.found[tensor].other);
        Err((op.unwrap_or(OpId(0)), "no loop slices it".to_owned().into()))
    }
}

/// The axis and the index of a select.
fn sliced_by(program: &Program, op: OpId) -> (Option<DomainId>, Option<ExprId>) {
    (program.op(op).domain_attr(AttrKey::Axis), program.op(op).expr_attr(AttrKey::Index))
}

/// True if a scalar is `( i % numberOfStreams )`.
pub(super) fn is_slot(program: &Program, expr: ExprId, index: Symbol, streams: Symbol) -> bool {
    let Expr::Binary(BinaryOp::Mod, a, b) = *program.expr(expr) else { return false };
    let exprs = program.exprs();
    exprs.as_name(a) == Some(index) && exprs.as_name(b) == Some(streams)
}
