//! The input with notes below its lines, in LLVM's layout.

use crate::checks::CheckFile;
use crate::options::{DumpFilter, OutputOptions, Verbosity};
use crate::paint::{Paint, Style};
use crate::report::{Annotation, Outcome};
use crate::source::{Place, Source};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A part of an annotation, on one line of the input.
#[derive(Debug, Clone)]
struct Mark {
    label: String,
    /// The line, from one.
    line: usize,
    /// The first column, from one.
    first: usize,
    /// The column after the last one; none for the rest of the line.
    end: Option<usize>,
    /// True if the annotation starts here.
    is_start: bool,
    sign: Sign,
}

/// The look of a mark.
#[derive(Debug, Clone)]
struct Sign {
    head: char,
    style: Style,
    note: String,
    is_error: bool,
    is_good_match: bool,
}

/// Prints the lines of the input that the options ask for.
pub(crate) fn dump_input(
    file: &CheckFile,
    input: &Source,
    annotations: Vec<Annotation>,
    output: &OutputOptions,
) -> String {
    let mut marks = Vec::new();
    let mut numbers = LabelNumbers::count_annotations(&annotations);
    for annotation in &annotations {
        let label = numbers.next_label(file, annotation);
        push_marks(&mut marks, input, annotation, label);
    }
    // A stable sort: marks of a line stay in the order of the annotations.
    marks.sort_by_key(|mark| mark.line);
    let lines = input_lines(input.content());
    let count = lines.len().to_string().len();
    let width = marks.iter().map(|mark| mark.label.len()).max().unwrap_or(0).max(count) + 3;
    let paint = Paint::from_choice(output.color);
    let is_verbose = output.verbosity >= Verbosity::Matches;
    let mut printer = Printer { lines, marks, width, paint, is_verbose, out: String::new(), held: String::new() };
    printer.print_lines(output);
    let (input_name, check_name) = (input.name(), file.sources[0].name());
    format!(
        "\nInput file: {input_name}\nCheck file: {check_name}\n\n-dump-input=help explains the following input dump.\n\n\
         Input was:\n<<<<<<\n{}>>>>>>\n",
        printer.out
    )
}

/// The number of annotations of each directive, in all and so far.
struct LabelNumbers(BTreeMap<Place, (usize, usize)>);

impl LabelNumbers {
    fn count_annotations(annotations: &[Annotation]) -> Self {
        let mut numbers: BTreeMap<Place, (usize, usize)> = BTreeMap::new();
        for annotation in annotations {
            numbers.entry(annotation.place).or_default().0 += 1;
        }
        LabelNumbers(numbers)
    }

    /// `check:3`, or `check:3'0` if the directive has several annotations.
    fn next_label(&mut self, file: &CheckFile, annotation: &Annotation) -> String {
        let Place { source, offset } = annotation.place;
        let mut label = format!("{}:", annotation.kind.short_name());
        let line = match source {
            0 => file.sources[0].line_number(offset).to_string(),
            source => format!("imp{}", source + 1 - file.first_implicit.min(source)),
        };
        label.push_str(&line);
        let (count, seen) = self.0.entry(annotation.place).or_default();
        if *count > 1 {
            label.push_str(&format!("'{seen}"));
            *seen += 1;
        }
        label
    }
}

fn sign_of(annotation: &Annotation) -> Sign {
    let (head, style, note, is_error) = match annotation.outcome {
        Outcome::Found => ('^', Style::GREEN, "", false),
        Outcome::Excluded => ('!', Style::RED, "error: no match expected", true),
        Outcome::WrongLine => ('!', Style::RED, "error: match on wrong line", true),
        Outcome::Discarded => ('!', Style::CYAN, "discard: overlaps earlier match", false),
        Outcome::Absent => ('X', Style::GREEN, "", false),
        Outcome::Missing => ('X', Style::RED, "error: no match found", true),
        Outcome::InvalidPattern => ('X', Style::RED, "error: match failed for invalid pattern", true),
        Outcome::Intended => ('?', Style::MAGENTA, "possible intended match", true),
    };
    let has_note = !annotation.note.is_empty();
    // A note about a value has no place of its own.
    let head = if has_note && annotation.range.is_empty() { ' ' } else { head };
    let note = if has_note { annotation.note.clone() } else { note.to_owned() };
    Sign { head, style, note, is_error, is_good_match: annotation.outcome == Outcome::Found }
}

/// Divides an annotation at the ends of lines.
fn push_marks(marks: &mut Vec<Mark>, input: &Source, annotation: &Annotation, label: String) {
    let (line, first) = input.line_and_column(annotation.range.start);
    let (last_line, end) = input.line_and_column(annotation.range.end);
    let sign = sign_of(annotation);
    if line == last_line {
        let end = Some(end.max(first + 1));
        marks.push(Mark { label, line, first, end, is_start: true, sign });
        return;
    }
    let rest = Sign { head: '~', note: String::new(), ..sign.clone() };
    marks.push(Mark { label: label.clone(), line, first, end: None, is_start: true, sign });
    for line in line + 1..=last_line {
        let end = (line == last_line).then_some(end);
        if end != Some(1) {
            marks.push(Mark { label: label.clone(), line, first: 1, end, is_start: false, sign: rest.clone() });
        }
    }
}

/// The lines, each with its line break.
fn input_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').collect()
}

struct Printer<'t> {
    lines: Vec<&'t [u8]>,
    marks: Vec<Mark>,
    width: usize,
    paint: Paint,
    is_verbose: bool,
    out: String,
    /// Lines that are left out if there are more than dots would take.
    held: String,
}

/// The number of lines that show that lines are left out.
const DOT_LINES: usize = 3;

impl Printer<'_> {
    fn print_lines(&mut self, output: &OutputOptions) {
        let last = self.marks.last().map_or(0, |mark| mark.line).max(self.lines.len());
        let shown = self.shown_lines(output, last);
        let mut marks = std::mem::take(&mut self.marks).into_iter().peekable();
        for line in 1..=last {
            let mut own = Vec::new();
            while let Some(mark) = marks.next_if(|mark| mark.line == line) {
                own.push(mark);
            }
            let text = self.line_text(line, &own);
            if shown.binary_search(&line).is_ok() {
                self.release_held();
                self.out.push_str(&text);
            } else {
                self.held.push_str(&text);
            }
        }
        self.release_held();
    }

    /// The lines that the filter has, and those around them.
    fn shown_lines(&self, output: &OutputOptions, last: usize) -> Vec<usize> {
        let filter = output.shown_lines();
        if filter == DumpFilter::All {
            return (1..=last).collect();
        }
        let chosen = self.marks.iter().filter(|mark| match filter {
            DumpFilter::Error => mark.is_start && mark.sign.is_error,
            DumpFilter::Annotation => mark.is_start,
            DumpFilter::AnnotationFull | DumpFilter::All => true,
        });
        let mut shown = Vec::new();
        for line in chosen.map(|mark| mark.line) {
            let first = line.saturating_sub(output.dump_context).max(1);
            let end = line.saturating_add(output.dump_context).min(last);
            let from = shown.last().map_or(first, |&done: &usize| first.max(done + 1));
            shown.extend(from..=end);
        }
        shown
    }

    fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held.bytes().filter(|&byte| byte == b'\n').count() <= DOT_LINES {
            self.out.push_str(&held);
            return;
        }
        let dot = self.paint.text(Style::BLACK, &format!("{:>width$}", ".", width = self.width));
        for _ in 0..DOT_LINES {
            self.out.push_str(&dot);
            self.out.push('\n');
        }
    }

    /// A line of the input with its marks.
    fn line_text(&self, line: usize, marks: &[Mark]) -> String {
        let text = self.lines.get(line - 1).copied().unwrap_or_default();
        let number = self.paint.text(Style::BLACK, &format!("{line:>width$}: ", width = self.width));
        let mut out = format!("{number}{}\n", self.quoted_line(text, marks));
        for mark in marks {
            let written = writeln!(out, "{}", self.paint.text(mark.sign.style, &self.mark_text(mark, text.len())));
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
        out
    }

    /// The line with a blank for its line break; text that nothing matches stands out if matches are shown.
    fn quoted_line(&self, text: &[u8], marks: &[Mark]) -> String {
        let shown: Vec<u8> = text.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
        if self.paint == Paint::Plain || !self.is_verbose {
            return String::from_utf8_lossy(&shown).into_owned();
        }
        let good: Vec<&Mark> = marks.iter().filter(|mark| mark.sign.is_good_match).collect();
        let is_matched =
            |column: usize| good.iter().any(|mark| mark.first <= column && mark.end.is_none_or(|end| column < end));
        let mut out = String::new();
        let columns: Vec<usize> = (0..shown.len()).collect();
        for part in columns.chunk_by(|&a, &b| is_matched(a + 1) == is_matched(b + 1)) {
            let (Some(&first), Some(&last)) = (part.first(), part.last()) else { continue };
            let text = String::from_utf8_lossy(&shown[first..=last]);
            match is_matched(first + 1) {
                true => out.push_str(&text),
                false => out.push_str(&self.paint.text(Style::ON_CYAN, &text)),
            }
        }
        out
    }

    fn mark_text(&self, mark: &Mark, line_length: usize) -> String {
        let mut text = format!("{:<width$}  {}", mark.label, " ".repeat(mark.first - 1), width = self.width);
        text.push(mark.sign.head);
        let end = mark.end.unwrap_or(usize::MAX).min(line_length + 1);
        text.push_str(&"~".repeat(end.saturating_sub(mark.first + 1)));
        if !mark.sign.note.is_empty() {
            let column = end.max(mark.first + 1);
            text.push_str(&" ".repeat((line_length + 1).saturating_sub(column) + 1));
            text.push_str(&mark.sign.note);
        }
        text
    }
}
