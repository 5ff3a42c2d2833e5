//! Operands of commands before their addresses are known.

use hostir::plan::View;

/// What an address is relative to.
#[derive(Clone, PartialEq, Debug)]
pub enum Place {
    /// The first element of a view.
    View(View),
    /// Bytes into a stream's scratch memory.
    Scratch(usize),
}

impl Place {
    /// The view, if it is one.
    pub fn view(&self) -> Option<&View> {
        match self {
            Place::View(view) => Some(view),
            Place::Scratch(_) => None,
        }
    }
}
