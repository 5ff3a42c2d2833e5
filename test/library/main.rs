//! Tests of the library crate through its public functions, in one test program, because linking a program takes seconds.
//!
//! `kernels`, `collectives` and `communication` compare results with plain loops; `forms`, `layouts` and `parts` are
//! about text, `errors` and `verify` about errors that no tool can provoke.

mod caller_ops;
mod collectives;
mod common;
mod communication;
mod critical_paths;
#[path = "common/effort.rs"]
mod effort;
mod errors;
mod forms;
mod hang_report;
mod kernels;
mod layouts;
mod many_programs;
mod networks;
mod null_backend;
mod parts;
mod pointwise;
#[path = "common/random.rs"]
mod random;
mod rank_rotation;
#[path = "common/pointwise.rs"]
mod table;
mod timelines;
mod verdicts;
mod verified_edits;
mod verify;
