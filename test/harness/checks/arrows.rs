//! The arrows between modules, read off the paths that sources mention.

use super::files;
use hostir_test::tree;
use std::collections::BTreeSet;

/// Modules of the library and those that each may use besides itself.
/// The op table names a function of every layer that asks about single ops, so `ops` sees those layers.
const LIBRARY: &[(&str, &[&str])] = &[
    ("diag", &[]),
    ("ir", &["ops", "diag"]),
    ("data", &["ir", "diag"]),
    ("ops", &["ir", "diag", "plan", "analysis", "verify"]),
    ("analysis", &["ir", "ops", "diag", "print"]),
    ("resolve", &["ir", "ops", "diag"]),
    ("print", &["ir", "ops"]),
    ("verify", &["ir", "ops", "diag", "analysis", "print"]),
    ("plan", &["ir", "ops", "diag", "analysis", "data", "print"]),
    ("backend", &["plan", "data", "diag", "ir"]),
];

/// Only these modules of the library may see the crate of the syntax tree: `resolve` for the tree,
/// `diag` for spans, `ir` for the string interner.
const SEE_SYNTAX: &[&str] = &["diag", "ir", "resolve"];

/// What each crate must not mention of the crate `hostir` (its own dependencies are Cargo's affair).
const CRATES: &[(&str, &[&str])] = &[
    ("grammar/src", &["ir", "ops", "diag", "resolve", "print", "verify", "analysis", "plan", "backend", "data"]),
    ("passes/src", &["resolve", "backend", "data"]),
];

pub(crate) fn violations() -> Vec<String> {
    let root = tree::root();
    let mut bad = Vec::new();
    for (module, allowed) in LIBRARY {
        let mut paths = tree::files(&root.join("src").join(module), ".rs");
        paths.push(root.join(format!("src/{module}.rs")));
        for path in paths.iter().filter(|path| path.exists()) {
            let text = tree::read(path);
            let code = without_comments(files::code(&text));
            for used in modules(&code, "crate::") {
                let known = LIBRARY.iter().any(|(name, _)| *name == used);
                if known && used != *module && !allowed.contains(&used.as_str()) {
                    bad.push(format!("{} uses crate::{used}", tree::relative(path)));
                }
            }
            if code.contains("hostir_grammar::") && !SEE_SYNTAX.contains(module) {
                bad.push(format!("{} uses hostir_grammar", tree::relative(path)));
            }
        }
    }
    bad.extend(crate_violations());
    bad
}

fn crate_violations() -> Vec<String> {
    let mut bad = Vec::new();
    for (folder, forbidden) in CRATES {
        for path in tree::files(&tree::root().join(folder), ".rs") {
            let text = tree::read(&path);
            let used = modules(&without_comments(files::code(&text)), "hostir::");
            let wrong = forbidden.iter().filter(|name| used.contains(**name));
            bad.extend(wrong.map(|name| format!("{} uses hostir::{name}", tree::relative(&path))));
        }
    }
    bad
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The first path segments behind `prefix`: of `use crate::{ir::X, diag}` they are `ir` and `diag`.
fn modules(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split(prefix).skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            found.extend(group_heads(group));
        } else {
            found.insert(head(after));
        }
    }
    found
}

fn head(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first segments of the members of a `{...}` group whose opening brace is already gone.
fn group_heads(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut heads = vec![head(group.trim_start())];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(head(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    heads
}
