//! Input, output and environment of a tool.

use crate::errors;
use crate::os_text::{self, LossyWriter};
use crate::panics;
use crate::render::{self, DiagFormat, OutputStyle};
use crate::source::NamedText;
use crate::standard_output::{ClosedStream, is_stdout_closed};
use crate::status::ToolStatus;
use crate::terminal::{ColorMode, knows_colors};
use hostir::diag::{Diag, visible};
use hostir::verdict::ProofVerdict;
use std::any::Any;
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The environment of a tool: streams, folder, variables.
pub struct ToolIo<'a> {
    /// Standard input (`-` as a file name).
    pub stdin: &'a mut dyn Read,
    /// Results.
    pub stdout: &'a mut dyn Write,
    /// Diagnostics.
    pub stderr: &'a mut dyn Write,
    /// The folder that relative paths start from.
    pub cwd: PathBuf,
    /// Diagnostics are coloured.
    pub color: bool,
    /// True if standard error is a terminal on which a line can be overwritten.
    pub terminal: bool,
    /// Columns of the terminal of standard output; `None` if it is none.
    pub columns: Option<usize>,
    /// Columns of the terminal of standard error; `None` if it is none.
    pub error_columns: Option<usize>,
    /// Variables of the environment.
    pub env: fn(&str) -> Option<OsString>,
    /// The file of this program, if it may start itself again.
    pub exe: Option<PathBuf>,
    /// Resources of GPUs that later runs of this process reuse.
    pub gpus: SharedState,
}

impl ToolIo<'_> {
    /// True if the tool is the program of this process: one that another program calls cannot start itself again.
    pub(crate) fn is_process(&self) -> bool {
        self.exe.is_some()
    }

    /// A path of the command line as a path of the file system.
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        self.cwd.join(os_text::unescape_text(path))
    }

    /// Calls `work` with an empty environment, without a terminal, and with streams that are empty and accept
    /// everything.
    pub fn with_no_environment<T>(work: impl FnOnce(&mut ToolIo<'_>) -> T) -> T {
        let (mut input, mut output, mut errors) = (std::io::empty(), std::io::sink(), std::io::sink());
        work(&mut ToolIo {
            stdin: &mut input,
            stdout: &mut output,
            stderr: &mut errors,
            cwd: PathBuf::new(),
            color: false,
            terminal: false,
            columns: None,
            error_columns: None,
            env: |_| None,
            exe: None,
            gpus: SharedState::default(),
        })
    }

    /// Calls `work` with streams that are empty and accept everything.
    pub fn with_null_streams<T>(&self, work: impl FnOnce(&mut ToolIo<'_>) -> T) -> T {
        let (mut input, mut output, mut errors) = (std::io::empty(), std::io::sink(), std::io::sink());
        work(&mut ToolIo {
            stdin: &mut input,
            stdout: &mut output,
            stderr: &mut errors,
            cwd: self.cwd.clone(),
            color: self.color,
            terminal: false,
            columns: self.columns,
            error_columns: self.error_columns,
            env: self.env,
            exe: self.exe.clone(),
            gpus: self.gpus.clone(),
        })
    }

    /// The style of text for users on standard error.
    pub fn stderr_style(&self) -> OutputStyle {
        OutputStyle { color: self.color, columns: self.error_columns }
    }

    /// Reads a program's text from `path` (`-` is standard input).
    ///
    /// # Errors
    /// [`errors::READ`] if that fails, [`errors::LARGE`] for a text above the length limit, `H0019` for a long file
    /// that is no text.
    pub fn read_source(&mut self, path: &str) -> Result<NamedText, Diag> {
        if path == "-" {
            return NamedText::read_path("standard input", "<stdin>", &mut *self.stdin, 0);
        }
        let file = std::fs::File::open(self.resolve_path(path));
        let file = file.map_err(|error| errors::cannot_read(path, &error))?;
        let length = file.metadata().map_or(0, |found| found.len());
        NamedText::read_path(path, path, file, length)
    }

    /// The same, with the texts of the files that it imports: those of a text from standard input are in the current
    /// folder.
    ///
    /// # Errors
    /// Those of [`ToolIo::read_source`].
    pub fn read_linked_source(&mut self, path: &str) -> Result<NamedText, Diag> {
        let source = self.read_source(path)?;
        Ok(self.link_source(path, source))
    }

    /// The text of `path` with those of the files that it imports.
    pub fn link_source(&self, path: &str, source: NamedText) -> NamedText {
        let file = self.resolve_path(path);
        let folder = if path == "-" { Some(self.cwd.as_path()) } else { file.parent() };
        source.link_imports(folder.unwrap_or(&self.cwd))
    }

    /// Writes diagnostics about `source` to standard error. Ignores write errors: there is nobody to report them to.
    pub fn report(&mut self, format: DiagFormat, source: &NamedText, diags: &[Diag]) {
        let look = self.stderr_style();
        render::write_diags(self.stderr, look, format, source, diags);
    }

    /// Writes the verdict about a program to standard error if diagnostics are data; for users the summary has it.
    pub fn report_verdict(&mut self, format: DiagFormat, source: &NamedText, verdict: &ProofVerdict) {
        if format == DiagFormat::Json {
            let mut verdict = verdict.clone();
            if let Some(log) = &source.log {
                verdict.trusted.iter_mut().for_each(|launch| launch.span = log.places.span(launch.span));
            }
            let _ = render::write_verdict(self.stderr, &source.name, &source.shown_text(), &verdict);
        }
    }

    /// Applies `--color` to standard error from now on.
    pub fn apply_coloring(&mut self, coloring: ColorMode) {
        if coloring != ColorMode::Auto {
            self.color = coloring == ColorMode::Always;
        }
    }

    /// Writes lines for users to standard error, with escaped names. Ignores write errors: there is nobody to report
    /// them to.
    pub fn print_message(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{}", visible::escape_block(text.trim_end_matches('\n')));
    }

    /// Writes to standard output; returns the status to end with. A closed reader (`| head`) is no error.
    pub fn print_output(&mut self, text: &str) -> ToolStatus {
        let written = self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush());
        match written {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let diag = errors::cannot_write("standard output", &error);
                let source = NamedText::default();
                self.report(DiagFormat::Human, &source, &[diag]);
                ToolStatus::Environment
            }
            _ => ToolStatus::Ok,
        }
    }
}

/// State that a run leaves for later runs of this process. The first user decides on its type.
#[derive(Clone, Default, Debug)]
pub struct SharedState(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl SharedState {
    /// The state; a new one if there is none of this type.
    pub fn get_or_default<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let state = self.0.get_or_init(|| Arc::new(T::default()));
        Arc::clone(state).downcast().unwrap_or_default()
    }
}

/// The time that a process waits at its end for resources that libraries still release after a success, and after a
/// failure, of which little is known.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
const TEARDOWN_LIMIT: Duration = Duration::from_secs(1);

/// A tool's library function: the arguments (the program's name first) to an exit status.
pub type ToolFn = fn(&[OsString], &mut ToolIo<'_>) -> i32;

/// Runs a tool as this process's program: its arguments, streams, folder and environment.
pub fn process_main(tool: ToolFn) -> std::process::ExitCode {
    process_main_with(tool, |_| true)
}

/// [`process_main`] of a tool that uses libraries whose exit handlers must not run while a thread is inside of them.
/// `finish` waits for such threads, at most for a time, and returns true if there is none; otherwise the process ends
/// without exit handlers.
pub fn process_main_with(tool: ToolFn, finish: fn(Duration) -> bool) -> std::process::ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let code = run_on_process(tool, &args, std::env::current_exe().ok());
    if !finish(if code == 0 { RELEASE_LIMIT } else { TEARDOWN_LIMIT }) {
        crate::staged::end_at_once(code);
    }
    std::process::ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Runs a tool with these arguments (the program's name first) on this process's streams, folder and environment, and
/// returns its exit status, with which the process has to end. `exe` is the file that starts the tool again.
pub fn run_on_process(tool: ToolFn, args: &[OsString], exe: Option<PathBuf>) -> i32 {
    panics::report_panics();
    let args: Vec<_> = args.iter().map(|arg| os_text::escape_text(arg)).collect();
    let env: fn(&str) -> Option<OsString> = |name| std::env::var_os(name);
    let terminal = std::io::stderr().is_terminal();
    let stdout: Box<dyn Write> = match is_stdout_closed() {
        true => Box::new(ClosedStream),
        false => Box::new(std::io::BufWriter::new(std::io::stdout().lock())),
    };
    let mut stdout = LossyWriter::new(stdout, &args);
    let mut stderr = LossyWriter::new(std::io::LineWriter::new(std::io::stderr()), &args);
    let mut io = ToolIo {
        stdin: &mut std::io::stdin().lock(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        cwd: std::env::current_dir().unwrap_or_default(),
        color: ColorMode::Auto.is_colored(terminal, env),
        terminal: terminal && knows_colors(env),
        columns: terminal_columns(std::io::stdout()),
        error_columns: terminal_columns(std::io::stderr()),
        env,
        exe,
        gpus: SharedState::default(),
    };
    let code = tool(&args, &mut io);
    // A closed reader (`| head`) is no error.
    let _ = stdout.flush();
    if code != 0 {
        crate::staged::end_soon(code);
    }
    code
}

/// Columns of a terminal.
pub(crate) fn terminal_columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(stream)?;
    Some(usize::from(width.0)).filter(|width| *width > 0)
}
