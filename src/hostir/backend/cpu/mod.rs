//! The CPU backend, the reference for all others. It runs all ranks in one process, deterministically.
//!
//! The order is that of [`crate::plan_checks`]: ranks run their own queues in parallel until only communications are
//! left. Then it carries out the communications whose sides have all arrived (`communication`), and the ranks continue.
//!
//! Kernels (`pointwise`, `reduce`, `gemm`) read their operands into dense vectors, compute, and write the result. This
//! is simple, safe when views overlap, and detects uninitialised elements.

mod communication;
mod element_vector;
mod executor;
mod gemm;
mod pointwise;
mod poison;
mod reduce;
mod rows;
mod run;
pub mod schedule_oracle;
mod steps;
mod storage;
mod take;

pub(super) use reduce::{integer_op as integer_operation, unsigned_op as unsigned_operation};
pub(super) use run::check_room;
pub use run::{check_memory, run_plans, run_traced, run_with_progress};
pub use steps::StepCounter;
