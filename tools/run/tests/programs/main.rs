//! The programs, as functions and as processes, in one test program. Tests that need something of the machine are in
//! `needs`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod command_line;
mod fake_processes;
#[cfg(target_os = "linux")]
mod files;
mod hir_opt;
mod launch;
mod one_judge;
#[cfg(target_os = "linux")]
mod robust;
mod signals;
mod site;
mod sustained_tuning;
#[cfg(unix)]
mod terminal;
mod trace_files;
mod tuned_choices;
