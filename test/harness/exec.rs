//! Runs the command lines of a test.

use crate::programs::{self, Finished, Invocation};
use crate::shell::{self, Command, Join, Pipeline, Redirect};
use hostir_tool_support::SharedState;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The settings that all commands of a test share.
#[derive(Clone, Debug)]
pub struct Context {
    /// Folder for temporary files; relative paths of redirections start here.
    pub scratch: PathBuf,
    /// Whether `diff` replaces expectations that differ (`HIR_BLESS=1`).
    pub bless: bool,
    /// Whether `hir-opt` and `hir-run` run as processes (`HIR_SPAWN=1`).
    pub spawn: bool,
    /// The flags that `hir-run` gets beside its command line, to run on GPUs. FileCheck is then
    /// left out: messages name the backend.
    pub flags: Vec<String>,
    /// The state that programs on GPUs leave for later ones.
    pub gpus: SharedState,
}

/// Runs one substituted command line.
///
/// # Errors
/// What a person needs to see: every command that ran, its exit status and its standard error.
pub fn run_line(line: &str, context: &Context) -> Result<(), String> {
    let lists = shell::parse(line).map_err(|error| format!("{error}\n  in: {line}"))?;
    let mut log = String::new();
    let mut code = 0;
    for (join, pipeline) in lists {
        let wanted = match join {
            Join::Always => true,
            Join::IfOk => code == 0,
            Join::IfFailed => code != 0,
        };
        if wanted {
            code = run_pipeline(&pipeline, context, &mut log);
        }
    }
    if code == 0 { Ok(()) } else { Err(log) }
}

/// Runs the commands one after the other, each with the output of the one before, and returns the
/// last exit status that is not 0.
fn run_pipeline(pipeline: &Pipeline, context: &Context, log: &mut String) -> i32 {
    let mut input = Vec::new();
    let mut code = 0;
    for command in pipeline {
        let result = run_command(command, std::mem::take(&mut input), context);
        let (finished, passed_on) = result.unwrap_or_else(|error| (Finished::failure(2, &error), Vec::new()));
        describe(command, &finished, log);
        if finished.code != 0 {
            code = finished.code;
        }
        input = passed_on;
    }
    show("output of the last command", &input, log);
    code
}

/// Runs one command; returns how it ended and what it hands to the next one.
fn run_command(command: &Command, piped: Vec<u8>, context: &Context) -> Result<(Finished, Vec<u8>), String> {
    let mut invocation = Invocation { stdin: piped, merge: false, env: Vec::new(), context };
    for redirect in &command.redirects {
        match redirect {
            Redirect::Input(file) => {
                let path = context.scratch.join(file);
                invocation.stdin = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Redirect::Merge => invocation.merge = true,
            Redirect::Output(..) | Redirect::Errors(..) => {}
        }
    }
    let mut finished = programs::run(&command.words, invocation);
    let mut passed_on = std::mem::take(&mut finished.out);
    for redirect in &command.redirects {
        match redirect {
            Redirect::Output(file, append) => {
                write(&context.scratch.join(file), &std::mem::take(&mut passed_on), *append)?;
            }
            Redirect::Errors(file, append) => {
                write(&context.scratch.join(file), &finished.err, *append)?;
            }
            Redirect::Input(_) | Redirect::Merge => {}
        }
    }
    Ok((finished, passed_on))
}

fn write(path: &Path, bytes: &[u8], append: bool) -> Result<(), String> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

fn describe(command: &Command, finished: &Finished, log: &mut String) {
    let _ = writeln!(log, "$ {}  # exit status {}", command.words.join(" "), finished.code);
    show("standard error", &finished.err, log);
}

fn show(what: &str, bytes: &[u8], log: &mut String) {
    if bytes.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = writeln!(log, "  {what}:");
    for line in text.lines().take(60) {
        let _ = writeln!(log, "  | {line}");
    }
    let left = text.lines().count().saturating_sub(60);
    if left > 0 {
        let _ = writeln!(log, "  | ... {left} more lines");
    }
}
