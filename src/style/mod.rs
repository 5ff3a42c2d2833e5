//! Styles of whole programs: respelling for another version of nvFuser, and renumbering of tensors.

mod renumber;
mod restyle;
mod roots;

pub use renumber::renumber_program;
pub use restyle::{restyle_program, stored_size, style_that_spells};
