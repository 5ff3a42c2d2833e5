//! The results of a comparison: messages for the reader, and notes for the dump of the input.

use crate::checks::{CheckFile, Directive};
use crate::directive::DirectiveKind;
use crate::failure::PatternError;
use crate::options::{DumpInput, OutputOptions, Verbosity};
use crate::paint::Paint;
use crate::pattern::PatternMatch;
use crate::source::{Message, Place, Severity, Source};
use crate::variables::VariableValues;
use std::ops::Range;

/// A note on a part of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) kind: DirectiveKind,
    /// The place of the directive's pattern.
    pub(crate) place: Place,
    pub(crate) outcome: Outcome,
    /// The part of the input.
    pub(crate) range: Range<usize>,
    /// A sentence of its own; empty if the outcome says all.
    pub(crate) note: String,
}

/// The end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A match, as expected.
    Found,
    /// A match of a NOT pattern.
    Excluded,
    /// A match on a line where it must not be.
    WrongLine,
    /// A match that overlaps another one of its DAG group.
    Discarded,
    /// No match, as expected.
    Absent,
    /// No match, although one is expected.
    Missing,
    /// No match, since the pattern has no meaning now.
    InvalidPattern,
    /// The text that is likely meant.
    Intended,
}

/// The one of a directive's several matches that a search is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The number of this match, from one.
    pub(crate) number: u32,
    /// The number that the directive asks for.
    pub(crate) count: u32,
}

impl Progress {
    /// The only match.
    pub(crate) const SINGLE: Progress = Progress { number: 1, count: 1 };

    fn suffix(self) -> String {
        if self.count > 1 { format!(" ({} out of {})", self.number, self.count) } else { String::new() }
    }
}

/// Collects messages and annotations.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    file: &'a CheckFile,
    input: &'a Source,
    verbosity: Verbosity,
    paint: Paint,
    messages: String,
    /// For the dump of the input; without a dump, what went well is a message.
    annotations: Option<Vec<Annotation>>,
}

impl<'a> Reporter<'a> {
    /// A reporter without messages.
    pub(crate) fn new(file: &'a CheckFile, input: &'a Source, output: &OutputOptions) -> Self {
        let annotations = (output.dump_input != DumpInput::Never).then(Vec::new);
        let paint = Paint::from_choice(output.color);
        Reporter { file, input, verbosity: output.verbosity, paint, messages: String::new(), annotations }
    }

    /// The messages and the annotations.
    pub(crate) fn into_parts(self) -> (String, Vec<Annotation>) {
        (self.messages, self.annotations.unwrap_or_default())
    }

    /// The amount of output about matches.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Adds a message about a directive.
    pub(crate) fn add_at_check(&mut self, place: Place, severity: Severity, text: &str) {
        let message = Message { range: place.offset..place.offset, severity, text };
        self.messages.push_str(&self.file.sources[place.source].render(&message, self.paint));
    }

    /// Adds a note about a part of the input.
    pub(crate) fn add_note(&mut self, range: Range<usize>, text: &str) {
        let message = Message { range, severity: Severity::Note, text };
        self.messages.push_str(&self.input.render(&message, self.paint));
    }

    fn annotate(&mut self, directive: &Directive, outcome: Outcome, range: Range<usize>, note: &str) {
        let annotation =
            Annotation { kind: directive.kind, place: directive.place, outcome, range, note: note.to_owned() };
        self.annotations.iter_mut().for_each(|all| all.push(annotation.clone()));
    }

    /// Changes the outcome of the last search, with its notes.
    fn change_last(&mut self, outcome: Outcome) {
        let Some(annotations) = &mut self.annotations else { return };
        let Some(place) = annotations.last().map(|last| last.place) else { return };
        for annotation in annotations.iter_mut().rev().take_while(|annotation| annotation.place == place) {
            annotation.outcome = outcome;
        }
    }

    /// Reports a match, which is an error if it is not `expected`.
    pub(crate) fn report_match(
        &mut self,
        directive: &Directive,
        progress: Progress,
        expected: bool,
        found: &PatternMatch,
        values: &mut VariableValues,
    ) {
        let quiet = if directive.kind == DirectiveKind::End { Verbosity::Matches } else { Verbosity::Errors };
        if expected && self.verbosity <= quiet {
            return;
        }
        let outcome = if expected { Outcome::Found } else { Outcome::Excluded };
        let range = found.range.clone();
        let substituted = directive.pattern.describe_values(values);
        self.annotate(directive, outcome, range.clone(), "");
        for note in &substituted {
            self.annotate(directive, outcome, range.start..range.start, note);
        }
        for variable in &found.captured {
            self.annotate(directive, outcome, variable.range.clone(), &captured_note(&variable.name));
        }
        if expected && self.annotations.is_some() {
            return;
        }
        let (severity, sort) = if expected { (Severity::Remark, "expected") } else { (Severity::Error, "excluded") };
        let text = format!("{}: {sort} string found in input{}", directive.name, progress.suffix());
        self.add_at_check(directive.place, severity, &text);
        self.add_note(range.clone(), "found here");
        for note in &substituted {
            self.add_note(range.start..range.start, note);
        }
        for variable in &found.captured {
            self.add_note(variable.range.clone(), &captured_note(&variable.name));
        }
    }

    /// Reports that there is no match in `region`; gives whether this is an error.
    pub(crate) fn report_no_match(
        &mut self,
        directive: &Directive,
        progress: Progress,
        expected: bool,
        search: Search<'_>,
    ) -> bool {
        let Search { region, errors, values } = search;
        for error in errors {
            let place = Place { source: directive.place.source, offset: error.at };
            self.add_at_check(place, Severity::Error, &error.message);
        }
        let is_error = expected || !errors.is_empty();
        if !is_error && self.verbosity < Verbosity::Everything {
            return false;
        }
        let outcome = match (errors.is_empty(), expected) {
            (false, _) => Outcome::InvalidPattern,
            (true, true) => Outcome::Missing,
            (true, false) => Outcome::Absent,
        };
        let start = region.start..region.start;
        let substituted = directive.pattern.describe_values(values);
        self.annotate(directive, outcome, region.clone(), "");
        for note in errors.iter().map(|error| &error.message).chain(&substituted) {
            self.annotate(directive, outcome, start.clone(), note);
        }
        if !is_error && self.annotations.is_some() {
            return false;
        }
        if errors.is_empty() {
            let (severity, sort) =
                if expected { (Severity::Error, "expected") } else { (Severity::Remark, "excluded") };
            let text = format!("{}: {sort} string not found in input{}", directive.name, progress.suffix());
            self.add_at_check(directive.place, severity, &text);
            self.add_note(start.clone(), "scanning from here");
        }
        for note in &substituted {
            self.add_note(start.clone(), note);
        }
        if expected {
            self.report_intended(directive, region);
        }
        is_error
    }

    /// Shows the text that is most like the pattern.
    fn report_intended(&mut self, directive: &Directive, region: Range<usize>) {
        let text = &self.input.content()[region.clone()];
        if let Some(nearest) = nearest_text(directive.pattern.example(), text).filter(|nearest| *nearest > 0) {
            let place = region.start + nearest..region.start + nearest;
            self.annotate(directive, Outcome::Intended, place.clone(), "");
            self.add_note(place, "possible intended match here");
        }
    }

    /// Reports that a match is on a wrong line.
    pub(crate) fn report_wrong_line(&mut self, directive: &Directive, found: Range<usize>) {
        if self.verbosity >= Verbosity::Matches {
            self.change_last(Outcome::WrongLine);
        } else {
            self.annotate(directive, Outcome::WrongLine, found, "");
        }
    }

    /// Reports that the last match overlaps an earlier one of its group.
    pub(crate) fn report_overlap(&mut self, earlier: Range<usize>) {
        if self.verbosity < Verbosity::Everything {
            return;
        }
        if self.annotations.is_some() {
            self.change_last(Outcome::Discarded);
        } else {
            self.add_note(earlier, "match discarded, overlaps earlier DAG match here");
        }
    }
}

/// A search without a match.
pub(crate) struct Search<'a> {
    /// The part of the input that was searched.
    pub(crate) region: Range<usize>,
    /// Why the pattern could not be used.
    pub(crate) errors: &'a [PatternError],
    pub(crate) values: &'a mut VariableValues,
}

fn captured_note(name: &str) -> String {
    format!("captured var \"{name}\"")
}

/// The distance within which a text like the pattern is looked for.
const NEAREST_LIMIT: usize = 4096;

/// The most pairs of bytes that are compared to find it.
const NEAREST_WORK: usize = 200_000_000;

/// The start of the text that is most like a pattern as it is written, if one is much like it. As LLVM does it, the
/// distance is that of edits between the two, and a hundredth for each line.
pub fn nearest_text(example: &[u8], text: &[u8]) -> Option<usize> {
    let length = text.len().min(NEAREST_LIMIT).min(NEAREST_WORK / example.len().pow(2).max(1));
    let mut lines = 0;
    let mut best: Option<(usize, usize)> = None;
    for (at, &byte) in text.iter().enumerate().take(length) {
        lines += usize::from(byte == b'\n');
        if byte == b' ' || byte == b'\t' {
            continue;
        }
        let line = text[at..].iter().take(example.len()).take_while(|&&byte| byte != b'\n').copied();
        let line: Vec<u8> = line.collect();
        let quality = 100 * edit_distance(&line, example) + lines;
        if best.is_none_or(|(_, least)| quality < least) {
            best = Some((at, quality));
        }
    }
    best.filter(|(_, quality)| *quality < 5000).map(|(at, _)| at)
}

fn edit_distance(left: &[u8], right: &[u8]) -> usize {
    strsim::generic_levenshtein(&left.to_vec(), &right.to_vec())
}
