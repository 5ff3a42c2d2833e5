//! Rules about single files.

use hostir_test::tree;
use std::path::PathBuf;

/// All Rust sources of the repository.
pub(crate) fn sources() -> Vec<PathBuf> {
    tree::files(&tree::root(), ".rs")
}

/// The lines of a source before its unit tests.
pub(crate) fn code(text: &str) -> &str {
    text.find("#[cfg(test)]").map_or(text, |at| &text[..at])
}

pub(crate) fn without_doc() -> Vec<String> {
    let bad = sources().into_iter().filter(|path| !tree::read(path).starts_with("//! "));
    bad.map(|path| tree::relative(&path)).collect()
}

pub(crate) fn too_long(limit: usize) -> Vec<String> {
    let mut bad = Vec::new();
    for path in sources() {
        let lines = tree::read(&path).lines().count();
        if lines > limit {
            bad.push(format!("{}: {lines} lines", tree::relative(&path)));
        }
    }
    bad
}

/// One line for each crate whose 90th percentile of function length is above the limit.
pub(crate) fn long_functions(limit: usize) -> Vec<String> {
    let mut bad = Vec::new();
    for name in ["grammar", "src", "passes", "tools", "test"] {
        let files = tree::files(&tree::root().join(name), ".rs");
        let mut lengths: Vec<usize> = files.iter().flat_map(|path| function_lengths(&tree::read(path))).collect();
        lengths.sort_unstable();
        let Some(&at) = lengths.get(lengths.len() * 9 / 10) else { continue };
        if at > limit {
            bad.push(format!("{name}: {at} lines over {} functions", lengths.len()));
        }
    }
    bad
}

/// Lengths of all functions, from `fn` to the brace at the same indentation (which rustfmt puts
/// there), in lines.
fn function_lengths(text: &str) -> Vec<usize> {
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut lengths = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if is_function(trimmed) {
            if trimmed.ends_with('}') {
                lengths.push(1);
            } else if !trimmed.ends_with(';') {
                open.push((indent, index));
            }
        } else if (trimmed == "}" || trimmed == ");" || trimmed == ";")
            && let Some(&(at, start)) = open.last()
            && at == indent
        {
            open.pop();
            lengths.push(index - start + 1);
        }
    }
    lengths
}

fn is_function(line: &str) -> bool {
    let mut words = line.split([' ', '(']).skip_while(|word| {
        matches!(*word, "pub" | "crate)" | "super)" | "const" | "async" | "unsafe" | "extern" | "\"C\"")
    });
    words.next() == Some("fn")
}

pub(crate) fn loose_todos() -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let mut bad = Vec::new();
    for path in text_files() {
        for (index, line) in tree::read(&path).lines().enumerate() {
            let loose = words
                .iter()
                .any(|word| line.split(word).skip(1).any(|after| !after.starts_with("(#") && !after.starts_with('`')));
            if loose && !tree::relative(&path).ends_with("checks/files.rs") {
                bad.push(format!("{}:{}: {}", tree::relative(&path), index + 1, line.trim()));
            }
        }
    }
    bad
}

/// Lines that name a folder which exists on one machine only.
pub(crate) fn private_paths() -> Vec<String> {
    let prefixes = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    let mut bad = Vec::new();
    for path in text_files() {
        for (index, line) in tree::read(&path).lines().enumerate() {
            if prefixes.iter().any(|prefix| line.contains(prefix)) {
                bad.push(format!("{}:{}: {}", tree::relative(&path), index + 1, line.trim()));
            }
        }
    }
    bad
}

/// `#[test]` in test programs that have a `main` of their own, where nothing runs it: such programs list their
/// tests by name.
pub(crate) fn tests_that_never_run() -> Vec<String> {
    let mut bad = Vec::new();
    for manifest in tree::files(&tree::root(), "Cargo.toml") {
        let folder = manifest.parent().unwrap_or(&manifest).to_path_buf();
        for section in tree::read(&manifest).split("[[test]]").skip(1) {
            let value = |key: &str| {
                let line = section.lines().find_map(|line| line.strip_prefix(key));
                line.map(|rest| rest.trim_matches([' ', '=', '"']).to_owned())
            };
            if value("harness").as_deref() != Some("false") {
                continue;
            }
            let named = value("name").map(|name| format!("tests/{name}.rs"));
            let Some(path) = value("path").or(named).map(|path| folder.join(path)) else {
                continue;
            };
            let mut files = vec![path.clone()];
            if path.ends_with("main.rs") {
                files = tree::files(path.parent().unwrap_or(&path), ".rs");
            }
            let lost = files.into_iter().filter(|path| tree::read(path).contains("#[test]"));
            bad.extend(lost.map(|path| tree::relative(&path)));
        }
    }
    bad
}

/// Unit tests and examples in docs of libraries whose manifest says that there are none: no command runs them.
pub(crate) fn tests_of_untested_libraries() -> Vec<String> {
    let mut bad = Vec::new();
    for manifest in tree::files(&tree::root(), "Cargo.toml") {
        let text = tree::read(&manifest);
        let Some((_, section)) = text.split_once("[lib]\n") else { continue };
        let keys: Vec<&str> = section.lines().take_while(|line| !line.starts_with('[')).collect();
        let path = keys.iter().find_map(|key| key.strip_prefix("path = ")).unwrap_or("src/lib.rs").trim_matches('"');
        let Some(folder) = manifest.with_file_name(path).parent().map(PathBuf::from) else { continue };
        for source in tree::files(&folder, ".rs") {
            let text = tree::read(&source);
            let has_unit_tests =
                keys.contains(&"test = false") && text.lines().any(|line| line.trim() == "#[cfg(test)]");
            if has_unit_tests || keys.contains(&"doctest = false") && has_example(&text) {
                bad.push(tree::relative(&source));
            }
        }
    }
    bad
}

/// Whether a doc comment has code that `rustdoc` would run.
fn has_example(text: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let fences = lines.filter_map(|line| line.strip_prefix("//! ```").or_else(|| line.strip_prefix("/// ```")));
    // Every second fence ends a block.
    fences.step_by(2).any(|label| label != "text")
}

/// Sources, tests, docs and scripts.
fn text_files() -> Vec<PathBuf> {
    let root = tree::root();
    let endings = [".rs", ".lalrpop", ".md", ".hir", ".out", ".err", ".toml", ".py", ".sh"];
    let mut files: Vec<PathBuf> = endings.iter().flat_map(|ending| tree::files(&root, ending)).collect();
    files.extend([
        root.join(".ci/run"),
        root.join("tools/setup"),
        root.join("tools/hermetic-test"),
        root.join("NOTICE"),
    ]);
    files
}
