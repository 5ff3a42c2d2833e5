//! Analyses of whole programs: axis maps, sharding, extents, loop-private tensors, shared memory, uses of tensors, written
//! inputs.

pub mod extents;
pub mod loop_private;
pub mod mapping;
pub mod sharding;
pub mod standalone;
pub mod storage;
pub mod uses;
pub mod written;

pub use extents::ExtentClasses;
pub use mapping::{AxisMap, MappedAxis};
pub(crate) use sharding::moves_shards;
pub use sharding::{
    Sharding, has_different_shardings, is_resharding, needs_slice_resharding, op_devices, shards_made_axis,
    shows_other_devices, tensor_sharding,
};
pub use standalone::is_standalone;
pub use storage::TensorAccess;
pub use uses::{TensorUse, TensorUses};
