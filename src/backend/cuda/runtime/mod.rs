//! The runtime: devices, loaded programs, and runs.

pub(crate) mod active_clock;
pub(crate) mod address_map;
pub(crate) mod autotune;
pub(crate) mod failure;
pub(crate) mod failure_latch;
pub(crate) mod index_bounds;
pub(crate) mod io_binding;
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
pub(crate) mod watchdog;
