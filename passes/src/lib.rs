//! Passes over host programs, and the framework that runs them.
//!
//! [`PASSES`] is the table: a new pass is one source file, declared and listed here. `framework` reads pipelines
//! ([`pipeline`]), runs them ([`manager`]) and writes `docs/passes.md` ([`doc`]); `support` holds code that passes
//! share. A pass asks ops for their effects ([`hostir::ops::OpSpec`]), not for their kinds; a tidy check lists the
//! exceptions with their reasons.

mod allocate_and_deallocate;
mod assign_streams;
mod canonicalize;
mod check_program;
mod chunk;
mod convert_op_to_communication;
mod cse;
mod dce;
mod decompose_reshardings;
mod elide_synchronization;
mod finalize_multidevice_domains;
mod framework;
mod host_ir_lower;
mod insert_deallocations;
mod insert_reshardings;
mod make_resharding_contiguous;
mod pipeline_gemm_comm;
mod propagate_shardings;
mod reorder_sharded_axis;
mod resize_mesh;
mod ring_stream_buffers;
mod segment_host_units;
mod stream_parallel_type;
mod strip_comments;
mod support;

pub use framework::options::{OptionSpec, OptionType, OptionValue, Options};
pub use framework::pass::{OptionFault, PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
pub use framework::{doc, manager, options, pipeline};

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
    &check_program::PASS,
    &elide_synchronization::PASS,
];

/// Gives the whole of `docs/passes.md`.
pub fn passes_markdown() -> String {
    doc::table_markdown(PASSES)
}

impl Default for manager::Config {
    fn default() -> Self {
        Self::for_table(PASSES)
    }
}
