//! Printing of ops with a form of their own.

use super::ProgramPrinter;
use crate::ir::{AttrKey, AttrValue, ExprId, Op, OpId, Value};

impl ProgramPrinter<'_> {
    /// Ends the line after an op in a text whose waits follow communications on one line.
    pub(super) fn print_joined_end(&mut self, op: OpId, next: Option<OpId>) {
        let kind = |op: OpId| self.program.op(op).kind;
        let has_comments = !self.comments.is_empty();
        let waits_next = next.is_some_and(|next| kind(next).is_wait());
        if kind(op).is_wait() {
            self.push("\n\n");
        } else if !(kind(op).is_collective() && waits_next && !has_comments) {
            self.push("\n");
        }
    }

    /// Both forms of ALLOCATE.
    pub(super) fn print_allocate(&mut self, op: &Op) {
        let Some(result) = op.results.first().copied() else { return };
        self.print_value(result);
        self.push(" = ALLOCATE(");
        let mut separator = "";
        for declared in op.kind.spec().args {
            let (Some(key), Some(word)) = (declared.key, declared.word) else { continue };
            let Some(value) = op.attr(key) else { continue };
            if key == AttrKey::Alias || self.is_implied(op, key) {
                continue;
            }
            self.push(separator);
            self.push(word);
            self.push("=");
            match key {
                AttrKey::Buffer => self.print_value(result),
                _ => self.print_attr(key, declared.kind, value),
            }
            separator = ", ";
        }
        self.push(")");
        if let Some(AttrValue::Tensor(alias)) = op.attr(AttrKey::Alias) {
            self.break_line(2);
            self.push(".alias=");
            self.print_tensor(*alias);
        }
    }

    pub(super) fn print_deallocate(&mut self, op: &Op) {
        self.push("Deallocate {");
        for operand in &op.operands {
            self.break_line(2);
            self.print_value(*operand);
        }
        self.break_line(0);
        self.push("}");
    }

    /// `FOR i in iS0{8}:`, with the bounds if it has any.
    pub(super) fn print_for_in(&mut self, op: &Op) {
        let program = self.program;
        self.push("FOR ");
        self.print_attr_expr(op, AttrKey::Index);
        self.push(" in ");
        let domain = op.domain_attr(AttrKey::Domain);
        if let Some(domain) = domain {
            self.text_writer().write_domain(program.domain(domain));
        }
        let bounds = [AttrKey::Start, AttrKey::Stop, AttrKey::Step].map(|key| op.expr_attr(key));
        if bounds.iter().any(Option::is_some) {
            self.push(" from ");
            self.print_expr_or(bounds[0], "0");
            self.push(" to ");
            let extent = domain.map(|domain| program.domain(domain).extent);
            self.print_expr_or(bounds[1].or(extent), "0");
            self.print_step(bounds[2]);
        }
        self.push(":");
    }

    /// `FOR i from 0 to 8:`
    pub(super) fn print_for_range(&mut self, op: &Op) {
        self.push("FOR ");
        self.print_attr_expr(op, AttrKey::Index);
        self.push(" from ");
        self.print_attr_expr(op, AttrKey::Start);
        self.push(" to ");
        self.print_attr_expr(op, AttrKey::Stop);
        self.print_step(op.expr_attr(AttrKey::Step));
        self.push(":");
    }

    fn print_step(&mut self, step: Option<ExprId>) {
        if let Some(step) = step {
            self.push(" step ");
            self.print_expr(step);
        }
    }

    fn print_expr_or(&mut self, expr: Option<ExprId>, other: &str) {
        match expr {
            Some(expr) => self.print_expr(expr),
            None => self.push(other),
        }
    }

    fn print_attr_expr(&mut self, op: &Op, key: AttrKey) {
        self.print_expr_or(op.expr_attr(key), "0");
    }

    /// `IF Manual ( StreamIdx == rank ):`
    pub(super) fn print_branch(&mut self, op: &Op) {
        let program = self.program;
        self.push("IF ");
        self.push(op.word_attr(AttrKey::Predicate).map_or("Manual", |word| program.name(word)));
        if let Some(condition) = op.operands.first() {
            self.push(" ");
            self.print_value(*condition);
        }
        self.push(":");
    }

    /// Prints a PostOnStream. A comma follows each element, the last one too.
    pub(super) fn print_post_on_stream(&mut self, op: &Op) {
        self.push("PostOnStream (");
        let mut operands = op.operands.iter();
        if let Some(unit) = operands.next() {
            self.print_value(*unit);
        }
        self.push(", Inputs:{");
        self.print_comma_list(operands.as_slice());
        self.push("}, Outputs:{");
        self.print_comma_list(&op.results);
        self.push("})");
    }

    /// `a, b, `, in July 2024 `a, b`.
    pub(super) fn print_comma_list(&mut self, values: &[Value]) {
        if self.program.style.july_frame {
            return self.print_joined(values);
        }
        for value in values {
            self.print_value(*value);
            self.push(", ");
        }
    }

    pub(super) fn print_launch_kernel(&mut self, op: &Op) {
        self.push("LaunchKernel(");
        if op.attr(AttrKey::GroupId).is_some() {
            self.break_line(2);
            self.push("Group ID: ");
            self.print_attr_expr(op, AttrKey::GroupId);
            self.push(",");
        }
        let inputs: Vec<Value> = op.operands.iter().copied().filter(|value| !matches!(value, Value::Unit(_))).collect();
        for (title, values) in [("Inputs: {", inputs.as_slice()), ("Outputs: {", &op.results)] {
            self.break_line(2);
            self.push(title);
            self.print_joined(values);
            self.push("},");
        }
        self.print_user_kernel(op);
        self.break_line(0);
        self.push(")");
    }

    /// The attributes of a launch that nvFuser does not print.
    fn print_user_kernel(&mut self, op: &Op) {
        for declared in op.kind.spec().args {
            let (Some(key), Some(word)) = (declared.key, declared.word) else { continue };
            let Some(value) = op.attr(key).filter(|_| key != AttrKey::GroupId) else { continue };
            self.break_line(2);
            self.push(word);
            self.push(": ");
            self.print_attr(key, declared.kind, value);
            self.push(",");
        }
        if let Some(unit) = op.posted_number() {
            self.break_line(2);
            self.push("Reference: ");
            self.print_value(Value::Unit(unit));
            self.push(",");
        }
    }

    /// `a, b`
    fn print_joined(&mut self, values: &[Value]) {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.print_value(*value);
        }
    }

    /// nvFuser prints no closing parenthesis.
    pub(super) fn print_share_mem_handles(&mut self, op: &Op) {
        self.push("ShareMemHandles(");
        self.print_comma_list(&op.operands);
    }

    pub(super) fn print_get_current_stream(&mut self, op: &Op) {
        let Some(stream) = op.results.first().copied() else { return };
        if self.style.call_form {
            self.print_value(stream);
            self.push(" = GetCurrentStream()");
        } else {
            self.push("GetCurrentStream into ");
            self.print_value(stream);
        }
    }
}
