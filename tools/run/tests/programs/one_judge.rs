//! Both tools have one judge: what a pass refuses, a run refuses, too.

use super::hir_opt::hir_opt;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The codes of the errors that a tool finds in a file.
fn error_codes(tool: &str, arguments: &[&str], file: &Path) -> BTreeSet<String> {
    let output = Command::new(tool).args(arguments).arg(file).output().expect("the tool starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let errors = text.lines().filter_map(|line| line.strip_prefix("error["));
    errors.map(|rest| rest.chars().take(5).collect()).collect()
}

fn programs_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(folder);
    let entries = folder.read_dir().expect("a folder of programs");
    let files = entries.map(|entry| entry.expect("a file").path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "hir")).collect()
}

#[test]
fn a_pass_and_a_run_refuse_the_same() {
    let files: Vec<PathBuf> = ["patterns", "tutorial"].into_iter().flat_map(programs_in).collect();
    assert!(files.len() > 30, "{} programs", files.len());
    for file in files {
        let passed = error_codes(hir_opt(), &["--pass=check-program"], &file);
        let run = error_codes(env!("CARGO_BIN_EXE_hir-run"), &["--check-only", "--container=all"], &file);
        assert_eq!(passed, run, "{}", file.display());
        // One is a race, and one needs the values of its inputs.
        let is_refused = file.ends_with("race.hir") || file.ends_with("optimizer.hir");
        assert_eq!(is_refused, !passed.is_empty(), "{}: {passed:?}", file.display());
    }
}
