//! The names of a program or a kernel.

use crate::ir::{ExprId, TensorId};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
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

    pub(super) fn set_meaning(&mut self, name: Symbol, meaning: Meaning, span: Span) {
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
