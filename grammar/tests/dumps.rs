//! Every program in the folder `HIR_DUMPS` names (and in its subfolders) parses without an error.

mod common;

use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "hir") {
            found.push(path);
        }
    }
}

#[test]
fn dumps_parse() {
    let Some(folder) = std::env::var_os("HIR_DUMPS") else {
        println!("skipped: HIR_DUMPS is not set");
        return;
    };
    let mut found = Vec::new();
    files(Path::new(&folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .hir file in {folder:?}");
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = hostir_grammar::parse(&text);
        assert!(parsed.errors.is_empty(), "{}: {:#?}", path.display(), parsed.errors);
        if std::env::var_os("HIR_TREES").is_some() {
            println!("== {}\n{}", path.display(), common::render(&parsed.ast));
        }
        let joined = hostir_grammar::containers_in_log(&text);
        assert!(matches!(joined, std::borrow::Cow::Borrowed(_)), "{}", path.display());
    }
}
