//! The end of a run that does not succeed, of one process or of several.

use super::cli::Options;
use super::failure::RunFailure;
use crate::launch::{LaunchedProcess, Launcher};
use hostir::backend::control_plane::is_known_to_all;
use hostir::diag::{Cause, Diag, visible};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::{self, DiagFormat, OutputStyle};
use hostir_tool_support::status::{FOLLOWED, ToolStatus};
use std::io::Write;

/// The end of a run that does not succeed.
pub(super) enum RunEnd {
    /// With a failure, and the part of it that this process reports.
    Failed(RunFailure, Verbosity, i32),
    /// The processes that this one started have reported it.
    Reported(i32),
}

/// The part of a failure that a process reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verbosity {
    /// All of it.
    Full,
    /// One line: it happened elsewhere.
    Line,
    /// Nothing: rank 0 says the same.
    Silent,
}

impl From<RunFailure> for RunEnd {
    fn from(failure: RunFailure) -> Self {
        let status = failure.status.exit_code();
        RunEnd::Failed(failure, Verbosity::Full, status)
    }
}

impl RunEnd {
    /// Says it, and what to exit with.
    pub(super) fn report(self, options: &Options, io: &mut ToolIo<'_>) -> i32 {
        let look = io.stderr_style();
        self.write_report(options.format, look, io.stderr)
    }

    /// Writes the report, and returns the exit status. Errors of the writer are ignored.
    pub(super) fn write_report(self, format: DiagFormat, look: OutputStyle, out: &mut dyn Write) -> i32 {
        match self {
            RunEnd::Reported(status) => status,
            RunEnd::Failed(failure, verbosity, status) => {
                match verbosity {
                    Verbosity::Full => {
                        render::write_diags(out, look, format, &failure.source, &failure.diags);
                    }
                    Verbosity::Line => write_line(&failure.diags, out),
                    Verbosity::Silent => {}
                }
                status
            }
        }
    }
}

/// Another process's failure in one line, with the position of this rank.
fn write_line(diags: &[Diag], out: &mut dyn Write) {
    let Some(diag) = diags.first() else { return };
    let own = match diag.cause.as_deref() {
        Some(Cause::Aborted(place)) => format!("; {place}"),
        _ => String::new(),
    };
    let _ = writeln!(out, "{}", visible::escape_line(&format!("hir-run: exits: {}{own}", diag.message)));
}

/// The part of its failure that one of several processes reports, and its exit status.
pub(super) fn process_ending(here: &LaunchedProcess, failure: &RunFailure) -> (Verbosity, i32) {
    let followed = failure.diags.first().is_some_and(is_known_to_all);
    let child = here.place.launcher == Launcher::Processes;
    let verbosity = match () {
        () if here.is_first() => Verbosity::Full,
        () if followed => Verbosity::Line,
        () if here.is_reported_by_first(&failure.diags) => Verbosity::Silent,
        () => Verbosity::Full,
    };
    let status = match failure.status.exit_code() {
        _ if followed && child => FOLLOWED,
        0 => ToolStatus::Environment.exit_code(),
        status => status,
    };
    (verbosity, status)
}
