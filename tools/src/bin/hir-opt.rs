//! hir-opt.

fn main() {}
