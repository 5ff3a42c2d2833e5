//! Operands of commands whose addresses are not resolved yet.

use hostir::plan::BufferView;

/// The base of an address.
#[derive(Clone, PartialEq, Debug)]
pub enum SymbolicAddress {
    /// The first element of a view.
    View(BufferView),
    /// Bytes into a stream's scratch memory.
    Scratch(usize),
}

impl SymbolicAddress {
    /// The view, if it is one.
    pub fn as_view(&self) -> Option<&BufferView> {
        match self {
            SymbolicAddress::View(view) => Some(view),
            SymbolicAddress::Scratch(_) => None,
        }
    }
}
