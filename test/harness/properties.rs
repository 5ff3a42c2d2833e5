//! Properties of every program of the tree and of random ones, and of the runner itself, in one test program: linking one
//! takes seconds.

mod constructs;
#[path = "../library/common/effort.rs"]
mod effort;
mod fixes;
mod fuzz_corpus;
mod hir2;
mod hir2_grammar;
mod layout;
mod lowering;
mod mistakes;
#[allow(dead_code, reason = "the command that prints the table uses all of it")]
mod mutation;
mod mutation_judges;
mod printed;
mod proofs;
#[path = "../library/common/random.rs"]
mod random;
mod styles;
mod twice;
