//! Ops with a form of their own.

use super::Printer;
use crate::ir::OpKind;
use crate::ir::{AttrKey, AttrValue, ExprId, Op, Value};

impl Printer<'_> {
    /// Both forms of ALLOCATE.
    pub(super) fn allocate(&mut self, op: &Op) {
        let Some(result) = op.results.first().copied() else { return };
        self.value(result);
        self.push(" = ALLOCATE(");
        let mut separator = "";
        for declared in OpKind::Allocate.spec().args {
            let (Some(key), Some(word)) = (declared.key, declared.word) else { continue };
            let Some(value) = op.attr(key) else { continue };
            if key == AttrKey::Alias || self.is_understood(op, key) {
                continue;
            }
            self.push(separator);
            self.push(word);
            self.push("=");
            match key {
                AttrKey::Buffer => self.value(result),
                _ => self.attr(key, declared.kind, value),
            }
            separator = ", ";
        }
        self.push(")");
        if let Some(AttrValue::Tensor(alias)) = op.attr(AttrKey::Alias) {
            self.line(2);
            self.push(".alias=");
            self.tensor(*alias);
        }
    }

    pub(super) fn deallocate(&mut self, op: &Op) {
        self.push("Deallocate {");
        for operand in &op.operands {
            self.line(2);
            self.value(*operand);
        }
        self.line(0);
        self.push("}");
    }

    /// `FOR i in iS0{8}:`, with the bounds if it has any.
    pub(super) fn for_in(&mut self, op: &Op) {
        let program = self.program;
        self.push("FOR ");
        self.attr_expr(op, AttrKey::Index);
        self.push(" in ");
        let domain = op.domain(AttrKey::Domain);
        if let Some(domain) = domain {
            self.writer().domain(program.domain(domain));
        }
        let bounds = [AttrKey::Start, AttrKey::Stop, AttrKey::Step].map(|key| op.expr(key));
        if bounds.iter().any(Option::is_some) {
            self.push(" from ");
            self.expr_or(bounds[0], "0");
            self.push(" to ");
            let extent = domain.map(|domain| program.domain(domain).extent);
            self.expr_or(bounds[1].or(extent), "0");
            self.step(bounds[2]);
        }
        self.push(":");
    }

    /// `FOR i from 0 to 8:`
    pub(super) fn for_range(&mut self, op: &Op) {
        self.push("FOR ");
        self.attr_expr(op, AttrKey::Index);
        self.push(" from ");
        self.attr_expr(op, AttrKey::Start);
        self.push(" to ");
        self.attr_expr(op, AttrKey::Stop);
        self.step(op.expr(AttrKey::Step));
        self.push(":");
    }

    fn step(&mut self, step: Option<ExprId>) {
        if let Some(step) = step {
            self.push(" step ");
            self.expr(step);
        }
    }

    fn expr_or(&mut self, expr: Option<ExprId>, other: &str) {
        match expr {
            Some(expr) => self.expr(expr),
            None => self.push(other),
        }
    }

    fn attr_expr(&mut self, op: &Op, key: AttrKey) {
        self.expr_or(op.expr(key), "0");
    }

    /// `IF Manual ( StreamIdx == rank ):`
    pub(super) fn branch(&mut self, op: &Op) {
        let program = self.program;
        self.push("IF ");
        self.push(op.word(AttrKey::Predicate).map_or("Manual", |word| program.name(word)));
        if let Some(condition) = op.operands.first() {
            self.push(" ");
            self.value(*condition);
        }
        self.push(":");
    }

    /// Each element is followed by a comma, the last one too.
    pub(super) fn post_on_stream(&mut self, op: &Op) {
        self.push("PostOnStream (");
        let mut operands = op.operands.iter();
        if let Some(unit) = operands.next() {
            self.value(*unit);
        }
        self.push(", Inputs:{");
        self.comma_list(operands.as_slice());
        self.push("}, Outputs:{");
        self.comma_list(&op.results);
        self.push("})");
    }

    /// `a, b, `
    pub(super) fn comma_list(&mut self, values: &[Value]) {
        for value in values {
            self.value(*value);
            self.push(", ");
        }
    }

    pub(super) fn launch_kernel(&mut self, op: &Op) {
        self.push("LaunchKernel(");
        self.line(2);
        self.push("Group ID: ");
        self.attr_expr(op, AttrKey::GroupId);
        self.push(",");
        for (title, values) in [("Inputs: {", op.operands.as_slice()), ("Outputs: {", &op.results)]
        {
            self.line(2);
            self.push(title);
            self.joined(values);
            self.push("},");
        }
        self.line(0);
        self.push(")");
    }

    /// `a, b`
    fn joined(&mut self, values: &[Value]) {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.value(*value);
        }
    }

    /// nvFuser prints no closing parenthesis.
    pub(super) fn share_mem_handles(&mut self, op: &Op) {
        self.push("ShareMemHandles(");
        self.comma_list(&op.operands);
    }

    pub(super) fn get_current_stream(&mut self, op: &Op) {
        let Some(stream) = op.results.first().copied() else { return };
        if self.program.style.call_form {
            self.value(stream);
            self.push(" = GetCurrentStream()");
        } else {
            self.push("GetCurrentStream into ");
            self.value(stream);
        }
    }
}
