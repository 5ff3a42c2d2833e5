//! The proof judges the corpus of `test/verification` at the lines that the programs name.

use hostir::diag::{Diag, Severity};
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::cost::CostModel;
use hostir::verdict::judge_program;
use hostir_test::tree;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The line `// expect:` of a program.
pub(crate) struct Expectation {
    pub(crate) code: String,
    /// The lines of which a report shows one.
    lines: Vec<usize>,
}

/// `// expect: H0701 at 17 and 21`.
pub(crate) fn expectation(text: &str) -> Option<Expectation> {
    let said = text.lines().find_map(|line| line.strip_prefix("// expect: "))?;
    let (code, lines) = said.split_once(" at ")?;
    let lines = lines.split(" and ").map(|line| line.trim().parse().expect("a line number")).collect();
    Some(Expectation { code: code.to_owned(), lines })
}

/// All diagnostics of a program, up to and with the proof.
pub(crate) fn prove_text(text: &str, streams: u32) -> Vec<Diag> {
    let (programs, mut diags) = hostir::load(text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
        if diags.has_errors() {
            break;
        }
        match prepare_program(program, &SizeSettings { streams, ..SizeSettings::default() }) {
            Err(errors) => diags.items.extend(errors.items),
            Ok(prepared) => {
                let report = judge_program(program, &prepared, &CostModel::of_default_machine(), false).report;
                diags.items.extend(report.errors.into_iter().chain(report.warnings));
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

/// All programs of the corpus.
pub(crate) fn corpus() -> Vec<PathBuf> {
    let mut files = tree::files(&tree::root().join("test/verification"), ".hir");
    files.retain(|file| !file.to_string_lossy().contains("Inputs"));
    files
}

/// The wrong programs of which a report shows both lines (`docs/verification.md`).
const BOTH_LINES: usize = 128;

#[test]
fn wrong_programs_are_refused_at_their_lines() {
    let (mut wrong, mut both) = (0, 0);
    let mut bad = Vec::new();
    for file in corpus() {
        let text = tree::read(&file);
        let Some(expected) = expectation(&text) else { continue };
        wrong += 1;
        let found = prove_text(&text, 4);
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
            let errors = prove_text(&text, streams);
            let errors = errors.iter().filter(|diag| diag.severity == Severity::Error);
            bad.extend(errors.map(|diag| format!("{}, {streams} streams: {}", tree::relative(&file), diag.message)));
        }
    }
    assert!(right > 100 && bad.is_empty(), "{right} right programs\n{}", bad.join("\n"));
}

/// The warnings about wasted time that a printed program has with 4 streams; none if it has no plan or is wrong.
fn time_warnings(text: &str) -> Vec<Diag> {
    let (programs, diags) = hostir::load(text);
    let Some(program) = programs.first().filter(|_| !diags.has_errors()) else { return Vec::new() };
    let plans = [4, 8, 6, 2, 1].into_iter().find_map(|every| {
        let sizes = SizeSettings { every: Some(every), streams: 4, ..SizeSettings::default() };
        prepare_program(program, &sizes).ok()
    });
    let Some(prepared) = plans else { return Vec::new() };
    let warnings = judge_program(program, &prepared, &CostModel::of_default_machine(), false).report.warnings;
    warnings.into_iter().filter(|diag| ["H0712", "H0713"].contains(&diag.code)).collect()
}

/// The programs that waste time, and say so.
const WASTEFUL: &[(&str, &str)] = &[
    ("H0712", "test/run/timeline_pipeline.hir:2"),
    ("H0712", "test/verification/real/nvfuser_4217_wrong.hir:1"),
    ("H0712", "test/verification/rules/waste_serial_loop_wrong.hir:1"),
    ("H0713", "test/passes/skew-communications.hir:1"),
    ("H0713", "test/passes/skew-communications_handles.hir:1"),
    ("H0713", "test/passes/skew-communications_result.hir:1"),
    ("H0713", "test/passes/skew-communications_stages.hir:1"),
    ("H0713", "test/verification/rules/waste_queue_wrong.hir:1"),
    ("H0713", "test/verification/rules/waste_rounds_wrong.hir:1"),
];

#[test]
fn programs_of_the_tree_and_of_passes_waste_no_time() {
    let programs = crate::mutation::corpus::list_printed(&tree::root(), "");
    let mut found = BTreeSet::new();
    let mut unknown = Vec::new();
    for printed in &programs {
        let name = printed.name.split(' ').next().unwrap_or_default();
        for warning in time_warnings(&printed.text) {
            match WASTEFUL.iter().find(|&&(code, file)| code == warning.code && file == name) {
                Some(known) => drop(found.insert(known)),
                None => unknown.push(format!("{} {}: {:?}", warning.code, printed.name, warning.notes)),
            }
        }
    }
    assert!(unknown.is_empty(), "{} of {}\n{}", unknown.len(), programs.len(), unknown.join("\n"));
    assert_eq!(found.len(), WASTEFUL.len(), "{found:?}");
    assert!(programs.len() > 2000, "only {} programs", programs.len());
}
