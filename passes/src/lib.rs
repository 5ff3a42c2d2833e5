//! Passes over host programs, and what runs them.
//!
//! [`PASSES`] is the table: a new pass is one file and one line here. [`pipeline`] reads pipelines,
//! [`manager`] runs them, [`doc`] writes `docs/passes.md`. A pass asks ops for their effects
//! ([`hostir::ops::OpSpec`]), never for their kinds, unless a comment says why.

mod allocate_and_deallocate;
mod assign_streams;
mod build;
mod canonicalize;
mod carried;
mod chunk;
pub mod codes;
mod convert_op_to_communication;
mod cse;
mod dce;
mod decompose_reshardings;
pub mod doc;
mod finalize_multidevice_domains;
mod fold;
mod host_ir_lower;
mod insert_deallocations;
mod insert_reshardings;
mod keep;
mod lifetime;
mod make_resharding_contiguous;
pub mod manager;
pub mod options;
mod pass;
pub mod pipeline;
mod pipeline_gemm_comm;
mod propagate_shardings;
mod reorder_sharded_axis;
mod reshard;
mod resize_mesh;
mod rewrite;
mod ring_stream_buffers;
mod segment_host_units;
mod storage;
mod stream_parallel_type;
mod strip_comments;

pub use doc::passes_markdown;
pub use options::{OptionSpec, OptionType, OptionValue, Options};
pub use pass::{Action, Example, OptionFault, PassCx, PassInfo, StatisticSpec};

/// All passes, in the order of the documentation.
pub const PASSES: &[&PassInfo] = &[
    &canonicalize::PASS,
    &cse::PASS,
    &dce::PASS,
    &strip_comments::PASS,
    &resize_mesh::PASS,
    &chunk::PASS,
    &propagate_shardings::PASS,
    &insert_reshardings::PASS,
    &decompose_reshardings::PASS,
    &finalize_multidevice_domains::PASS,
    &reorder_sharded_axis::PASS,
    &make_resharding_contiguous::PASS,
    &segment_host_units::PASS,
    &stream_parallel_type::PASS,
    &convert_op_to_communication::PASS,
    &insert_deallocations::PASS,
    &allocate_and_deallocate::PASS,
    &assign_streams::PASS,
    &ring_stream_buffers::PASS,
    &host_ir_lower::PASS,
    &pipeline_gemm_comm::PASS,
];
