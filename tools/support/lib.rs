//! Code that `hir-opt` and `hir-run` share: streams, files, diagnostics, the terminal and exit statuses.
//!
//! All input and output goes through [`ToolIo`], so a test runs a tool in its own process and sees what a user would
//! see. The crate knows nothing of either tool or of CUDA.

pub mod command_line;
pub mod errors;
pub mod events;
pub mod explain;
mod generated;
pub mod io;
pub mod machines;
pub mod os_text;
pub mod panics;
pub mod process_limits;
pub mod render;
pub mod repairs;
pub mod signals;
pub mod source;
pub mod staged;
pub mod standard_output;
pub mod status;
pub mod terminal;

pub use io::{SharedState, ToolIo};
pub use status::ToolStatus;

/// The version; of a release build from a checkout also its commit.
pub const VERSION: &str = env!("HIR_VERSION");
