//! The directive of FileCheck that failed, beside the line of the input that is most like it.

use crate::checks::CheckArguments;
use regex::Regex;
use std::fmt::Write as _;
use std::path::Path;

/// Lines of the input that are shown above the nearest one and below it.
const CONTEXT: usize = 2;
/// Lines of the input that are compared, and characters of each.
const COMPARED_LINES: usize = 5000;
const COMPARED_CHARS: usize = 300;
/// A line that is less like the pattern than this is not shown as its nearest one.
const LEAST_LIKENESS: f64 = 0.3;

/// The failed directive of a message of FileCheck: its name, and its line from 1.
struct FailedDirective {
    name: String,
    line: usize,
    /// The line of the input from which it was searched.
    from: usize,
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
    let scan = Regex::new(r"(?m)^.*?:(\d+):\d+: note: scanning from here").ok()?.captures(message);
    let from = scan.and_then(|scan| scan[1].parse().ok()).unwrap_or(1);
    let line = error[1].parse().ok().filter(|line| *line > 0)?;
    Some(FailedDirective { name: error[2].to_owned(), line, from })
}

/// The directive's line and the lines around the nearest one.
fn beside(place: &str, directive: &str, failed: &FailedDirective, input: &str) -> String {
    let lines: Vec<&str> = input.lines().collect();
    let mut out = "the directive and the nearest line of the input:\n".to_owned();
    let width = place.len().max("input ".len() + lines.len().to_string().len());
    let _ = writeln!(out, "{place:>width$} | {}", directive.trim());
    let Some(nearest) = nearest(&fixed_text(directive, &failed.name), &lines, failed.from) else {
        let _ = writeln!(out, "{:>width$} | no line of the input is like it from line {} on", "", failed.from);
        return out;
    };
    let shown = nearest.saturating_sub(CONTEXT)..lines.len().min(nearest + CONTEXT + 1);
    for at in shown {
        let number = format!("input {}", at + 1);
        let (sign, note) = if at == nearest { ('>', "   <- nearest") } else { ('|', "") };
        let text: String = lines[at].chars().take(COMPARED_CHARS).collect();
        let _ = writeln!(out, "{number:>width$} {sign} {text}{note}");
    }
    out
}

/// The pattern of a directive without expressions and variables.
fn fixed_text(directive: &str, name: &str) -> String {
    let pattern = directive.split_once(name).map_or(directive, |(_, rest)| rest);
    let pattern = pattern.split_once(':').map_or(pattern, |(_, rest)| rest).trim();
    let Ok(blocks) = Regex::new(r"\{\{.*?\}\}|\[\[.*?\]\]") else { return pattern.to_owned() };
    blocks.replace_all(pattern, "").into_owned()
}

/// The line from `from` (counted from 1) on that is most like the pattern; a line further up if none is.
fn nearest(pattern: &str, lines: &[&str], from: usize) -> Option<usize> {
    let pattern: String = pattern.chars().take(COMPARED_CHARS).collect();
    let start = from.saturating_sub(1).min(lines.len());
    let below = most_alike(&pattern, lines, start..lines.len().min(start + COMPARED_LINES));
    below.or_else(|| most_alike(&pattern, lines, start.saturating_sub(COMPARED_LINES)..start))
}

fn most_alike(pattern: &str, lines: &[&str], range: std::ops::Range<usize>) -> Option<usize> {
    let mut best = None;
    for at in range {
        let line: String = lines[at].trim().chars().take(COMPARED_CHARS).collect();
        let likeness = strsim::normalized_damerau_levenshtein(pattern, &line);
        if likeness >= LEAST_LIKENESS && best.is_none_or(|(most, _)| likeness > most) {
            best = Some((likeness, at));
        }
    }
    best.map(|(_, at)| at)
}
