//! Tests of the grammar, in one test program: both notations, their errors, and texts that nobody writes.

#[path = "../../../test/library/common/effort.rs"]
mod effort;
mod errors;
mod hir2;
mod hir2_errors;
mod hir2_reparse;
mod hir2_robust;
mod hir2_tree;
mod kernel_types;
mod layout;
mod limits;
mod line_habits;
mod plain;
mod printed_tree;
mod random;
mod robust;
mod syntax;
