//! hir-run as a library: a function of arguments and streams.

pub mod data;
mod launch;
pub mod run;
