//! Printing of scatters, and of reductions with several results.

use super::ProgramPrinter;
use crate::ir::{AttrKey, AttrValue, Op, Value, functions};
use crate::ops::OpSpec;

/// The tags of Welford's results and operands.
const TAGS: [&str; 3] = ["(Avg)", "(Var)", "(Count)"];

impl ProgramPrinter<'_> {
    /// `T1 = scatter(in = T0, dim = 0, src = T2, idx = T3 )`; in 2025-06 no blank follows the `=`.
    pub(super) fn print_scatter(&mut self, op: &Op, spec: &OpSpec) {
        self.print_results(op);
        self.break_line(3);
        self.push(if self.style.scatter_in { "= " } else { "=" });
        self.push(spec.head_word(&self.style));
        self.push("(");
        self.print_args(op, spec);
        self.push(" )");
    }

    /// A line for each reduction, without commas.
    pub(super) fn print_grouped_reduction(&mut self, op: &Op) {
        self.push(op.kind.name());
        self.push("(");
        let words = op.attr(AttrKey::ReduceOp).map_or(&[][..], AttrValue::words);
        let initials = op.attr(AttrKey::Init).map_or(&[][..], AttrValue::exprs);
        for (at, (result, operand)) in op.results.iter().zip(&op.operands).enumerate() {
            self.break_line(2);
            self.print_value(*result);
            self.push(" = reduction( ");
            self.print_value(*operand);
            if let Some(word) = words.get(at) {
                self.push(", op = ");
                self.push(functions::spelled_name(self.program.name(*word), &self.style));
            }
            if let Some(initial) = initials.get(at) {
                self.push(", initial value = ");
                self.print_expr(*initial);
            }
            self.push(" )");
        }
        self.break_line(2);
        self.print_allreduce(op);
    }

    /// The results; the operands, of which the tensor alone follows on the same line; the initial values. Only the
    /// first line is indented.
    pub(super) fn print_welford(&mut self, op: &Op, spec: &OpSpec) {
        for (at, (result, tag)) in op.results.iter().zip(TAGS).enumerate() {
            self.push(if at > 0 { ",\n" } else { "" });
            self.print_value(*result);
            self.push(tag);
        }
        self.push("\n = Welford ( ");
        if let Some(mean) = op.operands.first() {
            self.print_marked(*mean, TAGS[0]);
        }
        match ["var", "count"].map(|word| spec.named_operand(op, word)) {
            [None, None] => self.push(", "),
            rest => self.print_marked_lines(&rest, &TAGS[1..]),
        }
        let initial = ["init_avg", "init_var", "init_count"].map(|word| spec.named_operand(op, word));
        if let [Some(mean), rest @ ..] = initial {
            self.push("\n  initial value = ");
            self.print_marked(mean, TAGS[0]);
            self.print_marked_lines(&rest, &["(Var)", "(N)"]);
        }
        self.push("\n  ");
        self.print_allreduce(op);
    }

    fn print_marked_lines(&mut self, values: &[Option<Value>], tags: &[&'static str]) {
        for (value, tag) in values.iter().zip(tags) {
            let Some(value) = value else { continue };
            self.push("\n  ");
            self.print_marked(*value, tag);
        }
    }

    /// A value and its mark.
    fn print_marked(&mut self, value: Value, tag: &str) {
        self.print_markable(value);
        self.push(tag);
    }

    /// A value before its mark. A name is in parentheses: `n(N)` is a call.
    fn print_markable(&mut self, value: Value) {
        let is_name = value.as_scalar().is_some_and(|scalar| self.program.exprs().as_name(scalar).is_some());
        self.push(if is_name { "( " } else { "" });
        self.print_value(value);
        self.push(if is_name { " )" } else { "" });
    }

    /// For each group its three results, three operands and three initial values.
    pub(super) fn print_grouped_welford(&mut self, op: &Op) {
        self.push("GroupedWelford(");
        for (results, operands) in op.results.chunks(3).zip(op.operands.chunks(6)) {
            self.print_marked_list(results, 2);
            self.break_line(3);
            self.push("= Welford ( ");
            let (values, initial) = operands.split_at(operands.len().min(3));
            self.print_blanks(self.indent + 4);
            self.print_marked_rest(values, 4);
            self.break_line(4);
            self.push("initial value =");
            self.print_marked_list(initial, 6);
            self.push(" )");
        }
        self.break_line(2);
        self.print_allreduce(op);
    }

    /// Marked values, each on a line of its own.
    fn print_marked_list(&mut self, values: &[Value], column: usize) {
        self.break_line(column);
        self.print_marked_rest(values, column);
    }

    /// The same, the first of them on this line.
    fn print_marked_rest(&mut self, values: &[Value], column: usize) {
        for (at, (value, tag)) in values.iter().zip(TAGS).enumerate() {
            if at > 0 {
                self.push(",");
                self.break_line(column);
            }
            self.print_markable(*value);
            self.push(" ");
            self.push(tag);
        }
    }

    /// `allreduce = false )`
    fn print_allreduce(&mut self, op: &Op) {
        let is_all = op.attr(AttrKey::Allreduce) == Some(&AttrValue::Bool(true));
        self.push(if is_all { "allreduce = true )" } else { "allreduce = false )" });
    }
}
