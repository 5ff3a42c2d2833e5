//! Failures, rendered.

use std::fmt;

/// A sort of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The input does not match the directives.
    Mismatch,
    /// The check file, the input file or an option cannot be used.
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

    /// A problem with a file or an option, with its rendered message.
    pub(crate) fn usage(message: String) -> Failure {
        Failure { message, kind: FailureKind::Usage }
    }

    /// The exit code that the command gives for this failure: 1 for a mismatch, otherwise 2.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Mismatch => 1,
            FailureKind::Usage => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
