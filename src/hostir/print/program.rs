//! Prints the container around the statements: header, HostUnits, aliases, index definitions.

use super::ProgramPrinter;
use super::names::UnprintedNames;
use crate::ir::{CommentPlace, DType, HostUnit, Value};

impl ProgramPrinter<'_> {
    pub(super) fn print_program(&mut self) {
        let program = self.program;
        let frame = program.frame();
        self.print_version();
        self.unnamed = UnprintedNames::of_program(program);
        self.print_comment_lines(CommentPlace::File);
        if frame.blank_before {
            self.push("\n");
        }
        self.print_comment_lines(CommentPlace::Container);
        self.print_header();
        self.indent = 2;
        self.print_block(program.body());
        self.indent = 0;
        // A unit is a name space of its own.
        let known = self.known.clone();
        let mut after_elided = false;
        for (_, unit) in program.units().iter() {
            if let Some(known) = &mut self.known {
                known.clear();
            }
            match unit.is_elided {
                true => self.print_elided_unit(unit, after_elided),
                false => self.print_unit(unit),
            }
            after_elided = unit.is_elided;
        }
        self.known = known;
        self.push(if program.style.july_frame { "END.\n" } else { "} // %HostIrContainer\n" });
        self.print_blank_lines(frame.blank_after);
        self.print_sections();
        self.print_comment_lines(CommentPlace::End);
    }

    fn print_blank_lines(&mut self, count: u32) {
        for _ in 0..count {
            self.push("\n");
        }
    }

    fn print_header(&mut self) {
        let program = self.program;
        self.push(if program.style.july_frame { "%HostIrContainer {\n\nHOST IRS: (" } else { "%HostIrContainer { (" });
        self.print_header_list(program.inputs());
        self.push(") -> (");
        self.print_header_list(program.outputs());
        self.push(")");
        self.print_name_tag(program.given_names().program);
        self.push(" :");
        self.print_trailing_comments(CommentPlace::Header);
        self.push("\n");
    }

    /// nvFuser leaves the comma out after an element that is the last one as well, but not in July 2024. A scalar keeps
    /// it: its name would join the next word.
    fn print_header_list(&mut self, values: &[Value]) {
        let start = self.out.len();
        for (at, value) in values.iter().enumerate() {
            self.print_value(*value);
            let all = self.program.style.july_frame || value.as_scalar().is_some();
            if Some(value) != values.last() || all && at + 1 < values.len() {
                self.push(", ");
            }
        }
        // A scalar may have a name that would make a cast of the list, `(float)`.
        if self.out.get(start..).is_some_and(is_cast_type) {
            self.out.insert(start, ' ');
        }
    }

    /// `HostUnit0: [...]`, after a blank line unless there is one already.
    fn print_elided_unit(&mut self, unit: &HostUnit, after_elided: bool) {
        self.push(if after_elided { "HostUnit" } else { "\nHostUnit" });
        self.print_number(unit.number);
        self.push(": [...]\n");
    }

    fn print_unit(&mut self, unit: &HostUnit) {
        self.push("\nHostUnit");
        self.print_number(unit.number);
        self.push(": Inputs={");
        self.print_comma_list(&unit.inputs);
        self.push("} -> Outputs={");
        self.print_comma_list(&unit.outputs);
        self.push("}");
        if unit.name.is_some() {
            self.print_name_tag(unit.name);
            self.push("\n");
        }
        let lines = [("Inputs:\n", &unit.inputs), ("Outputs:\n", &unit.outputs)];
        let is_listed = self.style.unit_lines;
        let lines = lines.into_iter().filter(|_| is_listed);
        for (title, values) in lines {
            self.push(title);
            for value in values {
                self.push("  ");
                self.print_value(*value);
                self.push("\n");
            }
        }
        self.push("\n%kernel {\n");
        self.print_comment_lines(CommentPlace::StartOf(unit.body));
        self.print_block(unit.body);
        self.push(if self.program.style.july_frame { "}\n" } else { "} // %kernel\n" });
    }

    /// `Aliases:{}` and `Index definitions:`.
    fn print_sections(&mut self) {
        let program = self.program;
        if let Some(aliases) = program.aliases() {
            self.push("Aliases:{");
            for (new, original) in aliases {
                self.push("\n  ");
                self.print_tensor(*new);
                self.push(" -> ");
                self.print_tensor(*original);
            }
            self.push("\n}\n");
        }
        if let Some(block) = program.index_definitions() {
            self.push("Index definitions:\n");
            self.indent = 2;
            self.print_block(block);
            self.indent = 0;
        }
        if program.aliases().is_some() || program.index_definitions().is_some() {
            self.print_blank_lines(program.frame().blank_end);
        }
    }
}

/// Returns true if a text in parentheses reads as a cast. The grammar also has casts to `int32_t`, which the IR calls
/// `int`.
fn is_cast_type(text: &str) -> bool {
    DType::parse(text).is_some() || text == "int32_t"
}
