//! Memory that a text lacks.

use super::lines::{indent_width, is_word, line_number, outer_lines};
use super::slips::{Slip, SlipContext};
use super::type_slips::declared_types;
use crate::diag::{Applicability, Fix, Span, TextEdit, codes};

impl SlipContext<'_> {
    /// Memory for the tensor, or the slice, that an error names; it is declared above the outermost loop or branch around
    /// the line.
    pub(super) fn missing_memory(&self, start: usize, named: &str) -> Vec<Slip> {
        let name = named.split('[').next().unwrap_or_default();
        let mut values = match self.code {
            // Its type is that of the output.
            codes::UNDEFINED => vec![(format!("{name} = alloc"), 0)],
            codes::UNDEFINED_TENSOR => {
                let types = declared_types(self.text).into_iter();
                types.map(|ty| (format!("{name}: {ty} = alloc"), 1)).collect()
            }
            _ => Vec::new(),
        };
        if !is_word(name) {
            values.clear();
        }
        let outer = outer_lines(self.text, start).into_iter().chain([start]);
        let inside = outer.filter(|&line| indent_width(&self.text[line..]) > 0);
        let place = inside.min_by_key(|&line| indent_width(&self.text[line..])).unwrap_or(start);
        let indent = " ".repeat(indent_width(&self.text[place..]));
        let slips = values.into_iter().map(|(statement, doubt)| {
            let edit = TextEdit { span: Span::new(place, place), text: format!("{indent}{statement}\n") };
            let message = format!("write `{statement}` above this").into();
            let fix = Fix { message, edits: vec![edit], applicability: Applicability::MaybeIncorrect };
            Slip { fix, line: line_number(self.text, place as u32), doubt }
        });
        slips.collect()
    }
}
