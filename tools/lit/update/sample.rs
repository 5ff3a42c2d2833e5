//! The lines of an output that CHECK lines are written for.

use crate::nearest::did_you_mean;
use regex::Regex;

/// The words that `UPDATE:` takes.
const WORDS: [&str; 4] = ["functions=", "lines=", "none", "numbers"];

/// The options of `UPDATE:` lines.
#[derive(Debug, Default)]
pub(super) struct SampleOptions {
    /// Only blocks that begin with a line with one of these names.
    functions: Vec<Regex>,
    /// Only lines that match.
    lines: Option<Regex>,
    /// Numbers are variables.
    pub(super) numbers: bool,
    /// The file stays as it is.
    pub(super) leave: bool,
}

/// A line of the sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SampleLine {
    pub(super) text: String,
    /// True if the line before it in the output is the line before it in the sample.
    pub(super) adjacent: bool,
    /// True if it begins a function.
    pub(super) label: bool,
}

impl SampleOptions {
    /// Reads the texts of the `UPDATE:` lines: words with blanks between them.
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in texts.iter().flat_map(|text| text.split_whitespace()) {
            match word.split_once('=') {
                Some(("functions" | "function", names)) => {
                    for name in names.split(',').filter(|name| !name.is_empty()) {
                        options.functions.push(pattern(&format!(r"(^|[^\w]){}($|[^\w])", regex::escape(name)))?);
                    }
                }
                Some(("lines", text)) => options.lines = Some(pattern(text)?),
                _ if word == "numbers" => options.numbers = true,
                _ if word == "none" => options.leave = true,
                _ => {
                    let hint = did_you_mean(word, WORDS);
                    return Err(format!("UPDATE: unknown `{word}`{hint} (there are {})", WORDS.join(", ")));
                }
            }
        }
        Ok(options)
    }

    /// The sample of an output.
    pub(super) fn sample(&self, output: &str) -> Vec<SampleLine> {
        let lines: Vec<&str> = output.lines().collect();
        let mut sample: Vec<SampleLine> = Vec::new();
        let mut last = None;
        let mut at = 0;
        while at < lines.len() {
            let end = match self.functions.is_empty() {
                true => at + 1,
                false if self.functions.iter().any(|name| name.is_match(lines[at])) => block_end(&lines, at),
                false => at,
            };
            for (index, line) in lines.iter().enumerate().take(end).skip(at) {
                if self.lines.as_ref().is_none_or(|pattern| pattern.is_match(line)) {
                    let adjacent = last.is_some_and(|last| last + 1 == index);
                    let label = !self.functions.is_empty() && index == at;
                    sample.push(SampleLine { text: (*line).to_owned(), adjacent, label });
                    last = Some(index);
                }
            }
            at = end.max(at + 1);
        }
        sample
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("UPDATE: {error}"))
}

/// The end of the block that begins at a line: the lines that are further to the right, and what closes it.
fn block_end(lines: &[&str], start: usize) -> usize {
    let depth = indentation(lines[start]);
    let mut end = start + 1;
    while end < lines.len() && (lines[end].trim().is_empty() || indentation(lines[end]) > depth) {
        end += 1;
    }
    let closes = lines.get(end).is_some_and(|line| line.trim_start().starts_with(['}', ')', ']']));
    if closes {
        return end + 1;
    }
    while end > start + 1 && lines[end - 1].trim().is_empty() {
        end -= 1;
    }
    end
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
