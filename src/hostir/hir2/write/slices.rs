//! Slices inside of statements: which selects a statement contains.
//!
//! A select is hidden in the statement that uses its result if reading the statement gives the same ops. Its result has
//! no name, has the type of a slice and is used once. The selects are directly before the statement in the reader's
//! order: those of the results first, then those of the operands from left to right.

use super::ProgramWriter;
use super::tables::WriteTables;
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, BlockId, CommentPlace, CommunicationEffect, Op, OpEffect, OpId, OpLayout, TensorId, Value};
use crate::ops::memory::{select_type, selected_stored_axis};
use crate::ops::result_types::TensorType;
use smallvec::SmallVec;

/// A select that could be hidden.
#[derive(Clone, Copy)]
struct SliceCandidate {
    op: OpId,
    tensor: TensorId,
    /// The number of its chain among those of the statement.
    chain: u32,
}

type CandidateList = SmallVec<[SliceCandidate; 6]>;

/// One index of a slice.
pub(super) struct SliceIndex {
    /// Position among the stored axes of the select's operand.
    pub(super) axis: usize,
    /// True if the axis is sharded over devices.
    pub(super) device: bool,
}

impl WriteTables<'_> {
    /// Finds the selects that the statements of a block and of its inner blocks contain.
    pub(super) fn plan_slices(&mut self, block: BlockId) {
        let program = self.program;
        let ops = &program.block(block).ops;
        let mut at = 0;
        while at < ops.len() {
            let op = program.op(ops[at]);
            let end = if op.kind.is_group_start() { self.group_end(ops, at) } else { None };
            let candidates = match end {
                Some(end) => self.group_candidates(&ops[at + 1..end]),
                None => self.statement_candidates(op),
            };
            if !candidates.is_empty() {
                self.hide_selects(ops, at, candidates);
            }
            for &inner in &op.blocks {
                self.plan_slices(inner);
            }
            at = end.map_or(at, |end| end) + 1;
        }
    }

    /// The place of the EndCoalescing of the group that begins at a place.
    pub(super) fn group_end(&self, ops: &[OpId], start: usize) -> Option<usize> {
        let ends = |id: &OpId| self.program.op(*id).kind.is_group_end();
        ops[start..].iter().position(ends).map(|offset| start + offset)
    }

    fn group_candidates(&self, ops: &[OpId]) -> CandidateList {
        let mut found = CandidateList::new();
        let members = ops.iter().map(|id| self.program.op(*id)).filter(|op| op.kind.layout() == OpLayout::Keyed);
        members.for_each(|op| self.add_candidates(op.results.iter().chain(&op.operands), &mut found));
        found
    }

    fn statement_candidates(&self, op: &Op) -> CandidateList {
        let mut found = CandidateList::new();
        match op.kind.effect() {
            OpEffect::Allocate | OpEffect::Free | OpEffect::Communicate(CommunicationEffect::ShareMemory) => {}
            _ if op.kind.is_definition() => {}
            OpEffect::Alias if self.slice_index(op).is_some() => {
                self.add_candidates(op.operands.iter(), &mut found);
            }
            _ => self.add_candidates(op.results.iter().chain(&op.operands), &mut found),
        }
        found
    }

    fn add_candidates<'v>(&self, values: impl Iterator<Item = &'v Value>, found: &mut CandidateList) {
        let first = found.last().map_or(0, |last| last.chain + 1);
        for (chain, tensor) in (first..).zip(values.filter_map(|value| value.as_tensor())) {
            let start = found.len();
            let mut tensor = tensor;
            while let Some(op) = self.hideable_select(tensor) {
                found.push(SliceCandidate { op, tensor, chain });
                match self.program.op(op).input_tensors().next() {
                    Some(operand) => tensor = operand,
                    None => break,
                }
            }
            found[start..].reverse();
        }
    }

    /// The select that makes a tensor, if it can be written as a slice inside of a statement.
    fn hideable_select(&self, tensor: TensorId) -> Option<OpId> {
        let program = self.program;
        let op_id = self.occurring.slices[tensor.0 as usize]?;
        let declared = program.tensor(tensor);
        if self.occurring.tensors[tensor.0 as usize] != 2
            || declared.name.is_some()
            || declared.memory != self.default_memory(tensor)
        {
            return None;
        }
        let op = program.op(op_id);
        let index = self.slice_index(op)?;
        let operand = op.input_tensors().next()?;
        let sliced = select_type(program, operand, index.axis)?;
        (sliced == TensorType::of_tensor(program, tensor)).then_some(op_id)
    }

    /// The index of a select that can be written as a slice.
    pub(super) fn slice_index(&self, op: &Op) -> Option<SliceIndex> {
        if !is_host_select(op.kind) || op.attrs.len() != 2 {
            return None;
        }
        let ([Value::Tensor(_)], [Value::Tensor(_)]) = (op.operands.as_slice(), op.results.as_slice()) else {
            return None;
        };
        let program = self.program;
        let axis = selected_stored_axis(program, op)?;
        let device = program.domain(op.domain_attr(AttrKey::Axis)?).parallel.is_device();
        let index = op.expr_attr(AttrKey::Index)?;
        let own = program.exprs().as_int(index) == Some(0);
        (!device || own).then_some(SliceIndex { axis, device })
    }

    /// Hides those of the candidates that are directly before a statement.
    fn hide_selects(&mut self, ops: &[OpId], statement: usize, candidates: CandidateList) {
        let mut left = candidates.len();
        let mut first = statement;
        while left > 0 && first > 0 {
            let op = ops[first - 1];
            let Some(at) = candidates[..left].iter().rposition(|candidate| candidate.op == op) else { break };
            // The slice of a slice that remains a statement belongs to that one.
            let skipped = candidates[at + 1..left].iter().any(|later| later.chain == candidates[at].chain);
            let commented =
                self.has_comments(CommentPlace::Above(ops[first])) || self.has_comments(CommentPlace::Trailing(op));
            if skipped || commented {
                break;
            }
            self.hidden[op.0 as usize] = true;
            self.hidden_slices[candidates[at].tensor.0 as usize] = Some(op);
            left = at;
            first -= 1;
        }
    }
}

impl WriteTables<'_> {
    /// The base tensor of a slice, and its selects, innermost first.
    fn slice_base(&self, tensor: TensorId, chain: &mut SmallVec<[OpId; 4]>) -> TensorId {
        let mut base = tensor;
        while let Some(op) = self.hidden_slices[base.0 as usize] {
            chain.push(op);
            match self.program.op(op).input_tensors().next() {
                Some(operand) => base = operand,
                None => break,
            }
        }
        base
    }

    /// The named tensor that the text of a tensor shows.
    pub(super) fn shown_tensor(&self, tensor: TensorId) -> TensorId {
        let mut base = tensor;
        while let Some(op) = self.hidden_slices[base.0 as usize] {
            match self.program.op(op).input_tensors().next() {
                Some(operand) => base = operand,
                None => break,
            }
        }
        base
    }
}

impl ProgramWriter<'_> {
    /// A tensor, or the slice that it is.
    pub(super) fn write_tensor(&mut self, tensor: TensorId) {
        let mut chain: SmallVec<[OpId; 4]> = SmallVec::new();
        let base = self.tables.slice_base(tensor, &mut chain);
        self.write_tensor_name(base);
        self.write_slice_indices(&chain);
    }

    /// The right side of `V = G[i, j]`.
    pub(super) fn write_select(&mut self, op: OpId) {
        let Some(operand) = self.program.op(op).input_tensors().next() else { return };
        let mut chain: SmallVec<[OpId; 4]> = SmallVec::from_slice(&[op]);
        let base = self.tables.slice_base(operand, &mut chain);
        self.write_tensor_name(base);
        self.write_slice_indices(&chain);
    }

    /// `[i, :, j][k]` of selects, innermost first. A bracket holds selects of ascending axes.
    fn write_slice_indices(&mut self, chain: &[OpId]) {
        let program = self.program;
        // Axes are counted in the tensor before the bracket: those selected so far, and the next one.
        let (mut selected, mut next) = (0, 0);
        for (at, &id) in chain.iter().rev().enumerate() {
            let op = program.op(id);
            let Some(index) = self.tables.slice_index(op) else { continue };
            if at > 0 && index.axis + selected < next {
                self.out.push(']');
                (selected, next) = (0, 0);
            }
            let axis = index.axis + selected;
            self.out.push_str(if selected == 0 { "[" } else { ", " });
            for _ in next..axis {
                self.out.push_str(":, ");
            }
            match op.expr_attr(AttrKey::Index) {
                Some(expr) if !index.device => self.write_expr(expr),
                _ => self.out.push_str("own"),
            }
            selected += 1;
            next = axis + 1;
        }
        if !chain.is_empty() {
            self.out.push(']');
        }
    }
}
