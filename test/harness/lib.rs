//! The test harness: what the tests of all programs of the repository share.
//!
//! A test is a `.hir` file with `// RUN:` lines. `hostir-lit` runs it, with the settings of `test/lit.toml`; the same
//! files pass under LLVM's lit and FileCheck (`test/lit.cfg.py`).

pub mod device_lines;
pub mod fuzz;
#[path = "../../docs/examples/out_of_tree/src/lib.rs"]
pub mod out_of_tree;
pub mod tree;
pub mod values;
