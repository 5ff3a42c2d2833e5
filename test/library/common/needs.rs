//! Tests that need something of the machine, for test programs with a `main` of their own: where it is missing,
//! the test is reported as ignored, with the reason. The test runner of the standard library can tell that when a
//! test is compiled only, not when it runs.
#![allow(dead_code, reason = "each test program uses a part")]

use libtest_mimic::{Arguments, Completion, Trial};
use std::process::ExitCode;

/// A test by its function's name; `missing` is why it cannot run here.
pub(crate) fn test(name: &str, missing: Option<&str>, body: fn()) -> Trial {
    let missing = missing.map(str::to_owned);
    Trial::ignorable_test(name, move || {
        if let Some(reason) = missing {
            return Ok(Completion::ignored_with(reason));
        }
        body();
        Ok(Completion::Completed)
    })
}

/// Runs the tests that the command line selects.
pub(crate) fn run(tests: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// Tests by their functions: `tests![missing; a, module::b]`. What a test needs is a value of type
/// `Option<&str>`: why it cannot be had.
macro_rules! tests {
    ($missing:expr; $($name:path),+ $(,)?) => {
        vec![$(needs::test(stringify!($name), $missing, $name)),+]
    };
}
pub(crate) use tests;
