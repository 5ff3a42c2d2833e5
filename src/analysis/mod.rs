//! What programs mean beyond single ops: axes and how ops map them, sharding, extents, names.

pub mod extents;
pub mod mapping;
pub mod renewed;
pub mod sharding;
pub mod standalone;

pub use extents::Extents;
pub use mapping::{AxisMap, MappedAxis};
pub use sharding::{
    Sharding, devices_of, is_resharding, sharding, shardings_differ, slice_moves, spreads_made_axis,
};
pub use standalone::is_standalone;
