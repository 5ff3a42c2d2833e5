//! Failures, rendered.

use std::fmt;

/// A sort of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The input does not match the directives.
    Mismatch,
    /// The command line cannot be read.
    CommandLine,
    /// The check file, the input file or the value of an option cannot be used.
    Usage,
}

/// A failed check or an unusable check file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The rendered message, one or more lines, ending in a newline.
    pub message: String,
    /// The sort of failure.
    pub kind: FailureKind,
}

impl Failure {
    /// A mismatch with its rendered message.
    pub(crate) fn mismatch(message: String) -> Failure {
        Failure { message, kind: FailureKind::Mismatch }
    }

    /// A problem with the syntax of the command line.
    pub(crate) fn command_line(message: &str) -> Failure {
        Failure { message: format!("error: {message} (see --help)\n"), kind: FailureKind::CommandLine }
    }

    /// A problem with a file or an option, with its rendered message.
    pub(crate) fn usage(message: String) -> Failure {
        Failure { message, kind: FailureKind::Usage }
    }

    /// The exit code that LLVM's command gives for this failure: 1 for a mismatch and for a command line that cannot be
    /// read, otherwise 2.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Mismatch | FailureKind::CommandLine => 1,
            FailureKind::Usage => 2,
        }
    }
}

/// An error of a pattern, and the byte of its text that it is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternError {
    /// Byte offset in the text that holds the pattern.
    pub(crate) at: usize,
    /// A description.
    pub(crate) message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
