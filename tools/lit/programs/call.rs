//! The call of a program, and its end.

use crate::context::{Context, Environment};
use std::path::{Path, PathBuf};

/// Exit status of a program that panicked: that of a process which aborts. Statuses below 0 are signals, which `not`
/// does not accept.
pub const CRASHED: i32 = -6;
/// Exit status of a program that does not exist; `not` does not accept it either.
pub const NOT_FOUND: i32 = 127;
/// Status of a program that was ended since the test's time was over; no process can have it.
pub const TIMED_OUT: i32 = 1000;

/// The call of a program.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// Standard input.
    pub stdin: Vec<u8>,
    /// True if standard error goes where standard output goes (`2>&1`).
    pub merge: bool,
    /// The folder that relative paths start from.
    pub cwd: PathBuf,
    /// Variables of the environment.
    pub env: Environment,
    /// The test's.
    pub context: &'a Context,
}

impl<'a> Invocation<'a> {
    /// A call in the test's folder with the test's environment.
    pub fn with_input(stdin: Vec<u8>, context: &'a Context) -> Self {
        Self { stdin, merge: false, cwd: context.scratch.clone(), env: context.environment.clone(), context }
    }

    /// Reads a file, or the standard input for `-`.
    pub(super) fn load(&self, name: &str) -> Result<Vec<u8>, String> {
        if name == "-" {
            return Ok(self.stdin.clone());
        }
        let path = self.cwd.join(name);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The end of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Exit status.
    pub code: i32,
    /// Standard output, with standard error among it if that was asked for.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: Vec<u8>,
}

impl Finished {
    /// Success with an output.
    pub fn success(out: Vec<u8>) -> Self {
        Self { code: 0, out, err: Vec::new() }
    }
    /// A failure with a message.
    pub fn failure(code: i32, message: &str) -> Self {
        Self { code, out: Vec::new(), err: format!("{message}\n").into_bytes() }
    }
    /// The end of a program that the test's time did not suffice for.
    pub fn timed_out() -> Self {
        Self::failure(TIMED_OUT, "ended: the test's time is over")
    }
    /// With the standard error in the output if `merge`.
    pub(super) fn merged(mut self, merge: bool) -> Self {
        if merge {
            self.out.append(&mut self.err);
        }
        self
    }
}

/// The file of a program: a path with `/` from the folder `cwd`, else the first in the folders of `search`.
pub(super) fn find_program(name: &str, cwd: &Path, search: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|path| path.exists());
    }
    search.iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
