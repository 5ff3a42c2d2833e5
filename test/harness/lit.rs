//! lit runner.

fn main() {}
