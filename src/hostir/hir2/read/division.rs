//! Reports `//` after a complete statement where the quotient of other languages is meant.

use super::program::ProgramReader;
use super::scope::Meaning;
use crate::diag::{Applicability, Diag, Diags, Fix, message};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{AxisSyntax, ExprId, ExprNode};
use hostir_grammar::hir2::division::{CommentedDivisor, DIVISION_CODE, DIVISION_NOTE};

impl ProgramReader<'_> {
    /// Reports `at = rank // 2`: the comment after a scalar is a number, or an expression of scalars.
    pub(super) fn check_scalar_division(&mut self, value: ExprId) -> Option<()> {
        let found = self.divisor_after(value);
        let found = found.map(|(sign, divisor)| (sign, divisor.is_plain && !self.repeats_part(&divisor, value)));
        let Some((sign, is_sure)) = found else { return Some(()) };
        report_division(sign, is_sure, self.diags);
        (!is_sure).then_some(())
    }

    /// Reports `Z = X + Y // 2`: the comment after a function of tensors is a number.
    pub(super) fn check_tensor_division(&mut self, value: ExprId) -> Option<()> {
        let found = self.divisor_after(value).filter(|(_, divisor)| divisor.is_number).map(|(sign, _)| sign);
        let Some(sign) = found else { return Some(()) };
        report_division(sign, true, self.diags);
        None
    }

    /// Returns true if a comment repeats a name or a number of the expression before it, as in `at = rank % 4 // 4`.
    /// After brackets a repetition proves nothing: `(m + 4 - 1) // 4`.
    fn repeats_part(&self, divisor: &CommentedDivisor<'_>, value: ExprId) -> bool {
        let mut last = value;
        while let ExprNode::Binary(_, _, right) = *self.file.expr(last) {
            last = right;
        }
        let text = self.source.get(self.file.expr_span(value).as_usize_range()).unwrap_or_default();
        !matches!(self.file.expr(last), ExprNode::Paren(_)) && divisor.repeats_part_of(text)
    }

    /// The `//` directly after an expression, if the whole comment is an expression of scalars.
    fn divisor_after(&self, value: ExprId) -> Option<(Span, CommentedDivisor<'_>)> {
        let end = self.file.expr_span(value).end as usize;
        let line = self.source.get(end..)?.lines().next()?;
        let comment = line.trim_start_matches(' ').trim_end();
        let divisor = CommentedDivisor::of_comment(comment).filter(|divisor| divisor.after.is_empty())?;
        let is_divisor = divisor.names.iter().all(|name| self.is_scalar(name));
        let start = end + (line.len() - line.trim_start_matches(' ').len());
        is_divisor.then_some((Span::new(start, start + 2), divisor))
    }

    /// Returns true if a name, perhaps with a field, is that of a scalar.
    fn is_scalar(&self, name: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        let Some(symbol) = self.file.strings.find_symbol(first) else { return false };
        match self.tables.scope.get(symbol).map(|entry| entry.meaning) {
            Some(meaning) => matches!(meaning, Meaning::Scalar | Meaning::Poisoned),
            None if name.contains('.') => self.shared.meshes.contains_key(&symbol),
            None => matches!(name, "rank" | "streams") || self.is_extent(symbol),
        }
    }

    /// Returns true if a name is an extent of a type, or has a size in the header.
    fn is_extent(&self, name: Symbol) -> bool {
        let is_name = |axis: &AxisSyntax| *self.file.expr(axis.extent) == ExprNode::Name(name);
        self.file.head.sizes.iter().any(|size| size.name == name) || self.file.axes.iter().any(is_name)
    }
}

/// Reports a `//` that is meant as an operator; as an error if that is certain.
fn report_division(sign: Span, is_sure: bool, diags: &mut Diags) {
    let fix = Fix::replacement("write `/`", sign, "/");
    let message = "`//` begins a comment";
    diags.push(match is_sure {
        true => Diag::error(DIVISION_CODE, sign, message)
            .with_note(DIVISION_NOTE)
            .with_fix(Fix { applicability: Applicability::Untried, ..fix }),
        false => Diag::error(DIVISION_CODE, sign, message!("{}, which reads like a divisor", message))
            .into_warning()
            .with_note(DIVISION_NOTE)
            .with_fix(fix),
    });
}
