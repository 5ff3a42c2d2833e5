//! `tools/same-output` finds what differs, and nothing else: two versions are shell scripts here. Ignored where there
//! is no Python.
#![allow(clippy::unwrap_used, reason = "failures panic")]

#[path = "../library/common/needs.rs"]
mod needs;

use hostir_test::tree;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn main() -> std::process::ExitCode {
    let found = Command::new("python3").arg("--version").output().is_ok();
    let missing = (!found).then_some("needs python3");
    needs::run(needs::tests![
        missing;
        equal_versions_differ_in_nothing,
        a_changed_line_is_shown,
        a_changed_exit_status_is_shown,
        folders_without_the_tools_are_refused,
    ])
}

/// A version: a script that answers for both tools.
fn version(folder: &Path, script: &str) {
    std::fs::create_dir_all(folder).unwrap();
    for tool in ["hir-opt", "hir-run"] {
        let path = folder.join(tool);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Compares what two scripts print as tables.
fn compared(old: &str, new: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["old", "new"].map(|name| folder.path().join(name));
    version(&first, old);
    version(&second, new);
    let Output { status, stdout, .. } = Command::new("python3")
        .arg(tree::root().join("tools/same-output"))
        .args(["--only", "tables", "--show", "1"])
        .args([&first, &second])
        .output()
        .unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

fn equal_versions_differ_in_nothing() {
    // The commit may differ, and the folder that the tool is in.
    let (old, new) = ("echo hir-opt 0.1.0 (abc); echo $0", "echo hir-opt 0.1.0 (def); echo $0");
    let quoted = |script: &str| script.replace('(', "'(").replace(')', ")'");
    let (status, text) = compared(&quoted(old), &quoted(new));
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("compared, 0 differ"), "{text}");
}

fn a_changed_line_is_shown() {
    let changed = "echo same; if [ $1 = --list-passes ]; then echo changed; else echo cse; fi";
    let (status, text) = compared("echo same; echo cse", changed);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("==== tables: hir-opt --list-passes\n"), "{text}");
    assert!(text.contains("\n   same\n  -cse\n  +changed\n"), "{text}");
    assert!(text.contains("compared, 1 differ"), "{text}");
}

fn a_changed_exit_status_is_shown() {
    let (status, text) = compared("echo same", "echo same; [ $1 != --version ]");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("--- OLD exit status\n  +++ NEW exit status\n"), "{text}");
    assert!(text.contains("\n  -0\n  +1\n"), "{text}");
}

fn folders_without_the_tools_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("python3")
        .arg(tree::root().join("tools/same-output"))
        .args([folder.path(), folder.path()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("has no hir-opt and no hir-run"), "{text}");
}
