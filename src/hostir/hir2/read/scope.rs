//! The names of a program or a kernel.

use super::scalar_blocks::ScalarBlocks;
use crate::ir::{ExprId, TensorId};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
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

/// A declaration of a name in a program or one of its kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeclaredName {
    /// The name.
    pub name: Symbol,
    /// The place of the name where it is declared; of a handle that is waited for first, its first place.
    pub span: Span,
    /// Its meaning there.
    pub meaning: Meaning,
    /// The number of the program, from 0; that of its program for a kernel.
    pub program: usize,
}

/// The names of one program or kernel.
#[derive(Default)]
pub(super) struct Scope {
    /// By symbol: the scope that declared it, and its meaning there.
    slots: Vec<Option<(u32, ScopeEntry)>>,
    /// The blocks around the statement that is read, and those that define scalars.
    pub(super) scalar_blocks: ScalarBlocks,
    /// The number of scopes before this one.
    number: u32,
    /// The number of the program.
    program: usize,
    /// The declarations of all programs, if they are kept.
    declared: Option<Vec<DeclaredName>>,
}

impl Scope {
    /// A scope for a file with so many symbols.
    pub(super) fn with_symbols(count: usize) -> Self {
        Self { slots: vec![None; count], ..Self::default() }
    }

    /// Keeps the declarations from now on.
    pub(super) fn keep_declarations(&mut self) {
        self.declared.get_or_insert_default();
    }

    /// The declarations that were kept.
    pub(super) fn declarations(&self) -> &[DeclaredName] {
        self.declared.as_deref().unwrap_or_default()
    }

    /// Forgets all names: another program begins.
    pub(super) fn begin_program(&mut self, program: usize) {
        self.program = program;
        self.clear_scope();
    }

    /// Forgets all names: another kernel or the program begins.
    pub(super) fn clear_scope(&mut self) {
        self.number += 1;
    }

    pub(super) fn get(&self, name: Symbol) -> Option<ScopeEntry> {
        match self.slots.get(name.index()) {
            Some(Some((number, entry))) if *number == self.number => Some(*entry),
            _ => None,
        }
    }

    pub(super) fn set_meaning(&mut self, name: Symbol, meaning: Meaning, span: Span) {
        if let Some(slot) = self.slots.get_mut(name.index()) {
            *slot = Some((self.number, ScopeEntry { meaning, span }));
        }
        if let Some(declared) = &mut self.declared {
            declared.push(DeclaredName { name, span, meaning, program: self.program });
        }
    }

    pub(super) fn remove(&mut self, name: Symbol) {
        if let Some(slot) = self.slots.get_mut(name.index()) {
            *slot = None;
        }
    }

    /// The names with a meaning of some kind, in the order of their declarations.
    pub(super) fn names_where(&self, wanted: impl Fn(Meaning) -> bool) -> Vec<Symbol> {
        let names = (0..self.slots.len() as u32).map(Symbol);
        let entries = names.filter_map(|name| self.get(name).map(|entry| (entry, name)));
        let found = entries.filter(|(entry, _)| wanted(entry.meaning)).map(|(entry, name)| (entry.span.start, name));
        let mut found: Vec<(u32, Symbol)> = found.collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect()
    }
}
