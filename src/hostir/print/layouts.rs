//! One function for each layout of the op table.

use super::ProgramPrinter;
use crate::ir::TEAM_CUT;
use crate::ir::text::is_unsigned_integer;
use crate::ir::{AttrKey, AttrValue, Expr, ExprId, Op, OpId, TensorId, Value, order};
use crate::ir::{CallPadding, OpLayout, OwnForm, WordLink, functions};
use crate::ir::{TextWriter, push_integer, push_number};
use crate::ops::{ArgKind, ArgSpec, EqualsSpacing, OpSpec};

impl ProgramPrinter<'_> {
    /// The text of an op up to its last line break, without its blocks.
    pub(super) fn print_statement(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        let spec = op.kind.spec();
        match op.kind.layout() {
            OpLayout::OneLine(padding) => self.print_one_line(op, spec, padding),
            OpLayout::TwoLines(padding) => self.print_two_lines(op, spec, padding),
            OpLayout::Aligned => self.print_aligned(op, spec),
            OpLayout::AlignedLoose => self.print_aligned_loose(op, spec),
            OpLayout::ArgumentLines(end) => self.print_argument_lines(op, spec, end),
            OpLayout::ResultList => self.print_result_list(op, spec),
            OpLayout::ArgumentBlock => self.print_argument_block(op, spec),
            OpLayout::AlignedArguments => self.print_aligned_arguments(op, spec),
            OpLayout::ResultTuple => self.print_result_tuple(op, spec),
            OpLayout::Factory => self.print_factory(op, spec),
            OpLayout::Pointwise => self.print_pointwise(op),
            OpLayout::Keyed => self.print_keyed(op, spec),
            OpLayout::Statement => self.print_call(op, spec, CallPadding::Tight),
            OpLayout::Words(link) => self.print_words(op, link),
            OpLayout::Define => self.print_definition(op),
            OpLayout::Own(form) => match form {
                OwnForm::Allocate => self.print_allocate(op),
                OwnForm::Deallocate => self.print_deallocate(op),
                OwnForm::LoopOverDomain => self.print_for_in(op),
                OwnForm::LoopOverRange => self.print_for_range(op),
                OwnForm::Branch => self.print_branch(op),
                OwnForm::PostOnStream => self.print_post_on_stream(op),
                OwnForm::LaunchKernel => self.print_launch_kernel(op),
                OwnForm::ShareMemHandles => self.print_share_mem_handles(op),
                OwnForm::GetCurrentStream => self.print_get_current_stream(op),
                OwnForm::Scatter => self.print_scatter(op, spec),
                OwnForm::GroupedReduction => self.print_grouped_reduction(op),
                OwnForm::Welford => self.print_welford(op, spec),
                OwnForm::GroupedWelford => self.print_grouped_welford(op),
            },
        }
    }

    fn print_one_line(&mut self, op: &Op, spec: &OpSpec, padding: CallPadding) {
        self.print_results(op);
        self.push(" = ");
        self.print_call(op, spec, padding);
    }

    fn print_two_lines(&mut self, op: &Op, spec: &OpSpec, padding: CallPadding) {
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        self.print_call(op, spec, padding);
    }

    /// `( a, b ) = name( args )`
    fn print_result_tuple(&mut self, op: &Op, spec: &OpSpec) {
        self.push("( ");
        self.print_results(op);
        self.push(" ) = ");
        self.print_call(op, spec, CallPadding::Padded);
    }

    /// `name( args )`
    fn print_call(&mut self, op: &Op, spec: &OpSpec, padding: CallPadding) {
        self.push(spec.head_word(&self.style));
        self.push(if padding == CallPadding::Padded { "( " } else { "(" });
        self.print_args(op, spec);
        self.push(if padding == CallPadding::Padded { " )" } else { ")" });
    }

    pub(super) fn print_results(&mut self, op: &Op) {
        for (index, result) in op.results.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.print_value(*result);
        }
    }

    fn print_aligned(&mut self, op: &Op, spec: &OpSpec) {
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        let word = spec.head_word(&self.style);
        self.push(word);
        self.push("(");
        let column = "   = (".len() + word.len();
        for (index, operand) in op.operands.iter().enumerate() {
            if index > 0 {
                self.push(",");
                self.break_line(column);
            }
            self.print_value(*operand);
        }
        self.push(")");
    }

    /// As [`Self::print_aligned`], for all arguments.
    fn print_aligned_arguments(&mut self, op: &Op, spec: &OpSpec) {
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        let word = spec.head_word(&self.style);
        self.push(word);
        self.push("(");
        let column = "   = (".len() + word.len();
        let mut operands = op.operands.iter();
        for (index, declared) in spec.args.iter().enumerate() {
            if index > 0 {
                self.push(",");
                self.break_line(column);
            }
            self.print_key(op, declared);
            match declared.key.and_then(|key| Some((key, op.attr(key)?))) {
                Some((key, value)) => self.print_attr(key, declared.kind, value),
                None => operands.next().into_iter().for_each(|value| self.print_value(*value)),
            }
        }
        self.push(")");
    }

    /// nvFuser indents before the `,` and `)` that follow the second operand, and starts the third in column 10.
    fn print_aligned_loose(&mut self, op: &Op, spec: &OpSpec) {
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        self.push(spec.head_word(&self.style));
        self.push("(");
        for (index, operand) in op.operands.iter().enumerate() {
            match index {
                0 => {}
                1 => {
                    self.push(",");
                    self.break_line(12);
                }
                _ => {
                    self.print_blanks(self.indent + 2);
                    self.push(",\n          ");
                }
            }
            self.print_value(*operand);
        }
        self.print_blanks(self.indent + 2);
        self.push(")");
    }

    /// `(a,\n b)\n = name(c,\n d)`: nvFuser does not indent the lines after the first.
    fn print_result_list(&mut self, op: &Op, spec: &OpSpec) {
        self.push("(");
        for (index, result) in op.results.iter().enumerate() {
            self.push(if index > 0 { ",\n " } else { "" });
            self.print_value(*result);
        }
        self.push(")\n = ");
        self.push(spec.head_word(&self.style));
        self.push("(");
        for (index, operand) in op.operands.iter().enumerate() {
            self.push(if index > 0 { ",\n " } else { "" });
            self.print_value(*operand);
        }
        self.push(")");
    }

    /// `out`, `= name(`, a line for each argument, and `)`.
    fn print_argument_block(&mut self, op: &Op, spec: &OpSpec) {
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        self.push(spec.head_word(&self.style));
        self.push("(");
        let mut operands = op.operands.iter();
        for (index, declared) in spec.args.iter().enumerate() {
            self.push(if index > 0 { "," } else { "" });
            self.break_line(4);
            self.print_key(op, declared);
            match declared.key {
                None => operands.next().into_iter().for_each(|operand| self.print_value(*operand)),
                Some(key) => op.attr(key).into_iter().for_each(|value| self.print_attr(key, declared.kind, value)),
            }
        }
        self.break_line(2);
        self.push(")");
    }

    /// `full({i0}, float(0));`; no comma follows an empty list.
    fn print_factory(&mut self, op: &Op, spec: &OpSpec) {
        self.print_two_lines(op, spec, CallPadding::Tight);
        self.push(";");
    }

    fn print_pointwise(&mut self, op: &Op) {
        let function = op.word_attr(AttrKey::Function).map_or("", |word| self.program.name(word));
        let style = self.style;
        self.print_results(op);
        self.break_line(3);
        self.push("= ");
        let infix = !function.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '(');
        match (infix, op.operands.as_slice()) {
            (true, [a]) => {
                self.push(function);
                if function == "-" && a.as_scalar().is_some_and(|a| is_unsigned_integer(self.program, a)) {
                    self.push(" ");
                }
                self.print_value(*a);
            }
            (true, [a, b]) => {
                self.print_value(*a);
                self.break_line(3);
                self.push(function);
                self.push(" ");
                self.print_value(*b);
            }
            (_, operands) => {
                self.push(functions::spelled_name(function, &style));
                self.push("(");
                for (index, operand) in operands.iter().enumerate() {
                    if index > 0 {
                        self.break_line(2);
                        self.push(", ");
                    }
                    self.print_value(*operand);
                }
                self.push(")");
            }
        }
        self.push(";");
    }

    /// `Communication 39 (type=..., ...)`
    pub(super) fn print_keyed(&mut self, op: &Op, spec: &OpSpec) {
        self.push(op.kind.name());
        self.push(" ");
        if let Some(number) = op.number() {
            self.print_number(number);
            self.push(" ");
        }
        self.push("(");
        self.print_args(op, spec);
        self.push(")");
    }

    fn print_words(&mut self, op: &Op, link: WordLink) {
        self.push(op.kind.name());
        if let (WordLink::Number, Some(number)) = (link, op.number()) {
            self.push(" ");
            self.print_number(number);
        }
        let element = op.expr_attr(AttrKey::Element);
        let Some(operand) = op.operands.first() else {
            return self.print_element(element, " (");
        };
        if self.style.call_form {
            self.push("(");
            self.print_value(*operand);
            return match element {
                Some(_) => self.print_element(element, ", "),
                None => self.push(")"),
            };
        }
        self.push(if link == WordLink::To { " to " } else { " " });
        self.print_value(*operand);
        self.print_element(element, " (");
    }

    /// `element=i)` after what opens it.
    fn print_element(&mut self, element: Option<ExprId>, opening: &str) {
        let Some(element) = element else { return };
        self.push(opening);
        self.push(AttrKey::Element.word());
        self.push("=");
        self.print_expr(element);
        self.push(")");
    }

    /// `i84 = i82 % 8;`
    fn print_definition(&mut self, op: &Op) {
        self.print_results(op);
        self.push(" = ");
        let Some(value) = op.operands.first().and_then(|operand| operand.as_scalar()) else {
            return;
        };
        let program = self.program;
        let terminated = match program.expr(value) {
            Expr::Index(base, index) if program.exprs().as_name(*base).is_some() => {
                self.print_expr(*base);
                self.push("[");
                self.print_expr(*index);
                self.push("]");
                return;
            }
            Expr::Field(base, field) if program.exprs().as_name(*base).is_some() => {
                self.print_expr(*base);
                self.push(".");
                self.push(program.name(*field));
                return;
            }
            Expr::Braces(items) => {
                self.push("{");
                self.text_writer().write_list(items);
                self.push("}");
                return;
            }
            Expr::Struct(_) => {
                self.text_writer().write_expr_body(value);
                return;
            }
            Expr::MetaData(tensor) => {
                self.push("getMetaData(");
                self.print_tensor(*tensor);
                self.push(")");
                return;
            }
            Expr::Set(_) => {
                self.print_expr(value);
                self.push(";");
                return;
            }
            Expr::Call(name, _) => program.name(*name) != "ReverseArray",
            _ => true,
        };
        self.text_writer().write_expr_body(value);
        if terminated {
            self.push(";");
        }
    }

    /// The arguments of the table that the op has.
    pub(super) fn print_args(&mut self, op: &Op, spec: &OpSpec) {
        let mut operands = op.operands.iter();
        let mut results = op.results.iter().skip(op.kind.result_count());
        let mut separator = "";
        for (_, declared) in spec.args.iter().enumerate().filter(|(place, _)| spec.has_named_value(op, *place)) {
            if let Some(key) = declared.key {
                let Some(value) = op.attr(key).filter(|_| !self.is_implied(op, key)) else {
                    separator = self.print_root_as(op, key, separator);
                    continue;
                };
                self.push(separator);
                self.print_key(op, declared);
                self.print_attr(key, declared.kind, value);
                // nvFuser writes `full({}1)` for a scalar tensor.
                let glued =
                    op.attr(AttrKey::Fill).is_some() && matches!(value, AttrValue::Exprs(list) if list.is_empty());
                separator = if glued { "" } else { ", " };
                continue;
            }
            loop {
                let next = if declared.result { None } else { operands.next() };
                let Some(value) = next.or_else(|| if declared.repeated { None } else { results.next() }) else {
                    break;
                };
                self.push(separator);
                self.print_key(op, declared);
                self.print_value(*value);
                separator = ", ";
                if !declared.repeated {
                    break;
                }
            }
        }
    }

    /// Returns true if the reader takes a text without the attribute as if it had it.
    pub(super) fn is_implied(&self, op: &Op, key: AttrKey) -> bool {
        match key {
            AttrKey::RootAs => op.attr(AttrKey::Root).is_some(),
            AttrKey::Keep => op.keeps_memory() == op.attr(AttrKey::Buffer).is_some(),
            AttrKey::Perm => self.is_implied_by_numbers(op),
            AttrKey::Swizzle => op.attr(key) == Some(&AttrValue::Bool(true)),
            _ => false,
        }
    }

    /// Returns true if the numbers of the result determine the permutation.
    fn is_implied_by_numbers(&self, op: &Op) -> bool {
        let Some(result) = op.output_tensors().next() else { return false };
        let program = self.program;
        let axes = program.logical_axes(result);
        let told = order::implied_permutation(program.domains(result), &axes);
        program.tensor(result).logical.is_none() && told.as_deref() == op.ints_attr(AttrKey::Perm)
    }

    /// Prints `root_as=rank`, if the reader would take the text for the other meaning.
    fn print_root_as(&mut self, op: &Op, key: AttrKey, separator: &'static str) -> &'static str {
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
    pub(super) fn print_key(&mut self, op: &Op, declared: &ArgSpec) {
        let Some(word) = declared.word else { return };
        let tight = match declared.equals {
            EqualsSpacing::Tight => true,
            EqualsSpacing::Spaced => false,
            EqualsSpacing::StreamIndex => self.style.tight_stream_index,
            EqualsSpacing::Attention => self.style.sdpa_commas,
        };
        self.push(match word {
            "input" if self.program.style.capital_buffers => "Input",
            "output" if self.program.style.capital_buffers => "Output",
            "in" if op.kind.layout() == OpLayout::Own(OwnForm::Scatter) && !self.style.scatter_in => "self",
            _ => word,
        });
        self.push(if tight { "=" } else { " = " });
    }

    pub(super) fn print_attr(&mut self, key: AttrKey, kind: ArgKind, value: &AttrValue) {
        let program = self.program;
        match value {
            AttrValue::Bool(true) if kind == ArgKind::CapitalBool => self.push("True"),
            AttrValue::Bool(false) if kind == ArgKind::CapitalBool => self.push("False"),
            AttrValue::Bool(value) => self.push(if *value { "true" } else { "false" }),
            AttrValue::Expr(expr) => self.print_expr(*expr),
            AttrValue::Word(text) if kind == ArgKind::Text => {
                self.push("\"");
                self.push(program.name(*text));
                self.push("\"");
            }
            AttrValue::Word(word) => {
                let word = program.name(*word);
                let reduction = key == AttrKey::ReduceOp;
                self.push(if reduction { functions::spelled_name(word, &self.style) } else { word });
            }
            AttrValue::Words(words) => self.print_braced(words, |printer, word| {
                let (program, style) = (printer.program, printer.style);
                printer.push(functions::spelled_name(program.name(*word), &style));
            }),
            AttrValue::Tensor(tensor) => self.print_tensor(*tensor),
            AttrValue::Domain(domain) => self.text_writer().write_domain(program.domain(*domain)),
            AttrValue::Ints(ints) if kind == ArgKind::Team => self.print_team(ints),
            AttrValue::Ints(ints) => {
                self.print_braced(ints, |printer, value| push_integer(printer.out, *value));
            }
            AttrValue::Bools(flags) => {
                self.print_braced(flags, |printer, value| printer.push(if *value { "true" } else { "false" }));
            }
            AttrValue::Exprs(exprs) if kind == ArgKind::Team => match program.team_attr(exprs) {
                AttrValue::Ints(constants) => self.print_team(&constants),
                _ => self.print_braced(exprs, |printer, value| printer.print_expr(*value)),
            },
            AttrValue::Exprs(exprs) if kind == ArgKind::Array => {
                self.push("{ ");
                self.text_writer().write_list(exprs);
                self.push(" }");
            }
            AttrValue::Exprs(exprs) => self.print_braced(exprs, |printer, value| printer.print_expr(*value)),
            AttrValue::Ranges(ranges) => {
                self.push("{");
                for range in ranges {
                    self.push(" ");
                    self.print_braced(range, |printer, value| printer.print_expr(*value));
                }
                self.push(" }");
            }
        }
    }

    /// `{a, b}`
    fn print_braced<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.push("{");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            write(self, item);
        }
        self.push("}");
    }

    /// `(0 1 2)`, or `(0 1 2 ... )` for a team that nvFuser truncated.
    fn print_team(&mut self, team: &[i64]) {
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

    pub(super) fn print_value(&mut self, value: Value) {
        match value {
            Value::Tensor(tensor) => self.print_tensor(tensor),
            Value::Scalar(expr) => self.print_expr(expr),
            Value::Stream(expr) => {
                self.push("Stream ");
                self.print_expr(expr);
            }
            Value::Handle(number) => {
                self.push("Communication ");
                self.print_number(number);
            }
            Value::Unit(number) => {
                self.push("HostUnit");
                self.print_number(number);
            }
            Value::Op(op) => self.print_statement(op),
        }
    }

    pub(super) fn print_tensor(&mut self, id: TensorId) {
        if let Some(known) = &mut self.known {
            let number = self.program.tensor(id).number;
            if known.insert(number, id) == Some(id) {
                self.out.push('T');
                return push_number(self.out, u64::from(number));
            }
        }
        self.out.push_str(self.texts.cached_tensor_text(self.program, id));
        self.print_tensor_names(id);
    }

    pub(super) fn print_expr(&mut self, id: ExprId) {
        self.out.push_str(self.texts.cached_expr_text(self.program, id));
    }

    pub(super) fn print_number(&mut self, number: u32) {
        push_number(self.out, u64::from(number));
    }

    pub(super) fn text_writer(&mut self) -> TextWriter<'_> {
        TextWriter { program: self.program, style: self.style, out: self.out }
    }
}
