//! Spellings of whole programs: rewriting a program for another version of nvFuser, and numbering its tensors anew.

mod renumber;
mod restyle;
mod roots;

pub use renumber::renumber_program;
pub use restyle::{restyle_program, stored_size};
