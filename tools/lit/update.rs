//! `hir-lit --update`: writes the CHECK lines that the outputs of tools give.
//!
//! The RUN lines run with calls of FileCheck that only collect. Below a line that names `hir-lit --update` the CHECK
//! lines of each call's prefix are written again; all other lines stay, also CHECK lines above it, which the written
//! ones go on from. Without such a line the CHECK lines that no longer match are replaced. A file that would not pass
//! stays as it is.

mod block;
mod sample;

use crate::case::{RunSettings, TestCase};
use crate::checks::{CheckArguments, compare};
use crate::context::{Checks, UncheckedCall};
use crate::directives::{Directives, parse_directives};
use block::TestText;
use sample::SampleOptions;
use similar::TextDiff;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// So often a file is written at most.
const MOST_ROUNDS: usize = 4;

/// The fate of a test.
enum Update {
    /// It is as it was, for this reason.
    Same(String),
    /// Its text before and after.
    Written(String, String),
}

/// A call of FileCheck with the test's file.
struct CheckCall {
    args: Vec<String>,
    arguments: CheckArguments,
    input: String,
}

/// Writes the CHECK lines of the tests, and shows what changes; `false` if one could not be updated.
pub(crate) fn update_tests(tests: &[TestCase], run: &RunSettings, out: &mut dyn Write) -> bool {
    let (mut written, mut failed) = (0, 0);
    for test in tests {
        let name = test.full_name();
        let text = match update_test(test, run) {
            Ok(Update::Same(reason)) => format!("SAME: {name}: {reason}\n"),
            Ok(Update::Written(before, after)) => {
                written += 1;
                let path = test.relative_path();
                let difference = TextDiff::from_lines(&before, &after);
                format!("UPDATED: {name}\n{}", difference.unified_diff().header(&path, &path))
            }
            Err(error) => {
                failed += 1;
                format!("FAIL: {name}\n{}\n", error.trim_end())
            }
        };
        // A closed reader is no error.
        let _ = out.write_all(text.as_bytes());
    }
    let same = tests.len() - written - failed;
    let _ = writeln!(out, "\n{written} updated, {same} unchanged, {failed} failed");
    failed == 0
}

fn update_test(test: &TestCase, run: &RunSettings) -> Result<Update, String> {
    let bytes = std::fs::read(&test.path).map_err(|error| error.to_string())?;
    let before = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8")?;
    let directives = parse_directives(&before)?;
    if let Some(reason) = test.missing_feature(&directives, &run.features)? {
        return Ok(Update::Same(reason));
    }
    let options = SampleOptions::parse(&directives.updates)?;
    if options.leave {
        return Ok(Update::Same("`UPDATE: none`".to_owned()));
    }
    let written = write_until_same(test, &directives, run, &options, &before);
    if written.is_err() {
        std::fs::write(&test.path, &before).map_err(|error| format!("cannot restore the file: {error}"))?;
    }
    written
}

/// Writes the file until its CHECK lines are those of its output: tools also read, and may print, what is written.
fn write_until_same(
    test: &TestCase,
    directives: &Directives,
    run: &RunSettings,
    options: &SampleOptions,
    before: &str,
) -> Result<Update, String> {
    let mut text = before.to_owned();
    for _ in 0..MOST_ROUNDS {
        let calls = collect_calls(test, directives, run)?;
        if calls.is_empty() {
            return Ok(Update::Same("no RUN line compares with the CHECK lines of this file".to_owned()));
        }
        let mut parts = TestText::from_text(&text, &calls)?;
        for prefix in written_prefixes(&calls, options)? {
            parts.write_prefix(prefix, &calls, options)?;
        }
        let next = parts.whole();
        if next == text {
            for call in &calls {
                check_call(call, &text, "with the new CHECK lines it would fail, so it stays as it is")?;
            }
            return Ok(match text == before {
                true => Update::Same("its CHECK lines match".to_owned()),
                false => Update::Written(before.to_owned(), text),
            });
        }
        std::fs::write(&test.path, &next).map_err(|error| error.to_string())?;
        text = next;
    }
    Err("each run prints something else: `UPDATE: lines=REGEX` or `numbers` leaves out what changes".to_owned())
}

/// Runs the RUN lines without comparing; returns the calls of FileCheck with this file.
fn collect_calls(test: &TestCase, directives: &Directives, run: &RunSettings) -> Result<Vec<CheckCall>, String> {
    let collected: Arc<Mutex<Vec<UncheckedCall>>> = Arc::default();
    let mut attempt = test.begin_attempt(run, Checks::Collect(Arc::clone(&collected)))?;
    for line in &directives.runs {
        let command = test.settings.substitutions.expand(&line.command, &attempt.place)?;
        if attempt.shell.run_line(&command).is_err() {
            return Err(format!("line {}: RUN: {}\n{}", line.line, line.command, attempt.shell.take_log()));
        }
    }
    let collected = std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner));
    let mut calls = Vec::new();
    for UncheckedCall { args, input } in collected {
        let arguments = CheckArguments::parse(&args)?;
        let own = test.path.ends_with(&arguments.check_file);
        calls.extend(own.then_some(CheckCall { args, arguments, input }));
    }
    Ok(calls)
}

/// The prefixes whose CHECK lines are written: of each call the first one whose calls all have the same sample.
fn written_prefixes<'c>(calls: &'c [CheckCall], options: &SampleOptions) -> Result<Vec<&'c str>, String> {
    let mut written: Vec<&str> = Vec::new();
    for call in calls {
        let prefixes = &call.arguments.prefixes;
        let shared = prefixes.iter().find(|prefix| {
            let users = calls.iter().filter(|other| other.arguments.prefixes.contains(*prefix));
            users.into_iter().all(|other| options.sample(&other.input) == options.sample(&call.input))
        });
        let prefix = shared.ok_or_else(|| {
            let names = prefixes.join(", ");
            format!("outputs of several RUN lines differ that use {names}: give each a --check-prefix of its own")
        })?;
        if !written.contains(&prefix.as_str()) {
            written.push(prefix);
        }
    }
    Ok(written)
}

/// True if a call passes with a file of this text; otherwise an error that begins with `problem`.
fn check_call(call: &CheckCall, text: &str, problem: &str) -> Result<(), String> {
    check_input(&call.args, &call.arguments.check_file, text, &call.input)
        .map_err(|error| format!("{problem}:\n{error}"))
}

/// True if a call with these arguments passes, with a text in the place of its check file, and an input.
fn check_input(args: &[String], check_file: &str, text: &str, input: &str) -> Result<(), String> {
    let done = compare(args, &mut |name| Ok(if name == check_file { text } else { input }.as_bytes().to_owned()));
    if done.status == 0 { Ok(()) } else { Err(done.stderr) }
}
