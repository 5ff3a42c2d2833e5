//! LLVM's FileCheck: the whole of its language, with the meaning that FileCheck 19 gives it.
//!
//! A *check file* holds directives in the comments of some other language; [`parse_checks`] finds them and
//! [`CheckFile::check_input`] compares an input with them. [`run_command`] is the whole command. `docs/filecheck.md`
//! describes the language and lists what differs.
//!
//! ```
//! use filecheck_rs::{Options, parse_checks};
//! let options = Options::default();
//! let checks = parse_checks("// CHECK: [[A:%[0-9]+]] = add\n// CHECK-NEXT: use [[A]]\n", "t", &options)?;
//! checks.check_input("%1 = add\nuse %1\n", &options)?;
//! assert!(checks.check_input("%1 = add\nuse %2\n", &options).is_err());
//! # Ok::<(), filecheck_rs::Failure>(())
//! ```
//!
//! # From text to verdict
//!
//! | step | module |
//! |---|---|
//! | the command line becomes options | `command_line`, `options` |
//! | prefixes and suffixes are found; each directive's text becomes a regular expression with places for values | `directive`, `checks`, `pattern` |
//! | numeric blocks become expressions and formats | `numeric` |
//! | directives are matched, block by block | `runner` |
//! | expressions find the leftmost longest match, and what their groups have | `posix` |
//! | matches and misses become messages, and notes in a dump of the input | `report`, `dump`, `source` |
//!
//! Texts are bytes: `.` and a complement set match one byte, as in LLVM.

mod checks;
mod command;
mod command_line;
mod directive;
mod dump;
mod failure;
mod near_miss;
mod numeric;
mod options;
mod paint;
mod pattern;
mod posix;
mod report;
mod runner;
mod source;
mod variables;

pub use checks::{CheckFile, parse_checks};
pub use command::{Finished, run_command, split_arguments};
pub use command_line::{CommandLine, Information};
pub use failure::{Failure, FailureKind};
pub use options::{DumpFilter, DumpInput, Options, OutputOptions, Verbosity};
pub use report::nearest_text;
