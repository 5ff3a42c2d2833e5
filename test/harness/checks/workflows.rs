//! The configuration of continuous integration, which nothing compiles.

use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use hostir_test::tree;

/// Parts of `tools/coverage` that name no file or folder: their lines would be left out silently.
pub(crate) fn missing_coverage_parts() -> Vec<String> {
    let text = tree::read(&tree::root().join("tools/coverage"));
    let folder = text.lines().find_map(|line| line.strip_prefix("SOURCES = ")).map(|name| name.trim_matches('"'));
    let parts = text.lines().find_map(|line| line.strip_prefix("PARTS = (")?.strip_suffix(')'));
    let (Some(folder), Some(parts)) = (folder, parts) else {
        return vec!["tools/coverage: no line `SOURCES = ..` or `PARTS = (..)`".to_owned()];
    };
    let folder = tree::root().join(folder);
    let parts = parts.split(',').map(|part| part.trim().trim_matches('"'));
    let missing = parts.filter(|part| !folder.join(part).is_dir() && !folder.join(format!("{part}.rs")).is_file());
    missing.map(|part| format!("tools/coverage: `{part}`")).collect()
}

/// Actions of workflows that are named by a tag, which somebody else can move.
pub(crate) fn unpinned_actions() -> Vec<String> {
    let folder = tree::root().join(".github/workflows");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        let text = tree::read(&entry.path());
        let uses = text.lines().filter_map(|line| Some(line.split_once("uses: ")?.1));
        let loose = uses.filter(|action| !is_pinned(action));
        found.extend(loose.map(|action| format!("{}: {action}", entry.file_name().display())));
    }
    found.sort();
    found
}

/// Returns true for `owner/name@COMMIT # VERSION`.
fn is_pinned(action: &str) -> bool {
    let commit = action.split_once('@').and_then(|(_, rest)| rest.split_once(" # v")).map(|(commit, _)| commit);
    commit.is_some_and(|commit| commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Crates whose features in the extension module are not those of the tests' builds: they and what uses them are compiled for both
/// (docs/decisions/extension-module-workspace.md).
pub(crate) fn crates_compiled_twice() -> io::Result<Vec<String>> {
    let module = crates_with_features(&["--package", "hostir-python", "--edges", "normal,build"])?;
    let tests = crates_with_features(&["--workspace", "--edges", "normal,build,dev"])?;
    assert!(module.len() > 50, "the module needs {} crates", module.len());
    Ok(module.difference(&tests).cloned().collect())
}

/// The names, versions and features of crates of a build, by Cargo.
fn crates_with_features(chosen: &[&str]) -> io::Result<BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} {f}"]).args(chosen);
    let output = command.current_dir(tree::root()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}
