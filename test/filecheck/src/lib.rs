//! A small FileCheck: LLVM's meaning for the part of its language that this project's tests use.
//!
//! A *check file* holds directives in the comments of some other language; [`parse_checks`] finds them and
//! [`CheckFile::check_input`] compares an input with them. The directives are `CHECK`, `-NEXT`, `-SAME`, `-EMPTY`,
//! `-DAG`, `-LABEL`, `-NOT` and `-COUNT-<n>`, with the modifier `{LITERAL}`, `{{regex}}` blocks and the string variables
//! `[[NAME:regex]]` and `[[NAME]]`. A check file that is accepted here means the same to FileCheck 19.
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
//! # Refused with an error
//!
//! * Numeric blocks (`[[#N:]]`, `[[#N+1]]`), `[[@LINE]]`, and variables whose names begin with `$`.
//! * A variable that is used in the directive that defines it: `-SAME` splits the directive.
//! * Back-references (`\1`), `[[:<:]]`, `[[:>:]]`, collating symbols (`[[.-.]]`) and equivalence classes (`[[=a=]]`).
//! * A directive with a variable whose longest match is not the one that the `regex` crate prefers: see below.
//! * All options but those of [`Options::from_args`].
//!
//! # Longest matches
//!
//! LLVM's regular expressions are POSIX extended ones: of all matches that begin leftmost the longest counts. The
//! `regex` crate prefers earlier alternatives instead (`a|ab` matches the `a` of `ab`). The two agree on where a match
//! begins. Where they disagree on its end, the longest match counts here, too; if the directive defines a variable,
//! whose value would then be in doubt, it is an error that asks for another order of the alternatives. Where the ends
//! agree, several variables of one directive divide the text by preference: `[[X:a|ab]][[Y:bc|c]]` on `abc` gives `X`
//! the value `a`, for which POSIX has `ab`.
//!
//! # Other differences
//!
//! * Texts are UTF-8, and `.` or a complement set matches one character, not one byte.
//! * Messages are laid out differently: no input dump and no guess at the intended match, but the values of variables.

mod checks;
mod directive;
mod expression;
mod failure;
mod options;
mod pattern;
mod runner;
mod source;

pub use checks::{CheckFile, parse_checks};
pub use failure::{Failure, FailureKind};
pub use options::{CommandLine, Options};
