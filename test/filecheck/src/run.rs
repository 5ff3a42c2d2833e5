//! Running a check file's directives over an input.

use crate::check::{Check, CheckFile};
use crate::directive::{Directive, Kind};
use crate::pattern::Match;
use crate::source::{Severity, Source};
use crate::variables::Variables;
use crate::{Failure, Options};

impl CheckFile {
    /// Compares `input` with the directives.
    ///
    /// The options about the input are taken from `options` here: its name, whether it may be
    /// empty, its whitespace, the scope of variables and the overlap of DAG matches.
    ///
    /// # Errors
    /// The directives that the input does not match (after the first of a LABEL block, the next
    /// blocks are still compared), or an empty input that is not allowed.
    pub fn run(&self, input: &str, options: &Options) -> Result<(), Failure> {
        if input.is_empty() && !options.allow_empty {
            return Err(Failure::usage(format!("error: '{}' is empty\n", options.input_name)));
        }
        let input = Source::new(&options.input_name, input, options.strict_whitespace);
        let mut runner = Runner {
            file: self,
            input: &input,
            options,
            variables: self.variables.clone(),
            message: String::new(),
        };
        let passed = runner.blocks().is_some() && runner.message.is_empty();
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
    fn of(found: Match, base: usize) -> Span {
        Span { start: base + found.start, end: base + found.start + found.length }
    }
}

/// The state of one run. Functions that give `None` have rendered a message.
struct Runner<'a> {
    file: &'a CheckFile,
    input: &'a Source,
    options: &'a Options,
    variables: Variables,
    message: String,
}

impl<'a> Runner<'a> {
    fn text(&self, span: Span) -> &'a str {
        &self.input.text()[span.start..span.end]
    }

    /// Divides the input at the LABEL directives and compares each block.
    fn blocks(&mut self) -> Option<()> {
        let mut rest = Span { start: 0, end: self.input.text().len() };
        let mut checks = self.file.checks.as_slice();
        let mut first = true;
        loop {
            let label = checks.iter().position(|check| check.directive.kind == Kind::Label);
            let (block, region) = match label {
                Some(label) => {
                    let found = self.positive(&checks[label].directive, rest)?;
                    let region = Span { start: rest.start, end: found.end };
                    rest.start = found.end;
                    (label + 1, region)
                }
                None => (checks.len(), rest),
            };
            if !first && self.options.enable_var_scope {
                self.variables.clear_local();
            }
            first = false;
            self.block(&checks[..block], region);
            checks = &checks[block..];
            if label.is_none() {
                return Some(());
            }
        }
    }

    fn block(&mut self, checks: &[Check], mut region: Span) {
        for check in checks {
            match self.check(check, region) {
                Some(end) => region.start = end,
                None => return,
            }
        }
    }

    /// Compares one positive directive and those before it; gives where its match ends.
    fn check(&mut self, check: &Check, region: Span) -> Option<usize> {
        let directive = &check.directive;
        let (start, nots) = self.dag_groups(&check.before, region)?;
        let found = self.positive(directive, Span { start, ..region })?;
        let skipped = Span { start, end: found.start };
        match directive.kind {
            Kind::Next | Kind::Empty => self.next_line(directive, skipped)?,
            Kind::Same => self.same_line(directive, skipped)?,
            Kind::Plain(_) | Kind::Dag | Kind::Label | Kind::Not | Kind::End => {}
        }
        self.none_of(&nots, skipped)?;
        Some(found.end)
    }

    /// Finds the directive's pattern as often as it asks for.
    fn positive(&mut self, directive: &Directive, region: Span) -> Option<Span> {
        let count = match directive.kind {
            Kind::Plain(count) => count,
            Kind::Next
            | Kind::Same
            | Kind::Empty
            | Kind::Dag
            | Kind::Label
            | Kind::Not
            | Kind::End => 1,
        };
        let mut whole: Option<Span> = None;
        let mut rest = region;
        for done in 0..count {
            let progress = (count > 1).then_some((done + 1, count));
            let found = self.expect(directive, rest, progress)?;
            rest.start = found.end;
            let start = whole.map_or(found.start, |whole| whole.start);
            whole = Some(Span { start, end: found.end });
        }
        whole
    }

    /// One match of the directive's pattern, which must exist.
    fn expect(
        &mut self,
        directive: &Directive,
        region: Span,
        progress: Option<(u32, u32)>,
    ) -> Option<Span> {
        match directive.pattern.find(self.text(region), &mut self.variables) {
            Ok(Some(found)) => return Some(Span::of(found, region.start)),
            Ok(None) => {
                let counted = progress
                    .map(|(number, count)| format!(" ({number} out of {count})"))
                    .unwrap_or_default();
                self.error(directive, &format!("expected string not found in input{counted}"));
            }
            Err(problem) => self.error(directive, &problem),
        }
        self.note(region.start, "scanning from here");
        self.describe_values(directive, region.start);
        None
    }

    /// Matches the DAG directives, group by group, and the NOT directives between them. Gives
    /// where the last group ends, and the NOT directives after it.
    fn dag_groups<'d>(
        &mut self,
        directives: &'d [Directive],
        region: Span,
    ) -> Option<(usize, Vec<&'d Directive>)> {
        let mut start = region.start;
        let mut nots: Vec<&Directive> = Vec::new();
        for group in directives.chunk_by(|a, b| a.kind == b.kind) {
            if group.first().is_some_and(|directive| directive.kind == Kind::Not) {
                nots.extend(group);
                continue;
            }
            let matched = self.dag_group(group, Span { start, ..region })?;
            self.none_of(&nots, Span { start, end: matched.start })?;
            nots.clear();
            start = matched.end;
        }
        Some((start, nots))
    }

    /// Matches one group in any order, without overlaps; gives the part that it covers.
    fn dag_group(&mut self, group: &[Directive], region: Span) -> Option<Span> {
        let mut matched: Vec<Span> = Vec::new();
        for directive in group {
            let mut from = region.start;
            let mut slot = 0;
            loop {
                let found = self.expect(directive, Span { start: from, ..region }, None)?;
                if self.options.allow_dag_overlap {
                    matched.push(found);
                    break;
                }
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
        let end = if self.options.allow_dag_overlap {
            matched.iter().map(|span| span.end).max()
        } else {
            matched.last().map(|span| span.end)
        };
        Some(Span { start, end: end? })
    }

    /// No pattern of the NOT directives may match in `region`.
    fn none_of(&mut self, nots: &[&Directive], region: Span) -> Option<()> {
        let mut passed = Some(());
        for directive in nots {
            match directive.pattern.find(self.text(region), &mut self.variables) {
                Ok(None) => continue,
                Ok(Some(found)) => {
                    self.error(directive, "excluded string found in input");
                    self.note(region.start + found.start, "found here");
                }
                Err(problem) => self.error(directive, &problem),
            }
            self.describe_values(directive, region.start);
            passed = None;
        }
        passed
    }

    fn next_line(&mut self, directive: &Directive, skipped: Span) -> Option<()> {
        match line_breaks(self.text(skipped)).as_slice() {
            [] => {
                self.error(directive, "is on the same line as previous match");
                self.note_both_ends(skipped);
            }
            [_] => return Some(()),
            &[first, ..] => {
                self.error(directive, "is not on the line after the previous match");
                self.note_both_ends(skipped);
                self.note(skipped.start + first, "non-matching line after previous match is here");
            }
        }
        self.describe_values(directive, skipped.start);
        None
    }

    fn same_line(&mut self, directive: &Directive, skipped: Span) -> Option<()> {
        if line_breaks(self.text(skipped)).is_empty() {
            return Some(());
        }
        self.error(directive, "is not on the same line as the previous match");
        self.note_both_ends(skipped);
        self.describe_values(directive, skipped.start);
        None
    }

    fn error(&mut self, directive: &Directive, message: &str) {
        let source = &self.file.sources[directive.source];
        let message = format!("{}: {message}", directive.name);
        self.message.push_str(&source.render(directive.offset, Severity::Error, &message));
    }

    fn note(&mut self, offset: usize, message: &str) {
        self.message.push_str(&self.input.render(offset, Severity::Note, message));
    }

    fn note_both_ends(&mut self, skipped: Span) {
        self.note(skipped.end, "the match is here");
        self.note(skipped.start, "previous match ended here");
    }

    fn describe_values(&mut self, directive: &Directive, offset: usize) {
        for line in directive.pattern.describe_substitutions(&self.variables) {
            self.note(offset, &line);
        }
        if let Some(variables) = self.variables.describe() {
            self.message.push_str(&variables);
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
