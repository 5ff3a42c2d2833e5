//! The arrows between modules: ranks of the library's modules, and no cycle of modules in any crate.
//!
//! Imports come from the crate `hostir-figures`, which follows re-exports.

use super::files;
use hostir_figures::cycles::{Cycle, against, crate_name, top_module};
use hostir_figures::report::Figures;
use hostir_figures::sources::Sources;
use hostir_test::tree;
use std::collections::BTreeSet;

/// Modules of the library, the lowest first: each may use those before it.
const RANKS: &[&str] = &[
    "diag",
    "ir",
    "data",
    "axes",
    "machine",
    "plan",
    "ops",
    "style",
    "resolve",
    "print",
    "hir2",
    "analysis",
    "skew",
    "verify",
    "lower",
    "plan_checks",
    "lib",
    "symbols",
    "repair",
    "backend",
    "verdict",
];

/// Most files that may import each other in a circle within one module.
const LARGEST_CYCLE: usize = 3;

/// Crates whose modules still import each other in circles, with the modules of each circle.
const STILL_CYCLIC: &[(&str, &[&str])] = &[(
    // Stand-ins of libraries that call each other, as the libraries do. Not shipped.
    "hostir_fakes",
    &["capture", "module", "world"],
)];

/// Only these modules of the library may see the crate of the syntax tree: `resolve` and `hir2` for the trees,
/// `symbols` for the places of names in them, `diag` for spans, `ir` for the string interner, the root to read a text.
const SEE_SYNTAX: &[&str] = &["diag", "ir", "resolve", "hir2", "symbols"];

/// The modules of the crate `hostir` that each crate must not mention (its own dependencies are Cargo's affair).
const FORBIDDEN_MODULES: &[(&str, &[&str])] = &[("passes/src", &["resolve", "backend", "data"])];

/// Files outside `src/hostir/ops` that name kinds of ops, each with the reason. Other code asks a kind for its effect,
/// its layout, its axis links and the other facts of its row, and takes new ops from the functions of their families.
const NAMES_KINDS: &[(&str, &str)] = &[
    ("passes/src/allgather_matmul/emit.rs", "writes GEMMs that add"),
    ("passes/src/allgather_matmul/operands.rs", "finds what widens and transposes operands"),
    ("passes/src/fuse_accumulate.rs", "the pass is about one op by its name"),
    ("src/hostir/analysis/sharding.rs", "the view of symmetric memory crosses devices"),
    ("src/hostir/hir2/defaults.rs", "slices are selects"),
    ("src/hostir/resolve/forms.rs", "loops are keywords of the grammar"),
    ("src/hostir/style/restyle.rs", "slices have two ops, by the style"),
];

/// Most mentions of kinds in these files. Lower it when one goes.
const MOST_MENTIONS: usize = 12;

pub(crate) fn violations(figures: &Figures) -> Vec<String> {
    let Figures { sources, arrows, cycles, .. } = figures;
    let order: Vec<String> = RANKS.iter().map(|name| (*name).to_owned()).collect();
    let mut bad: Vec<String> = against(sources, arrows, ("hostir", &order))
        .into_iter()
        .map(|arrow| {
            let (from, to) = (&sources.files[arrow.from].path, &sources.files[arrow.to].path);
            format!("{from}:{} uses {} of {to}, which ranks above", arrow.line, arrow.item)
        })
        .collect();
    bad.extend(unranked_modules(sources));
    bad.extend(cycles.iter().filter_map(|cycle| refused_cycle(sources, cycle)));
    bad.extend(syntax_violations());
    bad.extend(crate_violations());
    bad
}

/// Modules of the library without a rank.
fn unranked_modules(sources: &Sources) -> Vec<String> {
    let files = (0..sources.files.len()).filter(|&file| crate_name(sources, file) == "hostir");
    let modules: BTreeSet<String> = files.map(|file| top_module(sources, file)).collect();
    let unranked = modules.iter().filter(|module| !RANKS.contains(&module.as_str()));
    unranked.map(|module| format!("module {module} of the library has no rank")).collect()
}

/// The complaint about a cycle that spans modules or is too large.
fn refused_cycle(sources: &Sources, cycle: &Cycle) -> Option<String> {
    let across = cycle.modules.len() > 1;
    let tolerated = STILL_CYCLIC.iter().any(|(krate, modules)| {
        *krate == cycle.krate && cycle.modules.iter().all(|module| modules.contains(&module.as_str()))
    });
    if tolerated || !(across || cycle.files.len() > LARGEST_CYCLE) {
        return None;
    }
    let files: Vec<&str> = cycle.files.iter().map(|&at| sources.files[at].path.as_str()).collect();
    Some(format!("{} import each other in a circle", files.join(", ")))
}

fn syntax_violations() -> Vec<String> {
    let root = tree::root();
    let mut bad = Vec::new();
    for module in RANKS.iter().filter(|module| **module != "lib" && !SEE_SYNTAX.contains(module)) {
        let mut paths = tree::files(&root.join("src/hostir").join(module), ".rs");
        paths.push(root.join(format!("src/hostir/{module}.rs")));
        for path in paths.iter().filter(|path| path.exists()) {
            if without_comments(files::code(&tree::read(path))).contains("hostir_grammar::") {
                bad.push(format!("{} uses hostir_grammar", tree::relative(path)));
            }
        }
    }
    bad
}

fn crate_violations() -> Vec<String> {
    let mut bad = Vec::new();
    for (folder, forbidden) in FORBIDDEN_MODULES {
        for path in tree::files(&tree::root().join(folder), ".rs") {
            let text = tree::read(&path);
            let used = mentioned_modules(&without_comments(files::code(&text)), "hostir::");
            let wrong = forbidden.iter().filter(|name| used.contains(**name));
            bad.extend(wrong.map(|name| format!("{} uses hostir::{name}", tree::relative(&path))));
        }
    }
    bad
}

/// Files that name kinds of ops without a reason above, reasons for files that name none, and another number of
/// mentions than the one above.
pub(crate) fn unexplained_kinds() -> Vec<String> {
    let root = tree::root();
    let folders = ["src", "passes/src", "tools"];
    let paths = folders.iter().flat_map(|folder| tree::files(&root.join(folder), ".rs"));
    let files: Vec<(String, usize)> = paths
        .map(|path| {
            (tree::relative(&path).to_string(), count_kinds(&without_comments(files::code(&tree::read(&path)))))
        })
        .filter(|(path, mentions)| *mentions > 0 && !path.starts_with("src/hostir/ops/"))
        .collect();
    let named: BTreeSet<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let listed: BTreeSet<String> = NAMES_KINDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    let mentions: usize = files.iter().map(|(_, mentions)| mentions).sum();
    let many = (mentions != MOST_MENTIONS)
        .then(|| format!("kinds are named {mentions} times, not {MOST_MENTIONS}: MOST_MENTIONS counts them down"));
    let unlisted = named.difference(&listed).map(|path| format!("{path} has no reason"));
    let unused = listed.difference(&named).map(|path| format!("{path} names none any more"));
    unlisted.chain(unused).chain(many).collect()
}

fn count_kinds(code: &str) -> usize {
    code.split("OpKind::").skip(1).filter(|after| after.starts_with(|c: char| c.is_ascii_uppercase())).count()
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The first path segments after `prefix`: of `use crate::{ir::X, diag}` they are `ir` and `diag`.
fn mentioned_modules(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split(prefix).skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            found.extend(group_heads(group));
        } else {
            found.insert(path_head(after));
        }
    }
    found
}

fn path_head(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first segments of the members of a `{...}` group whose opening brace is already gone.
fn group_heads(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut heads = vec![path_head(group.trim_start())];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(path_head(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    heads
}
