//! Interned names.

use super::id::id;
use hostir_grammar::ast::StringInterner;

id! {
    /// An interned name of [`NameInterner`]; symbol 0 is the empty string.
    Symbol
}

/// The interner of one program.
#[derive(Clone, Default, Debug)]
pub struct NameInterner {
    strings: StringInterner,
}

impl NameInterner {
    /// An interner with these strings, which keep their numbers.
    pub fn with_strings(strings: StringInterner) -> Self {
        Self { strings }
    }
    /// Returns the symbol of `text`, and adds it if it is new.
    pub fn intern(&mut self, text: &str) -> Symbol {
        Symbol(self.strings.intern(text).0)
    }
    /// Returns the symbol of `text` if it is known.
    pub fn find_symbol(&self, text: &str) -> Option<Symbol> {
        self.strings.find_symbol(text).map(|symbol| Symbol(symbol.0))
    }
    /// The text of a symbol.
    pub fn get(&self, symbol: Symbol) -> &str {
        self.strings.get(hostir_grammar::ast::Symbol(symbol.0))
    }
    /// Number of names.
    pub fn len(&self) -> usize {
        self.strings.len()
    }
    /// Whether no name is interned.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}
