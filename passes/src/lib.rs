//! Passes over host programs, and the framework that runs them.
//!
//! [`PASSES`] is the table: a new pass is one source file and one line of it; a [`PassRegistry`] adds passes of a
//! caller. `framework` reads pipelines
//! ([`pipeline`]), runs them ([`manager`]) and writes `docs/passes.md` ([`doc`]); `support` has the code that passes
//! share. A pass queries the effects of ops ([`hostir::ops::OpSpec`]), not their kinds; a tidy check lists the
//! exceptions with their reasons.

mod framework;
mod support;

pub use framework::analyses::ReshardingOps;
pub use framework::options::{OptionSpec, OptionType, OptionValue, Options};
pub use framework::pass::{ChoiceRule, PipelineWay, PipelineWays};
pub use framework::pass::{OptionFault, PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
pub use framework::registry::PassRegistry;
pub use framework::{doc, manager, options, pipeline};

use hostir::ops::OpRegistry;

/// Declares the modules of the passes, and lists the passes.
macro_rules! pass_table {
    ($(mod $pass:ident;)*) => {
        $(mod $pass;)*

        /// All passes, in the order of the documentation.
        pub const PASSES: &[&PassInfo] = &[$(&$pass::PASS,)*];
    };
}

pass_table! {
    mod canonicalize;
    mod cse;
    mod dce;
    mod fuse_accumulate;
    mod strip_comments;
    mod strip_names;
    mod resize_mesh;
    mod chunk;
    mod propagate_shardings;
    mod insert_reshardings;
    mod decompose_reshardings;
    mod finalize_multidevice_domains;
    mod reorder_sharded_axis;
    mod make_resharding_contiguous;
    mod segment_host_units;
    mod stream_parallel_type;
    mod convert_op_to_communication;
    mod insert_deallocations;
    mod allocate_and_deallocate;
    mod assign_streams;
    mod ring_stream_buffers;
    mod allgather_matmul;
    mod alltoall_matmul;
    mod matmul_reduce_scatter;
    mod overlap_lower;
    mod host_ir_lower;
    mod pipeline_gemm_comm;
    mod check_program;
    mod elide_synchronization;
    mod skew_communications;
}

/// Gives the whole of `docs/passes.md`.
pub fn passes_markdown() -> String {
    doc::table_markdown(PASSES)
}

impl PassRegistry {
    /// The passes of [`PASSES`] alone.
    pub const OURS: PassRegistry = PassRegistry::of_table(PASSES);

    /// The passes of [`PASSES`], and these.
    ///
    /// # Panics
    /// If two passes have one name; a `static` registry does not compile then.
    pub const fn with_passes(more: &'static [&'static PassInfo]) -> Self {
        Self::of_tables(PASSES, more)
    }
}

impl Default for PassRegistry {
    fn default() -> Self {
        Self::OURS
    }
}

impl Default for manager::Config {
    fn default() -> Self {
        Self::for_passes(PassRegistry::OURS)
    }
}

/// The ops and the passes that a tool knows: ours, and those of a caller.
#[derive(Clone, Copy, Default, Debug)]
pub struct ToolRegistries {
    /// The ops that programs may name.
    pub ops: OpRegistry,
    /// The passes that pipelines may name.
    pub passes: PassRegistry,
}
