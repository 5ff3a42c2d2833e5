//! Errors of the environment, of files and of the command line: `H06`.
//!
//! | code  | what                                                        | exit |
//! |-------|-------------------------------------------------------------|------|
//! | H0601 | a file cannot be read                                       | 3    |
//! | H0602 | a file cannot be written                                    | 3    |
//! | H0603 | a data file of an unknown kind, or unfit for a type         | 3    |
//! | H0604 | a data file that is damaged                                 | 3    |
//! | H0605 | a data file of another shape                                | 3    |
//! | H0606 | a data file of another element type                         | 3    |
//! | H0607 | a tensor that a safetensors file does not hold              | 3    |
//! | H0610 | an option's value that is not well formed                   | 2    |
//! | H0611 | an option that names no tensor of the program               | 2    |
//! | H0612 | an option that names no scalar of the program               | 2    |
//! | H0613 | an option given twice for one thing                         | 2    |
//! | H0614 | options that do not go together                             | 2    |
//! | H0620 | a backend that this build or machine does not have          | 3    |
//! | H0621 | something that this build cannot do yet                     | 3    |
//! | H0630 | an output that differs from what was expected               | 4    |
//! | H0631 | a reference program that does not fit the program           | 2    |
//! | H0632 | a file that holds no or several programs                    | 2    |

use crate::io::Status;
use hostir::diag::Diag;
use std::fmt::Display;

/// A file cannot be read.
pub const READ: &str = "H0601";
/// A file cannot be written.
pub const WRITE: &str = "H0602";
/// A data file of an unknown kind, or unfit for a type.
pub const KIND: &str = "H0603";
/// A data file that is damaged.
pub const DAMAGED: &str = "H0604";
/// A data file of another shape.
pub const SHAPE: &str = "H0605";
/// A data file of another element type.
pub const DTYPE: &str = "H0606";
/// A tensor that a safetensors file does not hold.
pub const ENTRY: &str = "H0607";
/// An option's value that is not well formed.
pub const VALUE: &str = "H0610";
/// An option that names no tensor of the program.
pub const TENSOR: &str = "H0611";
/// An option that names no scalar of the program.
pub const SCALAR: &str = "H0612";
/// An option given twice for one thing.
pub const TWICE: &str = "H0613";
/// Options that do not go together.
pub const CONFLICT: &str = "H0614";
/// A backend that this build or machine does not have.
pub const BACKEND: &str = "H0620";
/// Something that this build cannot do yet.
pub const NOT_YET: &str = "H0621";
/// An output that differs from what was expected.
pub const DIFFERS: &str = "H0630";
/// A reference program that does not fit the program.
pub const REFERENCE: &str = "H0631";
/// A file that holds no or several programs.
pub const CONTAINER: &str = "H0632";

/// The exit status of an error, by its code.
pub fn status(code: &str) -> Status {
    match code {
        READ | WRITE | KIND | DAMAGED | SHAPE | DTYPE | ENTRY | BACKEND | NOT_YET => {
            Status::Environment
        }
        VALUE | TENSOR | SCALAR | TWICE | CONFLICT | REFERENCE | CONTAINER => Status::Usage,
        DIFFERS => Status::Differs,
        hostir::diag::codes::DEADLOCK => Status::Deadlock,
        _ => Status::Program,
    }
}

/// `path` cannot be read.
pub fn cannot_read(path: &str, error: &std::io::Error) -> Diag {
    Diag::global(READ, format!("cannot read `{path}`: {}", plain(error)))
}

/// `path` cannot be written.
pub fn cannot_write(path: impl Display, error: &std::io::Error) -> Diag {
    Diag::global(WRITE, format!("cannot write `{path}`: {}", plain(error)))
        .note("nothing was written")
}

/// The system's words without `(os error 2)`, in lower case like our own.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
