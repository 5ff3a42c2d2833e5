//! Docs agree with the sources.

use super::coverage;
use hostir_test::tree;
use std::path::Path;

/// Names of all passes.
pub(crate) fn pass_names() -> Vec<String> {
    Vec::new()
}

/// Codes that docs/errors.md lacks, and codes it has too many.
pub(crate) fn codes_out_of_step() -> Vec<String> {
    let text = tree::read(&tree::root().join("docs/errors.md"));
    let documented = coverage::codes_of(&text, '`');
    let codes = coverage::codes();
    let missing = codes.iter().filter(|(code, _)| !documented.contains(*code));
    let mut bad: Vec<String> = missing.map(|(code, path)| format!("{code} of {path} is not listed")).collect();
    let gone = documented.iter().filter(|code| !codes.contains_key(*code));
    bad.extend(gone.map(|code| format!("{code} is listed and occurs nowhere")));
    bad
}

/// Generated files that differ from what the tables give; with `HIR_BLESS=1` they are written.
pub(crate) fn outdated() -> Vec<String> {
    let bless = std::env::var_os("HIR_BLESS").is_some_and(|value| value == "1");
    let mut bad = Vec::new();
    for (name, text) in generated() {
        let path = tree::root().join(name);
        if tree::read(&path) == text {
            continue;
        }
        if !bless {
            bad.push(name.to_owned());
        } else if let Err(error) = std::fs::write(&path, text) {
            bad.push(format!("{name}: {error}"));
        }
    }
    bad
}

fn generated() -> Vec<(&'static str, String)> {
    Vec::new()
}

/// Relative links of Markdown files whose target does not exist.
pub(crate) fn broken_links() -> Vec<String> {
    let mut bad = Vec::new();
    for path in tree::files(&tree::root(), ".md") {
        let folder = path.parent().unwrap_or(Path::new("."));
        for target in links(&tree::read(&path)) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                bad.push(format!("{}: {target}", tree::relative(&path)));
            }
        }
    }
    bad
}

/// Targets of `[text](target)` outside of code, without those that have a scheme.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for after in line.split("](").skip(1) {
            let target = after.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.contains(' ') {
                found.push(target.to_owned());
            }
        }
    }
    found
}
