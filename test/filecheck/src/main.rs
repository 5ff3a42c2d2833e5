//! FileCheck.

fn main() {}
