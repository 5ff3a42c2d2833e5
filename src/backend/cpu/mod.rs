//! The CPU backend: the oracle. Runs all ranks in one process, deterministically.
//!
//! The order is that of [`crate::plan_checks`]: ranks run their own queues in parallel until everything left
//! is a communication; then communications whose sides are all there are carried out (`communication`), and
//! so on.
//!
//! Kernels (`pointwise`, `reduce`, `gemm`) read their operands into dense vectors, compute, and
//! write the result: simple, safe when views overlap, and checked for elements that nothing wrote.

mod communication;
mod executor;
mod fault;
mod gemm;
mod lanes;
mod pointwise;
mod poison;
mod reduce;
mod run;
pub mod schedule_oracle;
mod steps;
mod storage;
mod take;

pub use run::{check_memory, run, run_traced, run_with_progress};
pub use steps::StepCounter;
