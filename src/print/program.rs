//! The container around the statements: header, HostUnits, aliases, index definitions.

use super::Printer;
use crate::ir::{CommentPlace, HostUnit, Value};

impl Printer<'_> {
    pub(super) fn program(&mut self) {
        let program = self.program;
        let frame = program.frame();
        if let Some(version) = frame.version {
            self.push("hir ");
            self.number(version);
            self.push("\n");
        }
        self.comment_lines(CommentPlace::File);
        if frame.blank_before {
            self.push("\n");
        }
        self.comment_lines(CommentPlace::Container);
        self.header();
        self.indent = 2;
        self.block(program.body());
        self.indent = 0;
        // A unit is a name space of its own.
        let known = self.known.clone();
        for (_, unit) in program.units().iter() {
            if let Some(known) = &mut self.known {
                known.clear();
            }
            self.unit(unit);
        }
        self.known = known;
        self.push("} // %HostIrContainer\n");
        self.blank_lines(frame.blank_after);
        self.sections();
        self.comment_lines(CommentPlace::End);
    }

    fn blank_lines(&mut self, count: u32) {
        for _ in 0..count {
            self.push("\n");
        }
    }

    fn header(&mut self) {
        let program = self.program;
        self.push("%HostIrContainer { (");
        self.header_list(program.inputs());
        self.push(") -> (");
        self.header_list(program.outputs());
        self.push(") :");
        self.trailing_comments(CommentPlace::Header);
        self.push("\n");
    }

    /// nvFuser leaves the comma out behind an element that is the last one as well.
    fn header_list(&mut self, values: &[Value]) {
        for value in values {
            self.value(*value);
            if Some(value) != values.last() {
                self.push(", ");
            }
        }
    }

    fn unit(&mut self, unit: &HostUnit) {
        self.push("\nHostUnit");
        self.number(unit.number);
        self.push(": Inputs={");
        self.comma_list(&unit.inputs);
        self.push("} -> Outputs={");
        self.comma_list(&unit.outputs);
        self.push("}");
        let lines = [("Inputs:\n", &unit.inputs), ("Outputs:\n", &unit.outputs)];
        let lines = lines.into_iter().filter(|_| self.program.style().unit_lines);
        for (title, values) in lines {
            self.push(title);
            for value in values {
                self.push("  ");
                self.value(*value);
                self.push("\n");
            }
        }
        self.push("\n%kernel {\n");
        self.block(unit.body);
        self.push("} // %kernel\n");
    }

    /// `Aliases:{}` and `Index definitions:`.
    fn sections(&mut self) {
        let program = self.program;
        if let Some(aliases) = program.aliases() {
            self.push("Aliases:{");
            for (new, original) in aliases {
                self.push("\n  ");
                self.tensor(*new);
                self.push(" -> ");
                self.tensor(*original);
            }
            self.push("\n}\n");
        }
        if let Some(block) = program.index_definitions() {
            self.push("Index definitions:\n");
            self.indent = 2;
            self.block(block);
            self.indent = 0;
        }
        if program.aliases().is_some() || program.index_definitions().is_some() {
            self.blank_lines(program.frame().blank_end);
        }
    }
}
