//! Declarations of names.

use super::program::ProgramReader;
use super::report_names;
use super::scope::Meaning;
use crate::ir::{is_numbered_name, is_reserved_word};
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::NameSyntax;

impl ProgramReader<'_> {
    /// Declares a name; reports it and returns false if it is reserved or taken.
    pub(super) fn declare(&mut self, name: NameSyntax, meaning: Meaning) -> bool {
        if !self.check_name(name, meaning) {
            return false;
        }
        if let Some(first) = self.tables.scope.get(name.name) {
            if first.meaning != Meaning::Poisoned {
                report_names::report_taken(self.file, name, first.meaning, first.span, self.diags);
            }
            return false;
        }
        self.tables.scope.set_meaning(name.name, meaning, name.span);
        true
    }

    /// Reports a name that is invalid for this meaning: a word of the language, or one that stands for a number, `T7`
    /// or `h7`.
    pub(super) fn check_name(&mut self, name: NameSyntax, meaning: Meaning) -> bool {
        let text = self.file.symbol_text(name.name);
        if is_reserved_word(text) {
            report_names::report_reserved(text, name.span, self.diags);
            return false;
        }
        let is_own = match meaning {
            Meaning::Tensor(_) => self.numbered(name.name, "T").is_some(),
            Meaning::Handle(_) => self.numbered(name.name, "h").is_some(),
            // A scalar may be called `h7`; communications get other numbers then.
            Meaning::Scalar => text.starts_with('h'),
            Meaning::Stream(_) | Meaning::Poisoned => false,
        };
        if is_numbered_name(text) && !is_own {
            report_names::report_numbered(text, meaning, name.span, self.diags);
            return false;
        }
        true
    }

    /// The number in a name such as `T7`.
    pub(super) fn numbered(&self, name: Symbol, prefix: &str) -> Option<u32> {
        let digits = self.file.symbol_text(name).strip_prefix(prefix)?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().ok())?
    }
}
