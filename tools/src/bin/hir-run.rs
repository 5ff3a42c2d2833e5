//! hir-run.

fn main() {}
