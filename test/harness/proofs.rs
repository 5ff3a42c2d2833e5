//! The proof judges the corpus of `test/verification` at the lines that the programs name.

use hostir::diag::{Diag, Severity};
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan_checks::{check_more_streams, prove_program};
use hostir_test::tree;
use std::path::PathBuf;

/// The line `// expect:` of a program.
struct Expectation {
    code: String,
    /// The lines of which a report shows one.
    lines: Vec<usize>,
}

/// `// expect: H0701 at 17 and 21`.
fn expectation(text: &str) -> Option<Expectation> {
    let said = text.lines().find_map(|line| line.strip_prefix("// expect: "))?;
    let (code, lines) = said.split_once(" at ")?;
    let lines = lines.split(" and ").map(|line| line.trim().parse().expect("a line number")).collect();
    Some(Expectation { code: code.to_owned(), lines })
}

/// All diagnostics of a program, up to and with the proof.
fn diagnostics(text: &str, streams: u32) -> Vec<Diag> {
    let (programs, mut diags) = hostir::load(text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
        if diags.has_errors() {
            break;
        }
        match prepare_program(program, &SizeSettings { streams, ..SizeSettings::default() }) {
            Err(errors) => diags.items.extend(errors.items),
            Ok(prepared) => {
                let report = prove_program(&prepared);
                let clean = report.errors.is_empty();
                diags.items.extend(report.errors.into_iter().chain(report.warnings));
                diags.items.extend(clean.then(|| check_more_streams(program, &prepared)).flatten());
            }
        }
    }
    diags.items
}

/// The lines that a diagnostic shows.
fn shown_lines(text: &str, diag: &Diag) -> Vec<usize> {
    let spans = diag.primary.iter().chain(&diag.labels).map(|label| label.span.start as usize);
    spans.map(|at| text[..at].bytes().filter(|&byte| byte == b'\n').count() + 1).collect()
}

fn corpus() -> Vec<PathBuf> {
    let mut files = tree::files(&tree::root().join("test/verification"), ".hir");
    files.retain(|file| !file.to_string_lossy().contains("Inputs"));
    files
}

/// The wrong programs of which a report shows both lines (`docs/verification.md`).
const BOTH_LINES: usize = 123;

#[test]
fn wrong_programs_are_refused_at_their_lines() {
    let (mut wrong, mut both) = (0, 0);
    let mut bad = Vec::new();
    for file in corpus() {
        let text = tree::read(&file);
        let Some(expected) = expectation(&text) else { continue };
        if text.contains("// XFAIL") {
            continue;
        }
        wrong += 1;
        let found = diagnostics(&text, 4);
        let is_hit = |diag: &&Diag| {
            diag.code == expected.code && shown_lines(&text, diag).iter().any(|line| expected.lines.contains(line))
        };
        let shows_both = |diag: &Diag| {
            let shown = shown_lines(&text, diag);
            expected.lines.iter().all(|line| shown.contains(line))
        };
        both += usize::from(found.iter().filter(is_hit).any(shows_both));
        let others = found.iter().filter(|diag| diag.severity == Severity::Error && !is_hit(diag));
        if !found.iter().any(|diag| is_hit(&diag)) || others.count() > 0 {
            let codes: Vec<&str> = found.iter().map(|diag| diag.code).collect();
            bad.push(format!("{}: {} expected, found {codes:?}", tree::relative(&file), expected.code));
        }
    }
    assert!(both >= BOTH_LINES, "only {both} reports show both lines");
    assert!(wrong > 100 && bad.is_empty(), "{wrong} wrong programs\n{}", bad.join("\n"));
}

#[test]
fn repaired_programs_are_proved_with_any_number_of_streams() {
    let mut right = 0;
    let mut bad = Vec::new();
    for file in corpus() {
        let text = tree::read(&file);
        if !text.contains("// expect: none") || text.contains("// expect-run") {
            continue;
        }
        right += 1;
        for streams in [1, 2, 3, 4, 8] {
            let errors = diagnostics(&text, streams);
            let errors = errors.iter().filter(|diag| diag.severity == Severity::Error);
            bad.extend(errors.map(|diag| format!("{}, {streams} streams: {}", tree::relative(&file), diag.message)));
        }
    }
    assert!(right > 100 && bad.is_empty(), "{right} right programs\n{}", bad.join("\n"));
}
