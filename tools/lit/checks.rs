//! Calls of FileCheck: what their arguments say, and how they compare.

use filecheck_rs::{CommandLine, Failure, Options, parse_checks};

/// The end of a call: its exit status, and what it writes to standard error.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) status: i32,
    pub(crate) message: String,
}

/// The arguments of a call, as far as others than FileCheck ask for them.
#[derive(Clone, Debug)]
pub(crate) struct CheckArguments {
    /// The file with the directives.
    pub(crate) check_file: String,
    /// The input's file; `-` for the standard input.
    pub(crate) input_file: String,
    /// The prefixes of directives.
    pub(crate) prefixes: Vec<String>,
    /// Patterns cover whole lines.
    pub(crate) whole_lines: bool,
    /// Whitespace is kept as it is.
    pub(crate) strict_whitespace: bool,
}

impl CheckArguments {
    /// Reads arguments.
    ///
    /// # Errors
    /// What FileCheck says about them.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let CommandLine { options, check_file, input_file } = Options::from_args(args)?;
        Ok(Self {
            check_file: check_file.ok_or("no check file")?,
            input_file: input_file.unwrap_or_else(|| "-".to_owned()),
            prefixes: options.prefixes,
            whole_lines: options.match_full_lines,
            strict_whitespace: options.strict_whitespace,
        })
    }
}

/// Carries a call out. `read` gives the text of a file, or the standard input for `-`.
pub(crate) fn compare(args: &[String], read: &mut dyn FnMut(&str) -> Result<String, String>) -> Comparison {
    match compare_texts(args, read) {
        Ok(()) => Comparison { status: 0, message: String::new() },
        Err(failure) => failure,
    }
}

fn compare_texts(args: &[String], read: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<(), Comparison> {
    let CommandLine { options, check_file, input_file } = Options::from_args(args).map_err(misuse)?;
    let check_file = check_file.ok_or_else(|| misuse("no check file".to_owned()))?;
    let checks = parse_checks(&read(&check_file).map_err(misuse)?, &check_file, &options).map_err(mismatch)?;
    let input = read(input_file.as_deref().unwrap_or("-")).map_err(misuse)?;
    checks.check_input(&input, &options).map_err(mismatch)
}

fn misuse(message: String) -> Comparison {
    Comparison { status: 2, message: format!("error: {message}\n") }
}

fn mismatch(failure: Failure) -> Comparison {
    Comparison { status: i32::from(failure.exit_code()), message: failure.to_string() }
}
