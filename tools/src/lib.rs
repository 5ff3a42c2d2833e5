//! hir-run as a library function.

pub mod data;
mod launch;
pub mod run;
