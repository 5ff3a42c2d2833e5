//! Generates CUDA C++ for the instructions of a plan that no library computes: pointwise kernels, copies, fills,
//! reductions, reads and sums by index, attention, and GEMMs that cuBLASLt does not support.
//!
//! Extents, strides and constants are part of the source, offsets are not: kernels that differ only in
//! the start of their views share one source (the alignment of a start is part of it). NVRTC compiles each
//! source once. No headers are needed.
//!
//! Results equal the CPU backend's up to rounding. Each function returns the job, or a reason
//! that completes "cannot generate ...": a type or function that kernels lack, or `overlap`. A job for an
//! empty result has no launches.
//!
//! The caller ensures that buffers and scratch memory start at multiples of 256 bytes, that two
//! buffers share no memory, that the launches of a job run in order on one stream, and that no other job uses its
//! scratch memory meanwhile.

pub(crate) mod alias;
mod attention;
mod copy;
mod functions;
mod gemm;
mod index_space;
mod indexed;
pub mod job;
mod note;
mod p2p_kernel;
mod pointwise;
mod reduce;
mod source_writer;
mod thread_mapping;
mod tile;
pub(crate) mod types;
pub mod wgmma_gemm;

pub use crate::codegen::attention::generate_attention;
pub use crate::codegen::copy::{generate_copy, generate_fill};
pub use crate::codegen::gemm::generate_gemm;
pub use crate::codegen::indexed::{generate_accumulate, generate_take};
pub use crate::codegen::job::{ENTRY, KernelJob, KernelLaunch, parameter_count};
pub use crate::codegen::p2p_kernel::{WORDS as EXCHANGE_WORDS, exchange_threads, p2p_kernel_source};
pub use crate::codegen::pointwise::{generate_member_fold, generate_pointwise};
pub use crate::codegen::reduce::{generate_fused_reduction, generate_reduction};
