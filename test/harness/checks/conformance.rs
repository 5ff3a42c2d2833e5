//! docs/conformance.md agrees with the tests that say which of nvFuser's they reproduce.

use hostir_test::tree;
use std::collections::BTreeSet;

const DOC: &str = "docs/conformance.md";
const FOLDERS: [&str; 2] = ["test/lowering/", "test/run/"];

/// Rows of docs/conformance.md whose file does not name the test, or does not exist; and files that say
/// which test they reproduce but stand in no row.
pub(crate) fn rows_without_tests() -> Vec<String> {
    let mut bad = Vec::new();
    let mut linked = BTreeSet::new();
    let text = tree::read(&tree::root().join(DOC));
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split(" | ");
        let (names, files) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for file in files.split("](../").skip(1) {
            let file = file.split(')').next().unwrap_or_default();
            linked.insert(file.to_owned());
            let path = tree::root().join(file);
            if !path.is_file() {
                bad.push(format!("{DOC}: {file} does not exist"));
                continue;
            }
            let test = tree::read(&path);
            let missing = names.split('`').skip(1).step_by(2).filter(|name| !names_test(&test, name));
            bad.extend(missing.map(|name| format!("{file} does not name `{name}`")));
        }
    }
    let tests = FOLDERS.map(|folder| tree::files(&tree::root().join(folder), ".hir"));
    for path in tests.into_iter().flatten() {
        let file = tree::relative(&path);
        if tree::read(&path).starts_with("// nvFuser: ") && !linked.contains(&file) {
            bad.push(format!("{file} stands in no row of {DOC}"));
        }
    }
    bad
}

/// Whether a comment of the file has the test's name, without that of its suite.
fn names_test(test: &str, name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name);
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    let last = name.split(word).find(|part| !part.is_empty()).unwrap_or(name);
    test.lines().filter(|line| line.starts_with("// ")).any(|line| line.split(word).any(|part| part == last))
}
