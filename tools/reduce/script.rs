//! The user's script: does it still hold for a text?

use super::cli::ReduceArgs;
use hostir_tool_support::io::ToolIo;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest pause between two looks at a script that runs.
const MOST_PAUSE: Duration = Duration::from_millis(5);

/// `ENOEXEC`: a file that is executable, but no program and without `#!`.
const NO_PROGRAM: i32 = 8;

/// The script, and the file that it looks at.
pub(crate) struct ScriptTest {
    script: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
    file: PathBuf,
    limit: Duration,
    /// The end of the last run; `None` if it took too long.
    last: Option<ExitStatus>,
    /// Holds `file`.
    _own: TempDir,
}

impl ScriptTest {
    /// The test of a command line.
    ///
    /// # Errors
    /// A message, if there is no such script or no place for files.
    pub(crate) fn new(cli: &ReduceArgs, io: &ToolIo<'_>) -> Result<Self, String> {
        let own = tempfile::tempdir().map_err(|error| format!("cannot make a folder for files: {error}"))?;
        let name = Path::new(&cli.file).file_name().filter(|_| cli.file != "-");
        let file = own.path().join(name.unwrap_or("input.hir".as_ref()));
        let beside = io.resolve_path(&cli.test);
        // As shells do, a bare name is looked for in the folders of PATH.
        let is_path = cli.test.contains('/') || beside.is_file();
        let script = if is_path { beside } else { PathBuf::from(&cli.test) };
        let limit = Duration::from_millis(cli.timeout_ms);
        let folder = io.cwd.clone();
        Ok(Self { script, args: cli.test_arg.clone(), folder, file, limit, last: None, _own: own })
    }

    /// Runs the script on a text.
    ///
    /// # Errors
    /// A message, if it cannot be started.
    pub(crate) fn holds_for(&mut self, text: &str) -> Result<bool, String> {
        std::fs::write(&self.file, text).map_err(|error| format!("cannot write a file for the script: {error}"))?;
        let mut child = self.start_script()?;
        self.last = wait_until(&mut child, self.limit);
        Ok(self.last.is_some_and(|status| status.success()))
    }

    fn start_script(&self) -> Result<Child, String> {
        let started = self.run_command(Command::new(&self.script)).or_else(|error| {
            // A script without `#!` or without the right to run is the shell's, as for `sh SCRIPT`.
            let is_text = error.kind() == ErrorKind::PermissionDenied || error.raw_os_error() == Some(NO_PROGRAM);
            if !is_text || !self.script.is_file() {
                return Err(error);
            }
            let mut shell = Command::new("sh");
            shell.arg(&self.script);
            self.run_command(shell)
        });
        started.map_err(|error| format!("cannot run the script `{}`: {error}", self.script.display()))
    }

    fn run_command(&self, mut command: Command) -> std::io::Result<Child> {
        command.args(&self.args).arg(&self.file).current_dir(&self.folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    /// Why the last run does not count.
    pub(crate) fn reason_of_failure(&self) -> String {
        let end = match self.last.map(|status| status.code()) {
            Some(Some(code)) => format!("exits with {code}"),
            Some(None) => "is ended by a signal".to_owned(),
            None => format!("takes longer than {} ms", self.limit.as_millis()),
        };
        format!("the script must exit with 0 for the file itself, but it {end}")
    }
}

/// Waits for the end of a child; ends it, with all that it started, when the time is up.
fn wait_until(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(pause),
            Ok(None) | Err(_) => break,
        }
        pause = (pause * 2).min(MOST_PAUSE);
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    None
}
