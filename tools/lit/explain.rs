//! The directive of FileCheck that failed, beside the line of the input that is most like it.

use crate::checks::CheckArguments;
use filecheck_rs::nearest_text;
use regex::Regex;
use std::fmt::Write as _;
use std::path::Path;

/// Lines of the input that are shown above the nearest one and below it.
const CONTEXT: usize = 2;
/// Characters of a line that are shown.
const SHOWN_CHARS: usize = 300;

/// The failed directive of a message of FileCheck: its name, and its line from 1.
struct FailedDirective {
    name: String,
    line: usize,
    /// The line and the column of the input from which it was searched, from 1.
    from: (usize, usize),
}

/// The directive that failed and the nearest line of the input, for people; nothing if the message names none.
///
/// `args` are FileCheck's arguments, `message` is what it wrote, `input` its standard input.
pub(crate) fn nearest_line(args: &[String], message: &str, input: &str, cwd: &Path) -> String {
    let Ok(CheckArguments { check_file: file, input_file, .. }) = CheckArguments::parse(args) else {
        return String::new();
    };
    let checks = std::fs::read(cwd.join(&file)).unwrap_or_default();
    let input = match input_file.as_str() {
        "-" => input.to_owned(),
        file => String::from_utf8_lossy(&std::fs::read(cwd.join(file)).unwrap_or_default()).into_owned(),
    };
    let Some(failed) = failed_directive(message) else { return String::new() };
    let checks = String::from_utf8_lossy(&checks);
    let Some(directive) = checks.lines().nth(failed.line - 1) else { return String::new() };
    let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy();
    let place = format!("{name}:{}", failed.line);
    beside(&place, directive, &failed, &input)
}

fn failed_directive(message: &str) -> Option<FailedDirective> {
    let error = Regex::new(r"(?m)^.*?:(\d+):\d+: error: ([A-Za-z0-9_-]+)(?:\{LITERAL\})?: ").ok()?.captures(message)?;
    let scan = Regex::new(r"(?m)^.*?:(\d+):(\d+): note: scanning from here").ok()?.captures(message);
    let from = scan.and_then(|scan| Some((scan[1].parse().ok()?, scan[2].parse().ok()?))).unwrap_or((1, 1));
    let line = error[1].parse().ok().filter(|line| *line > 0)?;
    Some(FailedDirective { name: error[2].to_owned(), line, from })
}

/// The directive's line and the lines around the nearest one.
fn beside(place: &str, directive: &str, failed: &FailedDirective, input: &str) -> String {
    let lines: Vec<&str> = input.lines().collect();
    let mut out = "the directive and the nearest line of the input:\n".to_owned();
    let width = place.len().max("input ".len() + lines.len().to_string().len());
    let _ = writeln!(out, "{place:>width$} | {}", directive.trim());
    let pattern = directive.split_once(&failed.name).and_then(|(_, rest)| rest.split_once(':'));
    let Some(nearest) = nearest_line_from(pattern.map_or(directive, |(_, pattern)| pattern), input, failed) else {
        let _ = writeln!(out, "{:>width$} | no line of the input is like it from line {} on", "", failed.from.0);
        return out;
    };
    let shown = nearest.saturating_sub(CONTEXT)..lines.len().min(nearest + CONTEXT + 1);
    for at in shown {
        let number = format!("input {}", at + 1);
        let (sign, note) = if at == nearest { ('>', "   <- nearest") } else { ('|', "") };
        let text: String = lines[at].chars().take(SHOWN_CHARS).collect();
        let _ = writeln!(out, "{number:>width$} {sign} {text}{note}");
    }
    out
}

/// The line, from 0, that FileCheck takes for the one that was meant.
fn nearest_line_from(pattern: &str, input: &str, failed: &FailedDirective) -> Option<usize> {
    let (line, column) = failed.from;
    let above: usize = input.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = input.as_bytes().get(above + column.saturating_sub(1)..)?;
    let nearest = nearest_text(pattern.trim().as_bytes(), rest)?;
    Some(line.saturating_sub(1) + rest[..nearest].iter().filter(|byte| **byte == b'\n').count())
}
