//! Runs the command lines of a test.

use crate::context::Context;
use crate::explain;
use crate::programs::{self, Finished, Invocation, TIMED_OUT};
use crate::shell::{self, Command, Join, Pipeline, Redirect, ShellWord, Stream};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines of an output that a report shows.
const SHOWN_LINES: usize = 60;

/// The shell that runs the lines of one test: `cd` and `export` hold for the lines that follow.
#[derive(Debug)]
pub struct Shell {
    context: Context,
    cwd: PathBuf,
    /// The log so far, for people.
    log: String,
}

/// The end of a line that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFailure {
    /// A command ended with another status than 0.
    Status,
    /// The test's time was over.
    TimedOut,
    /// The line is not one of this shell.
    Syntax,
}

/// A stream's place.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    /// The next command of the pipe, or the report.
    Pipe,
    /// The report.
    Report,
    File {
        path: PathBuf,
        append: bool,
    },
}

/// Runs one substituted command line of a test that has no other.
///
/// # Errors
/// The log for a person: every command that ran, its exit status and its standard error.
pub fn run_single_line(line: &str, context: &Context) -> Result<(), String> {
    let mut shell = Shell::new(context.clone());
    shell.run_line(line).map_err(|_| shell.take_log())
}

impl Shell {
    /// A shell in the test's folder.
    pub fn new(context: Context) -> Self {
        Self { cwd: context.scratch.clone(), context, log: String::new() }
    }

    /// The log since the last call: commands, exit statuses and outputs.
    pub fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log)
    }

    /// Runs one substituted command line.
    ///
    /// # Errors
    /// The reason of the failure; [`Shell::take_log`] has the rest.
    pub fn run_line(&mut self, line: &str) -> Result<(), LineFailure> {
        let lists = shell::parse_line(line).map_err(|error| {
            let _ = writeln!(self.log, "{error}\n  in: {line}");
            LineFailure::Syntax
        })?;
        let mut code = 0;
        for (join, pipeline) in lists {
            let wanted = match join {
                Join::Always => true,
                Join::IfOk => code == 0,
                Join::IfFailed => code != 0,
            };
            if wanted {
                code = self.run_pipeline(&pipeline);
            }
            if code == TIMED_OUT {
                return Err(LineFailure::TimedOut);
            }
        }
        if code == 0 { Ok(()) } else { Err(LineFailure::Status) }
    }

    /// Runs the commands one after the other, each with the output of the one before, and returns the
    /// last exit status that is not 0.
    fn run_pipeline(&mut self, pipeline: &Pipeline) -> i32 {
        let mut input = Vec::new();
        let mut code = 0;
        for command in pipeline {
            let result = self.run_command(command, std::mem::take(&mut input));
            let (finished, passed_on) = result.unwrap_or_else(|error| (Finished::failure(2, &error), Vec::new()));
            let _ = writeln!(self.log, "$ {}  # exit status {}", quoted(&command.words), status(finished.code));
            show("standard error", &finished.err, &mut self.log);
            if finished.code != 0 {
                code = finished.code;
            }
            input = passed_on;
            if code == TIMED_OUT {
                break;
            }
        }
        show("output of the last command", &input, &mut self.log);
        code
    }

    /// Runs one command; returns how it ended, with what goes into the report as its standard error, and what it hands
    /// to the next one.
    fn run_command(&mut self, command: &Command, piped: Vec<u8>) -> Result<(Finished, Vec<u8>), String> {
        let words = self.expand_patterns(&command.words);
        if let Some(finished) = self.change_state(&words) {
            return Ok((finished, Vec::new()));
        }
        let (mut stdin, mut out, mut err) = (piped, Target::Pipe, Target::Report);
        for redirect in &command.redirects {
            match redirect {
                Redirect::Input(file) => {
                    let path = self.cwd.join(file);
                    stdin = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                Redirect::File { stream: Stream::Output, path, append } => out = self.file(path, *append),
                Redirect::File { stream: Stream::Errors, path, append } => err = self.file(path, *append),
                Redirect::Copy { stream: Stream::Errors, target: Stream::Output } => err = out.clone(),
                Redirect::Copy { stream: Stream::Output, target: Stream::Errors } => out = err.clone(),
                Redirect::Copy { .. } => {}
            }
        }
        let checked = (words.first().is_some_and(|name| programs::FILE_CHECK.contains(&name.as_str())))
            .then(|| (stdin.clone(), words[1..].to_vec()));
        let invocation = Invocation {
            stdin,
            merge: out == err,
            cwd: self.cwd.clone(),
            env: Arc::clone(&self.context.environment),
            context: &self.context,
        };
        let mut finished = programs::run_program(&words, invocation);
        let (output, errors) = (std::mem::take(&mut finished.out), std::mem::take(&mut finished.err));
        let mut passed_on = Vec::new();
        let streams = if out == err { vec![(out, output)] } else { vec![(out, output), (err, errors)] };
        for (target, bytes) in streams {
            match target {
                Target::Pipe => passed_on.extend(bytes),
                Target::Report => finished.err.extend(bytes),
                Target::File { path, append } => write_file(&path, &bytes, append)?,
            }
        }
        if let Some((input, args)) = checked.filter(|_| finished.code != 0) {
            let message = String::from_utf8_lossy(&finished.err).into_owned();
            let input = String::from_utf8_lossy(&input).into_owned();
            finished.err.extend(explain::nearest_line(&args, &message, &input, &self.cwd).into_bytes());
        }
        Ok((finished, passed_on))
    }

    fn file(&self, path: &str, append: bool) -> Target {
        Target::File { path: self.cwd.join(path), append }
    }

    /// The words, with patterns of file names replaced by the names; a pattern that no file has stays.
    fn expand_patterns(&self, words: &[ShellWord]) -> Vec<String> {
        let mut out = Vec::new();
        for word in words {
            let names = if word.pattern { self.matching_files(&word.text) } else { Vec::new() };
            match names.is_empty() {
                true => out.push(word.text.clone()),
                false => out.extend(names),
            }
        }
        out
    }

    fn matching_files(&self, pattern: &str) -> Vec<String> {
        let folder = glob::Pattern::escape(&self.cwd.to_string_lossy());
        let whole = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{folder}/{pattern}") };
        let paths = glob::glob(&whole).into_iter().flatten().flatten();
        let names = paths.map(|path| match pattern.starts_with('/') {
            true => path.to_string_lossy().into_owned(),
            false => path.strip_prefix(&self.cwd).unwrap_or(&path).to_string_lossy().into_owned(),
        });
        names.collect()
    }

    /// Carries out `cd` and `export`, which change this shell; `None` for other commands.
    fn change_state(&mut self, words: &[String]) -> Option<Finished> {
        match words {
            [cd, folder] if cd == "cd" => {
                let path = self.cwd.join(folder);
                if !path.is_dir() {
                    return Some(Finished::failure(1, &format!("cd: {} is no folder", path.display())));
                }
                self.cwd = path;
            }
            [export, variables @ ..] if export == "export" => {
                for (name, value) in variables.iter().filter_map(|text| text.split_once('=')) {
                    Arc::make_mut(&mut self.context.environment).insert(name.to_owned(), value.to_owned());
                }
            }
            _ => return None,
        }
        Some(Finished::success(Vec::new()))
    }
}

fn write_file(path: &Path, bytes: &[u8], append: bool) -> Result<(), String> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

/// A command as a person would type it.
fn quoted(words: &[ShellWord]) -> String {
    let words = words.iter().map(|word| {
        let plain = word.text.chars().all(|c| c.is_alphanumeric() || "-_=./,:+%@*?[]{}!".contains(c));
        match plain && !word.text.is_empty() {
            true => word.text.clone(),
            false => format!("'{}'", word.text.replace('\'', r"'\''")),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn status(code: i32) -> String {
    match code {
        TIMED_OUT => "none: timeout".to_owned(),
        code if code < 0 => format!("none: signal {}", -code),
        code => code.to_string(),
    }
}

fn show(what: &str, bytes: &[u8], log: &mut String) {
    if bytes.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = writeln!(log, "  {what}:");
    for line in text.lines().take(SHOWN_LINES) {
        let _ = writeln!(log, "  | {line}");
    }
    let left = text.lines().count().saturating_sub(SHOWN_LINES);
    if left > 0 {
        let _ = writeln!(log, "  | ... {left} more lines");
    }
}
