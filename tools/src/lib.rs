//! hir-opt and hir-run as library functions.
//!
//! The only crate with input and output, colour, environment and exit statuses. Everything goes
//! through [`Io`], so that a test runs a tool in its own process and sees what a user would see.

mod command_line;
pub mod data;
pub mod errors;
pub mod io;
mod launch;
pub mod opt;
mod os_text;
pub mod render;
pub mod run;
mod signals;
pub mod source;
mod staged;
mod standard_output;
mod status;
mod terminal;

pub use io::{Io, SharedState};
pub use status::Status;

/// The version; of a release build from a checkout also its commit.
pub(crate) const VERSION: &str = env!("HIR_VERSION");
