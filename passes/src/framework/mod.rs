//! The framework that runs passes: declarations, options, pipelines, the manager and the documentation.
//!
//! Nothing here knows a pass or the table of them: whoever runs passes hands over a table.

pub mod doc;
pub mod manager;
pub mod options;
pub(crate) mod pass;
pub mod pipeline;
