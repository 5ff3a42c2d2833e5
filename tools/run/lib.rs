//! hir-run as a library: a function of arguments and streams.

pub mod data;
#[cfg(feature = "cuda")]
pub mod kernel_cache;
mod launch;
pub mod library_calls;
pub mod run;
