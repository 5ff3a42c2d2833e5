//! Building blocks that several passes share: making ops, rebuilding blocks, memory, lifetimes, shardings.

pub(crate) mod builder;
mod carried;
pub(crate) mod comm_options;
mod derived_names;
pub(crate) mod fold;
pub(crate) mod keep;
pub(crate) mod lifetime;
pub(crate) mod motion;
pub(crate) mod proof;
pub(crate) mod reshard;
pub(crate) mod rewrite;
pub(crate) mod slices;
