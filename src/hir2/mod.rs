//! `hir 2`: the notation of the IR that people write.
//!
//! `read` makes IR of a syntax tree, `write` text of IR. What a text leaves out is decided in `infer` (types of results)
//! and `defaults` (memory, sizes, teams), which both use, so that reading what was written gives the same IR.

pub mod defaults;
pub mod infer;
pub mod read;
pub mod write;
