//! Running a check file's directives over an input.

use crate::checks::{Check, CheckFile, Directive};
use crate::directive::DirectiveKind;
use crate::failure::Failure;
use crate::options::Options;
use crate::pattern::VariableValues;
use crate::source::{Severity, Source};
use std::fmt::Write as _;
use std::ops::Range;

impl CheckFile {
    /// Compares `input` with the directives.
    ///
    /// The options about the input are taken from `options` here: its name, its whitespace and whether it may be
    /// empty.
    ///
    /// # Errors
    /// The directives that the input does not match (after the first of a LABEL block, the next
    /// blocks are still compared), or an empty input that is not allowed.
    pub fn check_input(&self, input: &str, options: &Options) -> Result<(), Failure> {
        if input.is_empty() && !options.allow_empty {
            return Err(Failure::usage(format!("error: '{}' is empty\n", options.input_name)));
        }
        let input = Source::new(&options.input_name, input, options.strict_whitespace);
        let mut runner = Runner { file: self, input: &input, values: VariableValues::new(), message: String::new() };
        let passed = runner.check_blocks().is_some() && runner.message.is_empty();
        if passed { Ok(()) } else { Err(Failure::mismatch(runner.message)) }
    }
}

/// A part of the input, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    fn from_match(found: &Range<usize>, base: usize) -> Span {
        Span { start: base + found.start, end: base + found.end }
    }
}

/// The state of one run. Functions that give `None` have rendered a message.
struct Runner<'a> {
    file: &'a CheckFile,
    input: &'a Source,
    values: VariableValues,
    message: String,
}

impl<'a> Runner<'a> {
    fn span_text(&self, span: Span) -> &'a str {
        &self.input.text()[span.start..span.end]
    }

    /// Divides the input at the LABEL directives and compares each block.
    fn check_blocks(&mut self) -> Option<()> {
        let mut rest = Span { start: 0, end: self.input.text().len() };
        let mut checks = self.file.checks.as_slice();
        loop {
            let label = checks.iter().position(|check| check.directive.kind == DirectiveKind::Label);
            let (block, region) = match label {
                Some(label) => {
                    let found = self.find_all(&checks[label].directive, rest)?;
                    let region = Span { start: rest.start, end: found.end };
                    rest.start = found.end;
                    (label + 1, region)
                }
                None => (checks.len(), rest),
            };
            self.check_block(&checks[..block], region);
            checks = &checks[block..];
            if label.is_none() {
                return Some(());
            }
        }
    }

    fn check_block(&mut self, checks: &[Check], mut region: Span) {
        for check in checks {
            match self.check_positive(check, region) {
                Some(end) => region.start = end,
                None => return,
            }
        }
    }

    /// Compares one positive directive and those before it; gives the end of its match.
    fn check_positive(&mut self, check: &Check, region: Span) -> Option<usize> {
        let directive = &check.directive;
        let (start, nots) = self.match_dag_groups(&check.before, region)?;
        let found = self.find_all(directive, Span { start, ..region })?;
        let skipped = Span { start, end: found.start };
        match directive.kind {
            DirectiveKind::Next | DirectiveKind::Empty => self.check_next_line(directive, skipped)?,
            DirectiveKind::Same => self.check_same_line(directive, skipped)?,
            DirectiveKind::Plain(_)
            | DirectiveKind::Dag
            | DirectiveKind::Label
            | DirectiveKind::Not
            | DirectiveKind::End => {}
        }
        self.check_absence(&nots, skipped)?;
        Some(found.end)
    }

    /// Finds the directive's pattern as often as it asks for.
    fn find_all(&mut self, directive: &Directive, region: Span) -> Option<Span> {
        let count = match directive.kind {
            DirectiveKind::Plain(count) => count,
            DirectiveKind::Next
            | DirectiveKind::Same
            | DirectiveKind::Empty
            | DirectiveKind::Dag
            | DirectiveKind::Label
            | DirectiveKind::Not
            | DirectiveKind::End => 1,
        };
        let mut whole: Option<Span> = None;
        let mut rest = region;
        for done in 0..count {
            let progress = (count > 1).then_some((done + 1, count));
            let found = self.find_one(directive, rest, progress)?;
            rest.start = found.end;
            let start = whole.map_or(found.start, |whole| whole.start);
            whole = Some(Span { start, end: found.end });
        }
        whole
    }

    /// One match of the directive's pattern, which must exist.
    fn find_one(&mut self, directive: &Directive, region: Span, progress: Option<(u32, u32)>) -> Option<Span> {
        match directive.pattern.find_match(self.span_text(region), &mut self.values) {
            Ok(Some(found)) => return Some(Span::from_match(&found, region.start)),
            Ok(None) => {
                let counted = progress.map(|(number, count)| format!(" ({number} out of {count})")).unwrap_or_default();
                self.add_error(directive, &format!("expected string not found in input{counted}"));
            }
            Err(problem) => self.add_error(directive, &problem),
        }
        self.add_note(region.start, "scanning from here");
        self.describe_values(directive, region.start);
        None
    }

    /// Matches the DAG directives, group by group, and the NOT directives between them. Gives
    /// the end of the last group, and the NOT directives after it.
    fn match_dag_groups<'d>(
        &mut self,
        directives: &'d [Directive],
        region: Span,
    ) -> Option<(usize, Vec<&'d Directive>)> {
        let mut start = region.start;
        let mut nots: Vec<&Directive> = Vec::new();
        for group in directives.chunk_by(|a, b| a.kind == b.kind) {
            if group.first().is_some_and(|directive| directive.kind == DirectiveKind::Not) {
                nots.extend(group);
                continue;
            }
            let matched = self.match_dag_group(group, Span { start, ..region })?;
            self.check_absence(&nots, Span { start, end: matched.start })?;
            nots.clear();
            start = matched.end;
        }
        Some((start, nots))
    }

    /// Matches one group in any order, without overlaps; gives the part that it covers.
    fn match_dag_group(&mut self, group: &[Directive], region: Span) -> Option<Span> {
        let mut matched: Vec<Span> = Vec::new();
        for directive in group {
            let mut from = region.start;
            let mut slot = 0;
            loop {
                let found = self.find_one(directive, Span { start: from, ..region }, None)?;
                slot += matched[slot..].iter().take_while(|old| found.start >= old.end).count();
                match matched.get(slot) {
                    Some(old) if old.start < found.end => from = old.end,
                    _ => {
                        matched.insert(slot, found);
                        break;
                    }
                }
                slot += 1;
            }
        }
        let start = matched.iter().map(|span| span.start).min()?;
        // Without overlaps the last of the sorted matches ends last.
        Some(Span { start, end: matched.last()?.end })
    }

    /// No pattern of the NOT directives may match in `region`.
    fn check_absence(&mut self, nots: &[&Directive], region: Span) -> Option<()> {
        let mut passed = Some(());
        for directive in nots {
            match directive.pattern.find_match(self.span_text(region), &mut self.values) {
                Ok(None) => continue,
                Ok(Some(found)) => {
                    self.add_error(directive, "excluded string found in input");
                    self.add_note(region.start + found.start, "found here");
                }
                Err(problem) => self.add_error(directive, &problem),
            }
            self.describe_values(directive, region.start);
            passed = None;
        }
        passed
    }

    fn check_next_line(&mut self, directive: &Directive, skipped: Span) -> Option<()> {
        match line_breaks(self.span_text(skipped)).as_slice() {
            [] => {
                self.add_error(directive, "is on the same line as previous match");
                self.note_both_ends(skipped);
            }
            [_] => return Some(()),
            &[first, ..] => {
                self.add_error(directive, "is not on the line after the previous match");
                self.note_both_ends(skipped);
                self.add_note(skipped.start + first, "non-matching line after previous match is here");
            }
        }
        self.describe_values(directive, skipped.start);
        None
    }

    fn check_same_line(&mut self, directive: &Directive, skipped: Span) -> Option<()> {
        if line_breaks(self.span_text(skipped)).is_empty() {
            return Some(());
        }
        self.add_error(directive, "is not on the same line as the previous match");
        self.note_both_ends(skipped);
        self.describe_values(directive, skipped.start);
        None
    }

    fn add_error(&mut self, directive: &Directive, message: &str) {
        let message = format!("{}: {message}", directive.name);
        self.message.push_str(&self.file.source.render(directive.offset, Severity::Error, &message));
    }

    fn add_note(&mut self, offset: usize, message: &str) {
        self.message.push_str(&self.input.render(offset, Severity::Note, message));
    }

    fn note_both_ends(&mut self, skipped: Span) {
        self.add_note(skipped.end, "the match is here");
        self.add_note(skipped.start, "previous match ended here");
    }

    fn describe_values(&mut self, directive: &Directive, offset: usize) {
        for line in directive.pattern.describe_values(&self.values) {
            self.add_note(offset, &line);
        }
        let all: Vec<String> = self.values.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
        if !all.is_empty() {
            let written = writeln!(self.message, "variables: {}", all.join(", "));
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
    }
}

/// The offsets after each line break; `\r\n` and `\n\r` are one.
fn line_breaks(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut after = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte == b'\n' || byte == b'\r' {
            let pair = bytes.get(at).is_some_and(|&b| (b == b'\n' || b == b'\r') && b != byte);
            at += usize::from(pair);
            after.push(at);
        }
    }
    after
}
