//! x
pub mod errors;
