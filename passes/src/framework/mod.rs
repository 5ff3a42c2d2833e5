//! The framework that runs passes: declarations, options, pipelines, the manager and the documentation.
//!
//! The framework knows neither a pass nor the table of passes: its callers provide the table.

pub(crate) mod analyses;
mod choice;
pub mod doc;
pub mod manager;
pub mod options;
pub(crate) mod pass;
pub mod pipeline;
pub(crate) mod registry;
