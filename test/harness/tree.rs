//! The repository's files, and what its tests' settings make of them.

use hostir_lit::context::Context;
use hostir_lit::directives::Directives;
use hostir_lit::settings::Settings;
use hostir_lit::substitutions::TestPlace;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The repository's root.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The example of docs/out-of-tree.md, whose programs name an op that is not in the table.
const OUT_OF_TREE: &str = "docs/examples/out_of_tree";

/// The folder of the tests of the example.
pub fn out_of_tree_tests() -> PathBuf {
    root().join(OUT_OF_TREE).join("tests")
}

/// True if a file is one of the example's programs.
pub fn is_out_of_tree(path: &Path) -> bool {
    path.starts_with(out_of_tree_tests())
}

/// All programs that name the ops of the table alone, sorted.
pub fn programs() -> Vec<PathBuf> {
    files(&root(), ".hir").into_iter().filter(|path| !is_out_of_tree(path)).collect()
}

/// All files below `dir` whose name ends in `suffix`, sorted; build outputs and hidden folders are
/// left out.
pub fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(dir, suffix, &mut found);
    found.sort();
    found
}

fn collect(dir: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            let skipped =
                ["target", "node_modules"].contains(&name.as_str()) || (name.starts_with('.') && name != ".ci");
            if !skipped {
                collect(&path, suffix, found);
            }
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
}

/// The path below the root, with forward slashes.
pub fn relative(path: &Path) -> String {
    let root = root();
    path.strip_prefix(&root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// The file's text; undecodable bytes are replaced.
pub fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The settings of `test/lit.toml`.
///
/// # Panics
/// If the file is wrong.
#[allow(clippy::panic, reason = "a test program's own failure")]
pub fn settings() -> &'static Settings {
    static READ: OnceLock<Settings> = OnceLock::new();
    READ.get_or_init(|| Settings::of_folder(&root().join("test")).unwrap_or_else(|error| panic!("{error}")))
}

/// The settings of commands that run in a temporary folder.
pub fn context(scratch: &Path) -> Context {
    settings().context(scratch)
}

/// A RUN line's command for the test `source`, with temporary files in `scratch`.
///
/// # Errors
/// An unknown substitution.
pub fn substitute(command: &str, source: &Path, scratch: &Path) -> Result<String, String> {
    let place = TestPlace { source: source.to_path_buf(), scratch: scratch.to_path_buf() };
    settings().substitutions.expand(command, &place)
}

/// Whether a file is not a valid program: it says so (`// INVALID`), or its own commands expect that it is rejected.
pub fn is_rejected(text: &str, directives: &Directives) -> bool {
    let rejections = ["not hir-opt", "! hir-opt", "--verify-diagnostics"];
    let mut commands = directives.runs.iter().map(|run| &run.command);
    text.starts_with("// INVALID") || commands.any(|command| rejections.iter().any(|words| command.contains(words)))
}
