//! Errors of the environment, of files and of the command line (`H06`), and exit statuses.

use crate::status::ToolStatus;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

/// Declares codes by the exit status that they end with.
macro_rules! codes {
    ($($status:ident { $($(#[doc = $doc:literal])+ $name:ident = $code:literal;)* })*) => {
        $($($(#[doc = $doc])+ pub const $name: &str = $code;)*)*

        /// The exit status of a code of this table.
        fn own_status(code: &str) -> Option<ToolStatus> {
            match code {
                $($($code)|* => Some(ToolStatus::$status),)*
                _ => None,
            }
        }
    };
}

codes! {
    Environment {
        /// A file cannot be read.
        READ = "H0601";
        /// A file cannot be written.
        WRITE = "H0602";
        /// A link, pipe or device of another user in the place of an output file.
        FOREIGN = "H0660";
        /// A data file of an unknown format, or of a format that cannot store the element type.
        KIND = "H0603";
        /// A damaged data file.
        DAMAGED = "H0604";
        /// A data file whose shape differs from the tensor's.
        SHAPE = "H0605";
        /// A data file whose element type differs from the tensor's.
        DTYPE = "H0606";
        /// A tensor that a safetensors file does not contain.
        ENTRY = "H0607";
        /// A program or log that exceeds the length limit.
        LARGE = "H0650";
        /// A feature that this build does not support.
        NOT_YET = "H0621";
        /// Rank 0 cannot listen at the coordinator's address.
        LISTEN = "H0643";
        /// The coordinator is unreachable, or another program answers at its address.
        UNREACHABLE = "H0644";
        /// A process of `--processes` that ended with a failure.
        ENDED = "H0645";
        /// The coordinator rejected a process because of its token, version, rank or number of processes.
        REFUSED = "H0646";
        /// A file of `HIR_TOKEN_FILE` that cannot be read, or that other users can access.
        TOKEN_FILE = "H0672";
        /// A Unix socket of a run on one host that belongs to another user.
        SQUATTED = "H0673";
        /// A compiled kernel on disk that cannot be used (warning).
        KERNEL_CACHE = "H0657";
        /// The file of a kernel that cannot be read, or is not what its ending says.
        KERNEL_FILE = "H0681";
        /// The file of a kernel that a link leads out of the program's folder.
        KERNEL_OUTSIDE = "H0682";
        /// A file of `--tune-file` that has no choices, or is of another version.
        TUNE_FILE = "H0654";
        /// A process of `--processes`, or a thread, that cannot be started.
        START = "H0649";
    }
    Usage {
        /// A malformed value of an option, or of an argument in Python.
        VALUE = "H0610";
        /// An option that names an unknown tensor.
        TENSOR = "H0611";
        /// An option that names an unknown scalar.
        SCALAR = "H0612";
        /// An option that is given twice for the same tensor or scalar.
        TWICE = "H0613";
        /// Options that cannot be combined, or a use in Python that an op or a session does not have.
        CONFLICT = "H0614";
        /// A machine whose rates hold for another number of GPUs than the program has ranks (warning).
        MACHINE_DEVICES = "H0652";
        /// Programs of `--tune` with other inputs, outputs or ranks.
        WAYS = "H0653";
        /// Times of `--tune-file` that hold for earlier programs, or elsewhere (warning).
        TUNE_MISS = "H0655";
        /// An option that has no effect on this backend (warning).
        UNUSED = "H0619";
        /// A launcher's environment, or options that replace it, with a missing or malformed part.
        LAUNCH = "H0640";
        /// Two launchers that disagree.
        LAUNCHERS = "H0641";
        /// The CPU backend, which runs all ranks in one process, under a launcher.
        ONE_PROCESS = "H0642";
        /// A token that is missing, too short, or passed where other users can read it.
        TOKEN = "H0671";
        /// A program that launches kernels of its own on GPUs, without permission.
        KERNELS_REFUSED = "H0680";
        /// Processes of one run with different programs, options or versions.
        UNLIKE = "H0648";
        /// A reference program whose inputs or outputs do not match the program's.
        REFERENCE = "H0631";
        /// A file that contains no program, or several.
        CONTAINER = "H0632";
    }
    Program {
        /// A program whose text does not read back as the program, which `--verify-roundtrip` finds.
        ROUNDTRIP = "H0634";
    }
    Differs {
        /// An output that differs from the expected values.
        DIFFERS = "H0630";
    }
}

/// The exit status of an error, by its code. Sizes come from the command line.
pub fn status_of_code(code: &str) -> ToolStatus {
    match code {
        codes::SIZE_UNKNOWN
        | codes::SIZE_CONFLICT
        | codes::SIZE
        | codes::ASSERTION
        | codes::TOO_FEW_DEVICES
        | codes::WORLD => ToolStatus::Usage,
        codes::NO_MEMORY
        | codes::DEVICE
        | codes::DEVICE_MEMORY
        | codes::DEVICE_CALL
        | codes::PROCESS
        | codes::EXCHANGE
        | codes::ALTERED
        | codes::KERNEL_IMAGE
        | codes::MACHINE
        | codes::SHARED_DEVICE => ToolStatus::Environment,
        codes::DIFFERENT_MEANING | codes::UNPROVED_MEANING => ToolStatus::Differs,
        codes::DEADLOCK | codes::TIMEOUT | codes::PROCESS_LATE => ToolStatus::Deadlock,
        codes::INTERNAL => ToolStatus::Internal,
        _ => own_status(code).unwrap_or(ToolStatus::Program),
    }
}

/// `path` cannot be read.
pub fn cannot_read(path: &str, error: &std::io::Error) -> Diag {
    Diag::global_error(READ, message!("cannot read `{}`: {}", path, system_message(error)))
}

/// `path` cannot be written.
pub fn cannot_write(path: impl Display, error: &std::io::Error) -> Diag {
    let path = path.to_string();
    let folder = Path::new(&path).parent().filter(|folder| !folder.as_os_str().is_empty());
    let note = match (error.kind(), folder) {
        // An output file need not exist: its folder is missing.
        (ErrorKind::NotFound, Some(folder)) => format!(
            "nothing was written, because the folder `{0}` does not exist: create it first, for example with `mkdir -p {0}`",
            folder.display()
        ),
        _ => "nothing was written".to_owned(),
    };
    Diag::global_error(WRITE, message!("cannot write `{}`: {}", path, system_message(error))).with_note(note)
}

/// The system's message without `(os error 2)`, in lower case like our own. For an error without a number, the message
/// that the system has for its kind.
pub fn system_message(error: &std::io::Error) -> String {
    match (error.raw_os_error(), error.kind()) {
        (None, ErrorKind::NotFound) => return "no such file or directory".to_owned(),
        (None, ErrorKind::IsADirectory) => return "is a directory".to_owned(),
        _ => {}
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
