//! hir-opt and hir-run as library functions.
//!
//! The only crate with input and output, colour, environment and exit statuses. Everything goes
//! through [`Io`], so that a test runs a tool in its own process and sees what a user would see.

mod closed;
pub mod cuda;
pub mod data;
pub mod io;
mod launch;
pub mod opt;
mod os_text;
pub mod render;
pub mod run;
pub mod source;
mod staged;
mod terminal;

pub use io::{Io, Status};
