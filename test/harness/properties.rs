//! What holds for every program of the tree and for random ones, in one test program: linking one is dear.

#[path = "../library/common/effort.rs"]
mod effort;
mod fuzz_corpus;
mod layout;
mod lowering;
mod printed;
mod proofs;
#[path = "../library/common/random.rs"]
mod random;
mod styles;
