//! `--verify-diagnostics`: compares diagnostics with `// expected-error@+1 {{text}}` comments.
//!
//! Kinds are error, warning, remark and note, each with `-re` if `{{...}}` in the text is a regular expression. Places
//! are `@+N`, `@-N`, `@below`, `@above` (the next and the previous line without an expectation), `@unknown` (no place)
//! and, without any, the same line. The text is part of the code, the message or the text at the place. Notes are the
//! second places and the notes of a diagnostic; they may be left out, diagnostics may not.

use hostir::diag::message;
use hostir::diag::{Diag, Diags, Severity, Span};
use hostir_tool_support::render::line_starts;
use regex::Regex;
use std::collections::BTreeMap;

/// --verify-diagnostics: an expected diagnostic was not produced.
const NOT_PRODUCED: &str = "H0316";
/// --verify-diagnostics: a diagnostic was produced that nothing expects.
const NOT_EXPECTED: &str = "H0317";
/// --verify-diagnostics: an expectation that is not well formed.
const BAD_EXPECTATION: &str = "H0318";

const KINDS: &[(&str, DiagKind)] = &[
    ("error", DiagKind::Error),
    ("warning", DiagKind::Warning),
    ("remark", DiagKind::Remark),
    ("note", DiagKind::Note),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum DiagKind {
    Error,
    Warning,
    Remark,
    Note,
}

impl DiagKind {
    fn name(self) -> &'static str {
        match self {
            DiagKind::Error => "error",
            DiagKind::Warning => "warning",
            DiagKind::Remark => "remark",
            DiagKind::Note => "note",
        }
    }
}

enum TextPattern {
    Text(String),
    Regex(Regex),
}

impl TextPattern {
    fn matches_text(&self, text: &str) -> bool {
        match self {
            TextPattern::Text(part) => text.contains(part),
            TextPattern::Regex(regex) => regex.is_match(text),
        }
    }
}

/// One `expected-...` comment.
struct DiagExpectation {
    kind: DiagKind,
    /// Line from 0; `None` for `@unknown`.
    line: Option<usize>,
    pattern: TextPattern,
    /// Its place in the text.
    span: Span,
    met: bool,
}

/// Something that was said.
struct ProducedDiag<'a> {
    kind: DiagKind,
    text: String,
    /// The diagnostic, if it has to be expected.
    diag: Option<&'a Diag>,
}

/// Errors for expectations that were not met and diagnostics that were not expected; empty if all are as expected.
pub(super) fn compare_diags(text: &str, diags: &Diags) -> Diags {
    let starts = line_starts(text);
    let mut out = Diags::default();
    let mut expectations = parse_expectations(text, &mut out);
    let mut by_line: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (index, expectation) in expectations.iter().enumerate() {
        by_line.entry(expectation.line).or_default().push(index);
    }
    for diag in &diags.items {
        for (line, said) in produced_diags(diag, &starts) {
            let candidates = by_line.get(&line).map_or(&[][..], Vec::as_slice);
            let met = candidates.iter().copied().find(|&index| {
                let expectation = &expectations[index];
                !expectation.met && expectation.kind == said.kind && expectation.pattern.matches_text(&said.text)
            });
            match (met, said.diag) {
                (Some(index), _) => expectations[index].met = true,
                (None, Some(diag)) => out.push(not_expected(said.kind, diag)),
                (None, None) => {}
            }
        }
    }
    for expectation in expectations.iter().filter(|expectation| !expectation.met) {
        let message = message!("expected {} was not produced", expectation.kind.name());
        out.push(Diag::error(NOT_PRODUCED, expectation.span, message));
    }
    out
}

fn not_expected(kind: DiagKind, diag: &Diag) -> Diag {
    let message = message!("unexpected {}: [{}] {}", kind.name(), diag.code, diag.message);
    match &diag.primary {
        Some(label) => Diag::error(NOT_EXPECTED, label.span, message).with_primary_text(label.text.clone()),
        None => Diag::global_error(NOT_EXPECTED, message),
    }
}

/// The line that a span begins on.
fn line_of(span: Span, starts: &[u32]) -> usize {
    starts.partition_point(|start| *start <= span.start).saturating_sub(1)
}

fn said_note<'a>(text: &str) -> ProducedDiag<'a> {
    ProducedDiag { kind: DiagKind::Note, text: text.to_owned(), diag: None }
}

/// A diagnostic and its notes, with their lines.
fn produced_diags<'a>(diag: &'a Diag, starts: &[u32]) -> Vec<(Option<usize>, ProducedDiag<'a>)> {
    let line = diag.primary.as_ref().map(|label| line_of(label.span, starts));
    let kind = match diag.severity {
        Severity::Error => DiagKind::Error,
        Severity::Warning => DiagKind::Warning,
        Severity::Remark => DiagKind::Remark,
    };
    let here = diag.primary.as_ref().map_or("", |label| &label.text);
    let text = format!("[{}] {}\n{here}", diag.code, diag.message);
    let mut all = vec![(line, ProducedDiag { kind, text, diag: Some(diag) })];
    all.extend(diag.labels.iter().map(|label| (Some(line_of(label.span, starts)), said_note(&label.text))));
    let fixes = diag.fixes.iter().map(|fix| &fix.message);
    all.extend(diag.notes.iter().chain(fixes).map(|text| (line, said_note(text))));
    all
}

fn parse_expectations(text: &str, errors: &mut Diags) -> Vec<DiagExpectation> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut found = Vec::new();
    let mut start = 0;
    // The last line without an expectation, and expectations that wait for the next.
    let mut above = None;
    let mut waiting: Vec<usize> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        match parse_expectation(line, number, start, above) {
            None => {
                above = Some(number);
                waiting.drain(..).for_each(|index: usize| {
                    let expectation: &mut DiagExpectation = &mut found[index];
                    expectation.line = Some(number);
                });
            }
            Some(Err(diag)) => errors.push(diag),
            Some(Ok((expectation, below))) => {
                if below {
                    waiting.push(found.len());
                }
                found.push(expectation);
            }
        }
        start += line.len() + 1;
    }
    found
}

type ParsedExpectation = Result<(DiagExpectation, bool), Diag>;

/// The expectation of a line, and true if it is about the next line without one.
fn parse_expectation(line: &str, number: usize, start: usize, above: Option<usize>) -> Option<ParsedExpectation> {
    let at = line.find("expected-")?;
    let rest = &line[at + "expected-".len()..];
    let (name, kind) = KINDS.iter().find(|(name, _)| rest.starts_with(name))?;
    let rest = &rest[name.len()..];
    let (is_regex, rest) = rest.strip_prefix("-re").map_or((false, rest), |rest| (true, rest));
    let open = rest.find("{{")?;
    let close = rest.rfind("}}").filter(|close| *close >= open + 2);
    let span = Span::new(start + at, start + line.trim_end().len());
    let Some(close) = close else { return wrong_expectation(span, "the expectation has no closing `}}`") };
    let place = rest[..open].trim();
    let Some((line, below)) = target_line(place, number, above) else {
        let what = format!("`{place}` is not a valid place; write @+1, @-1, @below, @above or @unknown");
        return wrong_expectation(span, what);
    };
    let text = &rest[open + 2..close];
    let pattern = if is_regex {
        match Regex::new(&regex_text(text)) {
            Ok(regex) => TextPattern::Regex(regex),
            Err(_) => {
                return wrong_expectation(span, "the regular expression is malformed");
            }
        }
    } else {
        TextPattern::Text(text.to_owned())
    };
    Some(Ok((DiagExpectation { kind: *kind, line, pattern, span, met: false }, below)))
}

fn wrong_expectation<T>(span: Span, what: impl Into<String>) -> Option<Result<T, Diag>> {
    Some(Err(Diag::error(BAD_EXPECTATION, span, what.into())))
}

/// The line of a place: `None` inside for no place. The flag is true for the next line.
fn target_line(place: &str, number: usize, above: Option<usize>) -> Option<(Option<usize>, bool)> {
    match place {
        "" => Some((Some(number), false)),
        "@unknown" => Some((None, false)),
        "@below" => Some((Some(usize::MAX), true)),
        "@above" => Some((Some(above.unwrap_or(usize::MAX)), false)),
        _ => {
            if let Some(text) = place.strip_prefix("@+") {
                return Some((number.checked_add(text.parse().ok()?), false));
            }
            let lines = place.strip_prefix("@-")?.parse().ok()?;
            Some((Some(number.checked_sub(lines).unwrap_or(usize::MAX)), false))
        }
    }
}

/// `T{{[0-9]+}} twice` as one regular expression: only what is in `{{}}` is one.
fn regex_text(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let Some(len) = rest[open..].find("}}") else { break };
        out.push_str(&regex::escape(&rest[..open]));
        out.push_str(&format!("(?:{})", &rest[open + 2..open + len]));
        rest = &rest[open + len + 2..];
    }
    out.push_str(&regex::escape(rest));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes_of(text: &str, diags: Vec<Diag>) -> Vec<&'static str> {
        compare_diags(text, &Diags { items: diags }).items.iter().map(|diag| diag.code).collect()
    }

    fn at(text: &str, part: &str, message: &str) -> Diag {
        let start = text.find(part).unwrap();
        Diag::error("H0101", Span::new(start, start + part.len()), message)
    }

    /// Every place finds its line.
    #[test]
    fn places() {
        for text in [
            "bad // expected-error {{wrong T1}}\n",
            "// expected-error@+1 {{wrong T1}}\nbad\n",
            "bad\n// expected-error@-1 {{wrong T1}}\n",
            "// expected-error@below {{wrong T1}}\n// expected-remark@below {{later}}\nbad\n",
            "bad\n// expected-error@above {{wrong T1}}\n",
            "// expected-error-re@+1 {{wrong T{{[0-9]}}}}\nbad\n",
            "// expected-error@+1 {{H0101}}\nbad\n",
        ] {
            let mut diags = vec![at(text, "bad", "wrong T1")];
            if text.contains("later") {
                diags.push(at(text, "bad", "later").into_remark());
            }
            assert!(codes_of(text, diags).is_empty(), "{text}");
        }
    }

    /// Missing and surplus are both reported, and each expectation counts once.
    #[test]
    fn missing_and_surplus() {
        let text = "bad // expected-error {{wrong}}\n";
        assert_eq!(codes_of(text, vec![]), [NOT_PRODUCED]);
        assert_eq!(codes_of("bad\n", vec![at("bad\n", "bad", "wrong")]), [NOT_EXPECTED]);
        let twice = vec![at(text, "bad", "wrong"), at(text, "bad", "wrong")];
        assert_eq!(codes_of(text, twice), [NOT_EXPECTED]);
        assert_eq!(codes_of(text, vec![at(text, "bad", "wrong").into_remark()]), [NOT_EXPECTED, NOT_PRODUCED]);
        let other = "// expected-error@+2 {{wrong}}\nbad\n";
        assert_eq!(codes_of(other, vec![at(other, "bad", "wrong")]), [NOT_EXPECTED, NOT_PRODUCED]);
    }

    /// Notes and labels may be expected but need not be; diagnostics without a place are `@unknown`.
    #[test]
    fn notes_and_no_place() {
        let text = "bad // expected-error {{wrong}}\nfirst // expected-note {{declared}}\n";
        let label = Span::new(text.find("first").unwrap(), 0);
        let diag = || at(text, "bad", "wrong").with_note("do better");
        assert!(codes_of(text, vec![diag().with_label(label, "declared here")]).is_empty());
        assert_eq!(codes_of(text, vec![diag()]), [NOT_PRODUCED]);
        let unknown = "// expected-error@unknown {{lost}}\n";
        assert!(codes_of(unknown, vec![Diag::global_error("H0101", "lost")]).is_empty());
    }

    /// Malformed expectations are errors.
    #[test]
    fn broken_expectations() {
        for text in ["// expected-error@* {{x}}", "// expected-error {{x", "// expected-error-re {{ {{(}} }}"] {
            assert_eq!(codes_of(text, vec![]), [BAD_EXPECTATION], "{text}");
        }
    }
}
