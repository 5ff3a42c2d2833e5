//! One function for each layout of the op table.

use super::Printer;
use crate::ir::TEAM_CUT;
use crate::ir::{AttrKey, AttrValue, Expr, ExprId, Op, OpId, TensorId, Value, order};
use crate::ir::{Layout, Link, OpKind, Padding, functions};
use crate::ir::{TextWriter, push_integer, push_number};
use crate::ops::{ArgKind, ArgSpec, Equals, OpSpec};

impl Printer<'_> {
    /// The text of an op up to its last line break, without its blocks.
    pub(super) fn op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        let spec = op.kind.spec();
        match op.kind.layout() {
            Layout::OneLine(padding) => self.one_line(op, spec, padding),
            Layout::TwoLines(padding) => self.two_lines(op, spec, padding),
            Layout::Aligned => self.aligned(op, spec),
            Layout::AlignedLoose => self.aligned_loose(op, spec),
            Layout::Factory => self.factory(op, spec),
            Layout::Pointwise => self.pointwise(op),
            Layout::Keyed => self.keyed(op, spec),
            Layout::Words(link) => self.words(op, spec, link),
            Layout::Define => self.define(op),
            Layout::Own => match op.kind {
                OpKind::Allocate => self.allocate(op),
                OpKind::Deallocate => self.deallocate(op),
                OpKind::For => self.for_in(op),
                OpKind::ForRange => self.for_range(op),
                OpKind::If => self.branch(op),
                OpKind::PostOnStream => self.post_on_stream(op),
                OpKind::LaunchKernel => self.launch_kernel(op),
                OpKind::ShareMemHandles => self.share_mem_handles(op),
                OpKind::GetCurrentStream => self.get_current_stream(op),
                _ => self.keyed(op, spec),
            },
        }
    }

    fn one_line(&mut self, op: &Op, spec: &OpSpec, padding: Padding) {
        self.results(op);
        self.push(" = ");
        self.call(op, spec, padding);
    }

    fn two_lines(&mut self, op: &Op, spec: &OpSpec, padding: Padding) {
        self.results(op);
        self.line(3);
        self.push("= ");
        self.call(op, spec, padding);
    }

    /// `name( args )`
    fn call(&mut self, op: &Op, spec: &OpSpec, padding: Padding) {
        self.push(spec.head(&self.program.style));
        self.push(if padding == Padding::Padded { "( " } else { "(" });
        self.args(op, spec);
        self.push(if padding == Padding::Padded { " )" } else { ")" });
    }

    fn results(&mut self, op: &Op) {
        for (index, result) in op.results.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.value(*result);
        }
    }

    fn aligned(&mut self, op: &Op, spec: &OpSpec) {
        self.results(op);
        self.line(3);
        self.push("= ");
        self.push(spec.head(&self.program.style));
        self.push("(");
        for (index, operand) in op.operands.iter().enumerate() {
            if index > 0 {
                self.push(",");
                self.line(12);
            }
            self.value(*operand);
        }
        self.push(")");
    }

    /// nvFuser indents before the `,` and `)` that follow the second operand, and the third stands
    /// in column 10.
    fn aligned_loose(&mut self, op: &Op, spec: &OpSpec) {
        self.results(op);
        self.line(3);
        self.push("= ");
        self.push(spec.head(&self.program.style));
        self.push("(");
        for (index, operand) in op.operands.iter().enumerate() {
            match index {
                0 => {}
                1 => {
                    self.push(",");
                    self.line(12);
                }
                _ => {
                    self.blanks(self.indent + 2);
                    self.push(",\n          ");
                }
            }
            self.value(*operand);
        }
        self.blanks(self.indent + 2);
        self.push(")");
    }

    /// `full({i0}, float(0));`; no comma follows an empty list.
    fn factory(&mut self, op: &Op, spec: &OpSpec) {
        self.two_lines(op, spec, Padding::Tight);
        self.push(";");
    }

    fn pointwise(&mut self, op: &Op) {
        let function = op.word(AttrKey::Function).map_or("", |word| self.program.name(word));
        let style = self.program.style;
        self.results(op);
        self.line(3);
        self.push("= ");
        let infix =
            !function.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '(');
        match (infix, op.operands.as_slice()) {
            (true, [a]) => {
                self.push(function);
                // `-2` would be a number.
                if a.tensor().is_none() {
                    self.push(" ");
                }
                self.value(*a);
            }
            (true, [a, b]) => {
                self.value(*a);
                self.line(3);
                self.push(function);
                self.push(" ");
                self.value(*b);
            }
            (_, operands) => {
                self.push(functions::spelled(function, &style));
                self.push("(");
                for (index, operand) in operands.iter().enumerate() {
                    if index > 0 {
                        self.line(2);
                        self.push(", ");
                    }
                    self.value(*operand);
                }
                self.push(")");
            }
        }
        self.push(";");
    }

    /// `Communication 39 (type=..., ...)`
    pub(super) fn keyed(&mut self, op: &Op, spec: &OpSpec) {
        self.push(op.kind.name());
        self.push(" ");
        if let Some(number) = op.number() {
            self.number(number);
            self.push(" ");
        }
        self.push("(");
        self.args(op, spec);
        self.push(")");
    }

    fn words(&mut self, op: &Op, _spec: &OpSpec, link: Link) {
        self.push(op.kind.name());
        if let (Link::Number, Some(number)) = (link, op.number()) {
            self.push(" ");
            self.number(number);
        }
        let Some(operand) = op.operands.first() else { return };
        if self.program.style.call_form {
            self.push("(");
            self.value(*operand);
            self.push(")");
            return;
        }
        self.push(if link == Link::To { " to " } else { " " });
        self.value(*operand);
    }

    /// `i84 = i82 % 8;`
    fn define(&mut self, op: &Op) {
        self.results(op);
        self.push(" = ");
        let Some(value) = op.operands.first().and_then(|operand| operand.scalar()) else { return };
        let program = self.program;
        let terminated = match program.expr(value) {
            Expr::Index(base, index) if program.exprs().as_name(*base).is_some() => {
                self.expr(*base);
                self.push("[");
                self.expr(*index);
                self.push("]");
                return;
            }
            Expr::Field(base, field) if program.exprs().as_name(*base).is_some() => {
                self.expr(*base);
                self.push(".");
                self.push(program.name(*field));
                return;
            }
            Expr::Braces(items) => {
                self.push("{");
                self.writer().list(items);
                self.push("}");
                return;
            }
            Expr::MetaData(tensor) => {
                self.push("getMetaData(");
                self.tensor(*tensor);
                self.push(")");
                return;
            }
            Expr::Set(_) => {
                self.expr(value);
                self.push(";");
                return;
            }
            Expr::Call(name, _) => program.name(*name) != "ReverseArray",
            _ => true,
        };
        self.writer().body(value);
        if terminated {
            self.push(";");
        }
    }

    /// The arguments of the table that the op has.
    fn args(&mut self, op: &Op, spec: &OpSpec) {
        let mut operands = op.operands.iter();
        let mut results = op.results.iter().skip(op.kind.result_count());
        let mut separator = "";
        for declared in spec.args {
            if let Some(key) = declared.key {
                let Some(value) = op.attr(key).filter(|_| !self.is_understood(op, key)) else {
                    separator = self.root_as(op, key, separator);
                    continue;
                };
                self.push(separator);
                self.word(declared);
                self.attr(key, declared.kind, value);
                let glued = op.kind.layout() == Layout::Factory
                    && matches!(value, AttrValue::Exprs(list) if list.is_empty());
                separator = if glued { "" } else { ", " };
                continue;
            }
            loop {
                let next = if declared.result { None } else { operands.next() };
                let Some(value) =
                    next.or_else(|| if declared.repeated { None } else { results.next() })
                else {
                    break;
                };
                self.push(separator);
                self.word(declared);
                self.value(*value);
                separator = ", ";
                if !declared.repeated {
                    break;
                }
            }
        }
    }

    /// Whether a text without the attribute is read as if it had it.
    pub(super) fn is_understood(&self, op: &Op, key: AttrKey) -> bool {
        match key {
            AttrKey::RootAs => op.attr(AttrKey::Root).is_some(),
            AttrKey::Keep => op.keeps_memory() == op.attr(AttrKey::Buffer).is_some(),
            AttrKey::Perm => self.is_told_by_numbers(op),
            _ => false,
        }
    }

    /// Whether the numbers of the result tell the permutation.
    fn is_told_by_numbers(&self, op: &Op) -> bool {
        let Some(result) = op.output_tensors().next() else { return false };
        let program = self.program;
        let axes = program.logical_axes(result);
        let told = order::permutation_as_read(program.domains(result), &axes);
        program.tensor(result).logical.is_none() && told.as_deref() == op.ints(AttrKey::Perm)
    }

    /// `root_as=rank`, where the text would be read as the other one.
    fn root_as(&mut self, op: &Op, key: AttrKey, separator: &'static str) -> &'static str {
        if key != AttrKey::RootAs || op.attr(AttrKey::Root).is_none() {
            return separator;
        }
        let (counted, program) = (self.program.root_as(op), self.program);
        if counted == *self.spelled_root.get_or_insert_with(|| program.spelled_root()) {
            return separator;
        }
        self.push(separator);
        self.push("root_as=");
        self.push(counted.word());
        ", "
    }

    /// `key=` or `key = `
    fn word(&mut self, declared: &ArgSpec) {
        let Some(word) = declared.word else { return };
        let tight = match declared.equals {
            Equals::Tight => true,
            Equals::Spaced => false,
            Equals::StreamIndex => self.program.style.tight_stream_index,
        };
        self.push(word);
        self.push(if tight { "=" } else { " = " });
    }

    pub(super) fn attr(&mut self, key: AttrKey, kind: ArgKind, value: &AttrValue) {
        let program = self.program;
        match value {
            AttrValue::Bool(value) => self.push(if *value { "true" } else { "false" }),
            AttrValue::Expr(expr) => self.expr(*expr),
            AttrValue::Word(word) => {
                let word = program.name(*word);
                let reduction = key == AttrKey::ReduceOp;
                self.push(if reduction { functions::spelled(word, &program.style) } else { word });
            }
            AttrValue::Tensor(tensor) => self.tensor(*tensor),
            AttrValue::Domain(domain) => self.writer().domain(program.domain(*domain)),
            AttrValue::Ints(ints) if kind == ArgKind::Team => self.team(ints),
            AttrValue::Ints(ints) => {
                self.braced(ints, |printer, value| push_integer(printer.out, *value));
            }
            AttrValue::Bools(flags) => {
                self.braced(flags, |printer, value| {
                    printer.push(if *value { "true" } else { "false" })
                });
            }
            AttrValue::Exprs(exprs) => self.braced(exprs, |printer, value| printer.expr(*value)),
            AttrValue::Ranges(ranges) => {
                self.push("{");
                for range in ranges {
                    self.push(" ");
                    self.braced(range, |printer, value| printer.expr(*value));
                }
                self.push(" }");
            }
        }
    }

    /// `{a, b}`
    fn braced<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.push("{");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            write(self, item);
        }
        self.push("}");
    }

    /// `(0 1 2)`, or `(0 1 2 ... )` where nvFuser cut it off.
    fn team(&mut self, team: &[i64]) {
        self.push("(");
        for (index, device) in team.iter().enumerate() {
            if index > 0 {
                self.push(" ");
            }
            if *device == TEAM_CUT {
                self.push("...");
            } else {
                push_integer(self.out, *device);
            }
        }
        self.push(")");
    }

    pub(super) fn value(&mut self, value: Value) {
        match value {
            Value::Tensor(tensor) => self.tensor(tensor),
            Value::Scalar(expr) => self.expr(expr),
            Value::Stream(expr) => {
                self.push("Stream ");
                self.expr(expr);
            }
            Value::Handle(number) => {
                self.push("Communication ");
                self.number(number);
            }
            Value::Unit(number) => {
                self.push("HostUnit");
                self.number(number);
            }
            Value::Op(op) => self.op(op),
        }
    }

    pub(super) fn tensor(&mut self, id: TensorId) {
        if let Some(known) = &mut self.known {
            let number = self.program.tensor(id).number;
            if known.insert(number, id) == Some(id) {
                self.out.push('T');
                return push_number(self.out, u64::from(number));
            }
        }
        self.out.push_str(self.texts.tensor(self.program, id));
    }

    pub(super) fn expr(&mut self, id: ExprId) {
        self.out.push_str(self.texts.expr(self.program, id));
    }

    pub(super) fn number(&mut self, number: u32) {
        push_number(self.out, u64::from(number));
    }

    pub(super) fn writer(&mut self) -> TextWriter<'_> {
        TextWriter { program: self.program, style: self.program.style, out: self.out }
    }
}
