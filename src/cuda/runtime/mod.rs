//! The runtime: devices, loaded programs, and runs.
//!
//! - `loaded_program`: the prepare phase, and runs of all ranks; `rank`: one rank, with a file for each of its parts
//! - `process_group`: the processes of a run; `nccl`: communicators, their warm-up and the start barrier
//! - `autotune`: the choice of GEMMs, with what sustained trials chose (`kept_choices`)
//! - `io_binding`: a caller's tensors; `symmetric_memory`, with its data in `symmetric_buffers`: those that peers
//!   address
//! - `address_map`: addresses of other ranks' memory, filled by `p2p_map`
//! - `kernel_images`: compiled kernels; `user_kernels`: those of the user, whose files are
//!   `kernel_files`
//! - `resource_cache`: resources that programs leave for later ones
//! - `watchdog`, `failure_latch`, `teardown`: runs that do not end, and ranks that fail

pub(crate) mod active_clock;
pub(crate) mod address_map;
pub(crate) mod autotune;
pub(crate) mod failure;
pub(crate) mod failure_latch;
pub(crate) mod gemm_choice;
pub(crate) mod index_bounds;
pub(crate) mod io_binding;
pub(crate) mod kernel_files;
pub(crate) mod kernel_images;
pub(crate) mod library_access;
pub(crate) mod loaded_program;
pub(crate) mod nccl;
pub(crate) mod oom;
pub(crate) mod options;
pub(crate) mod p2p_map;
pub(crate) mod process_group;
pub(crate) mod rank;
pub(crate) mod rank_threads;
pub(crate) mod resource_cache;
pub(crate) mod sequencer;
pub(crate) mod sm_budget;
pub(crate) mod store_key;
pub(crate) mod symmetric_buffers;
pub(crate) mod symmetric_memory;
pub(crate) mod teardown;
pub(crate) mod user_kernels;
pub(crate) mod watchdog;
