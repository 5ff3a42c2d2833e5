//! The parts that have to have a test.

use super::files;
use hostir::ir::OpLayout;
use hostir::ops::OpRegistry;
use hostir_test::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Every `H0000` of the sources with the file that mentions it first.
pub(crate) fn codes() -> BTreeMap<String, String> {
    let root = tree::root();
    let mut found = BTreeMap::new();
    for folder in ["grammar/src", "src", "passes/src", "tools/support", "tools/opt", "tools/run"] {
        for path in tree::files(&root.join(folder), ".rs") {
            for code in codes_of(files::code(&tree::read(&path)), '"') {
                found.entry(code).or_insert_with(|| tree::relative(&path));
            }
        }
    }
    found
}

/// Codes in a text that follow the character `before`.
pub(crate) fn codes_of(text: &str, before: char) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in text.split(&format!("{before}H")).skip(1) {
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        if digits.len() == 4 {
            found.insert(format!("H{digits}"));
        }
    }
    found
}

pub(crate) fn codes_without_tests() -> Vec<String> {
    let root = tree::root();
    let mut tested = String::new();
    for ending in [".hir", ".out", ".err"] {
        let files = tree::files(&root.join("test"), ending);
        tested.extend(files.iter().map(|path| tree::read(path)));
    }
    for path in files::sources() {
        let name = tree::relative(&path);
        let text = tree::read(&path);
        let is_test = name.contains("tests/") || name.ends_with("/tests.rs") || name.starts_with("test/");
        let tests = if is_test { "" } else { files::code(&text) };
        tested.push_str(&text[tests.len()..]);
    }
    let bad = codes().into_iter().filter(|(code, _)| !tested.contains(code.as_str()));
    bad.map(|(code, path)| format!("{code} of {path}")).collect()
}

pub(crate) fn ops_without_tests() -> Vec<String> {
    let root = tree::root();
    let mut text = String::new();
    for folder in ["test/ops", "test/run", "docs/examples"] {
        text.extend(tree::files(&root.join(folder), ".hir").iter().map(|path| program_text(&tree::read(path))));
    }
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).collect();
    let mut bad = Vec::new();
    for kind in OpRegistry::OURS.kinds() {
        let spec = kind.spec();
        // Pointwise functions and scalar definitions have no head word of their own.
        if kind.layout() == OpLayout::Pointwise || kind.name().contains(' ') {
            continue;
        }
        let names = std::iter::once(kind.name()).chain(spec.spellings.iter().map(|(name, _)| *name));
        let mut names = names.filter(|name| !name.is_empty()).peekable();
        if names.peek().is_some() && !names.any(|name| words.contains(name.trim_end_matches('('))) {
            bad.push(format!("{kind:?} (`{}`)", kind.name()));
        }
    }
    bad
}

/// The text without comments: a test that only talks about an op does not test it.
fn program_text(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.split("//").next().unwrap_or(line))).collect()
}

pub(crate) fn passes_without_tests() -> Vec<String> {
    let folder = tree::root().join("test/passes");
    let mut bad = Vec::new();
    for name in super::docs::pass_names() {
        for ending in ["", "_errors"] {
            let file = format!("{name}{ending}.hir");
            if !folder.join(&file).exists() {
                bad.push(format!("test/passes/{file} is missing"));
            }
        }
    }
    bad
}
