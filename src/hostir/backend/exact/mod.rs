//! Proofs that two programs compute the same, for all inputs of their sizes (`hir-run --exact`).
//!
//! Both programs run with numbers modulo the prime 2^61 - 1 in the place of floats (`field`, `executor`). Inputs are
//! random numbers. Sums, products and quotients are those of the field. Functions such as `exp` are keyed hashes of
//! their operands (`hash`), so they are equal where their operands are, and nothing else is known of them. Casts of
//! floats are identities, so rounding is left out. Integers stay integers as long as they do not depend on floats.
//!
//! An output that is the same in several such runs (`compare`) is the same rational function of the inputs and the
//! hashes, up to a probability that `degree` bounds (Schwartz-Zippel). Of an output that differs, `diagnosis` finds the
//! parts of inputs from which the difference comes, and `report` says so.
//!
//! The order is that of [`crate::plan_checks`]: programs come here after the proof that all orders give the same.

mod communication;
mod compare;
mod degree;
mod diagnosis;
mod executor;
mod extremes;
mod field;
mod hash;
mod inputs;
mod memory;
mod pointwise;
mod proof;
mod reduce;
mod report;
mod request;
mod run;
mod take;
mod value;
mod work;

pub use proof::prove_equal;
pub use request::{ExactProof, ExactReport, ExactRequest, ExactSide, SideFailure};
