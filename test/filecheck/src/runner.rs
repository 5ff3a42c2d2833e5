//! Running a check file's directives over an input.

use crate::checks::{Check, CheckFile, Directive};
use crate::directive::DirectiveKind;
use crate::dump::dump_input;
use crate::failure::{Failure, PatternError};
use crate::options::{DumpInput, Options, Verbosity};
use crate::pattern::PatternMatch;
use crate::report::{Progress, Reporter, Search};
use crate::source::{Severity, Source};
use crate::variables::VariableValues;
use std::ops::Range;

impl CheckFile {
    /// Compares `input` with the directives, and gives what the options want to know about matches.
    ///
    /// The options about the input, the scope of variables, DAG groups and reports are taken from `options` here.
    ///
    /// # Errors
    /// The directives that the input does not match (after the first of a LABEL block, the next
    /// blocks are still compared), or an empty input that is not allowed.
    pub fn check_input(&self, input: impl AsRef<[u8]>, options: &Options) -> Result<String, Failure> {
        let input = input.as_ref();
        if input.is_empty() && !options.allow_empty {
            return Err(Failure::usage(format!("error: '{}' is empty\n", options.input_name)));
        }
        let input = Source::new(&options.input_name, input, options.strict_whitespace);
        let reporter = Reporter::new(self, &input, &options.output);
        let mut runner = Runner { file: self, text: input.content(), options, values: self.values.clone(), reporter };
        let passed = runner.check_blocks();
        let (mut messages, annotations) = runner.reporter.into_parts();
        let dump = options.output.dump_input;
        if dump == DumpInput::Always || dump == DumpInput::Fail && !passed {
            messages.push_str(&dump_input(self, &input, annotations, &options.output));
        }
        if passed { Ok(messages) } else { Err(Failure::mismatch(messages)) }
    }
}

/// The state of one run. Functions that give `None` have reported an error.
struct Runner<'a> {
    file: &'a CheckFile,
    text: &'a [u8],
    options: &'a Options,
    values: VariableValues,
    reporter: Reporter<'a>,
}

impl Runner<'_> {
    /// Divides the input at the LABEL directives and compares each block; gives whether all match.
    fn check_blocks(&mut self) -> bool {
        let mut passed = true;
        let mut rest = 0..self.text.len();
        let mut checks = self.file.checks.as_slice();
        let mut is_first = true;
        loop {
            let label = checks.iter().position(|check| check.directive.kind == DirectiveKind::Label);
            let (block, region) = match label {
                Some(label) => {
                    let Some(found) = self.find_all(&checks[label].directive, rest.clone()) else { return false };
                    let region = rest.start..found.end;
                    rest.start = found.end;
                    (label + 1, region)
                }
                None => (checks.len(), rest.clone()),
            };
            if !is_first && self.options.enable_var_scope {
                self.values.clear_local();
            }
            is_first = false;
            passed &= self.check_block(&checks[..block], region).is_some();
            checks = &checks[block..];
            if label.is_none() {
                return passed;
            }
        }
    }

    fn check_block(&mut self, checks: &[Check], mut region: Range<usize>) -> Option<()> {
        for check in checks {
            region.start = self.check_positive(check, region.clone())?;
        }
        Some(())
    }

    /// Compares one positive directive and those before it; gives the end of its match.
    fn check_positive(&mut self, check: &Check, region: Range<usize>) -> Option<usize> {
        let directive = &check.directive;
        let (start, nots) = self.match_dag_groups(&check.before, region.clone())?;
        let found = self.find_all(directive, start..region.end)?;
        let skipped = start..found.start;
        let is_on_line = match directive.kind {
            DirectiveKind::Next | DirectiveKind::Empty => self.check_next_line(directive, skipped.clone()),
            DirectiveKind::Same => self.check_same_line(directive, skipped.clone()),
            DirectiveKind::Plain(_)
            | DirectiveKind::Dag
            | DirectiveKind::Label
            | DirectiveKind::Not
            | DirectiveKind::End => true,
        };
        if !is_on_line {
            self.reporter.report_wrong_line(directive, found);
            return None;
        }
        self.check_absence(&nots, skipped)?;
        Some(found.end)
    }

    /// Finds the directive's pattern as often as it asks for; gives the text from the first to the last match.
    fn find_all(&mut self, directive: &Directive, region: Range<usize>) -> Option<Range<usize>> {
        let count = directive.kind.match_count();
        let mut whole: Option<Range<usize>> = None;
        let mut rest = region;
        for number in 1..=count {
            let progress = Progress { number, count };
            let found = self.find_expected(directive, rest.clone(), progress)?;
            self.reporter.report_match(directive, progress, true, &found, &mut self.values);
            rest.start = found.range.end;
            let start = whole.map_or(found.range.start, |whole| whole.start);
            whole = Some(start..found.range.end);
        }
        whole
    }

    /// Finds one match of the directive's pattern, or reports that there is none.
    fn find_expected(
        &mut self,
        directive: &Directive,
        region: Range<usize>,
        progress: Progress,
    ) -> Option<PatternMatch> {
        let found = self.find_pattern(directive, region.clone());
        let errors = match found {
            Ok(Some(found)) => return Some(found),
            Ok(None) => Vec::new(),
            Err(errors) => errors,
        };
        let search = Search { region, errors: &errors, values: &mut self.values };
        self.reporter.report_no_match(directive, progress, true, search);
        None
    }

    fn find_pattern(
        &mut self,
        directive: &Directive,
        region: Range<usize>,
    ) -> Result<Option<PatternMatch>, Vec<PatternError>> {
        let base = region.start;
        let found = directive.pattern.find_match(&self.text[region], &mut self.values)?;
        Ok(found.map(|found| found.moved_by(base)))
    }

    /// Matches the DAG directives, group by group, and the NOT directives between them. Gives
    /// the end of the last group, and the NOT directives after it.
    fn match_dag_groups<'d>(
        &mut self,
        directives: &'d [Directive],
        region: Range<usize>,
    ) -> Option<(usize, Vec<&'d Directive>)> {
        let mut start = region.start;
        let mut nots: Vec<&Directive> = Vec::new();
        for group in directives.chunk_by(|a, b| a.kind == b.kind) {
            if group.first().is_some_and(|directive| directive.kind == DirectiveKind::Not) {
                nots.extend(group);
                continue;
            }
            let matched = self.match_dag_group(group, start..region.end)?;
            self.check_absence(&nots, start..matched.start.max(start))?;
            nots.clear();
            start = matched.end;
        }
        Some((start, nots))
    }

    /// Matches one group in any order; gives the part that it covers.
    fn match_dag_group(&mut self, group: &[Directive], region: Range<usize>) -> Option<Range<usize>> {
        let mut matched: Vec<Range<usize>> = Vec::new();
        for directive in group {
            let found = if self.options.allow_dag_overlap {
                let found = self.find_dag(directive, region.clone())?;
                matched.push(found.range.clone());
                found
            } else {
                self.match_without_overlap(directive, region.clone(), &mut matched)?
            };
            if self.reporter.verbosity() < Verbosity::Everything {
                self.reporter.report_match(directive, Progress::SINGLE, true, &found, &mut self.values);
            }
        }
        let start = matched.iter().map(|range| range.start).min()?;
        let end = matched.iter().map(|range| range.end).max()?;
        Some(start..end)
    }

    /// Finds the first match that overlaps none of the group's matches, and adds it to them. They are sorted.
    fn match_without_overlap(
        &mut self,
        directive: &Directive,
        region: Range<usize>,
        matched: &mut Vec<Range<usize>>,
    ) -> Option<PatternMatch> {
        let mut from = region.start;
        let mut slot = 0;
        loop {
            let found = self.find_dag(directive, from..region.end)?;
            slot += matched[slot..].iter().take_while(|old| found.range.start >= old.end).count();
            match matched.get(slot) {
                Some(old) if old.start < found.range.end => {
                    from = old.end;
                    self.reporter.report_overlap(old.clone());
                }
                _ => {
                    matched.insert(slot, found.range.clone());
                    return Some(found);
                }
            }
            slot += 1;
        }
    }

    /// A match of a DAG directive, whether it stays or overlaps another one.
    fn find_dag(&mut self, directive: &Directive, region: Range<usize>) -> Option<PatternMatch> {
        let found = self.find_expected(directive, region, Progress::SINGLE)?;
        if self.reporter.verbosity() >= Verbosity::Everything {
            self.reporter.report_match(directive, Progress::SINGLE, true, &found, &mut self.values);
        }
        Some(found)
    }

    /// No pattern of the NOT directives may match in `region`.
    fn check_absence(&mut self, nots: &[&Directive], region: Range<usize>) -> Option<()> {
        let mut passed = Some(());
        for directive in nots {
            let errors = match self.find_pattern(directive, region.clone()) {
                Ok(Some(found)) => {
                    self.reporter.report_match(directive, Progress::SINGLE, false, &found, &mut self.values);
                    passed = None;
                    continue;
                }
                Ok(None) => Vec::new(),
                Err(errors) => errors,
            };
            let search = Search { region: region.clone(), errors: &errors, values: &mut self.values };
            if self.reporter.report_no_match(directive, Progress::SINGLE, false, search) {
                passed = None;
            }
        }
        passed
    }

    /// True if the match is on the line after the previous one.
    fn check_next_line(&mut self, directive: &Directive, skipped: Range<usize>) -> bool {
        let breaks = line_breaks(&self.text[skipped.clone()]);
        let name = format!("{}{}", directive.prefix, directive.kind.name_suffix());
        match breaks.as_slice() {
            [_] => return true,
            [] => {
                let text = format!("{name}: is on the same line as previous match");
                self.reporter.add_at_check(directive.place, Severity::Error, &text);
                self.note_both_ends(&skipped);
            }
            &[first, ..] => {
                let text = format!("{name}: is not on the line after the previous match");
                self.reporter.add_at_check(directive.place, Severity::Error, &text);
                self.note_both_ends(&skipped);
                let line = skipped.start + first;
                self.reporter.add_note(line..line, "non-matching line after previous match is here");
            }
        }
        false
    }

    /// True if the match is on the line of the previous one.
    fn check_same_line(&mut self, directive: &Directive, skipped: Range<usize>) -> bool {
        let is_same = line_breaks(&self.text[skipped.clone()]).is_empty();
        if !is_same {
            let text = format!("{}-SAME: is not on the same line as the previous match", directive.prefix);
            self.reporter.add_at_check(directive.place, Severity::Error, &text);
            self.note_both_ends(&skipped);
        }
        is_same
    }

    fn note_both_ends(&mut self, skipped: &Range<usize>) {
        self.reporter.add_note(skipped.end..skipped.end, "'next' match was here");
        self.reporter.add_note(skipped.start..skipped.start, "previous match ended here");
    }
}

/// The offsets after each line break; `\r\n` and `\n\r` are one.
fn line_breaks(text: &[u8]) -> Vec<usize> {
    let mut after = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte == b'\n' || byte == b'\r' {
            let pair = text.get(at).is_some_and(|&b| (b == b'\n' || b == b'\r') && b != byte);
            at += usize::from(pair);
            after.push(at);
        }
    }
    after
}
