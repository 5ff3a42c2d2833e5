//! Fuzz targets: functions of bytes that must hold for every input, and must neither panic nor run long.
//!
//! `cargo test -p hostir-test --test properties fuzz_corpus` runs them over `test/fuzz/corpus` and the programs of the tree;
//! `cargo +nightly fuzz run --fuzz-dir test/fuzz TARGET` (crate `cargo-fuzz`) searches for inputs that break them. An
//! input that did is kept in the corpus.

use hostir::diag::{Diags, render};
use hostir::ir::edit::Edit;
use hostir::ir::{Era, Program};
use hostir::print::{PrintOptions, VersionLine, print_into};
use hostir::style::restyle_program;
use hostir_grammar::hir2::ast::StmtForm;
use hostir_passes::manager::{Config, SilentObserver};
use hostir_passes::{PASSES, manager, pipeline};
use hostir_run::data::{npy, safetensors};

/// A fuzz target: its name, which is also the name of its corpus folder, and its function.
pub struct FuzzTarget {
    /// The name.
    pub name: &'static str,
    /// Panics if the input breaks a promise.
    pub run: fn(&[u8]),
}

/// All fuzz targets.
pub const FUZZ_TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "text", run: fuzz_text },
    FuzzTarget { name: "hir2", run: fuzz_hir2 },
    FuzzTarget { name: "passes", run: fuzz_passes },
    FuzzTarget { name: "checks", run: fuzz_checks },
    FuzzTarget { name: "npy", run: fuzz_npy },
    FuzzTarget { name: "safetensors", run: fuzz_safetensors },
];

/// A text has errors, or what it prints as reads back and prints as the same. Both can be renumbered.
///
/// # Panics
/// If it does not.
pub fn fuzz_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (mut programs, diags) = hostir::load(&text);
    render::to_string("input", &text, &diags.items);
    let printed = print_all(&programs);
    programs.iter_mut().for_each(hostir::style::renumber_program);
    if !diags.is_empty() {
        return;
    }
    let (again, diags) = hostir::load(&printed);
    let problems = render::to_string("printed", &printed, &diags.items);
    assert!(diags.is_empty(), "what was printed has errors\n{printed}\n{problems}");
    assert_eq!(filled_lines(&print_all(&again)), filled_lines(&printed), "printing is not stable");
}

/// A text in `hir 2` has errors at places of the text, or its canonical layout reads as the same program and is laid out
/// as the same. A text without the line `hir 2` gets one.
///
/// # Panics
/// If it does not.
pub fn fuzz_hir2(input: &[u8]) {
    let mut text = String::from_utf8_lossy(input).into_owned();
    if !hostir::hir2::is_hir2(&text) {
        text.insert_str(0, "hir 2\n");
    }
    let parsed = hostir_grammar::hir2::parse(&text);
    let has_failed = parsed.file.stmts.iter().any(|stmt| stmt.form == StmtForm::Error);
    assert!(!has_failed || !parsed.errors.is_empty(), "a statement has failed without an error\n{text}");
    let (mut programs, mut diags) = hostir::load(&text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
    }
    render::to_string("input", &text, &diags.items);
    if diags.has_errors() {
        return;
    }
    // The layout has no texts of other files.
    programs.iter_mut().for_each(Program::own_imports);
    let formatted = hostir::hir2::write::write_file(&mut programs);
    let (again, diags) = hostir::load(&formatted);
    let problems = render::to_string("formatted", &formatted, &diags.items);
    assert!(!diags.has_errors(), "what was formatted has errors\n{formatted}\n{problems}");
    assert_eq!(canonical_form(again), canonical_form(programs), "formatting changes the program\n{text}\n{formatted}");
    let twice = hostir::hir2::format_text(&formatted).unwrap_or_default();
    assert_eq!(twice, formatted, "formatting is not stable");
}

/// The canonical printed form without names: the writer gives up a name that two things have.
fn canonical_form(mut programs: Vec<Program>) -> String {
    for program in &mut programs {
        let errors = run_pipeline(program, "strip-names");
        assert!(!errors.has_errors(), "names cannot be removed\n{:#?}", errors.items);
        let mut edit = Edit::new(program);
        restyle_program(&mut edit, Era::E2025_06.style());
        edit.commit();
        hostir::style::renumber_program(program);
    }
    print_all(&programs)
}

/// The general passes turn a valid program into a valid one; the lowering does, or reports errors.
///
/// # Panics
/// If a general pass fails.
pub fn fuzz_passes(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (programs, mut diags) = hostir::load(&text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
    }
    if diags.has_errors() {
        return;
    }
    for mut program in programs {
        let errors = run_pipeline(&mut program, "canonicalize,cse,dce");
        assert!(!errors.has_errors(), "a general pass failed\n{text}\n{:#?}", errors.items);
        let _allowed = run_pipeline(&mut program, "host-ir-lower");
        hostir::print::print_to_string(&program);
    }
}

/// A check file, and after the first zero byte the text that it checks, end with an answer.
pub fn fuzz_checks(input: &[u8]) {
    let split = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (checks, text) = input.split_at(split);
    let options = filecheck_rs::Options::default();
    if let Ok(file) = filecheck_rs::parse_checks(checks, "input", &options) {
        let _either = file.check_input(text, &options);
    }
}

/// An `.npy` file is read or rejected; one that is read is written and read again the same.
///
/// # Panics
/// If it is not.
pub fn fuzz_npy(input: &[u8]) {
    let mut bytes = input;
    let Ok(tensor) = npy::read_npy(&mut bytes, Some(input.len() as u64)) else { return };
    let Ok(written) = npy::write_npy(&tensor) else { return };
    let again = npy::read_npy(&mut written.as_slice(), Some(written.len() as u64));
    assert_eq!(again.expect("what was written is read").shape(), tensor.shape());
}

/// A `.safetensors` file is read or rejected.
pub fn fuzz_safetensors(input: &[u8]) {
    let _either = safetensors::read_safetensors(&mut { input }, Some(input.len() as u64), None);
}

fn run_pipeline(program: &mut Program, passes: &str) -> Diags {
    let pipeline = pipeline::parse_pipeline(passes, PASSES).expect("a pipeline of this file");
    let result = manager::run_pipeline(program, &pipeline, &Config::default(), &mut SilentObserver);
    result.err().map_or_else(Diags::default, |failure| failure.errors)
}

/// The printed form of a file: its first line says for all programs whether they have names.
fn print_all(programs: &[Program]) -> String {
    let is_named = programs.len() > 1 && programs.iter().any(Program::has_names);
    let mut version = if is_named { VersionLine::Always } else { VersionLine::AsRead };
    let mut text = String::new();
    for program in programs {
        print_into(program, PrintOptions { version, ..PrintOptions::default() }, &mut text);
        version = VersionLine::Never;
    }
    text
}

/// Blank lines after a comment at the end of a section may be lost.
fn filled_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}
