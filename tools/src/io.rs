//! What a tool reads from and writes to, and how it ends.

use crate::closed::{self, Closed};
use crate::cuda::Pool;
use crate::os_text::{self, Lossy};
use crate::render::Look;
use crate::run::errors;
use crate::source::Source;
use crate::terminal::{Coloring, knows_colors};
use hostir::diag::visible;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

/// The world as a tool sees it.
pub struct Io<'a> {
    /// Standard input (`-` as a file name).
    pub stdin: &'a mut dyn Read,
    /// Results.
    pub stdout: &'a mut dyn Write,
    /// Diagnostics.
    pub stderr: &'a mut dyn Write,
    /// What relative paths are relative to.
    pub cwd: PathBuf,
    /// Whether diagnostics are coloured.
    pub color: bool,
    /// Whether standard error is a terminal on which a line can be written again.
    pub terminal: bool,
    /// Columns of the terminal that standard output is; `None` if it is none.
    pub columns: Option<usize>,
    /// Columns of the terminal that standard error is; `None` if it is none.
    pub error_columns: Option<usize>,
    /// Variables of the environment.
    pub env: fn(&str) -> Option<std::ffi::OsString>,
    /// The file of this program, where it may start itself again.
    pub exe: Option<PathBuf>,
    /// What programs that ran on GPUs leave for later runs of this process.
    pub gpus: Arc<Pool>,
}

impl Io<'_> {
    /// A path of the command line as a path of the file system.
    pub fn path(&self, path: &str) -> PathBuf {
        self.cwd.join(os_text::unescape(path))
    }

    /// The look of what is written for people to standard error.
    pub(crate) fn look(&self) -> Look {
        Look { color: self.color, columns: self.error_columns }
    }

    /// Writes lines for people to standard error, which may name what others have named. A writer that fails has no
    /// one to be told to.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{}", visible::block(text.trim_end_matches('\n')));
    }

    /// Writes to standard output; the status to end with. A reader that went away (`| head`) is no error.
    pub(crate) fn print(&mut self, text: &str) -> Status {
        let written = self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush());
        match written {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let diag = errors::cannot_write("standard output", &error);
                let source = Source::default();
                crate::render::report(self, crate::render::Format::Human, &source, &[diag]);
                Status::Environment
            }
            _ => Status::Ok,
        }
    }
}

/// Exit statuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Everything went well.
    Ok = 0,
    /// The program is wrong.
    Program = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A file, device or library is missing or unfit.
    Environment = 3,
    /// A comparison differs.
    Differs = 4,
    /// A deadlock, or the time is up.
    Deadlock = 5,
}

impl Status {
    /// The number that the process exits with.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// A tool's library function: the arguments (the program's name first) to an exit status.
pub type Tool = fn(&[std::ffi::OsString], &mut Io<'_>) -> i32;

/// Runs a tool on this process's streams, folder and environment, and exits.
pub fn process_main(tool: Tool) -> std::process::ExitCode {
    report_panics();
    let args: Vec<_> = std::env::args_os().map(|arg| os_text::escape(&arg)).collect();
    let env: fn(&str) -> Option<std::ffi::OsString> = |name| std::env::var_os(name);
    let terminal = std::io::stderr().is_terminal();
    let stdout: Box<dyn Write> = match closed::is_stdout_closed() {
        true => Box::new(Closed),
        false => Box::new(std::io::BufWriter::new(std::io::stdout().lock())),
    };
    let mut stdout = Lossy::new(stdout, &args);
    let mut stderr = Lossy::new(std::io::LineWriter::new(std::io::stderr()), &args);
    let mut io = Io {
        stdin: &mut std::io::stdin().lock(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        cwd: std::env::current_dir().unwrap_or_default(),
        color: Coloring::Auto.colors(terminal, env),
        terminal: terminal && knows_colors(env),
        columns: columns(std::io::stdout()),
        error_columns: columns(std::io::stderr()),
        env,
        exe: std::env::current_exe().ok(),
        gpus: Arc::default(),
    };
    let code = tool(&args, &mut io);
    // A reader that went away (`| head`) is no error, and there is nobody left to tell.
    let _ = stdout.flush();
    if code != 0 {
        crate::staged::end_soon(code);
    }
    std::process::ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Columns of a terminal.
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(stream)?;
    Some(usize::from(width.0)).filter(|width| *width > 0)
}

/// A copy of the process's standard output.
///
/// # Errors
/// If it was closed when the process began.
pub(crate) fn own_stdout() -> std::io::Result<std::fs::File> {
    if closed::is_stdout_closed() {
        return Err(closed::error());
    }
    Ok(std::io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Asks the CUDA driver for as many hardware queues as there are. Streams that share one wait for each
/// other, and a stream that waits for a flag would keep the stream that raises it from going on.
///
/// Does nothing once the process has several threads: to be called first of all.
#[allow(unsafe_code, reason = "the driver reads this from the environment when it starts")]
pub fn hardware_queues() {
    const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads == 1 && std::env::var_os(QUEUES).is_none() {
        // SAFETY: the process has one thread, this one: nobody reads the environment meanwhile.
        unsafe { std::env::set_var(QUEUES, "32") };
    }
}

/// Turns a panic into a request to report it (the process then exits with 101).
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "{}", visible::block(&format!("internal error: {info}")));
        let _ = writeln!(
            stderr,
            "This is a bug in the Host IR toolchain, not in your program. Please report it with the \
             command line and the input file (version {}).",
            env!("CARGO_PKG_VERSION")
        );
    }));
}
