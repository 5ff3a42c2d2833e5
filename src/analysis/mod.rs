//! What programs mean beyond single ops: axes and how ops map them, sharding, extents, names.

pub mod axes;
pub mod comm_links;
pub mod definitions;
pub mod extents;
pub mod gemm_links;
pub mod index_links;
pub mod links;
pub mod mapping;
pub mod names;
pub mod renewed;
pub mod sharding;
pub mod standalone;

pub use axes::{Axes, Axis, logical_axes};
pub use definitions::Definitions;
pub use extents::Extents;
pub use mapping::{AxisMap, MappedAxis};
pub use names::{FreeName, free_names};
pub use sharding::{
    Sharding, devices_of, is_resharding, sharding, shardings_differ, slice_moves, spreads_made_axis,
};
pub use standalone::is_standalone;
