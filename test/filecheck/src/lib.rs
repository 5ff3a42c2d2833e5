//! LLVM FileCheck's language as a small library and a command.
//!
//! A *check file* holds directives in the comments of some other language; [`parse`] finds them
//! and [`CheckFile::run`] compares an input with them. The meaning is that of FileCheck 19: the
//! directives `CHECK`, `-NEXT`, `-SAME`, `-EMPTY`, `-DAG`, `-LABEL`, `-NOT` and `-COUNT-<n>`, the
//! modifier `{LITERAL}`, `{{regex}}`, string and numeric substitution blocks, and the options that
//! [`Options`] lists.
//!
//! ```
//! use filecheck_rs::{Options, parse};
//! let options = Options::default();
//! let checks = parse("// CHECK: [[A:%[0-9]+]] = add\n// CHECK-NEXT: use [[A]]\n", "t", &options)?;
//! checks.run("%1 = add\nuse %1\n", &options)?;
//! assert!(checks.run("%1 = add\nuse %2\n", &options).is_err());
//! # Ok::<(), filecheck_rs::Failure>(())
//! ```
//!
//! # Divergences from LLVM
//!
//! * Texts are UTF-8 and `.` or a complement set matches one character, not one byte. The command
//!   replaces bytes that are not UTF-8.
//! * A pattern that uses a string variable which it defines itself (or writes `\1`) takes the first
//!   match of a backtracking search, not the longest. All other patterns match leftmost, longest,
//!   with POSIX groups.
//! * LLVM's engine can miss the leftmost match where an alternative before the last can be empty
//!   (`(b?|c)`) or such a group has counted repetitions; here it is found.
//! * Numbers have 128 bits; beyond them is an overflow error. LLVM's are unbounded.
//! * A pattern of `--implicit-check-not` that cannot be parsed is an error. LLVM reports it and
//!   goes on without it.
//! * A directive whose colon is the last character of the file is read like any other. LLVM then
//!   takes the directive's suffix as the pattern of a plain directive.
//! * An unbalanced `]` in a substitution block makes the check file unusable (exit code 2). LLVM
//!   exits with 1.
//! * A numeric expression has at most 500 operands and parentheses.
//! * Messages are worded and laid out differently: no input dump and no guess at the intended
//!   match, but the values of all variables. `-v`, `-vv`, `--color` and `--dump-input*` are
//!   accepted and do nothing.
//! * An unknown option exits with 2, not 1, and `-D` may be followed by a separate argument.

mod check;
mod directive;
mod ere;
mod failure;
mod matcher;
mod numeric;
mod options;
mod pattern;
mod run;
mod source;
mod variables;

pub use check::{CheckFile, parse};
pub use failure::{Failure, FailureKind};
pub use options::Options;
