//! Plans compiled for NVIDIA GPUs, without a device: everything that the CUDA backend decides before it opens one.
//!
//! [`fuse`] combines instructions into kernels, [`codegen`] writes their source, [`gemm_lowering`] and
//! [`nccl_lowering`] turn GEMMs and collectives into library calls, and [`p2p`] splits communications into copies
//! between ranks; `exchanges` finds those whose sends may start together. [`schedule`] puts all of them into one list
//! of commands for each rank, [`memory_layout`] places the buffers, [`cubin`] checks compiled kernels, [`user_kernel`]
//! reads files with kernels of the user, and [`issue_order`] orders the commands of ranks that share a device.
//! [`listing`] prints the result.
//!
//! The crate depends on neither a driver nor a library of CUDA; `hostir_cuda` runs its results.

pub mod codegen;
pub mod cubin;
pub mod element_range;
mod exchanges;
pub mod external_buffers;
pub mod fuse;
pub mod fused_inst;
pub mod gemm_lowering;
pub mod gemm_shape;
pub mod issue_order;
pub mod listing;
pub mod memory_layout;
pub mod nccl_lowering;
pub mod operand;
pub mod p2p;
pub mod rank_memory;
pub mod schedule;
pub mod team;
pub mod transport;
pub mod unsupported;
pub mod user_kernel;
