//! Operands of commands before their addresses are known.

use hostir::plan::BufferView;

/// What an address is relative to.
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
