//! The names of a program or a kernel.

use super::program::ProgramReader;
use super::report;
use crate::hir2::defaults::RESERVED_WORDS;
use crate::ir::{ExprId, TensorId};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::NameSyntax;
use rustc_hash::FxHashMap;

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// A tensor.
    Tensor(TensorId),
    /// A communication or group.
    Handle(u32),
    /// A stream that `stream main = current` names.
    Stream(ExprId),
    /// A scalar that the program defines, or a loop's index.
    Scalar,
    /// A declaration with an error: uses are not reported.
    Poisoned,
}

/// A name and where it was declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeEntry {
    pub(super) meaning: Meaning,
    pub(super) span: Span,
}

/// The names of one program or kernel.
#[derive(Default)]
pub(super) struct Scope {
    names: FxHashMap<Symbol, ScopeEntry>,
}

impl Scope {
    pub(super) fn get(&self, name: Symbol) -> Option<ScopeEntry> {
        self.names.get(&name).copied()
    }

    pub(super) fn set(&mut self, name: Symbol, meaning: Meaning, span: Span) {
        self.names.insert(name, ScopeEntry { meaning, span });
    }

    pub(super) fn remove(&mut self, name: Symbol) {
        self.names.remove(&name);
    }

    /// The names with a meaning of some kind.
    pub(super) fn names_where(&self, wanted: impl Fn(Meaning) -> bool) -> Vec<Symbol> {
        let mut names: Vec<Symbol> =
            self.names.iter().filter(|(_, entry)| wanted(entry.meaning)).map(|(name, _)| *name).collect();
        names.sort_by_key(|name| name.0);
        names
    }
}

impl ProgramReader<'_> {
    /// Declares a name; false if it is reserved or taken, which is reported.
    pub(super) fn declare(&mut self, name: NameSyntax, meaning: Meaning) -> bool {
        let text = self.file.symbol_text(name.name);
        if RESERVED_WORDS.contains(&text) {
            report::report_reserved(text, name.span, self.diags);
            return false;
        }
        if let Some(first) = self.scope.get(name.name) {
            if first.meaning != Meaning::Poisoned {
                report::report_twice(self.file, name, first.span, self.diags);
            }
            return false;
        }
        self.scope.set(name.name, meaning, name.span);
        true
    }

    /// The number in a name such as `T7`.
    pub(super) fn numbered(&self, name: Symbol, prefix: &str) -> Option<u32> {
        let digits = self.file.symbol_text(name).strip_prefix(prefix)?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().ok())?
    }
}
