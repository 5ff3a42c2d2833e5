//! Texts in the printed form, in backquotes.

use super::program::ProgramReader;
use super::report;
use crate::diag::Diags;
use crate::ir::{AttrKey, ExprId, IterDomain, OpId, TensorId};
use crate::resolve::resolve_fragment;
use hostir_grammar::Span;
use hostir_grammar::ast;

impl ProgramReader<'_> {
    /// A statement of the printed form.
    pub(super) fn read_verbatim(&mut self, text: ast::Symbol, span: Span) -> Option<()> {
        let text = self.name_text(text).to_owned();
        let ops = self.resolve_printed(&text, span)?;
        self.ops.extend(ops);
        Some(())
    }

    /// A scalar of the printed form.
    pub(super) fn verbatim_expr(&mut self, text: ast::Symbol, span: Span) -> Option<ExprId> {
        let text = format!("verbatim = {};", self.name_text(text));
        let ops = self.resolve_printed(&text, span)?;
        let op = &self.program.ops[*ops.first()?];
        op.operands.first().and_then(|value| value.as_scalar())
    }

    /// A domain of the printed form.
    pub(super) fn verbatim_domain(&mut self, text: ast::Symbol, span: Span) -> Option<IterDomain> {
        let text = format!("FOR verbatim in {}:\n    StartCoalescing", self.name_text(text));
        let ops = self.resolve_printed(&text, span)?;
        let domain = self.program.ops[*ops.first()?].domain_attr(AttrKey::Domain)?;
        Some(self.program.domains[domain])
    }

    /// Resolves a text in the printed form to ops; numbers in it stand for this program's tensors.
    fn resolve_printed(&mut self, text: &str, span: Span) -> Option<Vec<OpId>> {
        let known: Vec<(u32, TensorId)> = self.known_tensors(text);
        let mut found = Diags::default();
        let program = std::mem::take(&mut self.program);
        let (program, ops) = resolve_fragment(program, &known, self.kernels.open, text, span, &mut found);
        self.program = program;
        self.note_new_tensors();
        if found.items.is_empty() && !ops.is_empty() {
            return Some(ops);
        }
        report::report_verbatim(&found, span, self.diags);
        None
    }

    /// The tensors of this scope whose numbers a text contains.
    fn known_tensors(&mut self, text: &str) -> Vec<(u32, TensorId)> {
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
        let (program, unit) = (&self.program, self.kernels.open);
        let found =
            numbers.filter_map(|number| Some((number, self.numbering.tensor_of_number(program, unit, number)?)));
        found.collect()
    }

    /// Records the memory of the tensors that a verbatim text declares.
    fn note_new_tensors(&mut self) {
        self.memory.note_verbatim_tensors(self.program.tensors.len());
    }
}
