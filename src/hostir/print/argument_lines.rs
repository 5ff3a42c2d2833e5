//! Printing of ops with each result and each argument on a line of its own.

use super::ProgramPrinter;
use crate::ir::{ArgumentsEnd, Op};
use crate::ops::{ArgPresence, ArgSpec, OpSpec};

impl ProgramPrinter<'_> {
    /// nvFuser indents before the `)` and before the `,` of a late argument, which starts in column 10.
    pub(super) fn print_argument_lines(&mut self, op: &Op, spec: &OpSpec, end: ArgumentsEnd) {
        self.print_result_lines(op, end);
        let commas = match end {
            ArgumentsEnd::Closed => false,
            ArgumentsEnd::Commas => true,
            ArgumentsEnd::ByStyle => self.style.sdpa_commas,
        };
        let (mut operands, mut first, mut late) = (op.operands.iter(), true, false);
        for (_, declared) in spec.args.iter().enumerate().filter(|(place, _)| spec.has_named_value(op, *place)) {
            if declared.key.is_some_and(|key| op.attr(key).is_none()) {
                continue;
            }
            late = self.is_late(declared, end);
            match (first, late) {
                (true, _) => {}
                (false, false) => {
                    self.push(",");
                    self.break_line(12);
                }
                (false, true) => {
                    self.end_lines(commas);
                    self.push(",\n          ");
                }
            }
            first = false;
            self.print_key(op, declared);
            match declared.key.and_then(|key| Some((key, op.attr(key)?))) {
                Some((key, value)) => self.print_attr(key, declared.kind, value),
                None => operands.next().into_iter().for_each(|operand| self.print_value(*operand)),
            }
        }
        if end != ArgumentsEnd::Closed {
            self.end_lines(commas && !late);
        }
        self.push(")");
    }

    /// The results, and the head of the call.
    fn print_result_lines(&mut self, op: &Op, end: ArgumentsEnd) {
        for (index, result) in op.results.iter().enumerate() {
            if index > 0 {
                self.push(",");
                self.break_line(0);
            }
            self.print_value(*result);
        }
        self.push(if end == ArgumentsEnd::Closed { "," } else { "" });
        self.break_line(3);
        self.push("= ");
        self.push(op.kind.spec().head_word(&self.style));
        self.push("(");
    }

    /// Returns true for an argument that begins its line with a comma.
    fn is_late(&self, declared: &ArgSpec, end: ArgumentsEnd) -> bool {
        let follows = match end {
            ArgumentsEnd::Closed => false,
            ArgumentsEnd::Commas => true,
            ArgumentsEnd::ByStyle => !self.style.sdpa_commas,
        };
        follows && declared.key.is_some() && declared.presence == ArgPresence::Optional
    }

    /// Ends the lines of arguments, in a line of its own if each of them ends in a comma.
    fn end_lines(&mut self, commas: bool) {
        match commas {
            true => {
                self.push(",");
                self.break_line(2);
            }
            false => self.print_blanks(self.indent + 2),
        }
    }
}
