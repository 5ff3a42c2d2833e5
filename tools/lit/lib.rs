//! Runs folders of tests that carry their own commands, in the language of LLVM's lit.
//!
//! A test is a file with `RUN:` lines, mostly a program that a tool reads, with the output that is expected of it in
//! `CHECK:` lines. [`directives`] reads the lines, [`shell`] parses them, [`exec`] runs them, [`programs`] holds the
//! programs they may call: hir-opt, hir-run and FileCheck as functions of this process, and all others as processes.
//! [`discovery`] finds the tests of folders with their [`settings`], [`case`](mod@case) runs one, [`command`] is the
//! program `hir-lit`.
//!
//! `cargo test -p hostir-test --test lit` runs this project's own tests with it; a program with other tools calls
//! [`command::main_with`].

pub mod case;
mod checks;
pub mod command;
pub mod conditions;
pub mod context;
pub mod directives;
pub mod discovery;
pub mod exec;
mod explain;
pub mod features;
pub mod interrupts;
mod journal;
mod nearest;
pub mod outcome;
pub mod programs;
mod report;
mod schedule;
pub mod settings;
pub mod shell;
pub mod substitutions;
mod supervisor;
mod update;
