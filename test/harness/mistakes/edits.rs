//! All mistakes of a program, one change each.

use super::rules::RULES;
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// The names of tensors at their declarations.
static DECLARED: LazyLock<Regex> = LazyLock::new(|| pattern_of(r"(?m)\b([A-Z]\w*)(?:: \w+\[| = )"));

/// The names of sizes.
static SIZES: LazyLock<Regex> = LazyLock::new(|| pattern_of(r"(\w+)="));

/// Words.
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern_of(r"\w+"));

/// A group in what a rule writes: `$1`.
static GROUP: LazyLock<Regex> = LazyLock::new(|| pattern_of(r"\$(\d)"));

/// The names of tensors, and of results and handles that a line defines or waits for.
static NAMES: LazyLock<Regex> = LazyLock::new(|| pattern_of(r"\b([A-Z]\w*|[a-z]\w*(?:\[\w+\])? = |wait [a-z]\w*)"));

/// A program with one mistake.
#[derive(Clone, Debug)]
pub(super) struct Mistake {
    /// The kind of the mistake.
    pub(super) kind: &'static str,
    /// The wrong program.
    pub(super) text: String,
    /// The lines of the wrong program that have to do with the mistake, from 1.
    pub(super) lines: BTreeSet<usize>,
    /// The change, as lines of a difference.
    pub(super) change: String,
}

/// The lines of a right program.
struct RightLines<'a> {
    lines: Vec<&'a str>,
    /// The names of tensors.
    tensors: BTreeSet<String>,
    /// The names of sizes.
    sizes: BTreeSet<String>,
}

/// All mistakes of a text with one program, those with equal texts once.
pub(super) fn list_mistakes(text: &str) -> Vec<Mistake> {
    let right = RightLines::of_text(text);
    let mut found = Vec::new();
    right.add_rules(&mut found);
    for at in 0..right.lines.len() {
        if right.is_code(at) {
            right.add_drops(at, &mut found);
            right.add_moves(at, &mut found);
            right.add_names(at, &mut found);
        }
    }
    let mut seen = BTreeSet::from([text.to_owned()]);
    found.retain(|mistake| seen.insert(mistake.text.clone()));
    found
}

impl<'a> RightLines<'a> {
    fn of_text(text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let code: String = lines
            .iter()
            .filter(|line| !line.trim_start().starts_with("//"))
            .fold(String::new(), |all, line| all + line + "\n");
        let tensors = group_texts(&DECLARED, &code);
        let header = lines.iter().find(|line| line.starts_with("sizes ")).copied().unwrap_or_default();
        let sizes = group_texts(&SIZES, header);
        Self { lines, tensors, sizes }
    }

    fn is_code(&self, at: usize) -> bool {
        let line = self.lines[at];
        !line.trim().is_empty() && !line.trim_start().starts_with("//") && !line.starts_with("hir ")
    }

    fn indent(&self, at: usize) -> usize {
        self.lines[at].len() - self.lines[at].trim_start().len()
    }

    /// Adds the wrong program in which new lines stand for some lines.
    fn add(&self, kind: &'static str, place: Range<usize>, new: &[String], found: &mut Vec<Mistake>) {
        let (before, after) = (&self.lines[..place.start], &self.lines[place.end..]);
        let all = before.iter().copied().chain(new.iter().map(String::as_str)).chain(after.iter().copied());
        let text = all.fold(String::new(), |text, line| text + line + "\n");
        // The lines around a line that is gone show the mistake as well as any.
        let shown = match new.is_empty() {
            true => place.start.max(1)..=place.start + 1,
            false => place.start + 1..=place.start + new.iter().map(|line| line.split('\n').count()).sum::<usize>(),
        };
        let mut lines: BTreeSet<usize> = shown.collect();
        if new.is_empty() {
            let names = used_names(&self.lines[place.clone()].concat());
            let uses = (1..).zip(text.lines()).filter(|(_, line)| !names.is_disjoint(&used_names(line)));
            lines.extend(uses.map(|(number, _)| number));
        }
        let gone = self.lines[place].iter().map(|line| format!("- {line}\n"));
        let change = gone.chain(new.iter().map(|line| format!("+ {line}\n"))).collect();
        found.push(Mistake { kind, text, lines, change });
    }

    /// Adds the mistakes of the rules.
    fn add_rules(&self, found: &mut Vec<Mistake>) {
        for rule in RULES {
            let pattern = pattern_of(rule.pattern);
            for at in 0..self.lines.len() {
                let is_comment = rule.kind == "comment of Python";
                if !(self.is_code(at) || is_comment && self.lines[at].contains("//")) {
                    continue;
                }
                let line = self.lines[at];
                for captures in pattern.captures_iter(line) {
                    for wrong in rule.wrong {
                        self.add(rule.kind, at..at + 1, &[expand_part(line, &captures, wrong)], found);
                    }
                }
            }
        }
    }

    /// Adds the program without a line.
    fn add_drops(&self, at: usize, found: &mut Vec<Mistake>) {
        let line = self.lines[at].trim_start();
        let opens =
            self.lines.get(at + 1).is_some_and(|_| self.indent(at + 1) > self.indent(at)) && line.ends_with(':');
        if opens || self.indent(at) == 0 && !line.starts_with("streams") {
            return;
        }
        self.add(drop_kind(line), at..at + 1, &[], found);
        if self.indent(at) > 0 {
            let double = [self.lines[at].to_owned(), self.lines[at].to_owned()];
            self.add("line twice", at..at + 1, &double, found);
        }
    }

    /// Adds the programs in which a line stands elsewhere.
    fn add_moves(&self, at: usize, found: &mut Vec<Mistake>) {
        let indent = self.indent(at);
        let line = self.lines[at];
        if indent == 0 || line.ends_with(':') || at + 1 >= self.lines.len() || !self.is_code(at + 1) {
            return;
        }
        let next = self.lines[at + 1];
        if self.indent(at + 1) == indent && !next.ends_with(':') {
            let kind = if line.contains("wait ") { "wait after the next line" } else { "lines swapped" };
            self.add(kind, at..at + 2, &[next.to_owned(), line.to_owned()], found);
        }
        if self.indent(at + 1) < indent {
            self.add("line after its block", at..at + 1, &[line[2..].to_owned()], found);
        }
        if at > 0 && self.is_code(at - 1) && self.indent(at - 1) > indent {
            self.add("line in the block before", at..at + 1, &[format!("  {line}")], found);
        }
        if self.indent(at + 1) == indent && next.ends_with(':') && self.lines.len() > at + 2 {
            let inner = " ".repeat(self.indent(at + 2));
            self.add(
                "line in the next block",
                at..at + 2,
                &[next.to_owned(), format!("{inner}{}", line.trim_start())],
                found,
            );
        }
        if self.indent(at - 1) > 0
            && self.lines[at - 1].ends_with(':')
            && self.indent(at - 1) < indent
            && self.indent(at + 1) == indent
        {
            let outer = " ".repeat(self.indent(at - 1));
            let before = self.lines[at - 1];
            self.add(
                "line before its block",
                at - 1..at + 1,
                &[format!("{outer}{}", line.trim_start()), before.to_owned()],
                found,
            );
        }
    }

    /// Adds the programs with another name in a place.
    fn add_names(&self, at: usize, found: &mut Vec<Mistake>) {
        let line = self.lines[at];
        for place in WORD.find_iter(line) {
            let (group, kind) = match place.as_str() {
                name if self.tensors.contains(name) && self.indent(at) > 0 => (&self.tensors, "another tensor"),
                name if self.sizes.contains(name) && !line.starts_with("sizes") => (&self.sizes, "another size"),
                _ => continue,
            };
            let kind = match kind {
                "another tensor" if line[..place.start()].trim().is_empty() => "another tensor written",
                kind => kind,
            };
            for other in group.iter().filter(|other| *other != place.as_str()) {
                let wrong = format!("{}{other}{}", &line[..place.start()], &line[place.end()..]);
                self.add(kind, at..at + 1, &[wrong], found);
            }
            if kind != "another size" {
                let wrong = format!("{}{}s{}", &line[..place.start()], place.as_str(), &line[place.end()..]);
                self.add("name misspelt", at..at + 1, &[wrong], found);
            }
        }
    }
}

/// The kind of a mistake that drops a line.
fn drop_kind(line: &str) -> &'static str {
    let body = line.rsplit(": ").next().unwrap_or(line);
    let value = body.split_once(" = ").map_or("", |(_, value)| value);
    match body {
        _ if body.starts_with("wait ") && body.contains(['(', '{']) => "drop a communication with its wait",
        _ if body.starts_with("wait ") => "drop a wait",
        _ if body.starts_with("sync ") => "drop a sync",
        _ if body.starts_with("free ") => "drop a free",
        _ if value.starts_with("alloc") => "drop an alloc",
        _ if value.starts_with("Set(") => "drop a copy",
        _ if body.contains(" -> ") || value.starts_with('{') => "drop a communication",
        _ if body.chars().next().is_some_and(|first| first.is_lowercase()) && !value.contains('(') => "drop a scalar",
        _ => "drop a computation",
    }
}

/// The line with the part of a match replaced.
fn expand_part(line: &str, captures: &Captures<'_>, wrong: &str) -> String {
    let whole = captures.get(0).expect("a match");
    // `$1[` would be read as a group's name otherwise.
    let wrong = GROUP.replace_all(wrong, "$${$1}").into_owned();
    let mut out = line[..whole.start()].to_owned();
    captures.expand(&wrong, &mut out);
    out + &line[whole.end()..]
}

/// The words of a line that name tensors or handles.
fn used_names(line: &str) -> BTreeSet<String> {
    let code = line.split("//").next().unwrap_or_default();
    let words = NAMES.captures_iter(code).map(|captures| captures[1].to_owned());
    let names = words.map(|word| {
        let word = word.strip_prefix("wait ").or(word.strip_suffix(" = ")).unwrap_or(&word);
        word.split('[').next().unwrap_or_default().to_owned()
    });
    names.collect()
}

fn group_texts(pattern: &Regex, text: &str) -> BTreeSet<String> {
    pattern.captures_iter(text).map(|captures| captures[1].to_owned()).collect()
}

fn pattern_of(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}
