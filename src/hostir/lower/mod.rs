//! Lowers a program to plans: [`infer_sizes`] binds the sizes, then each rank's host is simulated op by op on a
//! [`PlanBuilder`](crate::plan::PlanBuilder).
//!
//! [`prepare_program`] does both; [`mod@shard`] and [`assemble_output`] convert between whole tensors and ranks'
//! shards.

mod assertions;
mod driver;
mod element_text;
mod half_lowered;
mod independent_conflicts;
pub mod io_names;
mod kernel_tensors;
mod mesh_sizes;
mod one_rank;
mod prepare;
mod privatization;
mod repeated;
mod rounding;
pub mod shard;
pub mod sizes;

pub use element_text::ShardedTensors;
pub(crate) use element_text::unravel_index;
pub use independent_conflicts::add_independent_conflicts;
pub use mesh_sizes::open_mesh_size;
pub use prepare::{
    IoTensor, IoTensorAxis, PreparedProgram, prepare_program, prepare_rank, prepare_with_kept, prepare_with_streams,
    sized_axes,
};
pub use shard::{assemble_output, shard_input};
pub use sizes::{SizeSettings, infer_sizes, needed_ranks, stream_count};
