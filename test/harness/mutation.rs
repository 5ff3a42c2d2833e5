//! Mutants of programs that are right, and two judges of them that know nothing of each other: the proof
//! (`hostir::plan_checks`) and the schedule oracle of the CPU backend.

pub(crate) mod corpus;
pub(crate) mod judge;
pub(crate) mod operators;
pub(crate) mod statements;
