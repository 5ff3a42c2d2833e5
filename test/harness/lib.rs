//! The test harness: a runner for `.hir` files that carry their own commands, and the helpers of the
//! tidy checks.
//!
//! A test is a `.hir` file with `// RUN:` lines, in the language of LLVM's lit, so the same files pass
//! under `lit` and LLVM's FileCheck (`test/lit.cfg.py`). Here the commands run inside this process:
//! [`directives`] reads the lines, [`shell`] parses them, [`exec`] runs them, [`programs`] holds the
//! programs they may call.

pub mod directives;
pub mod exec;
pub mod features;
pub mod fuzz;
pub mod programs;
pub mod shell;
pub mod tree;
pub mod values;
