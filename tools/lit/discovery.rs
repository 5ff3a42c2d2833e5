//! Finds the tests of folders.

use crate::case::TestCase;
use crate::directives::keyword;
use crate::settings::{FILE, Settings};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files above this size are no tests, unless their names say so.
const LARGEST: u64 = 1 << 20;

/// The tests in these files and folders, each once, in the order of their paths.
///
/// # Errors
/// A path that does not exist, or a wrong `lit.toml`.
pub fn find_tests(paths: &[PathBuf]) -> Result<Vec<TestCase>, String> {
    let mut found = Vec::new();
    for path in paths {
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if path.is_dir() {
            let settings = Arc::new(Settings::of_folder(&path)?);
            search_folder(&path, &settings, &mut found)?;
        } else {
            let settings = Arc::new(Settings::of_folder(path.parent().unwrap_or(&path))?);
            found.push(TestCase { path, settings });
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|test| seen.insert(test.path.clone()));
    Ok(found)
}

fn search_folder(folder: &Path, settings: &Arc<Settings>, found: &mut Vec<TestCase>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || settings.excludes.iter().any(|excluded| *excluded == name) {
            continue;
        }
        let data = path.symlink_metadata();
        if data.as_ref().is_ok_and(|data| data.is_dir()) {
            let inner = settings.of_subfolder(&path)?.map(Arc::new);
            search_folder(&path, inner.as_ref().unwrap_or(settings), found)?;
        } else if path.is_file() && is_test(&path, &name, settings) {
            found.push(TestCase { settings: Arc::clone(settings), path });
        }
    }
    Ok(())
}

/// True if a file is a test: by its name, or if the folder does not say by which, by its RUN lines.
fn is_test(path: &Path, name: &str, settings: &Settings) -> bool {
    if !settings.suffixes.is_empty() {
        return settings.suffixes.iter().any(|suffix| name.ends_with(suffix.as_str()));
    }
    let small = path.metadata().is_ok_and(|data| data.len() <= LARGEST);
    let documentation = name.ends_with(".md") || name == FILE || name.starts_with("lit.");
    let text = if small && !documentation { std::fs::read_to_string(path).ok() } else { None };
    text.is_some_and(|text| text.lines().any(|line| keyword(line, "RUN:").is_some()))
}

/// The place of the first line in a file, or in one directly in a folder, that begins with `RUN` as RUN lines do, but has
/// no colon: `t.hir:1`.
pub fn find_run_without_colon(path: &Path) -> Option<String> {
    if path.is_dir() {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        return paths.iter().filter(|path| path.is_file()).find_map(|path| find_run_without_colon(path));
    }
    let small = path.metadata().is_ok_and(|data| data.len() <= LARGEST);
    let text = if small { std::fs::read_to_string(path).ok()? } else { return None };
    let line = text.lines().position(|line| {
        let command = line.trim_start_matches(['/', '#', ';', ' ', '\t']);
        command.len() < line.len() && command.starts_with("RUN ")
    })?;
    Some(format!("{}:{}", path.file_name()?.to_string_lossy(), line + 1))
}
