//! Operands of kernels and commands whose addresses are not resolved yet.

use hostir::plan::BufferView;

/// The base of an address.
#[derive(Clone, PartialEq, Debug)]
pub enum SymbolicAddress {
    /// The first element of a view.
    View(BufferView),
    /// Bytes into the scratch memory of a job, which is its stream's (a multiple of 256).
    Scratch(usize),
    /// The first element of a view of another rank's buffer.
    Peer {
        /// The rank.
        rank: u32,
        /// A view of a buffer of that rank's plan.
        view: BufferView,
    },
}

impl SymbolicAddress {
    /// The view, if it is in the rank's own memory.
    pub fn as_view(&self) -> Option<&BufferView> {
        match self {
            SymbolicAddress::View(view) => Some(view),
            SymbolicAddress::Scratch(_) | SymbolicAddress::Peer { .. } => None,
        }
    }
}
