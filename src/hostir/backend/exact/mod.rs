//! Proofs that two programs compute the same function of their inputs, for inputs of their sizes (`hir-run --exact`).
//!
//! Both programs run with numbers modulo the prime 2^61 - 1 in the place of floats (`field`, `executor`). Inputs are
//! random numbers. Sums, products and quotients are those of the field. Functions such as `exp` are keyed hashes of
//! their operands (`hash`), so they are equal if their operands are, and nothing else is known of them. Casts of floats
//! are identities, so rounding is left out. Integers stay integers as long as they do not depend on floats.
//!
//! An output that is the same in several such runs (`compare`) is the same rational function of the inputs and the
//! hashes, up to a probability that `degree` bounds (Schwartz-Zippel). If an output differs, `diagnosis` finds the
//! parts of inputs that cause the difference, and `report` reports them.
//!
//! The order is that of [`crate::plan_checks`], which has proved before that all orders give the same result.

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
mod rows;
mod run;
mod take;
mod value;
mod work;

pub use proof::prove_equal;
pub use request::{ExactProof, ExactReport, ExactRequest, ExactSide, SideFailure};
