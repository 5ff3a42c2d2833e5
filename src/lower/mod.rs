//! Lowering a program to plans: sizes are bound ([`infer`]), then each rank's host is run at plan time, op by op, on a
//! [`PlanBuilder`](crate::plan::PlanBuilder).
//!
//! [`prepare`] does both; [`mod@shard`] and [`assemble`] go between whole tensors and ranks' shards.

mod driver;
mod fresh;
mod prepare;
pub mod shard;
pub mod sizes;

pub use prepare::{Port, PortAxis, Prepared, prepare, prepare_keeping, prepare_rank};
pub use shard::{assemble, shard};
pub use sizes::{Sizes, infer, needed_ranks};
