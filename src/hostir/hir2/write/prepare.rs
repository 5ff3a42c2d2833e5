//! The form of a program for writing: the style of June 2025, no redundant parentheses.

use crate::ir::edit::Edit;
use crate::ir::{
    AttrKey, AttrValue, DomainId, Era, Expr, ExprId, IdVec, IterDomain, Op, OpId, Program, Style, TensorId, Value,
};
use crate::style::{restyle_program, stored_size};
use rustc_hash::FxHashMap;

/// The era whose features a style shares most; June 2025 in case of a tie.
pub(super) fn closest_era(style: Style) -> (Era, &'static str) {
    let default = (Era::E2025_06, "2025-06");
    let mut best = (equal_features(style, default.0.style()), default);
    for &(era, name) in Era::ALL {
        let count = equal_features(style, era.style());
        if count > best.0 {
            best = (count, (era, name));
        }
    }
    best.1
}

fn equal_features(a: Style, b: Style) -> usize {
    let equal = [
        a.stream == b.stream,
        a.call_form == b.call_form,
        a.tight_stream_index == b.tight_stream_index,
        a.cast == b.cast,
        a.reshape == b.reshape,
        a.short_max == b.short_max,
        a.scatter_in == b.scatter_in,
        a.sdpa_commas == b.sdpa_commas,
        a.alias_select == b.alias_select,
        a.backend == b.backend,
        a.short_allocate == b.short_allocate,
        a.unit_lines == b.unit_lines,
        a.element_types == b.element_types,
        a.capital_buffers == b.capital_buffers,
    ];
    equal.iter().filter(|equal| **equal).count()
}

/// Converts a program to the form in which it is written. Returns for each op whether it is an allocation whose size is
/// the stored size of its tensor.
pub(super) fn prepare_program(edit: &mut Edit<'_>) -> IdVec<OpId, bool> {
    restyle_program(edit, Era::E2025_06.style());
    if (0..edit.program().exprs().len()).any(|at| matches!(edit.program().expr(ExprId(at as u32)), Expr::Set(_))) {
        ParenthesesRemover { edit, exprs: FxHashMap::default() }.strip_program();
    }
    let mut allocations = Vec::new();
    edit.program().walk_with_units(&mut |id| {
        if edit.program().op(id).kind.is_allocation() {
            allocations.push(id);
        }
    });
    let mut usual = IdVec::filled(false, edit.program().ops().len());
    for id in allocations {
        let tensor = edit.program().op(id).output_tensors().next();
        let size = edit.program().op(id).expr_attr(AttrKey::Size);
        usual[id] = tensor.is_some_and(|tensor| size == Some(stored_size(edit, tensor)));
    }
    usual
}

/// Takes redundant parentheses out of all scalars.
struct ParenthesesRemover<'e, 'p> {
    edit: &'e mut Edit<'p>,
    exprs: FxHashMap<ExprId, ExprId>,
}

impl ParenthesesRemover<'_, '_> {
    fn strip_program(&mut self) {
        let domains: Vec<IterDomain> = self.edit.program().all_domains().copied().collect();
        for (at, domain) in domains.into_iter().enumerate() {
            let new = self.strip_domain(domain);
            if new != domain {
                self.edit.set_domain(DomainId(at as u32), new);
            }
        }
        self.strip_tensors();
        let ops: Vec<OpId> = self.edit.program().ops().ids().collect();
        for id in ops {
            let mut op = self.edit.program().op(id).clone();
            self.strip_op(&mut op);
            if op != *self.edit.program().op(id) {
                self.edit.set_op(id, op);
            }
        }
    }

    fn strip_tensors(&mut self) {
        let tensors: Vec<TensorId> = self.edit.program().tensors().ids().collect();
        for id in tensors {
            let mut tensor = self.edit.program().tensor(id).clone();
            let Some(logical) = &mut tensor.logical else { continue };
            logical.iter_mut().for_each(|extent| *extent = self.strip_expr(*extent));
            self.edit.set_tensor(id, tensor);
        }
    }

    fn strip_domain(&mut self, mut domain: IterDomain) -> IterDomain {
        domain.extent = self.strip_expr(domain.extent);
        for bound in [&mut domain.start, &mut domain.stop, &mut domain.expanded].into_iter().flatten() {
            *bound = self.strip_expr(*bound);
        }
        domain
    }

    fn strip_op(&mut self, op: &mut Op) {
        for value in op.operands.iter_mut().chain(&mut op.results) {
            if let Value::Scalar(expr) | Value::Stream(expr) = value {
                *expr = self.strip_expr(*expr);
            }
        }
        for (_, value) in &mut op.attrs {
            let exprs: &mut [ExprId] = AttrValue::exprs_mut(value);
            exprs.iter_mut().for_each(|expr| *expr = self.strip_expr(*expr));
        }
    }

    fn strip_expr(&mut self, id: ExprId) -> ExprId {
        if let Some(&known) = self.exprs.get(&id) {
            return known;
        }
        let expr = self.edit.program().expr(id).clone();
        let new = match expr.map_parts(|part| self.strip_expr(part)) {
            Expr::Set(a) => a,
            other => self.edit.intern_expr(other),
        };
        self.exprs.insert(id, new);
        new
    }
}

/// The names of the scalars that a program uses.
pub(super) fn scalar_names(program: &Program) -> Vec<bool> {
    let mut used = vec![false; program.names().len()];
    for at in 0..program.exprs().len() {
        if let Expr::Name(name) = program.expr(ExprId(at as u32)) {
            used[name.0 as usize] = true;
        }
    }
    used
}
