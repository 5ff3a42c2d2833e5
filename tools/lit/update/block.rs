//! The text of a test: what a person wrote, and the block of CHECK lines that `--update` writes.

use super::sample::{SampleLine, SampleOptions};
use super::{CheckCall, check_call, check_input};
use crate::checks::CheckArguments;
use regex::{Captures, Regex};
use std::collections::BTreeMap;

/// The line above the block, after the comment sign.
const HEAD: &str = "NOTE: `hir-lit --update` writes the CHECK lines below.";
/// Directives of the runner, which an output must not bring into the test's file.
const DIRECTIVES: [&str; 9] =
    ["RUN:", "DEFINE:", "REDEFINE:", "REQUIRES:", "UNSUPPORTED:", "XFAIL:", "ALLOW_RETRIES:", "UPDATE:", "END."];

/// The text of a test in the course of its update.
pub(super) struct TestText {
    /// The start of a comment, with the blanks after it.
    comment: String,
    /// The lines of a person.
    kept: Vec<String>,
    /// The index in `kept` of the line below the block.
    place: usize,
    /// True if the file had a block.
    had_block: bool,
    /// The block's lines without its head, one group for each prefix.
    groups: Vec<Vec<String>>,
    /// Directives of all prefixes of the test.
    checks: Regex,
}

impl TestText {
    /// Takes a text apart.
    pub(super) fn from_text(text: &str, calls: &[CheckCall]) -> Result<Self, String> {
        let prefixes = calls.iter().flat_map(|call| &call.arguments.prefixes);
        let checks = directive_pattern(prefixes.map(String::as_str))?;
        let run = text.lines().find_map(|line| line.find("RUN:").map(|at| line[..at].to_owned()));
        let comment = run.unwrap_or_default();
        let mut kept = Vec::new();
        let mut place = None;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if !line.contains(HEAD) {
                kept.push(line.to_owned());
                continue;
            }
            place.get_or_insert(kept.len());
            while lines.next_if(|line| checks.is_match(line) || line.trim() == comment.trim()).is_some() {}
        }
        let (had_block, place) = (place.is_some(), place.unwrap_or(kept.len()));
        Ok(Self { comment, kept, place, had_block, groups: Vec::new(), checks })
    }

    /// Adds the group of CHECK lines for a prefix. A file without a block whose own CHECK lines match keeps them; those
    /// that do not match are replaced.
    pub(super) fn write_prefix(
        &mut self,
        prefix: &str,
        calls: &[CheckCall],
        options: &SampleOptions,
    ) -> Result<(), String> {
        let users = calls.iter().filter(|call| call.arguments.prefixes.iter().any(|other| other == prefix));
        let users: Vec<&CheckCall> = users.collect();
        let Some(first) = users.first() else { return Ok(()) };
        let own = directive_pattern([prefix])?;
        let written = self.kept.iter().position(|line| own.is_match(line));
        if let Some(at) = written.filter(|_| !self.had_block) {
            let text = self.kept.join("\n");
            if users.iter().all(|call| check_call(call, &text, "").is_ok()) {
                return Ok(());
            }
            self.kept.retain(|line| !own.is_match(line));
            self.place = self.place.min(at).min(self.kept.len());
        }
        let start = self.matched_lines(prefix, first)?;
        let input: Vec<&str> = first.input.lines().skip(start).collect();
        let sample = options.sample(&input.join("\n"));
        self.groups.push(self.check_lines(prefix, &sample, &first.arguments, options.numbers));
        Ok(())
    }

    /// The number of lines of the input that the CHECK lines of a person match, which come first.
    fn matched_lines(&self, prefix: &str, call: &CheckCall) -> Result<usize, String> {
        let own = directive_pattern([prefix])?;
        if !self.kept.iter().any(|line| own.is_match(line)) {
            return Ok(0);
        }
        let text = self.kept.join("\n") + "\n";
        let args = with_prefix(&call.args, prefix);
        let file = &call.arguments.check_file;
        check_input(&args, file, &text, &call.input)
            .map_err(|error| format!("the CHECK lines of a person do not match:\n{error}"))?;
        let ends: Vec<usize> = call.input.match_indices('\n').map(|(at, _)| at + 1).collect();
        Ok(ends.partition_point(|end| check_input(&args, file, &text, &call.input[..*end]).is_err()) + 1)
    }

    /// The CHECK lines of a sample.
    fn check_lines(
        &self,
        prefix: &str,
        sample: &[SampleLine],
        arguments: &CheckArguments,
        numbers: bool,
    ) -> Vec<String> {
        let exact = arguments.strict_whitespace && arguments.whole_lines;
        let echoed = sample.iter().any(|line| self.is_for_tools(&line.text));
        let mut writer = PatternWriter {
            numbers: numbers.then(BTreeMap::new),
            // A tool that prints comments would print the CHECK lines, which must not match themselves.
            whole_lines: echoed && !arguments.whole_lines,
            space: if exact { "" } else { " " },
        };
        let mut lines = Vec::new();
        let mut gap = true;
        for line in sample {
            if self.is_for_tools(&line.text) || (gap && line.text.trim().is_empty()) {
                gap = true;
                continue;
            }
            let kind = match (line.label, gap || !line.adjacent) {
                (true, _) => "-LABEL",
                (false, true) => "",
                (false, false) if line.text.is_empty() => "-EMPTY",
                (false, false) => "-NEXT",
            };
            let pattern = writer.pattern(&line.text, line.label);
            lines.push(format!("{}{prefix}{kind}:{pattern}", self.comment).trim_end().to_owned());
            gap = false;
        }
        lines
    }

    /// True if a line of an output is a directive, which must not become part of the test's file.
    fn is_for_tools(&self, line: &str) -> bool {
        self.checks.is_match(line) || line.contains(HEAD) || DIRECTIVES.iter().any(|word| line.contains(word))
    }

    /// The whole text.
    pub(super) fn whole(&self) -> String {
        let (above, below) = self.kept.split_at(self.place);
        let mut lines: Vec<&str> = above.iter().map(String::as_str).collect();
        let (head, separator) = (format!("{}{HEAD}", self.comment), self.comment.trim_end());
        let groups: Vec<&Vec<String>> = self.groups.iter().filter(|group| !group.is_empty()).collect();
        if !groups.is_empty() {
            if !self.had_block && below.is_empty() && above.last().is_some_and(|line| !line.is_empty()) {
                lines.push("");
            }
            lines.push(&head);
        }
        for (at, group) in groups.into_iter().enumerate() {
            lines.extend((at > 0).then_some(separator));
            lines.extend(group.iter().map(String::as_str));
        }
        lines.extend(below.iter().map(String::as_str));
        lines.join("\n") + "\n"
    }
}

/// The arguments of a call with one prefix in the place of its own.
fn with_prefix(args: &[String], prefix: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.trim_start_matches('-').split_once('=') {
            Some(("check-prefix" | "check-prefixes", _)) => {}
            None if ["check-prefix", "check-prefixes"].contains(&arg.trim_start_matches('-')) => drop(rest.next()),
            _ => out.push(arg.clone()),
        }
    }
    out.push(format!("--check-prefix={prefix}"));
    out
}

/// Directives of FileCheck with one of these prefixes.
fn directive_pattern<'p>(prefixes: impl IntoIterator<Item = &'p str>) -> Result<Regex, String> {
    let names: Vec<String> = prefixes.into_iter().map(regex::escape).collect();
    let pattern =
        format!(r"(^|[^\w-])({})(-(NEXT|SAME|EMPTY|NOT|DAG|LABEL|COUNT-\d+))?(\{{LITERAL\}})?:", names.join("|"));
    Regex::new(&pattern).map_err(|error| error.to_string())
}

/// Writes lines as patterns.
struct PatternWriter {
    /// The variables of numbers, if they are variables.
    numbers: Option<BTreeMap<String, usize>>,
    /// Patterns match whole lines.
    whole_lines: bool,
    /// The blanks between a directive and its pattern.
    space: &'static str,
}

impl PatternWriter {
    fn pattern(&mut self, line: &str, label: bool) -> String {
        if line.is_empty() {
            return String::new();
        }
        let Ok(special) = Regex::new(r"\{\{|\[\[|\d+(\.\d+)?([eE][-+]?\d+)?") else { return line.to_owned() };
        let known = self.numbers.as_ref().map_or(0, BTreeMap::len);
        let text = special.replace_all(line, |found: &Captures<'_>| match &found[0] {
            "{{" => "{{[{][{]}}".to_owned(),
            "[[" => r"{{\[\[}}".to_owned(),
            number => self.number(number, known, label),
        });
        let (start, end) = if self.whole_lines { ("{{^}}", "{{$}}") } else { ("", "") };
        format!("{}{start}{text}{end}", self.space)
    }

    /// A number: as it is, a variable, or any number where no variable can be. Those from `known` on are defined in this
    /// line, which cannot use them too.
    fn number(&mut self, text: &str, known: usize, label: bool) -> String {
        let Some(numbers) = &mut self.numbers else { return text.to_owned() };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return "{{[-+.0-9e]+}}".to_owned();
        }
        let any = "{{[0-9]+}}".to_owned();
        if label {
            return any;
        }
        let count = numbers.len();
        match numbers.get(text) {
            Some(number) if *number < known => format!("[[N{number}]]"),
            Some(_) => any,
            None => {
                numbers.insert(text.to_owned(), count);
                format!("[[N{count}:[0-9]+]]")
            }
        }
    }
}
