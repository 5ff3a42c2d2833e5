//! Calls of FileCheck: what their arguments say, and how they compare.

use filecheck_rs::{CommandLine, Finished, run_command};
use std::io;

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
    /// FileCheck's messages about them.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let line = CommandLine::parse(args).map_err(|failure| failure.message)?;
        let CommandLine { options, check_file, input_file, .. } = line;
        Ok(Self {
            check_file: check_file.ok_or("no check file")?,
            input_file: input_file.unwrap_or_else(|| "-".to_owned()),
            prefixes: options.check_prefixes().into_iter().map(str::to_owned).collect(),
            whole_lines: options.match_full_lines,
            strict_whitespace: options.strict_whitespace,
        })
    }
}

/// Carries a call out. `read` gives a file, or the standard input for `-`.
pub(crate) fn compare(args: &[String], read: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Finished {
    run_command(args, &mut |name| read(name).map_err(io::Error::other))
}
