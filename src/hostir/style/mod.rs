//! Styles of whole programs: respelling for another version of nvFuser, and renumbering of tensors.

mod renumber;
mod restyle;
mod roots;
mod split_axes;
mod swizzle;

pub use renumber::renumber_program;
pub use restyle::{printed_style, restyle_program, stored_size, style_that_spells};
pub(crate) use split_axes::{infer_split_axes, leave_inferred_axes_out, mark_inferred_axes};
pub(crate) use swizzle::{add_index_shifts, drop_index_shifts};
