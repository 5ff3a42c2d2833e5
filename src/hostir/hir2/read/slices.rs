//! Slices: one select for each index.

use super::program::ProgramReader;
use super::report;
use super::report_calls::ResultSource;
use crate::axes::{stored_axis_place, stored_rank};
use crate::ir::{DomainId, ExprId, TensorId, Value};
use crate::ops::memory::{select_type, slice_op};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, IndexItem, NameSyntax, NodeRange, TypeId};

/// The name that the last select of a slice binds.
#[derive(Clone, Copy)]
pub(super) struct SliceTarget {
    pub(super) name: NameSyntax,
    pub(super) ty: Option<TypeId>,
}

/// One select of a slice.
struct SliceStep {
    tensor: TensorId,
    /// Position among the stored axes.
    axis: usize,
    index: ExprId,
    span: Span,
}

impl ProgramReader<'_> {
    /// The slice of an index expression; the last select binds `target`, or a tensor without a name.
    pub(super) fn slice(&mut self, id: ast::ExprId, target: Option<SliceTarget>) -> Option<TensorId> {
        let ExprNode::Index(base, items) = *self.file.expr(id) else { return None };
        let tensor = self.tensor_operand(base)?;
        let span = self.file.expr_span(id);
        let rank = stored_rank(&self.program, tensor);
        if items.len() > rank {
            let indexed = self.source.get(self.file.expr_span(base).as_usize_range()).unwrap_or_default();
            report::report_index_count(indexed, rank, items.len(), span, self.diags);
            return None;
        }
        self.select_all(tensor, items, span, target)
    }

    /// One select for each index in brackets, outermost axis first.
    fn select_all(
        &mut self,
        mut tensor: TensorId,
        items: NodeRange,
        span: Span,
        target: Option<SliceTarget>,
    ) -> Option<TensorId> {
        let file = self.file;
        let items = &file.index_items[items.indices()];
        let last = items.iter().rposition(|item| matches!(item, IndexItem::At(_)));
        let mut taken = 0;
        for (position, item) in items.iter().enumerate() {
            let IndexItem::At(index) = *item else { continue };
            let axis = position - taken;
            let index = self.slice_index(tensor, axis, index)?;
            let step = SliceStep { tensor, axis, index, span };
            tensor = self.select_one(&step, target.filter(|_| Some(position) == last))?;
            taken += 1;
        }
        Some(tensor)
    }

    /// The index of a select; on an axis over devices it must be the rank's own shard.
    fn slice_index(&mut self, tensor: TensorId, axis: usize, index: ast::ExprId) -> Option<ExprId> {
        let file = self.file;
        let span = file.expr_span(index);
        let domain = self.stored_domain(tensor, axis)?;
        let is_device = self.program.domains[domain].parallel.is_device();
        let is_own = matches!(*file.expr(index), ExprNode::Name(name) if file.symbol_text(name) == "own");
        if is_own != is_device {
            let is_last = self.source.get(span.end as usize..).is_some_and(|rest| rest.starts_with(']'));
            report::report_own_index(&self.program, tensor, axis, [is_own, is_last], span, self.diags);
            return None;
        }
        if is_own {
            return Some(self.program.exprs.intern_int(0));
        }
        if matches!(*file.expr(index), ExprNode::Name(name) if file.symbol_text(name) == "rank") {
            report::check_rank_index(&self.program, tensor, span, self.diags);
        }
        self.scalar(index)
    }

    /// The domain of a stored axis.
    pub(super) fn stored_domain(&self, tensor: TensorId, axis: usize) -> Option<DomainId> {
        let printed = stored_axis_place(&self.program, tensor, axis)?;
        Some(DomainId(self.program.tensors[tensor].domains_start + printed))
    }

    fn select_one(&mut self, step: &SliceStep, target: Option<SliceTarget>) -> Option<TensorId> {
        let ty = select_type(&self.program, step.tensor, step.axis);
        let result = match target {
            Some(target) => self.result_tensor(target.name, target.ty, ty, ResultSource::Other)?,
            None => match ty {
                Some(ty) => {
                    let hidden = self.add_hidden_tensor(ty, step.span);
                    let text = self.source.get(step.span.as_usize_range()).unwrap_or_default();
                    self.program.source.slices.push(hidden, text);
                    hidden
                }
                None => {
                    report::report_split_slice(&self.program, step.tensor, step.span, self.diags);
                    return None;
                }
            },
        };
        let domain = self.stored_domain(step.tensor, step.axis)?;
        let op = slice_op(step.tensor, domain, step.index).with_result(Value::Tensor(result));
        self.emit(op, step.span);
        Some(result)
    }
}
